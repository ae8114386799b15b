// The rules of the device contract (device/device.hpp) about capture and replay.
#include <atomic>
#include <memory>
#include <vector>

#include "device_rules.hpp"
#include "onstream/base/clock.hpp"
#include "onstream/base/error.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

constexpr double kPatienceS = 60;

RULE(captured_work_runs_when_launched_and_as_often) {
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  const std::shared_ptr<Memory> copied = device.allocate(8, MemoryKind::device);
  const OwnStream stream(device);
  AddOnce body{words(memory), 5};
  CHECK(!device.capturing(stream));
  device.begin_capture(stream);
  CHECK(device.capturing(stream));
  launch_one(device, body, stream);
  body.value = 1'000'000;  // the graph has the value of the launch
  device.copy(copied->data(), memory->data(), 8, stream);
  const std::shared_ptr<Graph> graph = device.end_capture(stream);
  CHECK(!device.capturing(stream));
  device.synchronize(stream);
  CHECK(read_word(device, memory->data()) == 0);
  for (std::uint64_t replay = 1; replay <= 50; ++replay) {
    device.launch(graph, stream);
    device.synchronize(stream);
    CHECK(read_word(device, copied->data()) == replay * 5);
  }
  for (int replay = 0; replay < 50; ++replay) device.launch(graph, stream);
  launch_one(device, AddOnce{words(memory), 1}, stream);
  device.synchronize(stream);
  CHECK(read_word(device, memory->data()) == 501);
}

RULE(captured_host_functions_run_with_every_replay) {
  const std::shared_ptr<Memory> shown = device.allocate(8, MemoryKind::pinned);
  const OwnStream stream(device);
  Calls calls{words(shown), {}};
  device.begin_capture(stream);
  device.call(&note, &calls, stream);
  launch_one(device, AddOnce{words(shown), 1}, stream);
  const std::shared_ptr<Graph> graph = device.end_capture(stream);
  CHECK(calls.seen.empty());
  for (int replay = 0; replay < 10; ++replay) device.launch(graph, stream);
  device.synchronize(stream);
  CHECK(calls.seen.size() == 10);
  CHECK(counts_from(calls.seen, 0));
}

RULE(a_graph_runs_on_any_stream_and_its_last_owner_may_let_go_at_once) {
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  const OwnStream stream(device);
  const OwnStream other(device);
  device.begin_capture(stream);
  launch_one(device, AddOnce{words(memory), 1}, stream);
  std::shared_ptr<Graph> graph = device.end_capture(stream);
  device.launch(graph, stream);
  device.launch(graph, other);
  graph.reset();
  device.synchronize(stream);
  device.synchronize(other);
  CHECK(read_word(device, memory->data()) == 2);
}

RULE(work_enqueued_before_a_capture_still_runs) {
  const Gate gate(device);
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  const OwnStream stream(device);
  const OwnStream opener(device);
  gate.close_on(stream);
  launch_one(device, AddOnce{words(memory), 1}, stream);
  device.begin_capture(stream);
  launch_one(device, AddOnce{words(memory), 100}, stream);
  const std::shared_ptr<Graph> graph = device.end_capture(stream);
  gate.open_on(opener);
  device.synchronize(stream);
  CHECK(read_word(device, memory->data()) == 1);
  device.launch(graph, stream);
  device.synchronize(stream);
  CHECK(read_word(device, memory->data()) == 101);
}

RULE(an_empty_capture_is_a_graph_that_does_nothing) {
  const OwnStream stream(device);
  device.begin_capture(stream);
  const std::shared_ptr<Graph> graph = device.end_capture(stream);
  device.launch(graph, stream);
  device.synchronize(stream);
  CHECK(device.idle(stream));
}

RULE(a_stream_that_waits_for_a_captured_event_joins_the_capture) {
  const std::shared_ptr<Memory> memory = device.allocate(3 * 8, MemoryKind::device);
  std::uint64_t* out = words(memory);
  const OwnStream stream(device);
  const OwnStream joined(device);
  device.begin_capture(stream);
  launch_one(device, AddOnce{out, 1}, stream);
  device.wait(joined, device.record(stream));
  CHECK(device.capturing(joined));
  device.copy(out + 1, out, 8, joined);
  launch_one(device, AddOnce{out + 2, 1}, stream);
  device.wait(stream, device.record(joined));
  device.copy(out, out + 1, 8, stream);
  const std::shared_ptr<Graph> graph = device.end_capture(stream);
  CHECK(!device.capturing(joined));
  device.synchronize(joined);
  CHECK(read(device, out, 3) == std::vector<std::uint64_t>(3, 0));
  for (int replay = 0; replay < 3; ++replay) device.launch(graph, stream);
  device.synchronize(stream);
  CHECK(read(device, out, 3) == std::vector<std::uint64_t>(3, 3));
}

// Two branches each wait for a word that a branch captured later stores.
RULE(branches_of_a_graph_do_not_wait_for_each_other) {
  const std::shared_ptr<Memory> memory = device.allocate(6 * 8, MemoryKind::device);
  std::uint64_t* const out = words(memory);
  std::uint64_t* const ends = out + 3;
  const OwnStream stream(device);
  const OwnStream left(device);
  const OwnStream right(device);
  device.begin_capture(stream);
  launch_one(device, Fill{out, 3, 0}, stream);  // 0, 1, 2
  const auto begun = device.record(stream);
  device.wait(left, begun);
  device.wait(right, begun);
  launch_one(device, WaitForWord{out, 7, ends}, stream);
  launch_one(device, WaitForWord{out + 1, 7, ends + 1}, left);
  launch_one(device, StoreWord{out, 7}, left);
  launch_one(device, StoreWord{out + 1, 7}, right);
  device.wait(stream, device.record(left));
  device.wait(stream, device.record(right));
  launch_one(device, AddOnce{ends + 2, 1}, stream);
  const std::shared_ptr<Graph> graph = device.end_capture(stream);
  for (std::uint64_t replay = 1; replay <= 3; ++replay) {
    device.launch(graph, stream);
    device.synchronize(stream);
    CHECK(read(device, out, 6) == std::vector<std::uint64_t>({7, 7, 2, 1, 1, replay}));
  }
  for (int replay = 0; replay < 20; ++replay) device.launch(graph, stream);
  device.synchronize(stream);
  CHECK(read(device, out, 6) == std::vector<std::uint64_t>({7, 7, 2, 1, 1, 23}));
}

RULE(a_capture_waits_for_all_that_it_holds) {
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  const OwnStream stream(device);
  const OwnStream joined(device);
  device.begin_capture(stream);
  launch_one(device, AddOnce{words(memory), 1}, stream);
  device.wait(joined, device.record(stream));
  launch_one(device, AddOnce{words(memory), 1}, joined);
  CHECK_THROWS((void)device.end_capture(stream), "unjoined work");
  CHECK(!device.capturing(stream) && !device.capturing(joined));
  launch_one(device, AddOnce{words(memory), 1}, stream);
  launch_one(device, AddOnce{words(memory), 1}, joined);
  device.synchronize(stream);
  device.synchronize(joined);
  CHECK(read_word(device, memory->data()) == 2);
}

RULE(misuse_of_a_capture_is_an_error_and_harms_nothing) {
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  const OwnStream stream(device);
  CHECK_THROWS((void)device.end_capture(stream), "not capturing");
  device.begin_capture(stream);
  launch_one(device, AddOnce{words(memory), 1}, stream);
  CHECK_THROWS(device.begin_capture(stream), "capturing");
  CHECK_THROWS(device.synchronize(stream), "capturing");
  CHECK_THROWS((void)device.idle(stream), "capturing");
  const std::shared_ptr<Graph> graph = device.end_capture(stream);
  CHECK_THROWS((void)device.end_capture(stream), "not capturing");
  CHECK_THROWS(device.begin_capture(Stream{}), "default stream");
  device.launch(graph, stream);
  device.synchronize(stream);
  CHECK(read_word(device, memory->data()) == 1);
}

RULE(a_point_of_a_stream_is_an_event_and_none_inside_a_capture) {
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  const OwnStream stream(device);
  const OwnStream joined(device);
  launch_one(device, AddOnce{words(memory), 1}, stream);
  const std::shared_ptr<Event> before = device.point(stream);
  CHECK(before != nullptr);
  device.begin_capture(stream);
  CHECK(device.point(stream) == nullptr);
  device.wait(joined, device.record(stream));
  CHECK(device.point(joined) == nullptr);
  device.wait(stream, device.record(joined));
  (void)device.end_capture(stream);
  device.wait(joined, before);
  device.synchronize(joined);
  CHECK(before->done());
  CHECK(read_word(device, memory->data()) == 1);
  const std::shared_ptr<Event> after = device.point(stream);
  device.synchronize(stream);
  CHECK(after != nullptr && after->done());
}

RULE(an_event_of_a_capture_is_no_event_of_running_work) {
  const OwnStream stream(device);
  device.begin_capture(stream);
  const std::shared_ptr<Event> event = device.record(stream);
  CHECK_THROWS((void)event->done(), "captur");
  (void)device.end_capture(stream);
  CHECK_THROWS(device.wait(stream, event), "captur");
  device.synchronize(stream);
}

// --- objects that a graph keeps ---

template <class Condition>
bool comes_true(const Condition& condition) {
  const Deadline deadline(kPatienceS);
  while (!condition()) {
    if (deadline.passed()) return false;
    HostGroup::pause(0, 0);
  }
  return true;
}

RULE(a_graph_keeps_what_was_retained_until_it_is_over) {
  const OwnStream stream(device);
  const auto from = device.allocate(64, MemoryKind::pinned);
  const auto to = device.allocate(64, MemoryKind::pinned);
  auto thing = std::make_shared<int>(7);
  const std::weak_ptr<int> seen = thing;
  device.begin_capture(stream);
  device.copy(to->data(), from->data(), 64, stream);
  device.retain(stream, std::move(thing));
  auto graph = device.end_capture(stream);
  for (int i = 0; i < 3; ++i) device.launch(graph, stream);
  device.synchronize(stream);
  CHECK(!seen.expired());
  graph.reset();
  CHECK(comes_true([&] { return seen.expired(); }));
}

RULE(a_capture_that_is_dropped_lets_go_of_what_was_retained) {
  auto thing = std::make_shared<int>(7);
  const std::weak_ptr<int> seen = thing;
  {
    const OwnStream stream(device);
    device.begin_capture(stream);
    device.retain(stream, std::move(thing));
  }
  CHECK(comes_true([&] { return seen.expired(); }));
}

// A retained object may hold an event of the capture, as a request does.
struct OfCapture {
  std::shared_ptr<Event> event;
};

RULE(a_capture_that_fails_lets_go_of_what_was_retained) {
  const OwnStream stream(device);
  const OwnStream joined(device);
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  device.begin_capture(stream);
  launch_one(device, AddOnce{words(memory), 1}, stream);
  auto thing = std::make_shared<OfCapture>(OfCapture{device.record(stream)});
  const std::weak_ptr<OfCapture> seen = thing;
  device.wait(joined, thing->event);
  launch_one(device, AddOnce{words(memory), 1}, joined);
  device.retain(stream, std::move(thing));
  CHECK_THROWS((void)device.end_capture(stream), "unjoined work");
  CHECK(comes_true([&] { return seen.expired(); }));
}

RULE(retain_without_a_capture_is_an_error) {
  const OwnStream stream(device);
  CHECK_THROWS(device.retain(stream, std::make_shared<int>(7)), "not capturing");
}

struct Shutter final : LaunchGuard {
  std::atomic<bool> open = true;
  void check_launch() const override {
    if (!open) fail(ErrorCode::closed, "the shutter is closed");
  }
};

RULE(a_graph_is_launched_as_long_as_its_guards_let_it) {
  const OwnStream stream(device);
  const OwnStream joined(device);
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  auto shutter = std::make_shared<Shutter>();
  const std::weak_ptr<Shutter> seen = shutter;
  device.begin_capture(stream);
  device.wait(joined, device.record(stream));
  launch_one(device, AddOnce{words(memory), 1}, joined);
  for (const Stream one : {Stream(joined), Stream(stream), Stream(joined)}) device.guard(one, shutter);
  device.wait(stream, device.record(joined));
  auto graph = device.end_capture(stream);
  device.begin_capture(stream);  // that guard is not this graph's
  launch_one(device, AddOnce{words(memory), 10}, stream);
  const auto other = device.end_capture(stream);
  device.launch(graph, stream);
  shutter->open = false;
  CHECK_THROWS(device.launch(graph, stream), "the shutter is closed");
  device.launch(other, stream);
  device.synchronize(stream);
  CHECK(read_word(device, memory->data()) == 11);
  shutter->open = true;
  device.launch(graph, joined);
  device.synchronize(joined);
  CHECK(read_word(device, memory->data()) == 12);
  shutter.reset();
  CHECK(!seen.expired());
  graph.reset();
  CHECK(comes_true([&] { return seen.expired(); }));
}

// A device may refuse to capture a launch, as CUDA does.
RULE(a_graph_that_holds_another_has_its_guards_too) {
  const OwnStream stream(device);
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  const auto shutter = std::make_shared<Shutter>();
  device.begin_capture(stream);
  launch_one(device, AddOnce{words(memory), 1}, stream);
  device.guard(stream, shutter);
  const auto inner = device.end_capture(stream);
  device.begin_capture(stream);
  try {
    device.launch(inner, stream);
  } catch (const Error&) {
    return;
  }
  const auto outer = device.end_capture(stream);
  device.launch(outer, stream);
  device.synchronize(stream);
  CHECK(read_word(device, memory->data()) == 1);
  shutter->open = false;
  CHECK_THROWS(device.launch(outer, stream), "the shutter is closed");
}

RULE(a_capture_that_another_stream_cannot_end_keeps_its_guards) {
  const OwnStream stream(device);
  const OwnStream joined(device);
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  const auto shutter = std::make_shared<Shutter>();
  device.begin_capture(stream);
  device.guard(stream, shutter);
  device.wait(joined, device.record(stream));
  launch_one(device, AddOnce{words(memory), 1}, joined);
  device.wait(stream, device.record(joined));
  bool ended_elsewhere = false;
  try {
    (void)device.end_capture(joined);
    ended_elsewhere = true;
  } catch (const Error&) {
  }
  CHECK(!ended_elsewhere);
  std::shared_ptr<Graph> graph;
  try {
    graph = device.end_capture(stream);
  } catch (const Error&) {
    return;  // CUDA has ended the capture at the wrong call
  }
  shutter->open = false;
  CHECK_THROWS(device.launch(graph, stream), "the shutter is closed");
}

RULE(a_capture_that_is_dropped_lets_go_of_its_guards) {
  auto shutter = std::make_shared<Shutter>();
  const std::weak_ptr<Shutter> seen = shutter;
  {
    const OwnStream stream(device);
    device.begin_capture(stream);
    device.guard(stream, std::move(shutter));
  }
  CHECK(comes_true([&] { return seen.expired(); }));
}

RULE(guard_without_a_capture_is_an_error) {
  const OwnStream stream(device);
  CHECK_THROWS(device.guard(stream, std::make_shared<Shutter>()), "not capturing");
}

RULE(a_graph_counts_its_operations) {
  const OwnStream stream(device);
  device.begin_capture(stream);
  CHECK(device.end_capture(stream)->nodes() == 0);
  const auto memory = device.allocate(64, MemoryKind::pinned);
  device.begin_capture(stream);
  device.copy(memory->data(), memory->data() + 32, 32, stream);
  CHECK(device.end_capture(stream)->nodes() == 1);
}

CASE(a_host_capture_whose_stream_is_gone_has_ended_and_let_go) {
  const auto device = open_device("host", 0);
  auto stream = std::make_unique<OwnStream>(*device);
  const OwnStream joined(*device);
  device->begin_capture(*stream);
  auto thing = std::make_shared<OfCapture>(OfCapture{device->record(*stream)});
  const std::weak_ptr<OfCapture> seen = thing;
  device->wait(joined, thing->event);
  device->retain(*stream, std::move(thing));
  stream.reset();
  CHECK(comes_true([&] { return seen.expired(); }));
  CHECK(!device->capturing(joined));
}

// Also where another stream gets the address of one that is gone.
CASE(a_host_capture_waits_for_what_streams_left_in_it) {
  const auto device = open_device("host", 0);
  const std::shared_ptr<Memory> memory = device->allocate(8, MemoryKind::device);
  const OwnStream stream(*device);
  device->begin_capture(stream);
  const auto begun = device->record(stream);
  const auto join_and_add = [&] {
    auto joined = std::make_unique<OwnStream>(*device);
    device->wait(*joined, begun);
    launch_one(*device, AddOnce{words(memory), 1}, *joined);
    return joined;
  };
  join_and_add().reset();
  device->wait(stream, device->record(*join_and_add()));
  CHECK_THROWS((void)device->end_capture(stream), "unjoined work");
}

// The stream's own worker lets go of the graph, which is the last owner of the device that owns the stream.
CASE(a_graph_may_be_the_last_owner_of_the_host_device) {
  auto device = open_device("host", 0);
  const std::weak_ptr<Device> seen = device;
  const Stream stream = device->create_stream();
  const auto memory = device->allocate(64, MemoryKind::pinned);
  device->begin_capture(stream);
  device->copy(memory->data(), memory->data() + 32, 32, stream);
  device->retain(stream, device);
  auto graph = device->end_capture(stream);
  device->launch(graph, stream);
  graph.reset();
  device.reset();
  CHECK(comes_true([&] { return seen.expired(); }));
}

}  // namespace

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
