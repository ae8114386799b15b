// Messages between plain memory on the host device through bounce buffers, as where the system forbids cross-memory
// attach, and the log lines about it.
#include <array>
#include <thread>

#include "plain_memory_rules.hpp"
#include "support/own_stream.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

Parameters without_attach() {
  Parameters parameters = host();
  parameters.attach = "off";
  return parameters;
}

RULE(every_size_arrives_through_bounce_buffers, 2, without_attach()) { ping_pong(world); }

// A stream's wait settles the request before the stream has copied.
RULE(a_host_that_waits_for_what_a_stream_takes_finds_it, 2, without_attach()) {
  const Bytes sent = pattern(8 << 20, 79);
  const int peer = 1 - world.rank();
  const OwnStream stream(world);
  const OwnStream other(world);
  for (int round = 0; round < 4; ++round) {
    Bytes got(sent.size());
    const auto receive = world.irecv(got.data(), got.size(), peer, {}, stream);
    world.wait(receive, stream);
    world.send(sent.data(), sent.size(), peer, {}, other);
    if (round % 2 == 0) {
      CHECK(world.wait(receive) == Status::ok);
    } else {
      while (world.test(receive) == Status::pending) std::this_thread::yield();
    }
    CHECK(got == sent);
    world.synchronize(stream);
    world.synchronize(other);
  }
}

// The stream waits for both; the host, for its send, only for that.
RULE(a_host_that_waits_for_a_send_does_not_wait_for_its_streams_receives, 2, without_attach()) {
  const Bytes sent = pattern(300000, 80);
  Bytes got(sent.size());
  const int peer = 1 - world.rank();
  if (world.rank() == 0) {
    const OwnStream stream(world);
    const std::array requests = {world.irecv(got.data(), got.size(), peer, {}, stream),
                                 world.isend(sent.data(), sent.size(), peer, {}, stream)};
    world.wait_all(requests, stream);
    CHECK(world.wait(requests[1]) == Status::ok);
    world.barrier();
    world.synchronize(stream);
  } else {
    CHECK(world.recv(got.data(), got.size(), peer, {}) == Status::ok);
    world.barrier();
    CHECK(world.send(sent.data(), sent.size(), peer, {}) == Status::ok);
  }
  CHECK(got == sent);
}

// No stream takes a message out of a bounce buffer again once the host has taken it.
RULE(a_stream_may_wait_for_what_the_host_has_waited_for, 2, without_attach()) {
  const Bytes sent = pattern(300000, 78);
  Bytes got(sent.size());
  const int peer = 1 - world.rank();
  const OwnStream stream(world);
  const auto receive = world.irecv(got.data(), got.size(), peer, {}, stream);
  world.send(sent.data(), sent.size(), peer, {}, stream);
  CHECK(world.wait(receive) == Status::ok);
  CHECK(got == sent);
  std::ranges::fill(got, static_cast<unsigned char>(1));
  world.wait(receive, stream);
  world.synchronize(stream);
  CHECK(got == Bytes(got.size(), 1));
}

PROCESS_RULE(what_cannot_be_copied_once_is_told, 2, without_attach()) {
  check_the_lane_works(world, 0);
  CHECK(world.describe().find("through bounce buffers (parameter attach is off)") != std::string::npos);
}

}  // namespace

int main(int argc, char** argv) { return run_rules(argc, argv); }
