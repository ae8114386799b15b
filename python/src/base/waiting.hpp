// Waiting from Python: without the GIL, and interruptible by Ctrl-C.
//
// Three ways, by the waiting side:
// - interruptible(): the calling thread itself runs an op on the host device and may wait in it. The op asks a hook now
//   and then (device/kernel/interrupt.hpp); a short wait costs nothing.
// - poll_until(): something else works (a stream, a GPU) and can be asked "done yet?". Spins, then yields, then sleeps.
// - run_interruptible(): the call blocks on other ranks in C++ (start-up, barrier, building a plan). In the main thread
//   it runs in a thread of its own, which an interrupted caller leaves behind to end at its deadline; or at once, if
//   on_interrupt() sees to that.
//
// Python delivers signals to the main thread only; elsewhere all three just wait. Called with the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <sched.h>
#include <time.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "gil.hpp"
#include "onstream/base/clock.hpp"
#include "onstream/device/kernel/interrupt.hpp"

namespace onstream::python {

constexpr std::uint64_t kSliceNs = 20'000'000;  // how late a Ctrl-C may be noticed

// Catches the exception of a signal handler while this thread waits in an op without the GIL.
class InterruptGuard {
 public:
  InterruptGuard() : outer_(std::exchange(current, this)), outer_hook_(std::exchange(interrupt_hook, &ask)) {}
  ~InterruptGuard() {
    current = outer_;
    interrupt_hook = outer_hook_;
  }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  std::optional<nanobind::python_error>& error() { return error_; }

  // The call that this thread runs, if it is inside one, raises this error: a Ctrl-C that reached a function of the
  // program's own.
  static void take(nanobind::python_error& error) {
    if (current == nullptr) return;
    error.restore();
    current->error_.emplace();
  }

 private:
  static bool ask() {
    InterruptGuard& self = *current;
    if (self.error_) return true;
    const std::uint64_t now = now_ns();
    if (now - self.asked_ns_ < kSliceNs) return false;
    self.asked_ns_ = now;
    const GilAcquire acquire;
    if (PyErr_CheckSignals() != 0) self.error_.emplace();
    return self.error_.has_value();
  }

  inline static constinit thread_local InterruptGuard* current = nullptr;
  InterruptGuard* outer_;
  InterruptHook outer_hook_;
  std::uint64_t asked_ns_ = now_ns();
  std::optional<nanobind::python_error> error_;
};

// Runs function() without the GIL and returns its result. If a signal handler raised meanwhile, calls on_interrupt()
// (with the GIL) and throws that instead.
template <class Function, class OnInterrupt>
auto interruptible(const Function& function, const OnInterrupt& on_interrupt) {
  InterruptGuard guard;
  std::optional<decltype(function())> result;
  try {
    const GilRelease release;
    result.emplace(function());
  } catch (...) {
    if (!guard.error()) throw;  // else it tells of nothing but the interrupt
  }
  if (guard.error()) {
    on_interrupt();
    throw nanobind::python_error(std::move(*guard.error()));
  }
  return std::move(*result);
}

// Called again and again while a wait lasts; knows how long it has lasted.
class Backoff {
 public:
  explicit Backoff(double spin_us) : spin_ns_(static_cast<std::uint64_t>(spin_us * 1e3)), start_ns_(now_ns()) {}
  void pause() {
    const std::uint64_t waited = now_ns() - start_ns_;
    if (waited < spin_ns_) return;
    if (waited < spin_ns_ + kYieldNs) {
      sched_yield();
      return;
    }
    const timespec nap{0, waited < kLongNs ? kShortNapNs : kLongNapNs};
    nanosleep(&nap, nullptr);
  }

 private:
  static constexpr std::uint64_t kYieldNs = 200'000;
  static constexpr std::uint64_t kLongNs = 50'000'000;
  static constexpr long kShortNapNs = 20'000;
  static constexpr long kLongNapNs = 200'000;
  std::uint64_t spin_ns_;
  std::uint64_t start_ns_;
};

// Returns once done(), called without the GIL, is true. Throws the exception of a signal handler.
template <class Done>
void poll_until(const Done& done, double spin_us) {
  Backoff backoff(spin_us);
  for (;;) {
    {
      const GilRelease release;
      const std::uint64_t slice_ends = now_ns() + kSliceNs;
      while (now_ns() < slice_ends) {
        if (done()) return;
        backoff.pause();
      }
    }
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
  }
}

inline bool in_main_thread() {
  const nanobind::object threading = nanobind::module_::import_("threading");
  return threading.attr("current_thread")().is(threading.attr("main_thread")());
}

// Runs function() without the GIL and gives its result or throws its Error. If a signal handler raises meanwhile, calls
// on_interrupt() (with the GIL) and throws that. `function` owns (by value) all it touches, as it may outlive the call.
template <class Function, class OnInterrupt>
auto run_interruptible(Function function, const OnInterrupt& on_interrupt) -> std::invoke_result_t<Function&> {
  using Result = std::invoke_result_t<Function&>;
  if (!in_main_thread()) {
    const GilRelease release;
    return function();
  }
  std::packaged_task<Result()> task(std::move(function));
  std::future<Result> result = task.get_future();
  std::thread thread(std::move(task));
  try {
    poll_until([&] { return result.wait_for(std::chrono::milliseconds(1)) == std::future_status::ready; }, 0);
  } catch (...) {
    thread.detach();
    on_interrupt();
    throw;
  }
  thread.join();
  return result.get();
}

}  // namespace onstream::python
