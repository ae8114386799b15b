// The fabric: everything the ranks of one world share below the ops - the device, the mesh, symmetric memory, which
// memory a peer can address, the abort word and the faults.
//
// A World owns one Fabric and hands it to the classes that emit or run ops. Construction is collective over the job's
// ranks. Thread-safe. Nothing here is on the way of an op but wait_view(), which is a value. In a forked child it is
// neither used, calls throw closed, nor destroyed (base/fork_guard.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onstream/base/error.hpp"
#include "onstream/base/fork_guard.hpp"
#include "onstream/bootstrap/mesh/mesh.hpp"
#include "onstream/device.hpp"
#include "onstream/device/kernel/wait.hpp"
#include "onstream/device/lifetime/stream_tracker.hpp"
#include "onstream/device/lifetime/streams.hpp"
#include "onstream/device/memory/own_memory.hpp"
#include "onstream/launch.hpp"
#include "onstream/parameters.hpp"
#include "onstream/path/table.hpp"
#include "onstream/transport/copy_thread.hpp"
#include "onstream/transport/failure.hpp"
#include "onstream/transport/net/proxy.hpp"
#include "onstream/transport/watch.hpp"

namespace onstream {

// Which parts of a segment peers map. by_path: all that can be mapped, but none if parameter path is `stage`, and the
// segment is made all the same. always: all, or no segment is made.
enum class Mapped { always, by_path };

class Fabric {
 public:
  Fabric(const Launch& launch, const Parameters& parameters);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  int rank() const;
  int size() const;
  const Launch& launch() const;
  const Parameters& parameters() const;
  const path::Table& paths() const;  // how bytes travel: the same on every rank
  const std::shared_ptr<Device>& device() const;
  const std::shared_ptr<OwnMemory>& own_memory() const;
  const std::shared_ptr<StreamPool>& streams() const;  // of all calls in which the host waits

  // Whether the rank is on another host than this one: then no op loads from or stores to its memory.
  bool is_remote(int peer) const;
  int host_of(int peer) const;                                // ranks of one host have one number
  const std::shared_ptr<net::NetworkProxy>& network() const;  // null in a world of one host
  // Once, before anything is sent: which sends may end before their receives begin, for stories of a failure.
  void set_ahead(const Ahead& ahead);
  // Called for each receive of this rank that has passed its deadline, before it is told: names a message that waits on
  // another tag. Empty: there is none to call, from now on.
  void set_look_aside(std::function<void(FaultReport&)> look);

  // Collective; each topic's calls match in order. Deadline: timeout_s. Throws Error naming the ranks that did not
  // come; that fails the world, as any wait's timeout does. Ends at once, with the story, when the world fails.
  // `what_for` is told with the topic.
  std::vector<std::string> all_gather(std::string_view topic, std::string_view mine, std::string_view what_for = "");
  // all_gather() of mine(), which may throw on some ranks alone (memory, arguments): then every rank throws their
  // errors, naming those ranks, with the code of the first, and the world goes on.
  std::vector<std::string> agree(std::string_view topic, const std::function<std::string()>& mine);
  void barrier(std::string_view topic);
  // Collective: throws invalid_argument, on every rank, naming each rank's action, unless all ranks do `mine`: "a
  // segment is the same on every rank, but rank 0 asks for ... and rank 2 asks for ...".
  void require_same(std::string_view rule, std::string_view verb, std::string_view mine);

  // Collective: symmetric memory of `bytes` on every rank. Throws, on every rank, invalid_argument naming the ranks
  // whose sizes or kinds differ, with the error of a rank that has no such memory.
  std::shared_ptr<Segment> segment(std::size_t bytes, MemoryKind kind, Mapped mapped = Mapped::always);
  // Collective: frees every rank's part at once, also where a handle is still held. Throws invalid_argument, on every
  // rank, naming the segment that each rank frees if they differ. Work that uses it must have finished on every rank.
  // Once all ranks have said so, and before the memory goes, it calls agreed().
  void free(const std::shared_ptr<Segment>& segment, const std::function<void()>& agreed = [] {});

  // The living segment in whose part of `peer`, as this rank addresses it, [address, address + bytes) lies; or null.
  std::shared_ptr<Segment> segment_of(int peer, const void* address, std::size_t bytes) const;
  // For a capturing stream: if any rank's part of a segment holds `address`, as this rank addresses it, the graph keeps
  // that segment, and is not launched once it was freed.
  void guard(Stream stream, const void* address) const;
  void guard_segment(Stream stream, std::uint64_t number) const;  // that one

  // Where a word of this rank's lies, for a story.
  WordPlace place_of(const void* word) const;

  // The address at which `peer`'s device can load and store this rank's `address`, valid while the allocation lives, or
  // nothing when it cannot (why_not() tells). The first call for an allocation and a peer asks the peer to map it and
  // blocks for the answer; later calls look it up.
  std::optional<std::uint64_t> export_to_peer(const void* address, std::size_t bytes, int peer);
  std::optional<std::uint64_t> export_in_time(const void* address, std::size_t bytes, int peer);  // for what is set up
  // Why export_to_peer() gives nothing for this address: "plain host memory", ...
  std::string why_not(const void* address, int peer) const;

  // The allocation with this id (MemoryInfo::id) that `peer` has exported to this rank: mapped while the answer is
  // kept, also if the peer frees it meanwhile. Null if the peer has not exported it, or has freed it.
  std::shared_ptr<const void> imported(int peer, std::uint64_t id) const;

  // Counts of the registration cache behind export_to_peer(), and its contents.
  PeerMappingStatistics reach_statistics() const;

  // The remote process address by which `peer`'s kernels copy from and to this rank's plain host memory at `address`
  // (device/kernel/remote_process.hpp), or nothing where they cannot: attach_story() tells why. Not a pointer to
  // dereference: for lane::carry alone. The first call for a peer asks it to attach to this process and blocks for the
  // answer. Nothing, too, once the system has refused since; attach_for_good() names the memory all the same, and
  // copies of it are relayed then: slowly, for callers that have no other way.
  std::optional<std::uint64_t> attach(const void* address, int peer);
  std::optional<std::uint64_t> attach_for_good(const void* address, int peer);
  // How this rank's plain memory reached the peers that it was sent to so far.
  std::string attach_story() const;

  // How kernels of this world wait. By value into every kernel argument.
  WaitView wait_view() const;
  // For ops with one peer: they also end, as aborted, once that peer has left and the data that it sent before has been
  // looked at.
  WaitView wait_view(int peer) const;
  // Whether a peer said goodbye; -1: all of them. Data that it sent before is still there.
  bool has_left(int peer) const;
  bool in_forked_child() const;
  void check_process() const;  // throws closed there
  // Keeps alive the memory that kernels of this world touch beside their arguments: the words that wait_view() points
  // to, and the memory of other ranks that is mapped here. For work that may run after the world's end (a graph). Not
  // the world itself.
  std::shared_ptr<const void> wait_memory() const;

  // The world's end waits for the streams noted there: note one after work of this world was enqueued on it.
  StreamTracker& uses() const;
  // Waits that streams make themselves get a deadline, and an end when the world fails or ends. The keeper of such
  // waits keeps the watchdog too; that does not keep the world.
  std::shared_ptr<Watchdog> watch() const;

  // Where kernels ask for the copy engine.
  CopyThread& copies() const;

  // Sets the abort word everywhere: streams drain, all later calls fail. The first reason stays.
  void abort(const std::string& reason, Cause cause = Cause::failure, Logged logged = Logged::now);
  // The same by a stream's work or a thread of the library's own: no call has told the program yet, so the world's end
  // does, if no other call comes before.
  void abort_untold(const std::string& reason);
  // Ends the waits of this rank alone, now and later: its threads leave their calls, which throw closed, because
  // another of them ends the world. The other ranks hear of it by the goodbye.
  void leave();
  bool leaving() const;
  // A wait of this host, and no op's, passed its deadline: the world fails with it, as it does with a kernel's. `what`:
  // "a wait of the host for a word of 8 B".
  void report_timeout(const std::string& what);
  // Throws the story if the world has failed: timeout where a wait of this rank has passed its deadline, and nothing
  // has told so before, else aborted. Closed in a forked child, and after leave(). Cheap: two loads.
  void check() const;
  // A call has told by its Status that its deadline passed.
  void note_timeout_reported() const;
  // check() after a wait: throws timeout where a deadline of this rank's own has passed, else aborted.
  void check_waited() const;
  // check() after a wait of this host that ended as `ended`, and that no fault tells of.
  void check_waited(Status ended) const;
  // check_waited(), of a failure in which an op of this rank has ended and that no call has told yet.
  void check_unreported() const;
  // check() in the name of the op about to start, `what()`.
  template <class What>
  void check(const What& what) const {
    try {
      check();
    } catch (const Error& error) {
      fail_named(DidNot::start, rank(), what(), error);
    }
  }
  std::optional<Failure> failure() const;
  // failure() for an error's text: waits a moment, 0.3 s after the failure at the latest, for the faults of the ranks
  // that this one waits for, and leaves out of the story the facts that the text has `told` before.
  std::optional<Failure> settled_failure(const std::string& reported) const;
  // The plan's name in faults of its ops, and the ops' tags, by op; -1: the op has none.
  void name_plan(std::uint64_t number, const std::string& name, std::vector<int> tags);
  // Per-op faults that did not fail the world (truncated, unmapped): taken out, oldest first.
  std::vector<FaultReport> take_faults();
  // A message itself tells the program of such a fault: take_faults() does not. Returns the fault's report, if it has
  // come.
  std::optional<FaultReport> reported(const FaultReport& fault);

  // Thread blocks that one kernel of this rank may use: blocks that wait must not keep out those they wait for, so the
  // ranks that share a GPU share its blocks, and each keeps half of its own for the kernel placed next.
  int block_limit() const;
  // Whether every rank's device stores whole lines into every rank's (Device::whole_lines_to); the same on all.
  bool whole_lines() const;
  // Whether some host has more ranks than cores; the same on all.
  bool crowded() const;

  // Device memory the library itself holds for this world.
  std::size_t device_bytes() const;

 private:
  class Implementation;
  ParentsOwn<Implementation> implementation_;
};

}  // namespace onstream
