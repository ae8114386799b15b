#include "onstream/base/heartbeat.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/base/fork_guard.hpp"
#include "onstream/base/quiet_thread.hpp"

namespace onstream {

namespace {

constexpr std::chrono::milliseconds kBeat{100};
// A longer gap between beats is time in which the process stood still; a busy machine makes shorter ones.
constexpr std::uint64_t kLongestBeatNs = 1'000'000'000;

// The parts of lived_ns(): written by the one heart that beats, read by any thread. A reader that meets a change
// (`version` is odd, or differs) reads again.
struct Pulse {
  std::atomic<std::uint64_t> version = 0;
  std::atomic<std::uint64_t> beat_ns = 0;   // of the last beat; 0: nothing beats
  std::atomic<std::uint64_t> still_ns = 0;  // all the time that the process has stood still
};
constinit Pulse pulse;

void publish(std::uint64_t beat_ns, std::uint64_t still_ns) {
  pulse.version.fetch_add(1, std::memory_order_acq_rel);
  pulse.beat_ns.store(beat_ns, std::memory_order_release);
  pulse.still_ns.store(still_ns, std::memory_order_release);
  pulse.version.fetch_add(1, std::memory_order_acq_rel);  // pairs with lived_ns
}

}  // namespace

std::uint64_t lived_ns() {
  constexpr int kMostTries = 1'000'000;  // the change of a parent's heart, in a forked child, does not end
  for (int tries = 0;; ++tries) {
    const std::uint64_t version = pulse.version.load(std::memory_order_acquire);
    const std::uint64_t beat = pulse.beat_ns.load(std::memory_order_acquire);
    const std::uint64_t still = pulse.still_ns.load(std::memory_order_acquire);
    const bool changes = version % 2 != 0 || pulse.version.load(std::memory_order_acquire) != version;
    if (changes && tries < kMostTries) continue;
    const std::uint64_t now = now_ns();
    return (beat == 0 ? now : std::min(now, beat + kLongestBeatNs)) - still;
  }
}

struct Heartbeat::Implementation {
  void run() {
    std::unique_lock lock(mutex);
    for (std::uint64_t last = now_ns(); !stopping;) {
      const std::uint64_t now = now_ns();
      beat(now, now - last);
      last = now;
      stop.wait_for(lock, kBeat, [this] { return stopping; });
    }
    publish(0, pulse.still_ns.load(std::memory_order_relaxed));
  }

  void beat(std::uint64_t now, std::uint64_t gap) {
    const bool stood_still = gap > kLongestBeatNs;
    const std::uint64_t before = pulse.still_ns.load(std::memory_order_relaxed);
    publish(now, before + (stood_still ? gap - kLongestBeatNs : 0));
    for (std::uint64_t* word : words) {
      const std::atomic_ref<std::uint64_t> awake(word[0]);
      const std::atomic_ref<std::uint64_t> still(word[1]);
      if (stood_still) still.store(still.load(std::memory_order_relaxed) + gap, std::memory_order_release);
      awake.store(stood_still ? 1 : awake.load(std::memory_order_relaxed) + std::max<std::uint64_t>(gap, 1),
                  std::memory_order_release);
    }
  }

  const ForkGuard guard;
  std::mutex mutex;
  std::condition_variable stop;
  bool stopping = false;
  std::vector<std::uint64_t*> words;
  std::thread thread;
};

Heartbeat::Heartbeat() : implementation_(std::make_unique<Implementation>()) {
  implementation_->thread = quiet_thread([this] { implementation_->run(); });
}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(implementation_->mutex);
    implementation_->stopping = true;
  }
  implementation_->stop.notify_one();
  implementation_->thread.join();
}

std::shared_ptr<Heartbeat> Heartbeat::of_process() {
  struct ProcessHeart {
    std::mutex mutex;  // held while a heart begins and while one ends: there are never two
    std::weak_ptr<Heartbeat> heart;
    ForkGuard guard;
  };
  static auto* known = new ProcessHeart;  // never destroyed: worlds may end while the process does
  if (known->guard.in_child()) {  // it is the parent's, whose lock may be held and whose change may be half done
    known = new ProcessHeart;
    pulse.version.store(0, std::memory_order_release);
    publish(0, pulse.still_ns.load(std::memory_order_relaxed));
  }
  const std::lock_guard lock(known->mutex);
  auto heart = known->heart.lock();
  if (heart == nullptr) {
    const auto end = [mine = known](Heartbeat* ending) {
      if (mine->guard.in_child()) return;  // its thread is the parent's
      const std::lock_guard ending_lock(mine->mutex);
      delete ending;
    };
    heart = std::shared_ptr<Heartbeat>(new Heartbeat, end);
    known->heart = heart;
  }
  return heart;
}

std::shared_ptr<void> Heartbeat::beat_in(std::uint64_t* word) {
  std::atomic_ref<std::uint64_t>(word[1]).store(0, std::memory_order_release);
  std::atomic_ref<std::uint64_t>(word[0]).store(kNeverStopped, std::memory_order_release);
  Implementation& mine = *implementation_;
  const std::lock_guard lock(mine.mutex);
  mine.words.push_back(word);
  return std::shared_ptr<void>(word, [&mine](std::uint64_t* ending) {
    if (mine.guard.in_child()) return;
    const std::lock_guard ending_lock(mine.mutex);
    std::erase(mine.words, ending);
  });
}

}  // namespace onstream
