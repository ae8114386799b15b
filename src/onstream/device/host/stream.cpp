// Executing tasks in order; see stream.hpp for who executes when.
#include "onstream/device/host/stream.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "onstream/base/clock.hpp"
#include "onstream/base/error.hpp"
#include "onstream/device/group.hpp"
#include "onstream/device/host/patience.hpp"

namespace onstream::host {
namespace {

// How long a thread that runs dry looks for more before it sleeps: about the price of being woken. Most of it is spent
// yielding, so that it takes nothing from the ranks that share the core.
constexpr std::uint64_t kSpinNs = 10'000;
constexpr int kSpinsPerYield = 64;

constexpr std::size_t kSpareTasks = 256;  // nodes kept for reuse; about 150 KB

// A worker takes no signals: they belong to the program's own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

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

Stream::~Stream() {
  std::unique_lock lock(mutex_);
  capture_.reset();
  lock.unlock();
  synchronize();
  lock.lock();
  stopping_ = true;
  wake_worker();
  lock.unlock();
  if (worker_.joinable()) worker_.join();
}

void Stream::enqueue(Task task) {
  const std::lock_guard lock(mutex_);
  if (capture_ != nullptr) {
    if (capture_->append(task)) return;
    capture_.reset();
  }
  if (!worker_.joinable()) start_worker();
  if (spare_.empty()) {
    queue_.push_back(std::move(task));
  } else {
    spare_.front() = std::move(task);
    queue_.splice(queue_.end(), spare_, spare_.begin());
  }
  enqueued_.store(enqueued_.load(std::memory_order_relaxed) + 1, std::memory_order_release);  // pairs with work()
  if (!running_) wake_worker();
}

void Stream::start_worker() {
  const SignalsBlocked blocked;
  try {
    worker_ = std::thread([this] { work(); });
  } catch (const std::system_error& error) {
    fail(ErrorCode::system, "cannot start the thread of a host stream: ", error.what(),
         ". Fewer streams, or a higher limit on threads (ulimit -u), would help.");
  }
  pthread_setname_np(worker_.native_handle(), "onstream");
}

void Stream::wake_worker() {
  if (!worker_asleep_) return;
  worker_asleep_ = false;
  wake_.notify_one();
}

void Stream::execute_front(std::unique_lock<std::mutex>& lock) {
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

void Stream::finish_one() {
  running_ = false;
  const std::uint64_t finished = finished_.load(std::memory_order_relaxed) + 1;
  finished_.store(finished, std::memory_order_release);  // pairs with synchronize()
  if (finished < next_waited_) return;
  next_waited_ = UINT64_MAX;
  progress_.notify_all();
}

void Stream::work() {
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

bool Stream::idle() const {
  const std::lock_guard lock(mutex_);
  refuse_while_capturing("asked whether it is idle");
  return finished_.load(std::memory_order_acquire) == enqueued_.load(std::memory_order_relaxed);
}

void Stream::synchronize() {
  std::unique_lock lock(mutex_);
  refuse_while_capturing("waited for");
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
    // Whoever wakes the sleepers forgets their targets, so each looks again and says its own.
    next_waited_ = std::min(next_waited_, target);
    patience.sleep(lock, progress_);
  }
  if (executable()) wake_worker();
}

std::shared_ptr<Event> Stream::record() {
  {
    const std::lock_guard lock(mutex_);
    if (in_capture()) return std::make_shared<Event>(capture_);
  }
  auto event = std::make_shared<Event>(nullptr);
  enqueue(RecordTask{event});
  return event;
}

void Stream::wait(const std::shared_ptr<Event>& event) {
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
  capture_ = capture;  // joins; within the capture, the order of its tasks satisfies the wait
}

void Stream::begin_capture() {
  const std::lock_guard lock(mutex_);
  require(!in_capture(), "begin_capture() on a stream that is capturing already; end_capture() comes first");
  capture_ = std::make_shared<Capture>(this);
}

std::shared_ptr<Graph> Stream::end_capture() {
  const std::lock_guard lock(mutex_);
  require(in_capture(), "end_capture() on a stream that is not capturing; begin_capture() comes first");
  require(
      capture_->origin() == this,
      "end_capture() on a stream that joined the capture of another by waiting for its event; the capturing began on "
      "that stream and must end there");
  auto graph = std::make_shared<Graph>(capture_->end());
  capture_.reset();
  return graph;
}

bool Stream::capturing() const {
  const std::lock_guard lock(mutex_);
  return in_capture();
}

void Stream::retain(std::shared_ptr<const void> thing) {
  const std::lock_guard lock(mutex_);
  require(in_capture(), "retain() on a stream that is not capturing: there is no graph that could keep anything");
  capture_->retain(std::move(thing));
}

void Stream::refuse_while_capturing(const char* what) const {
  require(!in_capture(), "a stream that is capturing cannot be ", what,
          ": nothing of it runs before its graph is launched; end the capture first");
}

}  // namespace onstream::host
