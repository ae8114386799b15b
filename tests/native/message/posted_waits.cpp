// Waits for requests whose op has not run yet, from several threads, outside their capture; and calls that fail
// half-way.
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <stop_token>
#include <thread>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/transport/fabric.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

// Work of a stream that lasts until told, or for longer than any deadline here.
class Gate {
 public:
  Gate(World& world, Stream stream) { world.device().call(&Gate::stand, this, stream); }
  void open() { open_ = true; }

 private:
  static void stand(void* gate) {
    const Deadline deadline(kSoonS);
    while (!static_cast<Gate*>(gate)->open_ && !deadline.passed()) std::this_thread::yield();
  }
  std::atomic<bool> open_ = false;
};

Parameters hasty(const std::string& device) {
  Parameters parameters = quick(device);
  parameters.timeout_s = 1.5;
  parameters.log = "off";
  return parameters;
}

void on_hasty_devices(int size, const std::function<void(World&)>& body) {
  for (const std::string& device : device_specs()) run_ranks(size, hasty(device), body);
}

constexpr const char* kStands = "which a stream of its own has not come to, passed its deadline";

}  // namespace

CASE(a_wait_on_a_stream_for_a_receive_that_has_not_run_fails_the_world_at_the_deadline) {
  on_hasty_devices(1, [](World& world) {
    const OwnStream busy(world);
    const OwnStream waiting(world);
    TestBuffer buffer(world, 64);
    Gate gate(world, busy);
    const auto request = world.irecv(buffer.data(), 64, 0, {}, busy);
    world.wait(request, waiting);
    CHECK_THROWS(world.synchronize(waiting), kStands);
    CHECK_THROWS(world.synchronize(waiting), "look at what is before that recv on the stream of rank 0");
    gate.open();
    world.device().synchronize(busy);
  });
}

CASE(a_wait_by_the_host_for_an_op_that_has_not_run_fails_the_world_at_the_deadline) {
  on_hasty_devices(1, [](World& world) {
    const OwnStream busy(world);
    TestBuffer buffer(world, 1 << 20);
    Gate gate(world, busy);
    const auto sent = world.isend(buffer.data(), 1 << 20, 0, {}, busy);
    CHECK(world.wait(sent) == Status::timeout);
    CHECK(world.failure() &&
          world.failure()->story.find("wait for a send to rank 0 with tag 0, which") != std::string::npos);
    gate.open();
    world.device().synchronize(busy);
  });
}

// The peer has left, and its earlier message is there.
CASE(test_does_not_wait_for_a_stream_that_has_not_come_to_the_receive) {
  on_hasty_devices(2, [](World& world) {
    TestBuffer buffer(world, 64);
    if (world.rank() == 1) {
      buffer.write(pattern(64, 5));
      CHECK(world.send(buffer.data(), 64, 0, {}) == Status::ok);
      return;
    }
    const OwnStream busy(world);
    Gate gate(world, busy);
    const auto request = world.irecv(buffer.data(), 64, 1, {}, busy);
    const Deadline deadline(kSoonS);
    while (!world.fabric()->has_left(1) && !deadline.passed()) std::this_thread::yield();
    for (int i = 0; i < 3; ++i) CHECK(world.test(request) == Status::pending);
    gate.open();
    world.device().synchronize(busy);
    CHECK(world.test(request) == Status::ok);
    CHECK(buffer.read() == pattern(64, 5));
  });
}

CASE(a_request_of_a_graph_is_waited_for_inside_the_capture_also_on_its_stream) {
  on_all_devices(1, [](World& world) {
    const OwnStream own(world);
    TestBuffer buffer(world, 64);
    world.device().begin_capture(own);
    const auto request = world.irecv(buffer.data(), 64, 0, {}, own);
    const auto graph = world.device().end_capture(own);
    CHECK_THROWS(world.wait(request, own), "this stream is not being captured; wait for it inside the capture");
  });
}

// Python lets other threads run during a wait, so nothing keeps two from waiting for one request.
CASE(several_threads_may_wait_for_one_request) {
  on_all_devices(2, [](World& world) {
    constexpr int kRounds = 200;
    constexpr std::size_t kBytes = 16384;
    const OwnStream own(world);
    std::vector<unsigned char> data = pattern(kBytes, static_cast<unsigned>(world.rank()));
    const int peer = 1 - world.rank();
    for (int round = 0; round < kRounds; ++round) {
      std::vector<unsigned char> got(kBytes);
      const auto arriving = world.irecv(got.data(), kBytes, peer, {});
      const auto sent = world.isend(data.data(), kBytes, peer, {});
      std::thread other([&] {
        CHECK(world.wait(arriving) == Status::ok);
        while (world.test(sent) == Status::pending) std::this_thread::yield();
      });
      CHECK(world.wait(sent) == Status::ok);
      CHECK(world.wait(arriving) == Status::ok);
      other.join();
      CHECK(got == pattern(kBytes, static_cast<unsigned>(peer)));
    }
    world.barrier();
  });
}

namespace {

// No new descriptor can be had while it lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    CHECK(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const int next = ::dup(0);
    ::close(next);
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(next);
    CHECK(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  ~NoDescriptors() { (void)::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace

// The host device's memory for more tickets is a file.
CASE(a_sendrecv_that_gets_no_second_ticket_has_posted_nothing) {
  run_ranks(1, quick("host"), [](World& world) {
    std::array<int, 1023> sink{};
    std::vector<std::shared_ptr<Request>> held;  // all tickets but one
    for (std::size_t i = 0; i < sink.size(); ++i) {
      held.push_back(world.irecv(&sink[i], sizeof(int), 0, {static_cast<int>(1 + i / 60), Path::automatic}));
    }
    int a = 111;
    int b = -1;
    {
      const NoDescriptors limit;
      CHECK_THROWS((void)world.isendrecv({&a, sizeof a, 0, {}}, {&b, sizeof b, 0, {}}), "");
    }
    int c = 222;
    int d = -1;
    CHECK(world.sendrecv({&c, sizeof c, 0, {}}, {&d, sizeof d, 0, {}}, nullptr) == Status::ok);
    CHECK(d == 222);
    CHECK(b == -1);
    for (std::size_t i = 0; i < sink.size(); ++i) {
      CHECK(world.send(&a, sizeof a, 0, {static_cast<int>(1 + i / 60), Path::automatic}) == Status::ok);
    }
    for (const auto& request : held) CHECK(world.wait(request) == Status::ok);
  });
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)  // those need room for addresses
// A stream of the host device is a thread, and that one cannot be started.
CASE(a_receive_whose_launch_fails_takes_no_place_of_its_lane) {
  Parameters parameters = quick("host");
  parameters.tag_receives = 4;
  run_ranks(1, parameters, [](World& world) {
    int in = -1;
    int out = 5;
    rlimit before{};
    CHECK(::getrlimit(RLIMIT_AS, &before) == 0);
    std::vector<std::jthread> holders(16);  // of stacks that ended threads have left for new ones
    for (auto& holder : holders) {
      holder = std::jthread([](const std::stop_token& over) {
        while (!over.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
    }
    for (int i = 0; i < 6; ++i) {
      const OwnStream own(world);
      std::ifstream sizes("/proc/self/statm");
      unsigned long pages = 0;
      sizes >> pages;
      rlimit none = before;
      none.rlim_cur = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
      CHECK(::setrlimit(RLIMIT_AS, &none) == 0);
      std::string told = "nothing";
      try {
        (void)world.irecv(&in, sizeof in, 0, {}, own);
      } catch (const Error& error) {
        told = error.what();
      }
      CHECK(::setrlimit(RLIMIT_AS, &before) == 0);
      CHECK(told.find("cannot start the thread of a host stream") != std::string::npos);
    }
    holders.clear();
    const auto request = world.irecv(&in, sizeof in, 0, {});
    CHECK(world.send(&out, sizeof out, 0, {}) == Status::ok);
    CHECK(world.wait(request) == Status::ok);
    CHECK(in == 5);
  });
}
#endif

int main(int argc, char** argv) { return run(argc, argv); }
