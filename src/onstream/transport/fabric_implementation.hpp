// The state behind a Fabric. Later members use earlier ones, and end before them.
//
// fabric_start.cpp makes and ends it, fabric_failure.cpp tells of failures and throws them, fabric.cpp has the rest.
// Any thread may call it; tick() and the handlers of listen() run in the mesh's thread, take_from_watch() in the
// watchdog's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onstream/base/error.hpp"
#include "onstream/base/heartbeat.hpp"
#include "onstream/bootstrap/store/store.hpp"
#include "onstream/device/host/group.hpp"
#include "onstream/transport/board.hpp"
#include "onstream/transport/fabric.hpp"
#include "onstream/transport/fault_log.hpp"
#include "onstream/transport/hosts.hpp"
#include "onstream/transport/peer_mapping.hpp"
#include "onstream/transport/segment.hpp"

namespace onstream {

class Fabric::Implementation {
 public:
  Implementation(const Launch& launch, const Parameters& parameters);
  ~Implementation();

  // Agreements of all ranks, and the symmetric memory that they make.
  std::vector<std::string> all_gather(std::string_view topic, std::string_view mine, std::string_view what_for = "");
  std::vector<std::string> agree(std::string_view topic, const std::function<std::string()>& mine);
  std::shared_ptr<Segment> segment(std::size_t bytes, MemoryKind kind, Mapped mapped);
  void free(const std::shared_ptr<Segment>& segment, const std::function<void()>& agreed);

  // Returns the call's result; throws the world's story where its failure ended the call. A peer that does not answer
  // by the deadline fails the world, as any wait that passes its deadline does. Another rank may have met the failure
  // first: waits for the news of it for so long.
  template <class Call>
  auto or_story(const Call& call, double on_its_way_s = 0) {
    try {
      return call();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::timeout && !has_failed()) late(error.what());
      if (error.code() != ErrorCode::aborted) throw;
      for (const Deadline limit(on_its_way_s); !has_failed() && !limit.passed();) HostGroup::pause(1U << 20);
      check();
      throw;
    }
  }

  // Tells every rank the first cause that this one knows: this rank's own end by a failure is only an effect, and may
  // come to others sooner than the cause does.
  void abort(const std::string& reason, Cause cause = Cause::failure, Logged logged = Logged::now);
  // Aborts, and throws timeout. The ranks' calls no longer match each other from here on.
  [[noreturn]] void late(const std::string& what);
  void report_timeout(const std::string& what);
  void leave();
  bool leaving() const { return leaving_.load(std::memory_order_acquire); }

  // Takes new faults off the board: those of one op are told to the peer that cannot know, the rest fails the world.
  void look_at_board();
  void set_look_aside(std::function<void(FaultReport&)> look);

  bool has_failed();
  void note_reported() { reported_.store(true, std::memory_order_release); }
  // No call returns from a failed world while the network may still touch the memory of another one.
  void end_network() const;
  void check();
  void check_waited();
  void check_waited(Status ended);
  void check_unreported();
  // Throws the story if the world has failed, beginning with the call (`topic`) that the failure stopped.
  void check_for(std::string_view topic, DidNot what_happened);
  std::optional<Failure> failure();
  // The failure once the ranks that this one waits for have told their faults too: they may close a cycle of waits.
  // Waits for them a moment after the failure at most, as a rank that computes, or hangs, tells nothing.
  std::optional<Failure> settled_failure(const std::string& reported);

  const ForkGuard guard_;
  std::shared_ptr<Heartbeat> heart_ = Heartbeat::of_process();  // before the first deadline
  Launch launch_;
  Parameters parameters_;
  Store store_;
  path::Table paths_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<OwnMemory> own_memory_;
  std::shared_ptr<StreamPool> streams_;
  Ahead ahead_;
  std::shared_ptr<Board> board_;  // shared with graphs
  StreamTracker uses_{device_};
  std::unique_ptr<Mesh> mesh_owner_;
  Mesh& mesh_;
  Hosts hosts_;
  PeerMapping peer_mapping_;
  std::shared_ptr<Watchdog> watch_;
  std::unique_ptr<CopyThread> copies_ = std::make_unique<CopyThread>(
      device_, [this](const std::string& why) { abort("aborted: " + why, Cause::failure, Logged::now); },
      [this] { return board_->all_aborted(); });
  std::shared_ptr<std::atomic<std::size_t>> device_bytes_ = std::make_shared<std::atomic<std::size_t>>(0);
  int block_limit_ = 1;
  bool whole_lines_ = false;
  bool crowded_ = false;
  FaultLog fault_log_;
  std::atomic<bool> leaving_ = false;
  std::atomic<bool> failed_by_leaving_ = false;
  std::atomic<bool> reported_ = false;   // some call has told the program that the world failed
  std::atomic<bool> is_untold_ = false;  // abort_untold()
  std::atomic<bool> is_late_ = false;    // a wait of this rank has passed its deadline, and no call has told so yet
  Segments segments_;

 private:
  static const char* topic_of(Cause cause);  // of the mesh
  static const Parameters& valid(const Launch& launch, const Parameters& parameters);
  void listen();
  void meet();
  void connect_hosts();
  void tick();

  void take(FaultReport report, FaultLog::ReportedBy reported = FaultLog::ReportedBy::by_world);
  void take_from_watch(FaultReport report);
  void take_death(int peer, const std::string& why, Logged logged);
  void fail_world(const std::string& reason, Cause cause, Logged logged);
  void tell_cause();
  void tell_death(int listener, int dead, const std::string& why);
  void hint_at_cause();
  std::string left_by(const FaultReport& fault) const;
  void check_left() const;

  unsigned ticks_ = 0;      // the mesh's thread's own
  std::mutex board_mutex_;  // held while the board is read
  std::function<void(FaultReport&)> look_aside_;
  std::atomic<std::uint64_t> segments_made_ = 0;
};

}  // namespace onstream
