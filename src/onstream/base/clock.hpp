// Time on the host: a steady nanosecond clock and deadlines. Every host wait in the library takes a Deadline.
#pragma once

#include <chrono>
#include <cstdint>

namespace onstream {

inline std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

class Deadline {
 public:
  explicit Deadline(double timeout_s)
      : limit_s_(timeout_s), at_ns_(now_ns() + static_cast<std::uint64_t>(timeout_s * 1e9)) {}
  bool passed() const { return now_ns() >= at_ns_; }
  // What it was made with: what an error says that a wait was allowed.
  double limit_s() const { return limit_s_; }
  // Seconds left, never negative.
  double left_s() const {
    const std::uint64_t now = now_ns();
    return now >= at_ns_ ? 0.0 : static_cast<double>(at_ns_ - now) * 1e-9;
  }

 private:
  double limit_s_;
  std::uint64_t at_ns_;
};

}  // namespace onstream
