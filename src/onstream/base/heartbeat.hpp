// The heartbeat: a thread that wakes ten times a second, by which the process knows how long it has stood still:
// stopped by Ctrl-Z or SIGSTOP, or on a machine that slept. Deadlines do not count that time.
//
// It lives as long as somebody owns it; every world does. It takes no lock that others hold for long and calls nothing
// that may block, so it stands still only when the whole process does.
#pragma once

#include <cstdint>
#include <memory>

namespace onstream {

class Heartbeat {
 public:
  // Of this process, running. A forked child gets one of its own.
  static std::shared_ptr<Heartbeat> of_process();

  // From each beat to the next, `word` changes: nanoseconds that the process has run since it stood still, or since
  // kNeverStopped. For kernels, which read it where a deadline passes. Ends with what it returns.
  std::shared_ptr<void> beat_in(std::uint64_t* word);

  static constexpr std::uint64_t kNeverStopped = std::uint64_t{1} << 62;

  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  Heartbeat();
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace onstream
