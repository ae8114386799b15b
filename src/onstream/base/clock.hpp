// Time on the host: a steady nanosecond clock and deadlines. Every host wait in the library takes a Deadline, which
// does not count the time that the process stands still (heartbeat.hpp). After a sleep of left_s() passed() decides.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace onstream {

inline std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

// now_ns() without the time in which the process stood still, as far as the heartbeat has seen it. Steady.
std::uint64_t lived_ns();

class Deadline {
 public:
  explicit Deadline(double timeout_s)
      : limit_s_(timeout_s), at_ns_(lived_ns() + static_cast<std::uint64_t>(timeout_s * 1e9)) {}
  bool passed() const { return lived_ns() >= at_ns_; }
  // The timeout it was made with, as error messages name it.
  double limit_s() const { return limit_s_; }
  // Seconds left, never negative.
  double left_s() const {
    const std::uint64_t now = lived_ns();
    return now >= at_ns_ ? 0.0 : static_cast<double>(at_ns_ - now) * 1e-9;
  }

 private:
  double limit_s_;
  std::uint64_t at_ns_;
};

// Whether ready() holds, at the deadline at the latest.
template <class Ready>
bool wait_by(const Deadline& deadline, std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
             const Ready& ready) {
  while (!changed.wait_for(lock, std::chrono::duration<double>(deadline.left_s()), ready)) {
    if (deadline.passed()) return false;
  }
  return true;
}

}  // namespace onstream
