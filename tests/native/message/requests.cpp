// The resources that ops and requests hold, and when they give them back.
#include "onstream/message/request.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"
#include "onstream/device/lifetime/stream_tracker.hpp"
#include "onstream/plan/slots.hpp"
#include "onstream/transport/copy_thread.hpp"
#include "support/check.hpp"
#include "support/device_around.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

// Tickets are taken from where they were given back last, so the same one comes again if nothing keeps it.
const void* ticket_of(const std::shared_ptr<Request>& request) { return request->slot.ticket.status; }

// Between the taking of a point and the return of it.
class SlowToReturn final : public DeviceAround {
 public:
  SlowToReturn(std::shared_ptr<Device> inner, std::function<void()> between)
      : DeviceAround(std::move(inner)), between_(std::move(between)) {}
  std::shared_ptr<Event> point(Stream stream) override {
    auto event = DeviceAround::point(stream);
    between_();
    return event;
  }

 private:
  std::function<void()> between_;
};

}  // namespace

CASE(a_receive_that_is_refused_keeps_no_ticket) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.tag_receives = 1;
    run_ranks(1, parameters, [](World& world) {
      TestBuffer buffer(world, 64);
      const auto posted = world.irecv(buffer.data(), 64, 0, {});
      auto sent = world.isend(buffer.data(), 64, 0, {1, Path::automatic});
      CHECK(world.wait(sent) == Status::ok);
      const void* const ticket = ticket_of(sent);
      sent.reset();
      for (int i = 0; i < 3; ++i) CHECK_THROWS((void)world.irecv(buffer.data(), 64, 0, {}), "are posted with tag 0");
      const auto next = world.isend(buffer.data(), 64, 0, {});
      CHECK(ticket_of(next) == ticket);
      CHECK(world.wait(posted) == Status::ok);
      CHECK(world.wait(next) == Status::ok);  // the buffer must live until then
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
    const Deadline deadline(kSoonS);
    while (!gone.expired() && !deadline.passed()) std::this_thread::yield();
    CHECK(gone.expired());
    CHECK(DeferredRelease::of_process().finish(kSoonS));
    const auto next = world.isend(buffer.data(), 64, 0, {});
    CHECK(ticket_of(next) == ticket);
    CHECK(world.wait(next) == Status::ok);  // the buffer must live until then
  });
}

CASE(messages_that_cannot_all_be_posted_are_none_of_them) {
  on_all_devices(2, [](World& world) {
    OwnStream own(world);
    TestBuffer buffer(world, 300000);
    if (world.rank() == 0) {
      const std::vector<Outgoing> messages = {
          {buffer.data(), 300000, 1, {}}, {buffer.data(), 64, 1, {}}, {buffer.data(), 64, 1, {99, Path::automatic}}};
      CHECK_THROWS((void)world.isend_all(messages, own), "tag 99 does not exist");
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

// Lets go of an empty graph that keeps the objects that `capture` retains; waits until `came_back` says so.
void let_a_graph_go(Device& device, Stream stream, const std::function<void()>& capture,
                    const std::function<bool()>& came_back) {
  device.begin_capture(stream);
  capture();
  device.end_capture(stream).reset();
  const Deadline deadline(kSoonS);
  bool back = false;
  while (!back && !deadline.passed()) {
    CHECK(DeferredRelease::of_process().finish(kSoonS));
    back = came_back();
  }
  CHECK(back);
}

CASE(the_slot_of_a_captured_copy_comes_back_with_its_graph) {
  on_all_devices(1, [](World& world) {
    const OwnStream own(world);
    CopyThread copies(world.fabric()->device(), [](const std::string&) {}, [] { return false; });
    const CopySlot* captured = nullptr;
    const auto capture = [&] {
      CopyThread::CopierLease lease = copies.take(0);
      captured = lease.copier().slot;
      lease.give_back(own);
    };
    let_a_graph_go(world.device(), own, capture, [&] {
      CopyThread::CopierLease lease = copies.take(0);
      lease.give_back(own);
      return lease.copier().slot == captured;
    });
    world.synchronize(own);
  });
}

CASE(the_slot_of_a_copy_that_was_not_enqueued_serves_the_next) {
  on_all_devices(1, [](World& world) {
    const OwnStream own(world);
    CopyThread copies(world.fabric()->device(), [](const std::string&) {}, [] { return false; });
    const CopySlot* first = nullptr;
    for (int i = 0; i < 3; ++i) {
      const CopyThread::CopierLease lease = copies.take(0);  // and the launch throws
      if (first == nullptr) first = lease.copier().slot;
      CHECK(lease.copier().slot == first);
    }
    CopyThread::CopierLease enqueued = copies.take(0);
    CHECK(enqueued.copier().slot == first);
    enqueued.give_back(own);
    world.synchronize(own);
  });
}

CASE(the_pulse_of_a_captured_launch_comes_back_with_its_graph) {
  on_all_devices(1, [](World& world) {
    const OwnStream own(world);
    const std::shared_ptr<Device> device = world.fabric()->device();
    const auto memory = world.allocate(64, MemoryKind::pinned);
    auto* const word = reinterpret_cast<std::uint32_t*>(memory->data());
    plan::PlanWords words;
    words.receive(word, word + 1, {});
    const auto slots = std::make_shared<plan::Slots>(device, *world.fabric()->streams(), world.fabric()->watch(), words,
                                                     plan::WorkBetween::kernels);
    const void* captured = nullptr;
    const auto capture = [&] {
      const auto slot = slots->of(own);
      captured = slot->closing.at(0).word;
      using Kept = std::pair<std::shared_ptr<plan::Slots>, std::shared_ptr<const plan::PlanSlot>>;
      device->retain(own, std::make_shared<const Kept>(slots, slot));
    };
    const OwnStream other(world);
    let_a_graph_go(*device, own, capture, [&] {
      device->begin_capture(other);
      const void* const pulse = slots->of(other)->closing.at(0).word;
      device->end_capture(other).reset();
      return pulse == captured;
    });
  });
}

CASE(streams_whose_work_is_done_are_forgotten) {
  on_all_devices(1, [](World& world) {
    constexpr std::size_t kStreams = 300;
    StreamTracker uses(world.fabric()->device());
    std::vector<std::unique_ptr<OwnStream>> streams;
    for (std::size_t i = 0; i < kStreams; ++i) {
      streams.push_back(std::make_unique<OwnStream>(world));
      (void)uses.note(*streams.back());
      world.synchronize(*streams.back());
    }
    CHECK(uses.streams() < kStreams / 2);
  });
}

// A past bug: a thread kept its point over that of another, which had gone past it on the stream.
CASE(uses_are_not_done_before_the_newest_op_whichever_thread_kept_its_point_last) {
  on_all_devices(1, [](World& world) {
    const OwnStream stream(world);
    std::atomic<bool> taken = false;
    std::atomic<bool> kept = false;
    std::atomic<bool> open = false;
    const auto await = [](const std::atomic<bool>& flag) {
      const Deadline deadline(kSoonS);
      while (!flag && !deadline.passed()) std::this_thread::yield();
    };
    const auto device = std::make_shared<SlowToReturn>(world.fabric()->device(), [&] {
      if (!taken.exchange(true)) await(kept);
    });
    StreamTracker uses(device);
    StreamTracker others(device);
    std::thread slow([&] { (void)uses.note(stream, others); });
    await(taken);
    const auto hold = [](void* gate) {
      const Deadline deadline(kSoonS);
      while (!static_cast<std::atomic<bool>*>(gate)->load() && !deadline.passed()) HostGroup::pause(0, 0);
    };
    device->call(hold, &open, stream);
    (void)uses.note(stream, others);
    kept = true;
    slow.join();
    constexpr double kMomentS = 0.02;
    const bool early = uses.done(Deadline(kMomentS));
    const bool others_early = others.done(Deadline(kMomentS));
    open = true;
    CHECK(!early && !others_early);
    CHECK(uses.done(Deadline(kSoonS)) && others.done(Deadline(kSoonS)));
  });
}

int main(int argc, char** argv) { return run(argc, argv); }
