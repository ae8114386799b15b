// Messages in graphs, on every device: replays mixed with eager calls, requests, and what the host may not ask.
#include "onstream/message/message.hpp"

#include "check.hpp"
#include "own_stream.hpp"
#include "ranks.hpp"

using namespace onstream;
using namespace onstream::test;

CASE(captured_messages_replay_mixed_with_eager_ones) {
  on_all_devices(2, [](World& world) {
    const OwnStream own(world);
    const int peer = 1 - world.rank();
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{100000}}) {
      TestBuffer buffer(world, bytes);
      const auto ping_pong = [&] {
        if (world.rank() == 0) {
          world.send(buffer.data(), bytes, peer, {}, own);
          world.recv(buffer.data(), bytes, peer, {}, own);
        } else {
          world.recv(buffer.data(), bytes, peer, {}, own);
          world.send(buffer.data(), bytes, peer, {}, own);
        }
      };
      world.device().begin_capture(own);
      for (int i = 0; i < 3; ++i) ping_pong();
      const auto graph = world.device().end_capture(own);
      for (unsigned round = 0; round < 20; ++round) {
        if (world.rank() == 0) buffer.write(pattern(bytes, round));
        if (round % 3 == 1) {
          ping_pong();
        } else {
          world.device().launch(graph, own);
        }
        world.synchronize(own);
        CHECK(buffer.read() == pattern(bytes, round));
      }
    }
  });
}

CASE(captured_requests_replay) {
  on_all_devices(2, [](World& world) {
    const OwnStream own(world);
    const int peer = 1 - world.rank();
    TestBuffer out(world, 20000);
    TestBuffer in(world, 20000);
    world.device().begin_capture(own);
    const auto sent = world.isend(out.data(), 20000, peer, {}, own);
    const auto got = world.irecv(in.data(), 20000, peer, {}, own);
    world.wait(got, own);
    world.wait(sent, own);
    const auto graph = world.device().end_capture(own);
    for (unsigned round = 0; round < 10; ++round) {
      out.write(pattern(20000, round * 2 + static_cast<unsigned>(world.rank())));
      world.device().launch(graph, own);
      world.synchronize(own);
      CHECK(in.read() == pattern(20000, round * 2 + static_cast<unsigned>(peer)));
    }
  });
}

CASE(a_captured_wait_on_another_branch_follows_its_op) {
  on_all_devices(2, [](World& world) {
    constexpr std::size_t kBytes = 100000;
    const OwnStream own(world);
    const OwnStream branch(world);
    const int peer = 1 - world.rank();
    TestBuffer out(world, kBytes);
    TestBuffer in(world, kBytes);
    TestBuffer copy(world, kBytes);
    Device& device = world.device();
    device.begin_capture(own);
    device.wait(branch, device.record(own));  // before the ops: nothing else orders the waits behind them
    const auto got = world.irecv(in.data(), kBytes, peer, {}, own);
    const auto sent = world.isend(out.data(), kBytes, peer, {}, own);
    world.wait(got, branch);
    device.copy(copy.data(), in.data(), kBytes, branch);
    world.wait(sent, branch);
    device.wait(own, device.record(branch));
    const auto graph = device.end_capture(own);
    for (unsigned round = 0; round < 20; ++round) {
      out.write(pattern(kBytes, round * 2 + static_cast<unsigned>(world.rank())));
      device.launch(graph, own);
      world.synchronize(own);
      CHECK(copy.read() == pattern(kBytes, round * 2 + static_cast<unsigned>(peer)));
    }
    CHECK_THROWS(world.wait(got, branch), "is part of a graph, and this stream is not being captured");
    world.barrier();
  });
}

CASE(a_captured_request_is_not_waited_for_by_the_host) {
  on_all_devices(1, [](World& world) {
    const OwnStream own(world);
    TestBuffer buffer(world, 64);
    world.device().begin_capture(own);
    const auto request = world.isend(buffer.data(), 64, 0, {}, own);
    const auto graph = world.device().end_capture(own);
    CHECK_THROWS((void)world.wait(request), "part of a graph");
    CHECK_THROWS((void)world.test(request), "part of a graph");
  });
}

int main(int argc, char** argv) { return run(argc, argv); }
