// Executing tasks in order; see stream.hpp for the thread that executes.
#include "onstream/device/host/stream.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "onstream/base/clock.hpp"
#include "onstream/base/error.hpp"
#include "onstream/base/fork_guard.hpp"
#include "onstream/device.hpp"
#include "onstream/device/host/group.hpp"
#include "onstream/device/host/patience.hpp"
#include "onstream/device/host/worker.hpp"

namespace onstream::host {
namespace {

// How long a thread that runs dry looks for more before it sleeps: about the price of being woken. Most of it is spent
// yielding, so that it takes nothing from the ranks that share the core.
constexpr std::uint64_t kSpinNs = 10'000;
constexpr int kSpinsPerYield = 64;

constexpr std::size_t kSpareTasks = 256;  // nodes kept for reuse; about 150 KB

// Spins and yields until `ready()`, or until kSpinNs have passed.
template <class Ready>
void spin_until(const Ready& ready) {
  const std::uint64_t start = now_ns();
  do {
    for (int i = 0; i < kSpinsPerYield; ++i) {
      if (ready()) return;
      HostGroup::pause(0);
    }
    sched_yield();
  } while (now_ns() - start < kSpinNs);
}

}  // namespace

HostStream::~HostStream() {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Capture> capture = std::move(capture_);
  lock.unlock();
  if (capture != nullptr) capture->leave(this);
  synchronize();
  lock.lock();
  stopping_ = true;
  wake_worker();
  lock.unlock();
  if (worker_.joinable()) worker_.join();
}

void HostStream::enqueue(Task task) {
  const std::lock_guard lock(mutex_);
  if (capture_ != nullptr) {
    if (capture_->append(this, task)) return;
    capture_.reset();
  }
  if (!worker_.joinable()) worker_ = start_worker("a host stream", [this] { work(); });
  if (spare_.empty()) {
    queue_.push_back(std::move(task));
  } else {
    spare_.front() = std::move(task);
    queue_.splice(queue_.end(), spare_, spare_.begin());
  }
  enqueued_.store(enqueued_.load(std::memory_order_relaxed) + 1, std::memory_order_release);  // pairs with work()
  if (!running_) wake_worker();
}

void HostStream::wake_worker() {
  if (!worker_asleep_) return;
  worker_asleep_ = false;
  wake_.notify_one();
}

void HostStream::execute_front(std::unique_lock<std::mutex>& lock) {
  std::list<Task> current;
  current.splice(current.begin(), queue_, queue_.begin());
  running_ = true;
  lock.unlock();
  run(current.front());
  current.front() = std::monostate();  // lets go of events and graphs before the task counts as finished
  lock.lock();
  if (spare_.size() < kSpareTasks) spare_.splice(spare_.begin(), current);
  finish_one();
}

void HostStream::finish_one() {
  running_ = false;
  const std::uint64_t finished = finished_.load(std::memory_order_relaxed) + 1;
  finished_.store(finished, std::memory_order_release);  // pairs with synchronize()
  if (finished < next_waited_) return;
  next_waited_ = UINT64_MAX;
  progress_.notify_all();
}

void HostStream::work() {
  bool searched = false;
  std::unique_lock lock(mutex_);
  while (true) {
    if (executable()) {
      execute_front(lock);
      searched = false;
    } else if (stopping_) {
      return;
    } else if (!searched && !running_) {
      searched = true;
      lock.unlock();
      spin_until(
          [this] { return enqueued_.load(std::memory_order_acquire) != finished_.load(std::memory_order_relaxed); });
      lock.lock();
    } else {
      worker_asleep_ = true;
      wake_.wait(lock, [this] { return !worker_asleep_; });
      searched = false;
    }
  }
}

bool HostStream::idle() const {
  const std::lock_guard lock(mutex_);
  require(!in_capture(), Device::kNothingRunsYet);
  return finished_.load(std::memory_order_acquire) == enqueued_.load(std::memory_order_relaxed);
}

void HostStream::synchronize() {
  std::unique_lock lock(mutex_);
  require(!in_capture(), Device::kNothingRunsYet);
  const std::uint64_t target = enqueued_.load(std::memory_order_relaxed);
  const auto reached = [&] { return finished_.load(std::memory_order_acquire) >= target; };
  Patience patience("its work to end");
  while (!reached()) {
    if (executable()) {
      execute_front(lock);
      continue;
    }
    lock.unlock();
    spin_until(reached);
    lock.lock();
    if (reached() || executable()) continue;
    // The thread that wakes the sleepers forgets their targets, so each looks again and says its own.
    next_waited_ = std::min(next_waited_, target);
    patience.sleep(lock, progress_);
  }
  if (executable()) wake_worker();
}

std::shared_ptr<HostEvent> HostStream::record() {
  {
    const std::lock_guard lock(mutex_);
    if (in_capture()) return std::make_shared<HostEvent>(capture_, capture_->reached(this));
  }
  auto event = std::make_shared<HostEvent>();
  enqueue(RecordTask{event});
  return event;
}

void HostStream::wait(const std::shared_ptr<HostEvent>& event) {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Capture>& capture = event->capture();
  if (capture == nullptr) {
    const bool needed = in_capture() || !event->is_set();
    lock.unlock();
    if (needed) enqueue(WaitTask{event});
    return;
  }
  require(capture->open(),
          "wait() for an event that was recorded in a capture which has ended: it is a point in that graph. Launch the "
          "graph and record an event after it.");
  require(!in_capture() || capture_ == capture,
          "wait() for an event of another capture: a stream takes part in one capture at a time");
  capture_ = capture;  // joins
  capture_->wait(this, event->nodes());
}

void HostStream::begin_capture() {
  const std::lock_guard lock(mutex_);
  require(!in_capture(), "begin_capture() on a stream that is capturing already; end_capture() comes first");
  capture_ = std::make_shared<Capture>(this);
}

std::shared_ptr<HostGraph> HostStream::end_capture() {
  std::unique_lock lock(mutex_);
  require(in_capture(), "end_capture() on a stream that is not capturing; begin_capture() comes first");
  require(
      capture_->origin() == this,
      "end_capture() on a stream that joined the capture of another by waiting for its event; the capturing began on "
      "that stream and must end there");
  const std::shared_ptr<Capture> capture = std::move(capture_);
  lock.unlock();
  return std::shared_ptr<HostGraph>(new HostGraph(capture->end()), LeftToParent());  // it may have threads
}

bool HostStream::capturing() const {
  const std::lock_guard lock(mutex_);
  return in_capture();
}

void HostStream::retain(std::shared_ptr<const void> thing) {
  const std::lock_guard lock(mutex_);
  require(in_capture(), "retain() on a stream that is not capturing: there is no graph that could keep anything");
  capture_->retain(std::move(thing));
}

void HostStream::guard(std::shared_ptr<const LaunchGuard> guard) {
  const std::lock_guard lock(mutex_);
  require(in_capture(), "guard() on a stream that is not capturing: there is no graph that it could belong to");
  capture_->guard(std::move(guard));
}

}  // namespace onstream::host
