// The board: the words through which kernels and the host tell each other about failure. One a world and rank.
//
// The abort words (device/kernel/wait.hpp) and the faults lie in pinned host memory, so that a waiting kernel sees the
// host's word and the host sees a kernel's fault without any call to the driver.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "onstream/base/heartbeat.hpp"
#include "onstream/device/kernel/wait.hpp"
#include "onstream/device/memory/own_memory.hpp"
#include "onstream/launch.hpp"
#include "onstream/parameters.hpp"
#include "onstream/transport/failure.hpp"

namespace onstream {

class Board {
 public:
  Board(Device& device, OwnMemory& own, const Launch& launch, const Parameters& parameters);

  WaitView wait_view() const { return view_; }
  // For ops with one peer: they also end when that one has left.
  WaitView wait_view(int peer) const;
  // What threads of the host do while they wait (device/kernel/host_turn.hpp). It outlives this object.
  void set_turn(const HostTurn* turn);
  void set_abort(Cause cause);
  bool aborted() const;
  bool all_aborted() const;  // every abort word says so
  // After the last of the peer's stores here is visible.
  void set_left(int peer);
  bool has_left(int peer) const;
  bool all_left() const;
  // True if a fault has come that collect() has not taken. One load.
  bool has_news() const;

  struct Collected {
    FaultReport report;
    bool tell_peer;
    bool owed;  // a call of the host waits for the op, and tells
  };
  // Faults since the last call, in the order in which they became whole.
  std::vector<Collected> collect();

 private:
  const Fault& slot(std::uint64_t index) const;
  std::uint64_t* word(int peer) const { return view_.abort + kWordOfPeer + peer; }  // -1: of all peers together

  std::shared_ptr<Memory> pinned_;
  std::shared_ptr<std::byte> counter_;
  std::shared_ptr<Heartbeat> heart_ = Heartbeat::of_process();
  std::shared_ptr<void> awake_;
  WaitView view_;
  int rank_;
  int size_;
  std::atomic<std::uint64_t> taken_ = 0;
};

}  // namespace onstream
