// Lifetimes: plans, requests and graphs that are let go while their work is under way, on every device.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/collective.hpp"
#include "onstream/device/host/group.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"
#include "onstream/layout.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/one_sided/kernel/step.hpp"
#include "onstream/plan.hpp"
#include "onstream/transport/fabric.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/processes.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

constexpr std::size_t kBytes = 160'000;  // large on every device

// Kernels wait, and streams do.
constexpr std::array kPaths = {Path::automatic, Path::memop};

// Holds a stream up until open(), for at most half a minute.
class Gate {
 public:
  Gate(Device& device, Stream stream) { device.call(&Gate::wait, this, stream); }
  void open() { open_.store(true); }

 private:
  static void wait(void* self) {
    const Deadline deadline(kSoonS);
    while (!static_cast<Gate*>(self)->open_.load() && !deadline.passed()) std::this_thread::yield();
  }
  std::atomic<bool> open_ = false;
};

std::vector<unsigned char> data_of(int rank, int turn) {
  return pattern(kBytes, static_cast<unsigned>(rank * 1000 + turn));
}

// Allocations that would get freed memory. The caller holds them until no stream waits: freeing pinned memory waits.
std::vector<std::shared_ptr<Memory>> reuse_memory(World& world) {
  std::vector<std::shared_ptr<Memory>> more;
  for (int i = 0; i < 8; ++i) {
    more.push_back(world.allocate(kBytes));
    more.push_back(world.allocate(4096, MemoryKind::pinned));
  }
  return more;
}

std::shared_ptr<Plan> exchange_plan(World& world, Path path, TestBuffer& out, TestBuffer& in) {
  const int peer = 1 - world.rank();
  PlanBuilder builder = world.plan("exchange");
  builder.use_path(path);
  builder.send(out.data(), Layout::contiguous(kBytes), peer).recv(in.data(), Layout::contiguous(kBytes), peer);
  return builder.build();
}

void graph_keeps_its_plan(World& world, Path path) {
  const OwnStream stream(world.device());
  TestBuffer out(world, kBytes);
  TestBuffer in(world, kBytes);
  auto plan = exchange_plan(world, path, out, in);
  world.device().begin_capture(stream);
  plan->launch(stream);
  const auto graph = world.device().end_capture(stream);
  plan.reset();
  const auto others = reuse_memory(world);
  for (int turn = 0; turn < 3; ++turn) {
    out.write(data_of(world.rank(), turn));
    world.device().launch(graph, stream);
    world.synchronize(stream);
    CHECK(in.read() == data_of(1 - world.rank(), turn));
  }
  world.barrier();
}

void queued_launch_keeps_its_plan(World& world, Path path) {
  const OwnStream stream(world.device());
  TestBuffer out(world, kBytes);
  TestBuffer in(world, kBytes);
  out.write(data_of(world.rank(), 1));
  auto plan = exchange_plan(world, path, out, in);
  Gate gate(world.device(), stream);
  plan->launch(stream);
  plan.reset();
  const auto others = reuse_memory(world);
  gate.open();
  world.synchronize(stream);
  CHECK(in.read() == data_of(1 - world.rank(), 1));
  world.barrier();
}

void graph_keeps_its_requests(World& world, MemoryKind kind) {
  const OwnStream stream(world.device());
  const int peer = 1 - world.rank();
  TestBuffer out(world, kBytes, kind);
  TestBuffer in(world, kBytes, kind);
  world.device().begin_capture(stream);
  {
    const auto receive = world.irecv(in.data(), kBytes, peer, {}, stream);
    const auto send = world.isend(out.data(), kBytes, peer, {}, stream);
    world.wait(receive, stream);
    world.wait(send, stream);
  }
  const auto graph = world.device().end_capture(stream);
  const auto others = reuse_memory(world);
  for (int turn = 0; turn < 3; ++turn) {
    out.write(data_of(world.rank(), turn));
    world.device().launch(graph, stream);
    world.synchronize(stream);
    CHECK(in.read() == data_of(peer, turn));
  }
  world.barrier();
}

void dropped_receive_keeps_its_place(World& world, MemoryKind kind) {
  const int peer = 1 - world.rank();
  TestBuffer out(world, kBytes, kind);
  TestBuffer first(world, kBytes, kind);
  TestBuffer second(world, kBytes, kind);
  out.write(data_of(world.rank(), 1));
  (void)world.irecv(first.data(), kBytes, peer, {});  // nobody waits for it
  const auto request = world.irecv(second.data(), kBytes, peer, {});
  const auto others = reuse_memory(world);
  world.barrier();
  const auto one = world.isend(out.data(), kBytes, peer, {});
  const auto two = world.isend(out.data(), kBytes, peer, {});
  CHECK(world.wait(request) == Status::ok);
  CHECK(world.wait(one) == Status::ok);
  CHECK(world.wait(two) == Status::ok);
  CHECK(second.read() == data_of(peer, 1));
  world.barrier();
}

void plan_keeps_its_segment(World& world) {
  const OwnStream stream(world.device());
  const int peer = 1 - world.rank();
  TestBuffer out(world, kBytes);
  out.write(data_of(world.rank(), 1));
  auto segment = world.segment(kBytes + 64);
  std::byte* const mine = segment->local();
  auto* counter = reinterpret_cast<std::uint64_t*>(mine + kBytes);
  PlanBuilder builder = world.plan("puts");
  builder.put(segment->peer(peer), Layout::contiguous(kBytes), out.data(), Layout::contiguous(kBytes), peer);
  builder.signal(reinterpret_cast<std::uint64_t*>(segment->peer(peer) + kBytes), 1, peer);
  builder.wait(counter, 1);
  const auto plan = builder.build();
  segment.reset();
  const auto others = reuse_memory(world);
  plan->launch(stream);
  world.synchronize(stream);
  std::vector<unsigned char> got(kBytes);
  world.device().copy(got.data(), mine, kBytes, stream);
  world.device().synchronize(stream);
  CHECK(got == data_of(peer, 1));
  world.barrier();
}

// A replay after the world's end has nobody to talk to: it must end, and touch nothing that is gone.
void graph_outlives_its_world(const std::string& device_spec, Path path) {
  const std::string address = meeting_place();
  const auto rank_main = [&](int rank) {
    auto world = World::create(launch_of(rank, 2, address), quick(device_spec));
    const std::shared_ptr<Device> device = world->fabric()->device();
    const OwnStream stream(*device);
    const auto out = world->allocate(kBytes);
    const auto in = world->allocate(3 * kBytes);  // a part for each: an op that ends early leaves its peer's on the way
    auto plan = [&] {
      PlanBuilder builder = world->plan("p");  // it holds on to the world
      builder.use_path(path);
      builder.send(out->data(), Layout::contiguous(512), 1 - rank, 1);
      builder.recv(in->data() + kBytes, Layout::contiguous(512), 1 - rank, 1);
      return builder.build();
    }();
    device->begin_capture(stream);
    world->send(out->data(), 8, 1 - rank, {}, stream);
    world->recv(in->data(), 8, 1 - rank, {}, stream);
    plan->launch(stream);
    world->recv(in->data() + 2 * kBytes, kBytes, 1 - rank, {}, stream);
    const auto graph = device->end_capture(stream);
    world->barrier();
    plan.reset();
    world.reset();
    device->launch(graph, stream);
    const Deadline deadline(kSoonS);
    while (!device->idle(stream) && !deadline.passed()) HostGroup::pause(0, 0);
    CHECK(device->idle(stream));
  };
  std::string wrong;
  std::thread other([&] {
    try {
      rank_main(1);
    } catch (const std::exception& error) {
      wrong = error.what();
    }
  });
  try {
    rank_main(0);
  } catch (...) {
    other.join();
    throw;
  }
  other.join();
  if (!wrong.empty()) throw std::runtime_error(wrong);
}

// --- a graph that copies into another process, which outlives the graph's world ---

// Rank 0 sends in a graph, by a message and by a plan whose copies ask nobody.
void capture_sends(World& world, std::byte* buffer, Stream stream, std::shared_ptr<Graph>& graph) {
  PlanBuilder builder = world.plan("p");
  builder.use_path(Path::memop);
  builder.send(buffer, Layout::contiguous(kBytes), 1);
  const auto plan = builder.build();
  world.device().begin_capture(stream);
  world.send(buffer, kBytes, 1, {}, stream);
  plan->launch(stream);
  graph = world.device().end_capture(stream);
}

// Rank 0, in a process of its own. Its replay after its world's end finds the next receive posted.
void replay_without_a_world(const std::string& device_spec) {
  auto world = World::create(launch_from_environment(), quick(device_spec));
  const std::shared_ptr<Device> device = world->fabric()->device();
  const OwnStream stream(*device);
  const auto buffer = world->allocate(kBytes);
  std::shared_ptr<Graph> graph;
  capture_sends(*world, buffer->data(), stream, graph);
  device->launch(graph, stream);
  device->synchronize(stream);
  world->barrier();
  world.reset();
  CHECK(DeferredRelease::of_process().finish(kSoonS));
  device->launch(graph, stream);
  device->synchronize(stream);
}

// Rank 1 lives on meanwhile.
void outlive_the_replay(const std::string& device_spec) {
  const std::string address = meeting_place();
  const pid_t other = spawn_rank(device_spec, launch_of(0, 2, address));
  const auto world = World::create(launch_of(1, 2, address), quick(device_spec));
  const OwnStream stream(world->device());
  TestBuffer buffer(*world, kBytes);
  PlanBuilder builder = world->plan("p");
  builder.use_path(Path::memop);
  builder.recv(buffer.data(), Layout::contiguous(kBytes), 0);
  const auto plan = builder.build();
  world->recv(buffer.data(), kBytes, 0, {}, stream);
  plan->launch(stream);
  world->synchronize(stream);
  const auto next = world->irecv(buffer.data(), kBytes, 0, {}, stream);
  world->device().synchronize(stream);
  world->barrier();
  CHECK(wait_for_exit(other) == 0);
}

}  // namespace

CASE(a_graph_keeps_the_memory_of_its_peers_mapped) {
  needs_sight_of_other_processes();
  for (const std::string& device : device_specs()) outlive_the_replay(device);
}

CASE(a_graph_keeps_the_plan_that_it_captured) {
  for (const Path path : kPaths) {
    on_all_devices(2, [path](World& world) { graph_keeps_its_plan(world, path); });
  }
}

CASE(a_plan_may_go_while_its_launch_is_queued) {
  for (const Path path : kPaths) {
    on_all_devices(2, [path](World& world) { queued_launch_keeps_its_plan(world, path); });
  }
}

CASE(a_plan_keeps_the_segment_that_it_puts_into) { on_all_devices(2, plan_keeps_its_segment); }

CASE(a_graph_keeps_the_requests_that_it_captured) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::host}) {
    on_all_devices(2, [kind](World& world) { graph_keeps_its_requests(world, kind); });
  }
}

CASE(a_receive_that_was_let_go_still_takes_its_message) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::host}) {
    on_all_devices(2, [kind](World& world) { dropped_receive_keeps_its_place(world, kind); });
  }
}

CASE(a_graph_that_outlives_its_world_ends) {
  for (const std::string& device : device_specs()) {
    for (const Path path : kPaths) graph_outlives_its_world(device, path);
  }
}

// The thread that lets go of things does not come along.
CASE(a_forked_child_lets_go_of_things_itself) {
  const auto let_go = [] {
    const auto device = open_device("host", 0);
    release_later(std::make_unique<std::shared_ptr<Memory>>(device->allocate(64, MemoryKind::pinned))).reset();
    return DeferredRelease::of_process().finish(kSoonS);
  };
  CHECK(let_go());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(let_go() ? 0 : 3);
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

CASE(nothing_is_let_go_while_somebody_holds) {
  struct Tells {
    std::promise<void>* gone;
    ~Tells() { gone->set_value(); }
  };
  std::promise<void> first;
  std::promise<void> second;
  auto one = DeferredRelease::hold();
  auto other = DeferredRelease::hold();
  DeferredRelease own;
  DeferredRelease::of_process().hand_over(std::make_shared<Tells>(&first));
  own.hand_over(std::make_shared<Tells>(&second));
  CHECK(!DeferredRelease::of_process().finish(0.05) && !own.finish(0.05));
  one.reset();
  CHECK(!DeferredRelease::of_process().finish(0.05) && !own.finish(0.05));
  other.reset();
  CHECK(DeferredRelease::of_process().finish(kSoonS) && own.finish(kSoonS));
  CHECK(first.get_future().wait_for(std::chrono::seconds(0)) == std::future_status::ready);
  CHECK(second.get_future().wait_for(std::chrono::seconds(0)) == std::future_status::ready);
}

CASE(a_disposal_that_is_destroyed_waits_for_nobody_who_holds) {
  const auto hold = DeferredRelease::hold();
  const auto thing = std::make_shared<int>(1);
  {
    DeferredRelease own;
    own.hand_over(thing);
  }
  CHECK(thing.use_count() == 1);
}

// Ctrl-C is for the program's own threads.
CASE(the_thread_that_lets_go_of_things_takes_no_signals) {
  struct Asks {
    std::promise<bool>* blocked;
    ~Asks() {
      sigset_t mask;
      sigemptyset(&mask);
      pthread_sigmask(SIG_SETMASK, nullptr, &mask);
      blocked->set_value(sigismember(&mask, SIGINT) == 1);
    }
  };
  std::promise<bool> blocked;
  DeferredRelease disposal;
  disposal.hand_over(std::shared_ptr<const void>(std::make_shared<Asks>(&blocked)));
  auto answer = blocked.get_future();
  CHECK(answer.wait_for(std::chrono::duration<double>(kSoonS)) == std::future_status::ready);
  CHECK(answer.get());
}

CASE(a_world_tells_of_the_unfinished_ops_of_every_face) {
  on_all_devices(1, [](World& world) {
    TestBuffer out(world, kBytes);
    TestBuffer in(world, kBytes);
    const auto layout = Layout::contiguous(kBytes);
    const auto plan = world.plan("self").send(out.data(), layout, 0).recv(in.data(), layout, 0).build();
    const auto window = world.window(in.data(), kBytes);
    CollectiveCall barrier;
    barrier.kind = OpKind::barrier;
    const std::vector<std::function<void(Stream)>> ops = {
        [&](Stream stream) { world.send(out.data(), 8, 0, {}, stream); },
        [&](Stream stream) { plan->launch(stream); },
        [&](Stream stream) { world.one_sided().put(Remote{*window, 0, 0}, out.data(), 8, stream); },
        [&](Stream stream) { world.collective().run(barrier, stream); },
    };
    for (const auto& op : ops) {
      const OwnStream own(world);
      Gate gate(world.device(), own);
      CHECK(world.unfinished().empty());
      op(own);
      CHECK(!world.unfinished().empty());
      gate.open();
      world.synchronize(own);
      CHECK(world.unfinished().empty());
    }
    CHECK(world.recv(in.data(), 8, 0, {}) == Status::ok);
  });
}

CASE(a_team_may_go_while_its_collectives_are_under_way) {
  on_all_devices(2, [](World& world) {
    auto team = world.collective().among(std::vector{0, 1});
    TestBuffer buffer(world, 8);
    buffer.write({1, 2, 3, 4, 5, 6, 7, 8});
    const OwnStream stream(world);
    if (world.rank() == 1) world.barrier();
    const std::uint64_t start_ns = now_ns();
    team->run(collective::all_reduce({buffer.data(), buffer.data(), 8}), stream);
    team.reset();
    CHECK(ended_at_once(start_ns));
    if (world.rank() == 0) world.barrier();
    world.synchronize(stream);
    CHECK((buffer.read() == std::vector<unsigned char>{2, 4, 6, 8, 10, 12, 14, 16}));
  });
}

CASE(the_function_of_a_reduction_lives_until_it_has_returned_though_its_team_has_gone) {
  run_ranks(2, quick("host"), [](World& world) {
    auto team = world.collective().among(std::vector{0, 1});
    TestBuffer input(world, 8);
    TestBuffer output(world, 8);
    const OwnStream stream(world);
    std::atomic<bool> called = false;
    std::atomic<bool> released = false;
    auto token = std::make_shared<int>();
    const std::weak_ptr<int> life = token;
    const auto await = [](const auto& come) {
      const Deadline deadline(kSoonS);
      while (!come() && !deadline.passed()) std::this_thread::yield();
      return come();
    };
    auto wait_in_it = [&, token = std::move(token)](const void*, void*, std::size_t) {
      called = true;
      (void)await([&] { return released.load(); });
    };
    const CollectiveCall sum = collective::all_reduce({input.data(), output.data(), 8});
    team->run(collective::reduced_by(sum, 1, std::move(wait_in_it)), stream);
    team.reset();
    CHECK(await([&] { return called.load(); }));
    CHECK(!life.expired());
    released = true;
    world.synchronize(stream);
  });
}

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--rank") == 0) {
    return run_role({{argv[2], [&] { replay_without_a_world(argv[2]); }}}, argv[2]);
  }
  return run(argc, argv);
}
