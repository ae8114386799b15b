// Threads of a rank that use one lane in one direction at once: each message goes to one receive, and whole. And a call
// from inside another call of the same lane, as a signal handler makes it.
#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "onstream/device/kernel/interrupt.hpp"
#include "onstream/device/kernel/thread_lock.hpp"
#include "onstream/message/message.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"
#include "support/sanitizer.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

constexpr int kThreads = 3;
constexpr int kMessages = kThreadSanitizer ? 20 : 60;  // of each thread

using Words = std::vector<std::uint32_t>;
// One call of a thread with its buffer, which the sender fills before and the receiver looks at behind.
using Step = std::function<void(World&, Words&)>;

void send_blocking(World& world, Words& words) {
  CHECK(world.send(words.data(), words.size() * sizeof words[0], 1) == Status::ok);
}
void send_posted(World& world, Words& words) {
  CHECK(world.wait(world.isend(words.data(), words.size() * sizeof words[0], 1)) == Status::ok);
}
void receive_blocking(World& world, Words& words) {
  CHECK(world.recv(words.data(), words.size() * sizeof words[0], 0) == Status::ok);
}
void receive_posted(World& world, Words& words) {
  CHECK(world.wait(world.irecv(words.data(), words.size() * sizeof words[0], 0)) == Status::ok);
}

// Runs each(thread) in so many threads, and throws the first exception of any.
void at_once(int threads, const std::function<void(int)>& each) {
  std::mutex mutex;
  std::string first;
  std::vector<std::thread> running;
  for (int thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      try {
        each(thread);
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        if (first.empty()) first = error.what();
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  if (!first.empty()) throw std::runtime_error(first);
}

// Rank 0 sends kThreads * kMessages messages, each of one number again and again; rank 1 takes as many.
void share_a_lane(const std::string& device, std::size_t words, const Step& send, const Step& receive) {
  run_ranks(2, quick(device), [&](World& world) {
    std::mutex mutex;
    std::map<std::uint32_t, int> got;
    at_once(kThreads, [&](int thread) {
      Words buffer(words);
      for (int i = 0; i < kMessages; ++i) {
        if (world.rank() == 0) {
          std::ranges::fill(buffer, static_cast<std::uint32_t>(1 + thread * kMessages + i));
          send(world, buffer);
        } else {
          std::ranges::fill(buffer, 0);
          receive(world, buffer);
          const bool whole = std::ranges::count(buffer, buffer.front()) == static_cast<std::ptrdiff_t>(words);
          const std::lock_guard lock(mutex);
          got[whole ? buffer.front() : 0] += 1;
        }
      }
    });
    if (world.rank() == 1) {
      CHECK(got.size() == kThreads * kMessages && !got.contains(0));  // none torn, none twice, so none is lost
    }
    world.barrier();
  });
}

// Sizes that go through the ring (a line, many), are placed or copied by both ranks, and come in several chunks.
void share_lanes(const Step& send, const Step& receive) {
  for (const std::string& device : device_specs()) {
    for (const std::size_t words : {1, 1000, 5000, 50'000}) share_a_lane(device, words, send, receive);
  }
}

}  // namespace

CASE(threads_that_send_and_receive_on_one_lane_lose_nothing) { share_lanes(send_blocking, receive_blocking); }
CASE(threads_that_post_on_one_lane_lose_nothing) { share_lanes(send_posted, receive_posted); }
CASE(threads_that_post_and_wait_on_one_lane_lose_nothing) {
  share_lanes(send_blocking, receive_posted);
  share_lanes(send_posted, receive_blocking);
}

// On the host device streams are threads, too.
CASE(streams_of_the_host_on_one_lane_lose_nothing) {
  run_ranks(2, quick("host"), [](World& world) {
    std::vector<Words> buffers(kThreads * kMessages, Words(3));
    at_once(kThreads, [&](int thread) {
      const OwnStream stream(world);
      for (int i = thread * kMessages; i < (thread + 1) * kMessages; ++i) {
        Words& buffer = buffers[static_cast<std::size_t>(i)];
        if (world.rank() == 0) {
          std::ranges::fill(buffer, static_cast<std::uint32_t>(i + 1));
          world.send(buffer.data(), buffer.size() * sizeof buffer[0], 1, {}, stream);
        } else {
          world.recv(buffer.data(), buffer.size() * sizeof buffer[0], 0, {}, stream);
        }
      }
      world.synchronize(stream);
    });
    std::ranges::sort(buffers);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      CHECK(buffers[i] == Words(3, static_cast<std::uint32_t>(i + 1)));
    }
    world.barrier();
  });
}

namespace {

World* interrupted_world = nullptr;
std::string refusals;

// Once: makes the calls that a signal handler may make while this thread waits in recv().
bool call_inside() {
  World* const world = std::exchange(interrupted_world, nullptr);
  if (world == nullptr) return false;
  std::uint64_t word = 0;
  const auto note = [](const auto& call) {
    try {
      (void)call();
      refusals += "not refused; ";
    } catch (const Error& error) {
      refusals += concat(error.what(), "; ");
    }
  };
  note([&] { return world->recv(&word, sizeof word, 0); });
  note([&] { return world->irecv(&word, sizeof word, 0); });
  std::uint64_t other = 0;
  note([&] { return world->isendrecv({&word, sizeof word, 0, {}}, {&other, sizeof other, 0, {}}); });
  (void)world->send(&word, sizeof word, 0);  // the other direction is free: rank 0 goes on
  return false;
}

}  // namespace

CASE(a_call_inside_another_of_its_lane_is_refused_and_the_outer_one_ends_well) {
  run_ranks(2, quick("host"), [](World& world) {
    std::uint64_t word = 0;
    if (world.rank() == 0) {
      CHECK(world.recv(&word, sizeof word, 1) == Status::ok);  // once the hook has run
      word = 7;
      CHECK(world.send(&word, sizeof word, 1) == Status::ok);
    } else {
      refusals.clear();
      interrupted_world = &world;
      interrupt_hook = &call_inside;
      CHECK(world.recv(&word, sizeof word, 0) == Status::ok);
      interrupt_hook = nullptr;
      CHECK(word == 7);
      std::size_t refused = 0;
      constexpr const char* kWhy = "called while this thread is inside another call of the same tag and direction";
      for (std::size_t at = refusals.find(kWhy); at != std::string::npos; at = refusals.find(kWhy, at + 1)) ++refused;
      if (refused != 3) throw std::runtime_error("refused: " + refusals);
    }
    world.barrier();
  });
}

// The system gives the pthread_t of a thread that has ended to a later one.
CASE(a_kept_lock_is_not_that_of_a_later_thread) {
  std::uint64_t holder = 0;
  std::uint64_t kept = 0;
  pthread_t keeper{};
  std::thread([&] {
    keeper = pthread_self();
    kept = ThreadLock(holder).keep();
    CHECK(ThreadLock::is_mine(holder) && ThreadLock::is_kept(holder));
  }).join();
  bool same = false;
  for (int tries = 0; tries < 100 && !same; ++tries) {
    std::thread([&] {
      same = pthread_equal(pthread_self(), keeper) != 0;
      CHECK(!ThreadLock::is_mine(holder));
    }).join();
  }
  CHECK(same);
  CHECK(ThreadLock(holder, kept).held());
}

CASE(a_word_that_kept_a_lock_before_does_not_take_it_over) {
  std::uint64_t holder = 0;
  const std::uint64_t first = ThreadLock(holder).keep();
  CHECK(ThreadLock(holder, first).held());
  const std::uint64_t second = ThreadLock(holder).keep();
  CHECK(first != second && ThreadLock::is_mine(holder));
  CHECK(!ThreadLock(holder, first).held());
  CHECK(holder == second);
  CHECK(ThreadLock(holder, second).held());
  CHECK(holder == 0);
}

int main(int argc, char** argv) { return run(argc, argv); }
