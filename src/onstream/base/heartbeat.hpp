// The heartbeat: a thread that wakes ten times a second, by which the process knows how long it has stood still:
// stopped by Ctrl-Z or SIGSTOP, or on a machine that slept. Deadlines do not count that time.
//
// It lives as long as somebody owns it; every world does. It takes no lock that others hold for long and calls nothing
// that may block. A second in which it gets no core counts as time in which the process stood still.
#pragma once

#include <cstdint>
#include <memory>

namespace onstream {

class Heartbeat {
 public:
  // Of this process, running. A forked child gets one of its own.
  static std::shared_ptr<Heartbeat> of_process();

  // Two words for kernels, which read them where a deadline passes. The first changes from each beat to the next:
  // nanoseconds that the process has run since it stood still, or since kNeverStopped. The second: nanoseconds that it
  // has stood still in all. They end with the return value.
  std::shared_ptr<void> beat_in(std::uint64_t* words);

  static constexpr std::uint64_t kNeverStopped = std::uint64_t{1} << 62;

  ~Heartbeat();  // not in a forked child
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  Heartbeat();
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace onstream
