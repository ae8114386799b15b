// Messages whose sender or size is unknown: probes, matched receives, receives from any rank, and waits for any of
// several requests.
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "onstream/base/clock.hpp"
#include "onstream/lane/probe.hpp"
#include "onstream/message/message.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"
#include "support/sanitizer.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

// Around the bounds of the protocol: a line, packed, the ring's largest, copied by both, over a network as a whole.
const std::vector<std::size_t> kSizes = {0, 8, 64, 65, 4095, 4096, 4097, 65535, 65536, 65537, 1 << 20};

// Asks again and again until there is an answer.
template <class Ask>
auto soon(const Ask& ask) {
  for (const Deadline limit(kSoonS);;) {
    if (auto answer = ask()) return answer;
    if (limit.passed()) throw std::runtime_error("no message was seen in time");
    HostGroup::pause(1u << 20, 0);
  }
}

void run_on_all(int size, const std::function<void(World&)>& body, const std::function<void(Parameters&)>& set = {}) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    if (set) set(parameters);
    run_ranks(size, parameters, body);
  }
}

// The next message of rank 0 has so many bytes and this pattern. Seen twice, received once.
void expect(World& world, std::size_t bytes, unsigned seed, bool matches) {
  const auto once = soon([&] { return world.iprobe(0); });
  CHECK(once->peer == 0 && once->tag == 0 && once->bytes == bytes);
  Probed again;
  CHECK(world.probe(kAnySource, 0, again) == Status::ok);
  CHECK(again.peer == 0 && again.tag == 0 && again.bytes == bytes);
  TestBuffer in(world, bytes);
  if (matches) {
    std::shared_ptr<Matched> matched;
    CHECK(world.match(0, 0, matched) == Status::ok);
    CHECK(matched->message().bytes == bytes);
    CHECK(world.recv(matched, in.data(), bytes) == Status::ok);
  } else {
    std::size_t received = 0;
    CHECK(world.recv(in.data(), bytes, 0, {}, &received) == Status::ok);
    CHECK(received == bytes);
  }
  CHECK(in.read() == pattern(bytes, seed));
}

void exchange_probed(World& world, Path path, bool posted) {
  for (const bool matches : {false, true}) {
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      const auto seed = static_cast<unsigned>(2 * i + (posted ? 1 : 0));
      if (world.rank() == 1) expect(world, kSizes[i], seed, matches);
      if (world.rank() == 1) continue;
      TestBuffer out(world, kSizes[i]);
      out.write(pattern(kSizes[i], seed));
      const MessageOptions options{.path = path};
      const Status ended = posted ? world.wait(world.isend(out.data(), kSizes[i], 1, options))
                                  : world.send(out.data(), kSizes[i], 1, options);
      CHECK(ended == Status::ok);
    }
  }
  CHECK(world.rank() == 0 || !world.iprobe(0).has_value());
  world.barrier();
}

}  // namespace

CASE(a_probe_tells_the_size_of_the_next_message_and_takes_nothing) {
  run_on_all(2, [](World& world) {
    for (const bool posted : {false, true}) exchange_probed(world, Path::automatic, posted);
  });
}

CASE(a_probe_sees_messages_of_every_path) {
  for (const char* const path : {"load", "stage"}) {
    run_on_all(
        2,
        [](World& world) {
          for (const bool posted : {false, true}) exchange_probed(world, Path::automatic, posted);
        },
        [path](Parameters& parameters) {
          if (parameters.host_ranks == 0) parameters.path = path;
        });
  }
}

CASE(messages_of_posted_receives_are_passed_over) {
  run_on_all(2, [](World& world) {
    const std::vector<std::size_t> sizes = {8, 100000, 4096, 24, 70000};
    std::vector<std::unique_ptr<TestBuffer>> buffers;
    for (const std::size_t bytes : sizes) buffers.push_back(std::make_unique<TestBuffer>(world, bytes));
    std::vector<std::shared_ptr<Request>> requests;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const bool last = i + 1 == sizes.size();
      if (world.rank() == 0) {
        buffers[i]->write(pattern(sizes[i], static_cast<unsigned>(i)));
        requests.push_back(world.isend(buffers[i]->data(), sizes[i], 1));
      } else if (!last) {
        requests.push_back(world.irecv(buffers[i]->data(), sizes[i], 0));
      }
    }
    if (world.rank() == 1) {
      const auto matched = soon([&] { return world.imatch(0); });
      CHECK(matched->message().bytes == sizes.back());
      requests.push_back(world.irecv(matched, buffers.back()->data(), sizes.back()));
    }
    for (const auto& request : requests) CHECK(world.wait(request) == Status::ok);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      CHECK(buffers[i]->read() == pattern(sizes[i], static_cast<unsigned>(i)));
    }
    world.barrier();
  });
}

CASE(a_matched_message_is_its_holders_until_it_is_received_or_let_go) {
  run_on_all(2, [](World& world) {
    TestBuffer word(world, 800);
    if (world.rank() == 0) {
      CHECK(world.send(word.data(), 800, 1, {2}) == Status::ok);
      CHECK(world.send(word.data(), 8, 1, {2}) == Status::ok);
    } else {
      auto first = soon([&] { return world.imatch(0, 2); });
      CHECK(world.imatch(0, 2) == nullptr);
      CHECK(!world.iprobe(kAnySource, 2).has_value());
      Probed found;
      CHECK_THROWS((void)world.probe(0, 2, found), "this thread has matched the next message there");
      CHECK_THROWS((void)world.recv(word.data(), 800, 0, {2}), "recv of 800 B from rank 0 with tag 2: this thread has");
      CHECK_THROWS((void)world.irecv(word.data(), 800, 0, {2}), "receive that one first, or let go of it");
      first = nullptr;
      first = soon([&] { return world.imatch(kAnySource, 2); });
      CHECK(first->message().bytes == 800 && first->message().peer == 0 && first->message().tag == 2);
      CHECK_THROWS((void)world.irecv(first, word.data(), 799), "the matched message has 800 B; it stays");
      std::thread other([&] { CHECK(world.recv(first, word.data(), 800) == Status::ok); });
      other.join();
      CHECK_THROWS((void)world.irecv(first, word.data(), 800), "was received already");
      (void)soon([&] { return world.fabric()->has_left(0); });
      const auto second = soon([&] { return world.imatch(0, 2); });
      CHECK(second->message().bytes == 8);
      first = nullptr;  // gives nothing back that is not its own
      CHECK(world.imatch(0, 2) == nullptr);
      CHECK(world.recv(second, word.data(), 8) == Status::ok);
      CHECK_THROWS((void)world.irecv(nullptr, word.data(), 8), "the matched message is null");
    }
  });
}

CASE(a_receive_of_another_thread_waits_for_the_holder_of_a_match) {
  run_on_all(2, [](World& world) {
    TestBuffer out(world, 16);
    if (world.rank() == 0) {
      out.write(pattern(16, 3));
      for (int i = 0; i < 2; ++i) CHECK(world.send(out.data() + 8 * i, 8, 1) == Status::ok);
    } else {
      auto matched = soon([&] { return world.imatch(0); });
      std::atomic<bool> over = false;
      std::thread other([&] {
        CHECK(world.recv(out.data() + 8, 8, 0) == Status::ok);
        over = true;
      });
      for (const Deadline limit(0.1); !limit.passed();) CHECK(!over);
      CHECK(world.recv(matched, out.data(), 8) == Status::ok);
      other.join();
      CHECK(out.read() == pattern(16, 3));
    }
    world.barrier();
  });
}

CASE(threads_that_match_on_one_lane_get_each_message_once) {
  constexpr int kThreads = 3;
  constexpr int kEach = kThreadSanitizer ? 20 : 100;
  run_on_all(2, [](World& world) {
    TestBuffer words(world, 4 * kThreads * kEach);
    std::vector<unsigned char> numbers(words.bytes());
    for (std::uint32_t i = 0; i < kThreads * kEach; ++i) std::memcpy(numbers.data() + 4 * i, &i, 4);
    if (world.rank() == 0) {
      words.write(numbers);
      for (int i = 0; i < kThreads * kEach; ++i) CHECK(world.send(words.data() + 4 * i, 4, 1) == Status::ok);
    } else {
      std::vector<std::thread> threads;
      std::atomic<int> wrong = 0;
      for (int thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
          for (int i = 0; i < kEach; ++i) {
            std::shared_ptr<Matched> matched;
            const Status found = world.match(thread == 0 ? kAnySource : 0, 0, matched);
            std::byte* const place = words.data() + 4 * (thread * kEach + i);
            if (found != Status::ok || world.recv(matched, place, 4) != Status::ok) ++wrong;
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      CHECK(wrong == 0);
      const auto got = words.read();
      std::vector<std::uint32_t> each(kThreads * kEach);
      std::memcpy(each.data(), got.data(), got.size());
      std::ranges::sort(each);
      for (std::uint32_t i = 0; i < each.size(); ++i) CHECK(each[i] == i);
    }
    world.barrier();
  });
}

CASE(a_receive_from_any_rank_takes_turns_and_keeps_the_order_of_each) {
  constexpr int kRanks = 4;
  constexpr int kEach = 50;
  run_on_all(kRanks, [](World& world) {
    TestBuffer words(world, 8 * kEach);
    if (world.rank() != 0) {
      std::vector<unsigned char> numbers(8 * kEach);
      for (int i = 0; i < kEach; ++i) numbers[static_cast<std::size_t>(8 * i)] = static_cast<unsigned char>(i);
      words.write(numbers);
      for (int i = 0; i < kEach; ++i) CHECK(world.send(words.data() + 8 * i, 8, 0) == Status::ok);
    }
    world.barrier();
    if (world.rank() != 0) return world.barrier();
    for (int peer = 1; peer < kRanks; ++peer) (void)soon([&] { return world.iprobe(peer); });
    std::map<int, int> next;
    for (int i = 0; i < kEach * (kRanks - 1); ++i) {
      const auto request = world.irecv(words.data(), 8, kAnySource);
      CHECK(world.source(request) == kAnySource);
      CHECK(world.wait(request) == Status::ok);
      CHECK(world.received(request) == 8);
      const int source = world.source(request);
      CHECK(words.read()[0] == next[source]++);
      if (i == kRanks - 2) CHECK(next.size() == kRanks - 1);  // nobody starves
    }
    for (const auto& [source, count] : next) CHECK(source > 0 && count == kEach);
    std::size_t received = 1;
    CHECK(world.send(words.data(), 8, 0, {5}) == Status::ok);  // to itself
    CHECK(world.recv(words.data(), 400, kAnySource, {5}, &received) == Status::ok);
    CHECK(received == 8);
    world.barrier();
  });
}

CASE(receives_from_any_rank_get_messages_in_the_order_in_which_they_were_posted) {
  run_on_all(2, [](World& world) {
    TestBuffer words(world, 8 * 4 + 100000);
    std::byte* const large = words.data() + 32;
    if (world.rank() == 0) {
      words.write(pattern(words.bytes(), 1));
      CHECK(world.send(words.data(), 8, 1) == Status::ok);
      CHECK(world.send(words.data() + 8, 8, 1) == Status::ok);
      CHECK(world.send(large, 100000, 1) == Status::ok);
      CHECK(world.send(words.data() + 16, 8, 1, {1}) == Status::ok);
    } else {
      auto first = world.irecv(words.data(), 8, kAnySource);
      auto second = world.irecv(words.data() + 8, 8, kAnySource);
      const auto let_go = world.irecv(words.data() + 24, 8, kAnySource, {1});
      auto third = world.irecv(large, 100000, kAnySource);
      CHECK(world.wait(third) == Status::ok);
      CHECK(world.wait(second) == Status::ok);
      CHECK(world.test(first) == Status::ok);
      CHECK(world.received(third) == 100000 && world.source(first) == 0);
      const auto got = words.read();
      const auto sent = pattern(words.bytes(), 1);
      CHECK(std::equal(got.begin(), got.begin() + 16, sent.begin()));
      CHECK(std::equal(got.begin() + 32, got.end(), sent.begin() + 32));
      CHECK(world.wait(let_go) == Status::ok);
    }
    world.barrier();
  });
}

CASE(a_receive_from_any_rank_that_finds_no_room_waits_behind_the_posted_ones) {
  constexpr int kCount = 4;
  run_on_all(
      2,
      [](World& world) {
        TestBuffer words(world, 8 * kCount);
        if (world.rank() == 0) words.write(pattern(words.bytes(), 1));
        std::vector<std::shared_ptr<Request>> requests;
        for (int i = 0; i < kCount; ++i) {
          std::byte* const word = words.data() + 8 * i;
          if (world.rank() == 0) CHECK(world.send(word, 8, 1) == Status::ok);
          if (world.rank() == 1) requests.push_back(world.irecv(word, 8, i < 2 ? 0 : kAnySource));
        }
        if (world.rank() == 1) {
          const auto last = requests.back();
          (void)soon([&] { return world.iprobe(0); });
          (void)world.test(last);  // no error of the request before it
          if (world.device().kind() == DeviceKind::host) CHECK(world.wait(last) == Status::ok);
          for (const auto& request : requests) CHECK(world.wait(request) == Status::ok);
          CHECK(words.read() == pattern(words.bytes(), 1));
        }
        world.barrier();
      },
      [](Parameters& parameters) { parameters.tag_receives = 2; });
}

CASE(a_receive_from_any_rank_that_is_refused_is_told_by_its_own_waits) {
  run_on_all(2, [](World& world) {
    constexpr std::size_t kBytes = 200000;
    TestBuffer words(world, kBytes);
    if (world.rank() == 0) {
      words.write(pattern(kBytes, 2));
      CHECK(world.send(words.data(), kBytes, 1) == Status::ok);
    } else {
      const auto nowhere = world.irecv(reinterpret_cast<void*>(64), kBytes, kAnySource);
      const auto good = world.irecv(words.data(), kBytes, kAnySource);
      CHECK(world.wait(good) == Status::ok);
      CHECK(words.read() == pattern(kBytes, 2));
      for (int i = 0; i < 2; ++i) CHECK_THROWS((void)world.wait(nowhere), "nothing is mapped at 0x40");
      CHECK_THROWS((void)world.test(nowhere), "nothing is mapped at 0x40");
      CHECK(world.source(nowhere) == kAnySource && world.source(good) == 0);
    }
    world.barrier();
  });
}

CASE(a_receive_from_any_rank_that_is_let_go_takes_no_message) {
  run_on_all(2, [](World& world) {
    TestBuffer words(world, 16);
    if (world.rank() == 1) (void)world.irecv(words.data(), 8, kAnySource);
    world.barrier();
    if (world.rank() == 0) CHECK(world.send(words.data(), 8, 1) == Status::ok);
    if (world.rank() == 1) {
      const auto later = world.irecv(words.data() + 8, 8, kAnySource);
      CHECK(soon([&] { return world.test(later) == Status::ok; }));
    }
    world.barrier();
  });
}

CASE(wait_any_wait_some_and_tests_tell_which_requests_have_ended) {
  run_on_all(2, [](World& world) {
    constexpr int kCount = 6;
    TestBuffer words(world, 8 * kCount);
    if (world.rank() == 0) {
      for (const int tag : {3, 1, 0, 2, 4, 5}) {
        CHECK(world.send(words.data(), 8, 1, {tag}) == Status::ok);
        TestBuffer answer(world, 1);
        if (tag == 3 || tag == 1) CHECK(world.recv(answer.data(), 1, 1) == Status::ok);
      }
    } else {
      std::vector<std::shared_ptr<Request>> requests;
      for (int tag = 0; tag < kCount; ++tag) {
        const int peer = tag == 1 ? kAnySource : 0;
        requests.push_back(world.irecv(words.data() + 8 * tag, 8, peer, {tag}));
      }
      CHECK_THROWS((void)world.wait_any({}, *std::make_unique<Status>()), "wait_any: the list of requests is empty");
      Status status = Status::pending;
      CHECK(world.wait_any(requests, status) == 3);
      CHECK(status == Status::ok);
      CHECK(world.test_any(requests)->index == 3);
      requests.erase(requests.begin() + 3);
      CHECK(!world.test_any(requests).has_value());
      CHECK(!world.test_all(requests));
      CHECK(world.send(words.data(), 1, 0) == Status::ok);
      const auto some = world.wait_some(requests);
      CHECK(some.size() == 1 && some[0].index == 1 && some[0].status == Status::ok);
      CHECK(world.send(words.data(), 1, 0) == Status::ok);
      CHECK(soon([&] { return world.test_all(requests); }));
      CHECK(world.wait_some(requests).size() == requests.size());
    }
    world.barrier();
  });
}

CASE(truncation_is_told_by_the_request_from_any_rank) {
  run_on_all(2, [](World& world) {
    TestBuffer words(world, 100);
    if (world.rank() == 0) CHECK(world.send(words.data(), 100, 1) == Status::ok);
    if (world.rank() == 1) {
      const auto request = world.irecv(words.data(), 8, kAnySource, {.reported_by_wait = true});
      Status status = Status::pending;
      CHECK(world.wait_any({&request, 1}, status) == 0);
      CHECK(status == Status::truncated);
      CHECK(world.received(request) == 100);
    }
    world.barrier();
    (void)world.take_faults();
  });
}

CASE(wrong_arguments_are_refused_by_name) {
  run_on_all(2, [](World& world) {
    const OwnStream own(world);
    TestBuffer words(world, 8);
    CHECK_THROWS((void)world.iprobe(2), "probe: rank 2 does not exist; this world has ranks 0 to 1");
    CHECK_THROWS((void)world.imatch(0, 64), "probe: tag 64 does not exist");
    CHECK_THROWS(world.recv(words.data(), 8, kAnySource, {}, own), "recv: any source names no rank");
    CHECK_THROWS((void)world.send(words.data(), 8, kAnySource), "send: any source names no rank");
    CHECK_THROWS((void)world.recv(words.data(), 8, -1), "recv: rank -1 does not exist; this world has ranks 0 to 1");
    CHECK_THROWS((void)world.irecv(nullptr, 8, kAnySource), "null pointer");
    const auto request = world.irecv(words.data(), 8, kAnySource);
    CHECK_THROWS(world.wait(request, own), "whose message has not come is waited for by the host");
    world.barrier();
  });
}

CASE(a_probe_and_a_receive_from_any_rank_end_at_the_deadline) {
  for (const int which : {0, 1, 2, 3}) {
    run_on_all(
        2,
        [which](World& world) {
          TestBuffer words(world, 8);
          if (world.rank() == 1) return await_failure(world);
          Probed found;
          Status status = Status::ok;
          const auto request = which == 2 ? world.irecv(words.data(), 8, kAnySource, {3}) : nullptr;
          if (which == 0) status = world.probe(1, 3, found);
          if (which == 1) status = world.recv(words.data(), 8, kAnySource, {3});
          if (which == 2) CHECK(world.wait_any({&request, 1}, status) == 0);
          if (which == 3) status = world.probe(kAnySource, 3, found);
          CHECK(status == Status::timeout);
          const std::string story = world.failure()->story;
          const std::string named = which == 0   ? "probe from rank 1 with tag 3"
                                    : which == 3 ? "probe from any rank with tag 3"
                                                 : "recv of 8 B from any rank with tag 3";
          CHECK(story.find(named + " passed its deadline of 1 s") != std::string::npos);
        },
        [](Parameters& parameters) { parameters.timeout_s = 1; });
  }
}

CASE(a_late_receive_names_the_tag_on_which_a_message_waits) {
  Parameters parameters = quick("host");
  parameters.timeout_s = 1;
  run_ranks(2, parameters, [](World& world) {
    std::vector<unsigned char> bytes(800);
    if (world.rank() == 0) CHECK(world.send(bytes.data(), 800, 1, {3}) == Status::ok);
    if (world.rank() == 0) return await_failure(world);
    (void)soon([&] { return world.iprobe(0, 3); });
    CHECK(world.recv(bytes.data(), 800, 0, {4}) == Status::timeout);
    const std::string story = world.failure()->story;
    CHECK(story.find("a message of 800 B from rank 0 to rank 1 waits on tag 3, and rank 1 receives with tag 4") !=
          std::string::npos);
  });
}

CASE(a_rank_that_has_left_is_probed_for_its_messages_and_then_named) {
  run_on_all(2, [](World& world) {
    TestBuffer words(world, 8);
    if (world.rank() == 0) {
      CHECK(world.send(words.data(), 8, 1) == Status::ok);
      return;
    }
    const auto left = [&]() -> bool {
      const auto found = world.iprobe(0);  // the message stays to be seen
      return found && world.fabric()->has_left(0);
    };
    CHECK(soon(left));
    CHECK(world.recv(words.data(), 8, kAnySource) == Status::ok);
    CHECK_THROWS((void)world.iprobe(0), "probe from rank 0 with tag 0: rank 0 has left the world");
    CHECK_THROWS((void)world.imatch(kAnySource), "probe from any rank with tag 0: every other rank has left the world");
    CHECK(world.recv(words.data(), 8, kAnySource) == Status::aborted);
    CHECK(world.failure()->story.find("left the world") != std::string::npos);
  });
}

CASE(a_look_that_meets_another_call_tells_so) {
  Line ring[16] = {};
  lane::Receiving receiving;
  lane::LaneView lane;
  lane.ring = ring;
  lane.ring_shift = 3;
  lane.receiving = &receiving;
  const auto look = [&] {
    lane::Seen seen;
    return lane::next_message(HostGroup(0, 1), lane, seen);
  };
  CHECK(look() == lane::NextMessage::none);
  receiving.posted = 1;
  CHECK(look() == lane::NextMessage::none);
  receiving.lock = 1;  // another thread waits for that posted receive
  CHECK(look() == lane::NextMessage::busy);
}

namespace {

// How a thread gets one message of a rank that has left.
Status take_one(World& world, int way, std::byte* word) {
  if (way == 0) return world.recv(word, 8, kAnySource);
  if (way == 1) {
    const auto request = world.irecv(word, 8, kAnySource);
    for (const Deadline limit(kSoonS); !limit.passed();) {
      if (const Status status = world.test(request); status != Status::pending) return status;
    }
    return Status::pending;
  }
  const auto matched = soon([&] { return world.imatch(way == 2 ? kAnySource : 0); });
  return world.recv(matched, word, 8);
}

}  // namespace

CASE(threads_that_look_behind_a_rank_that_has_left_get_each_message) {
  constexpr int kThreads = 4;
  constexpr int kEach = 100;
  constexpr int kRounds = kThreadSanitizer ? 1 : 8;  // two threads seldom look at once
  const auto body = [](World& world) {
    TestBuffer words(world, 8 * kThreads * kEach);
    if (world.rank() == 0) {
      for (int i = 0; i < kThreads * kEach; ++i) CHECK(world.send(words.data() + 8 * i, 8, 1) == Status::ok);
      return;
    }
    (void)soon([&] { return world.fabric()->has_left(0); });
    std::mutex mutex;
    std::string wrong;  // the first thing
    std::atomic<int> started = 0;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (++started; started < kThreads;) HostGroup::pause(0, 0);
        for (int i = 0; i < kEach; ++i) {
          std::string error = "no error";
          Status status = Status::pending;
          try {
            status = take_one(world, i % 8 == 0 ? (thread + i / 8) % 4 : thread % 2,
                              words.data() + 8 * (thread * kEach + i));
          } catch (const std::exception& raised) {
            error = raised.what();
          }
          const std::lock_guard lock(mutex);
          if (status != Status::ok && wrong.empty()) wrong = concat(name_of(status), ": ", error);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (!wrong.empty()) throw std::runtime_error(wrong);
    CHECK_THROWS((void)world.iprobe(kAnySource), "every other rank has left the world");
  };
  for (int round = 0; round < kRounds; ++round) run_on_all(2, body);
}

int main(int argc, char** argv) { return run(argc, argv); }
