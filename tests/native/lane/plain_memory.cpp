// Messages between plain memory on the host device (lane/host/shared_copy.hpp, device/kernel/remote_process.hpp).
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <ranges>
#include <thread>

#include "onstream/bootstrap/sha256.hpp"
#include "plain_memory_rules.hpp"
#include "support/faults.hpp"
#include "support/own_stream.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

// Pages of their own, which can be taken away at once.
class Pages {
 public:
  explicit Pages(std::size_t bytes) : bytes_(bytes) {
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) fail_errno("mmap");
  }
  ~Pages() { unmap(); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  void unmap() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
    data_ = nullptr;
  }
  void* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

// --- every way to send and receive ---

RULE(every_size_arrives_while_both_hosts_wait, 2, host()) { ping_pong(world); }

RULE(every_size_arrives_on_streams_and_when_posted_at_odd_addresses, 2, host()) {
  const int peer = 1 - world.rank();
  const OwnStream stream(world);
  for (const std::size_t bytes : kSizes) {
    Bytes out(bytes + 3);
    Bytes in(bytes + 5);
    std::ranges::copy(pattern(bytes, seed_of(bytes, world.rank())), out.begin() + 3);
    const auto request = world.irecv(in.data() + 5, bytes, peer, {}, stream);
    world.send(out.data() + 3, bytes, peer, {}, stream);  // its receive is posted, or will be: no cycle
    world.wait(request, stream);
    world.synchronize(stream);
    in.erase(in.begin(), in.begin() + 5);
    CHECK(in == pattern(bytes, seed_of(bytes, peer)));
  }
}

// Both ranks post a send and a receive of every size; finish(send, receive) brings both to their end.
template <class Finish>
void exchange_posted(World& world, const Finish& finish) {
  const int peer = 1 - world.rank();
  for (const std::size_t bytes : kSizes) {
    const Bytes out = pattern(bytes, seed_of(bytes, world.rank()));
    Bytes in(bytes);
    const auto send = world.isend(out.data(), bytes, peer, {});
    const auto receive = world.irecv(in.data(), bytes, peer, {});
    finish(send, receive);
    CHECK(in == pattern(bytes, seed_of(bytes, peer)));
  }
}

RULE(receives_waited_for_first_are_fetched_without_the_senders, 2, host()) {
  exchange_posted(world, [&](const auto& send, const auto& receive) {
    CHECK(world.wait(receive) == Status::ok);
    CHECK(world.wait(send) == Status::ok);
  });
}

// Waits, or asks again and again.
void see_through(World& world, const std::shared_ptr<Request>& request, bool asks) {
  const Deadline deadline(kSoonS);
  while (asks && world.test(request) == Status::pending) CHECK(!deadline.passed());
  CHECK(world.wait(request) == Status::ok);
}

// Rank `active` alone waits for its posted send or receive; the other rank waits at a barrier. That rank's memory is
// plain, the active one's is not if it `maps`: then the system is called without need.
void complete_alone(World& world, int active, bool maps, bool asks) {
  TestBuffer mapped(world, kSizes.back());
  for (const std::size_t bytes : kSizes) {
    const Bytes expected = pattern(bytes, seed_of(bytes, 0));
    Bytes plain(bytes);
    std::byte* const buffer =
        maps && world.rank() == active ? mapped.data() : reinterpret_cast<std::byte*>(plain.data());
    if (world.rank() == 0) std::memcpy(buffer, expected.data(), bytes);
    if (world.rank() == 1) std::memset(buffer, 0, bytes);
    const auto request = world.rank() == 0 ? world.isend(buffer, bytes, 1, {}) : world.irecv(buffer, bytes, 0, {});
    world.barrier();
    if (world.rank() == active) see_through(world, request, asks);
    world.barrier();
    CHECK(world.wait(request) == Status::ok);
    CHECK(std::memcmp(buffer, expected.data(), bytes) == 0);
  }
}

RULE(either_side_alone_completes_a_posted_message, 2, host()) {
  for (const int active : {0, 1}) {
    for (const bool maps : {false, true}) {
      for (const bool asks : {false, true}) complete_alone(world, active, maps, asks);
    }
  }
}

RULE(a_receive_posted_late_is_filled_by_a_sender_that_waits, 2, host()) {
  constexpr std::size_t kBytes = 1 << 20;
  const Bytes out = pattern(kBytes, 5);
  Bytes in(kBytes);
  Bytes word(8);
  if (world.rank() == 0) {
    const auto request = world.isend(out.data(), kBytes, 1, {1, Path::automatic});
    world.barrier();
    CHECK(world.wait(request) == Status::ok);
    CHECK(world.send(word.data(), 8, 1, {2, Path::automatic}) == Status::ok);
  } else {
    world.barrier();
    const auto request = world.irecv(in.data(), kBytes, 0, {1, Path::automatic});
    CHECK(world.recv(word.data(), 8, 0, {2, Path::automatic}) == Status::ok);  // comes only after the other message
    CHECK(world.wait(request) == Status::ok);
    CHECK(in == out);
  }
}

RULE(requests_complete_in_any_order_of_waits, 2, host()) {
  constexpr int kCount = 40;
  constexpr std::size_t kBytes = 150000;
  const int peer = 1 - world.rank();
  std::vector<Bytes> out;
  std::vector<Bytes> in(kCount, Bytes(kBytes));
  std::vector<std::shared_ptr<Request>> sends;
  std::vector<std::shared_ptr<Request>> receives;
  for (unsigned i = 0; i < kCount; ++i) {
    out.push_back(pattern(kBytes, i * 2 + static_cast<unsigned>(world.rank())));
    sends.push_back(world.isend(out[i].data(), kBytes, peer, {}));
    receives.push_back(world.irecv(in[i].data(), kBytes, peer, {}));
  }
  if (world.rank() == 0) std::ranges::reverse(sends);
  if (world.rank() == 1) std::ranges::reverse(receives);
  for (std::size_t i = 0; i < kCount; ++i) {
    CHECK(world.wait(receives[i]) == Status::ok);
    CHECK(world.wait(sends[i]) == Status::ok);
  }
  for (unsigned i = 0; i < kCount; ++i) CHECK(in[i] == pattern(kBytes, i * 2 + static_cast<unsigned>(peer)));
}

RULE(more_sends_than_places_are_under_way, 2, host()) {
  constexpr int kCount = 150;  // tag_receives is 64
  constexpr std::size_t kBytes = 20000;
  const Bytes out = pattern(kBytes, 3);
  if (world.rank() == 0) {
    std::vector<std::shared_ptr<Request>> sends;
    for (int i = 0; i < kCount; ++i) sends.push_back(world.isend(out.data(), kBytes, 1, {}));
    for (const auto& send : sends) CHECK(world.wait(send) == Status::ok);
  } else {
    for (int i = 0; i < kCount; ++i) {
      Bytes in(kBytes);
      CHECK(world.recv(in.data(), kBytes, 0, {}) == Status::ok);
      CHECK(in == out);
    }
  }
}

RULE(test_alone_completes_both_sides, 2, host()) {
  exchange_posted(world, [&](const auto& send, const auto& receive) {
    const Deadline deadline(kSoonS);
    while (world.test(send) == Status::pending || world.test(receive) == Status::pending) CHECK(!deadline.passed());
    CHECK(world.test(send) == Status::ok && world.test(receive) == Status::ok);
  });
}

void exchange_on(World& world, int lane) {
  const int peer = 1 - world.rank();
  const std::size_t bytes = kSizes.at(kSizes.size() - 2 - static_cast<std::size_t>(lane));
  for (unsigned round = 0; round < 10; ++round) {
    const Bytes out = pattern(bytes, round * 8 + static_cast<unsigned>(lane * 2 + world.rank()));
    Bytes in(bytes);
    const auto receive = world.irecv(in.data(), bytes, peer, {lane, Path::automatic});
    CHECK(world.wait(world.isend(out.data(), bytes, peer, {lane, Path::automatic})) == Status::ok);
    CHECK(world.wait(receive) == Status::ok);
    CHECK(in == pattern(bytes, round * 8 + static_cast<unsigned>(lane * 2 + peer)));
  }
}

RULE(threads_exchange_on_lanes_of_their_own, 2, host()) {
  constexpr int kThreads = 4;
  std::vector<std::string> errors(kThreads);
  std::vector<std::thread> threads;
  for (int lane = 0; lane < kThreads; ++lane) {
    threads.emplace_back([&world, lane, &error = errors[static_cast<std::size_t>(lane)]] {
      try {
        exchange_on(world, lane);
      } catch (const std::exception& thrown) {
        error = thrown.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) require(error.empty(), error);
}

RULE(a_ring_of_more_ranks_than_cores_turns, 5, host()) {
  constexpr std::size_t kBytes = 400000;
  const int next = (world.rank() + 1) % world.size();
  const int last = (world.rank() + world.size() - 1) % world.size();
  for (unsigned round = 0; round < 5; ++round) {
    const Bytes out = pattern(kBytes, round * 8 + static_cast<unsigned>(world.rank()));
    Bytes in(kBytes);
    const auto receive = world.irecv(in.data(), kBytes, last, {});
    CHECK(world.send(out.data(), kBytes, next, {}) == Status::ok);
    CHECK(world.wait(receive) == Status::ok);
    CHECK(in == pattern(kBytes, round * 8 + static_cast<unsigned>(last)));
  }
}

RULE(posting_everything_first_never_deadlocks, 2, host()) {
  constexpr std::size_t kWindow = 60;
  const int peer = 1 - world.rank();
  for (const std::size_t bytes : {std::size_t{256}, std::size_t{4096}, std::size_t{20000}}) {
    const Bytes out = pattern(bytes, static_cast<unsigned>(world.rank()));
    std::vector<Bytes> in(kWindow, Bytes(20000));
    std::vector<std::shared_ptr<Request>> requests;
    for (Bytes& buffer : in) requests.push_back(world.irecv(buffer.data(), buffer.size(), peer, {}));
    world.barrier();
    for (std::size_t i = 0; i < kWindow; ++i) requests.push_back(world.isend(out.data(), bytes, peer, {}));
    world.barrier();
    for (std::size_t i = requests.size(); i-- > 0;) CHECK(world.wait(requests[i]) == Status::ok);
    const Bytes expected = pattern(bytes, static_cast<unsigned>(peer));
    for (const Bytes& buffer : in) CHECK(std::equal(expected.begin(), expected.end(), buffer.begin()));
    for (std::size_t i = 0; i < kWindow; ++i) CHECK(world.received(requests[i]) == bytes);
  }
}

RULE(plain_and_shareable_memory_mix, 2, host()) {
  const int peer = 1 - world.rank();
  TestBuffer shared(world, kSizes.back());
  for (const std::size_t bytes : kSizes) {
    Bytes plain = pattern(bytes, seed_of(bytes, 0));
    if (world.rank() == 0) {
      CHECK(world.send(plain.data(), bytes, peer, {}) == Status::ok);  // plain to shareable
      std::ranges::fill(plain, 0);
      CHECK(world.wait(world.irecv(plain.data(), bytes, peer, {})) == Status::ok);  // and back
      CHECK(plain == pattern(bytes, seed_of(bytes, 0)));
    } else {
      CHECK(world.wait(world.irecv(shared.data(), bytes, peer, {})) == Status::ok);
      CHECK(world.wait(world.isend(shared.data(), bytes, peer, {})) == Status::ok);
    }
  }
}

RULE(every_forced_path_meets_an_automatic_one, 2, host()) {
  constexpr std::size_t kBytes = 300001;
  const int peer = 1 - world.rank();
  const std::vector<Path> paths = {Path::automatic, Path::store, Path::load, Path::copy, Path::stage};
  unsigned seed = 0;
  for (const Path sends : paths) {
    for (const Path receives : paths) {
      const Bytes out = pattern(kBytes, ++seed * 2 + static_cast<unsigned>(world.rank()));
      Bytes in(kBytes);
      const auto receive = world.irecv(in.data(), kBytes, peer, {1, receives});
      const auto send = world.isend(out.data(), kBytes, peer, {1, sends});
      CHECK(world.wait(receive) == Status::ok);
      CHECK(world.wait(send) == Status::ok);
      CHECK(in == pattern(kBytes, seed * 2 + static_cast<unsigned>(peer)));
      Bytes ordered(kBytes);
      if (world.rank() == 0) CHECK(world.send(out.data(), kBytes, peer, {1, sends}) == Status::ok);
      if (world.rank() == 1) CHECK(world.recv(ordered.data(), kBytes, peer, {1, receives}) == Status::ok);
      if (world.rank() == 1) CHECK(ordered == pattern(kBytes, seed * 2));
    }
  }
}

RULE(captured_messages_of_plain_memory_replay, 2, host()) {
  constexpr std::size_t kBytes = 200000;
  const int peer = 1 - world.rank();
  const OwnStream stream(world);
  Bytes out(kBytes);
  Bytes in(kBytes);
  Bytes ordered(kBytes);
  world.device().begin_capture(stream);
  const auto send = world.isend(out.data(), kBytes, peer, {}, stream);
  const auto receive = world.irecv(in.data(), kBytes, peer, {}, stream);
  world.wait(receive, stream);
  world.wait(send, stream);
  if (world.rank() == 0) world.send(out.data(), kBytes, peer, {}, stream);
  if (world.rank() == 1) world.recv(ordered.data(), kBytes, peer, {}, stream);
  const auto graph = world.device().end_capture(stream);
  for (unsigned round = 0; round < 10; ++round) {
    std::ranges::copy(pattern(kBytes, round * 2 + static_cast<unsigned>(world.rank())), out.begin());
    world.device().launch(graph, stream);
    world.synchronize(stream);
    CHECK(in == pattern(kBytes, round * 2 + static_cast<unsigned>(peer)));
    if (world.rank() == 1) CHECK(ordered == in);
    if (round % 3 == 0) check_the_lane_works(world, 0);
  }
}

// --- statuses and reports ---

RULE(a_message_that_does_not_fit_is_truncated_on_both_sides, 2, host()) {
  Bytes data(300000);
  for (const bool posted : {false, true}) {
    if (world.rank() == 0) {
      const auto sent = posted ? world.wait(world.isend(data.data(), data.size(), 1, {4, Path::automatic}))
                               : world.send(data.data(), data.size(), 1, {4, Path::automatic});
      CHECK(sent == Status::truncated);
    } else {
      CHECK(world.recv(data.data(), 200000, 0, {4, Path::automatic}) == Status::truncated);
    }
    const FaultReport fault = one_fault(world);
    CHECK(fault.status == Status::truncated && fault.tag == 4 && fault.peer == 1 - world.rank());
    check_the_lane_works(world, 4);
  }
}

PROCESS_RULE(what_is_copied_once_is_told, 2, host()) {
  check_the_lane_works(world, 0);
  CHECK(world.describe().find("copied once (cross-memory attach)") != std::string::npos);
}

// --- errors ---

PROCESS_RULE(a_source_freed_too_early_is_an_error_on_both_sides, 2, host()) {
  constexpr std::size_t kBytes = 1 << 20;
  if (world.rank() == 0) {
    Pages source(kBytes);
    const auto request = world.isend(source.data(), kBytes, 1, {6, Path::automatic});
    source.unmap();
    world.barrier();
    world.barrier();
    CHECK(world.wait(request) == Status::unmapped);
  } else {
    Bytes in(kBytes);
    world.barrier();
    CHECK(world.recv(in.data(), kBytes, 0, {6, Path::automatic}) == Status::unmapped);
    world.barrier();
  }
  const FaultReport fault = one_fault(world);
  CHECK(fault.status == Status::unmapped && fault.tag == 6 && fault.peer == 1 - world.rank());
  CHECK(describe(fault).find("was freed") != std::string::npos);
  check_the_lane_works(world, 6);
}

PROCESS_RULE(a_destination_freed_too_early_is_an_error_on_both_sides, 2, host()) {
  constexpr std::size_t kBytes = 1 << 20;
  if (world.rank() == 0) {
    const Bytes out = pattern(kBytes, 9);
    world.barrier();
    CHECK(world.wait(world.isend(out.data(), kBytes, 1, {6, Path::automatic})) == Status::unmapped);
    world.barrier();
  } else {
    Pages destination(kBytes);
    const auto request = world.irecv(destination.data(), kBytes, 0, {6, Path::automatic});
    destination.unmap();
    world.barrier();
    world.barrier();
    CHECK(world.wait(request) == Status::unmapped);
  }
  const FaultReport fault = one_fault(world);
  CHECK(fault.status == Status::unmapped && fault.tag == 6 && fault.peer == 1 - world.rank());
  check_the_lane_works(world, 6);
}

// While its ring has room a small message waits there, and the receiver writes; then the sender places it itself.
PROCESS_RULE(a_small_message_placed_into_freed_memory_is_an_error_on_both_sides, 2, host()) {
  constexpr std::size_t kBytes = 4096;
  constexpr std::size_t kWhole = 10;  // more than the ring holds
  constexpr std::size_t kAll = 14;
  const Bytes out = pattern(kBytes, 9);
  std::vector<std::shared_ptr<Request>> requests;
  if (world.rank() == 0) {
    world.barrier();
    for (std::size_t i = 0; i < kAll; ++i) requests.push_back(world.isend(out.data(), kBytes, 1, {6, Path::automatic}));
    world.barrier();
  } else {
    std::vector<std::unique_ptr<Pages>> pages;
    for (std::size_t i = 0; i < kAll; ++i) {
      pages.push_back(std::make_unique<Pages>(kBytes));
      requests.push_back(world.irecv(pages.back()->data(), kBytes, 0, {6, Path::automatic}));
    }
    for (std::size_t i = kWhole; i < kAll; ++i) pages[i]->unmap();
    world.barrier();
    world.barrier();
    for (std::size_t i = 0; i < kWhole; ++i) {
      CHECK(world.wait(requests[i]) == Status::ok);
      CHECK(std::memcmp(pages[i]->data(), out.data(), kBytes) == 0);
    }
  }
  for (std::size_t i = 0; i < kAll; ++i) CHECK(world.wait(requests[i]) == (i < kWhole ? Status::ok : Status::unmapped));
  CHECK(world.take_faults().size() == kAll - kWhole);
  check_the_lane_works(world, 6);
}

void a_peer_dies_under_way(World& world) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  Bytes data(kBytes, world.rank() == 0 ? 1 : 0);
  if (world.rank() == 1) {
    const auto request = world.irecv(data.data(), kBytes, 0, {3, Path::automatic});
    world.barrier();
    const volatile unsigned char* part = data.data() + kBytes / 8;
    const Deadline deadline(kSoonS);
    while (*part == 0 && !deadline.passed()) std::this_thread::yield();
    ::raise(SIGKILL);
  }
  world.barrier();
  const std::uint64_t start_ns = now_ns();
  CHECK(world.wait(world.isend(data.data(), kBytes, 1, {3, Path::automatic})) == Status::aborted);
  CHECK(ended_at_once(start_ns));
  const auto failure = world.failure();
  CHECK(failure && failure->reason.find("rank 1") != std::string::npos);
  CHECK(failure->story.find("send of 67108864 B to rank 1 with tag 3") != std::string::npos);
}
const RuleRegistration rule_of_death("a_peer_dies_under_way", Rule{2, host(), a_peer_dies_under_way});
CASE(a_death_under_way_is_the_usual_failure) { between_processes("a_peer_dies_under_way", {0, 128 + SIGKILL}); }

void a_sender_dies_before_its_receive(World& world) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;  // takes longer to copy than to die
  Bytes data(kBytes, 1);
  if (world.rank() == 1) {
    const auto request = world.isend(data.data(), kBytes, 0, {3, Path::automatic});
    ::raise(SIGKILL);
  }
  const std::uint64_t start_ns = now_ns();
  try {
    CHECK(world.recv(data.data(), kBytes, 1, {3, Path::automatic}) == Status::aborted);
  } catch (const Error& error) {  // the news came first
    CHECK(std::string(error.what()).find("rank 1 (pid") != std::string::npos);
  }
  CHECK(ended_at_once(start_ns));
  const Deadline deadline(kSoonS);
  while (!world.failure() && !deadline.passed()) std::this_thread::yield();
  CHECK(world.failure() && world.failure()->reason.find("rank 1") != std::string::npos);
}
const RuleRegistration rule_of_early_death("a_sender_dies_before_its_receive",
                                           Rule{2, host(), a_sender_dies_before_its_receive});
CASE(a_death_before_the_receive_is_the_usual_failure) {
  between_processes("a_sender_dies_before_its_receive", {0, 128 + SIGKILL});
}

// The waits for a message let go of its bounce buffer once, or two later messages would share it.
PROCESS_RULE(two_threads_that_wait_for_one_send_give_its_bounce_buffer_back_once, 2, host()) {
  constexpr std::size_t kBytes = 16384;
  constexpr int kRounds = 500;
  constexpr int kLater = 24;
  if (world.rank() == 0) {
    const Bytes data(kBytes, 99);
    for (int round = 0; round < kRounds; ++round) {
      const auto sent = world.isend(data.data(), kBytes, 1, {});
      std::atomic<bool> begun = false;
      std::thread other([&] {
        begun = true;
        CHECK(world.wait(sent) == Status::ok);
      });
      while (!begun) std::this_thread::yield();
      CHECK(world.wait(sent) == Status::ok);
      other.join();
    }
    world.barrier();
    std::vector<Bytes> later;
    std::vector<std::shared_ptr<Request>> requests;
    for (int i = 0; i < kLater; ++i) later.emplace_back(kBytes, static_cast<unsigned char>(i));
    for (const Bytes& one : later) requests.push_back(world.isend(one.data(), kBytes, 1, {}));
    world.barrier();
    for (const auto& request : requests) CHECK(world.wait(request) == Status::ok);
  } else {
    Bytes got(kBytes);
    for (int round = 0; round < kRounds; ++round) CHECK(world.recv(got.data(), kBytes, 0, {}) == Status::ok);
    world.barrier();
    world.barrier();
    for (int i = 0; i < kLater; ++i) {
      CHECK(world.recv(got.data(), kBytes, 0, {}) == Status::ok);
      CHECK(got == Bytes(kBytes, static_cast<unsigned char>(i)));
    }
  }
}

Parameters hasty() {
  Parameters parameters = host();
  parameters.timeout_s = 1.5;
  return parameters;
}

PROCESS_RULE(a_receive_that_never_comes_ends_at_the_deadline, 2, hasty()) {
  Bytes data(1 << 20);
  if (world.rank() == 0) {
    CHECK(world.wait(world.isend(data.data(), data.size(), 1, {2, Path::automatic})) == Status::timeout);
    CHECK(world.failure()->story.find("send of 1048576 B to rank 1 with tag 2 passed its deadline") !=
          std::string::npos);
  } else {
    const Deadline deadline(kSoonS);
    while (!world.failure() && !deadline.passed()) std::this_thread::yield();
    CHECK(world.failure().has_value());
  }
}

}  // namespace

int main(int argc, char** argv) { return run_rules(argc, argv); }
