// PeerMapping: which of this rank's memory each peer can address, and at which address.
//
// The owner asks the peer to map an allocation (one request on the mesh), the peer answers with the address it got.
// Both remember. An allocation is known by its id, which is never reused, so memory freed and allocated again at the
// same address is noticed: the old mapping is dropped on both sides.
//
// CUDA does not map an allocation of another process while one that was freed is still mapped at its place, and lets go
// of that one only when the kernels that run have ended. So the owner tells the peer first which of its allocations
// nearby are gone, the peer waits a moment for them, and an owner that was refused asks again later.
//
// Plain host memory belongs to nobody's list of allocations. There the owner asks the peer, once, to attach to the
// whole process (device/kernel/remote_process.hpp); the peer tries it with a word that it knows, and answers with the
// offset that it adds to addresses.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include "onstream/device/export.hpp"

#include "onstream/bootstrap/mesh/mesh.hpp"
#include "onstream/device.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"
#include "onstream/device/memory/relay.hpp"
#include "onstream/parameters.hpp"
#include "onstream/transport/hosts.hpp"

namespace onstream {

class PeerMapping {
 public:
  // Installs its handlers in the mesh; construct before Mesh::start().
  PeerMapping(std::shared_ptr<Device> device, Mesh& mesh, const Hosts& hosts, int rank, const Parameters& parameters);

  // Where `peer` addresses `address`; nothing if it cannot. Blocks for the peer's answer the first time.
  // Memory that cannot leave its process, other than plain host memory, is told in the log, once for each reason.
  std::optional<std::uint64_t> export_to_peer(const void* address, std::size_t bytes, int peer);
  // The same for what is set up once: waits up to a second while the peer still lets go of freed memory at its place,
  // where a message goes another way meanwhile.
  std::optional<std::uint64_t> export_in_time(const void* address, std::size_t bytes, int peer);
  std::string why_not(const void* address, int peer);
  PeerMappingStatistics statistics();

  // The remote process address by which `peer` copies from and to this rank's plain memory at `address`; nothing if it
  // cannot, or if the memory is not plain. Blocks for the peer's answer the first time for this peer. A refusal is
  // logged.
  // Nothing, too, once the system has refused `peer` a copy that it permitted at first; attach_for_good() names such
  // memory all the same, for callers that have no other way: this rank then copies for the peer, in the mesh's thread.
  std::optional<std::uint64_t> attach(const void* address, int peer);
  std::optional<std::uint64_t> attach_for_good(const void* address, int peer);
  // Waits for copies that peers make for this rank, and makes no more; before the mesh ends.
  void stop_relaying();
  // How plain memory reaches each peer that it was sent to: "rank 1 copies it itself", "... to rank 2: why".
  std::string attach_story();

  // Tells peers to unmap memory that this rank has freed since it exported it. From the mesh's thread, now and then.
  void sweep() { forget(known_exports()); }

  // Asks `peer` to map an allocation of ours, without remembering it here. Returns the peer's address of its base.
  std::uint64_t offer(const MemoryInfo& info, int peer);
  // Takes an offer back: the peer unmaps it, now or soon.
  void withdraw(const MemoryInfo& info, int peer);
  // The mapping that `peer` offered, taken out: from now on the caller keeps it mapped.
  std::shared_ptr<Mapping> take(int peer, std::uint64_t id);

  // The allocation that `peer` exported to this rank, mapped while the caller keeps it; null: not exported, or freed
  // since.
  std::shared_ptr<Mapping> imported(int peer, std::uint64_t id);

  // Keeps other ranks' memory mapped here, except memory that they free: for work that may run after the world's end.
  std::shared_ptr<const void> mapped() const { return imports_; }

 private:
  struct ExportedMemory {
    std::byte* base;
    std::size_t bytes;
    std::uint64_t id;
    std::uint64_t peer_base;  // 0: the peer could not map it
    std::string reason;
    std::uint64_t again_ns = 0;  // then it is asked again from this time on; 0: never
    std::uint64_t patience_ns = 0;
  };
  struct KnownExport {
    int peer;
    std::byte* base;
    std::uint64_t id;
  };
  // A peer's word about this process's plain memory.
  struct Attached {
    bool refused = false;
    std::uint64_t base = 0;
    std::string reason;
    bool relayed = false;  // refused since: `reason`
    std::optional<std::uint64_t> name_of(std::uint64_t address) const;
  };
  class Asking;
  struct Asker;
  // Other ranks' memory, mapped here. The mutex guards it while this object lives.
  struct Imports {
    std::map<std::pair<int, std::uint64_t>, std::shared_ptr<Mapping>> mappings;  // by peer and id
    std::map<int, std::shared_ptr<Attachment>> attachments;                      // to the processes of peers that asked
  };
  std::string map_for(int peer, const std::string& payload, Fd fd);
  std::shared_ptr<Mapping> import_soon(const ExportRecord& record, Fd fd);
  void ask_again_later(ExportedMemory& entry, int peer);
  bool is_pending(const void* address, int peer);
  std::optional<std::uint64_t> refuse(const MemoryInfo& info);
  std::string attach_for(int peer, const std::string& payload);
  Attached ask_to_attach(int peer);
  Attached attached(int peer);
  std::string relay_for(int peer, const std::string& payload);
  int ask_to_relay(int peer, CrossMemoryCopy what, int refusal);
  std::optional<std::optional<std::uint64_t>> known_address(const MemoryInfo& info, int peer, std::uint64_t offset);
  std::vector<KnownExport> known_exports();
  std::vector<KnownExport> exports_near(const MemoryInfo& info, int peer);
  void forget(std::vector<KnownExport> exports);

  std::shared_ptr<Device> device_;
  Mesh& mesh_;
  const Hosts& hosts_;
  int rank_;
  double timeout_s_;
  bool may_attach_;
  DeferredRelease disposal_;  // of mappings whose owner has freed the memory
  std::mutex mutex_;
  PeerMappingStatistics counts_;                                   // of look-ups
  std::map<std::pair<int, std::byte*>, ExportedMemory> exported_;  // by peer and base
  std::map<int, Attached> attached_by_;                            // peers that were asked
  std::shared_ptr<Asker> asker_;                                   // of copies that peers' processes are asked to make
  std::shared_ptr<Imports> imports_ = std::make_shared<Imports>();
};

}  // namespace onstream
