// Requests: what an op that is posted holds, and when it gives that back.
#include "onstream/message/request.hpp"

#include <memory>
#include <thread>
#include <vector>

#include "check.hpp"
#include "onstream/base/clock.hpp"
#include "onstream/device/disposal.hpp"
#include "own_stream.hpp"
#include "ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

// Tickets are taken from where they were given back last, so the same one comes again if nothing keeps it.
const void* ticket_of(const std::shared_ptr<Request>& request) { return request->slot.ticket.status; }

}  // namespace

CASE(a_receive_that_is_refused_keeps_no_ticket) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.lane_receives = 1;
    run_ranks(1, parameters, [](World& world) {
      TestBuffer buffer(world, 64);
      const auto posted = world.irecv(buffer.data(), 64, 0, {});
      auto sent = world.isend(buffer.data(), 64, 0, {1, Path::automatic});
      CHECK(world.wait(sent) == Status::ok);
      const void* const ticket = ticket_of(sent);
      sent.reset();
      for (int i = 0; i < 3; ++i) CHECK_THROWS((void)world.irecv(buffer.data(), 64, 0, {}), "are posted on lane 0");
      const auto next = world.isend(buffer.data(), 64, 0, {});
      CHECK(ticket_of(next) == ticket);
      CHECK(world.wait(posted) == Status::ok);
    });
  }
}

CASE(a_graph_that_is_never_launched_keeps_no_ticket) {
  on_all_devices(1, [](World& world) {
    OwnStream own(world);
    TestBuffer buffer(world, 64);
    world.device().begin_capture(own);
    auto request = world.irecv(buffer.data(), 64, 0, {}, own);
    world.wait(request, own);
    auto graph = world.device().end_capture(own);
    const void* const ticket = ticket_of(request);
    const std::weak_ptr<Request> gone = request;
    request.reset();
    graph.reset();
    const Deadline deadline(5);
    while (!gone.expired() && !deadline.passed()) std::this_thread::yield();
    CHECK(gone.expired());
    CHECK(Disposal::of_process().finish(5));
    const auto next = world.isend(buffer.data(), 64, 0, {});
    CHECK(ticket_of(next) == ticket);
  });
}

CASE(messages_that_cannot_all_be_posted_are_none_of_them) {
  on_all_devices(2, [](World& world) {
    OwnStream own(world);
    TestBuffer buffer(world, 300000);
    if (world.rank() == 0) {
      const std::vector<Outgoing> messages = {
          {buffer.data(), 300000, 1, {}}, {buffer.data(), 64, 1, {}}, {buffer.data(), 64, 1, {99, Path::automatic}}};
      CHECK_THROWS((void)world.isend_all(messages, own), "lane 99 does not exist");
      world.send(buffer.data(), 8, 1, {}, own);
      world.synchronize(own);
    } else {
      std::size_t received = 0;
      CHECK(world.recv(buffer.data(), 300000, 0, {}, &received) == Status::ok);
      CHECK(received == 8);
    }
    world.barrier();
  });
}

int main(int argc, char** argv) { return run(argc, argv); }
