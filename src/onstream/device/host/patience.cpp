#include "onstream/device/host/patience.hpp"

#include <atomic>
#include <chrono>

#include "onstream/base/log.hpp"

namespace onstream::host {
namespace {

std::atomic<double> patience_s = 60;

}  // namespace

void set_patience(double seconds) { patience_s.store(seconds, std::memory_order_relaxed); }

void Patience::sleep(std::unique_lock<std::mutex>& lock, std::condition_variable& changed) {
  const double now_s = patience_s.load(std::memory_order_relaxed);
  if (changed.wait_for(lock, std::chrono::duration<double>(now_s)) != std::cv_status::timeout) return;
  waited_s_ += now_s;
  log(LogLevel::warn, "a host stream has waited ", waited_s_, " s for ", what_,
      "; the library's own work ends at its deadlines, so look at the host functions that were enqueued before");
}

}  // namespace onstream::host
