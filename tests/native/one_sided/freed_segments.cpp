// Captured ops on a segment: their graph keeps the segment, and is not launched once all ranks freed it.
#include <array>
#include <thread>

#include "onstream/collective.hpp"
#include "onstream/layout.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/plan.hpp"
#include "support/check.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

constexpr std::size_t kPart = 4096;
constexpr Until kClear = {Compare::eq, 0, 8, Sign::unsigned_word};

// A segment and how its next rank's part is named.
struct Symmetric {
  explicit Symmetric(World& world)
      : next((world.rank() + 1) % world.size()), segment(world.segment(kPart)), window(world.window(segment)) {}

  Remote there(std::size_t offset = 0) const { return {*window, next, offset}; }
  template <class T = std::byte>
  T* here(std::size_t offset = 0) const {
    return reinterpret_cast<T*>(segment->local() + offset);
  }

  int next;
  std::shared_ptr<Segment> segment;
  std::shared_ptr<Window> window;
};

struct Side {
  World& world;
  Symmetric& used;
  Symmetric& other;
  Stream stream;

  int last() const { return (world.rank() + world.size() - 1) % world.size(); }
};

struct Use {
  const char* name;
  void (*enqueue)(const Side& side);
};

// Each leaves the words of segments 0, so that its graph may be launched any number of times.
const Use kOneSidedUses[] = {
    {"put", [](const Side& it) { it.world.one_sided().put(it.used.there(), it.other.here(), 64, it.stream); }},
    {"put of a word", [](const Side& it) { it.world.one_sided().put(it.used.there(), it.other.here(), 8, it.stream); }},
    {"put from it", [](const Side& it) { it.world.one_sided().put(it.other.there(), it.used.here(), 64, it.stream); }},
    {"get", [](const Side& it) { it.world.one_sided().get(it.other.here(), it.used.there(), 64, it.stream); }},
    {"get into it", [](const Side& it) { it.world.one_sided().get(it.used.here(), it.other.there(), 64, it.stream); }},
    {"put and signal in one store",
     [](const Side& it) {
       const Signal beside{it.used.there(8), SignalOp::set, 0};
       it.world.one_sided().put_signal(it.used.there(), it.other.here(), 8, beside, it.stream);
     }},
    {"signal", [](const Side& it) { it.world.one_sided().signal({it.used.there(), SignalOp::add, 0}, it.stream); }},
    {"atomic",
     [](const Side& it) {
       it.world.one_sided().atomic(AtomicOp::fetch, it.used.there(), 8, 0, it.other.here(), 0, it.stream);
     }},
    {"old value of an atomic",
     [](const Side& it) {
       it.world.one_sided().atomic(AtomicOp::fetch, it.other.there(), 8, 0, it.used.here(), 0, it.stream);
     }},
    {"wait", [](const Side& it) { it.world.one_sided().wait(it.used.here(), kClear, it.stream); }},
    {"wait for all of many",
     [](const Side& it) { it.world.one_sided().wait_all({it.used.here(), 8, nullptr}, kClear, it.stream); }},
    {"which of many",
     [](const Side& it) {
       auto* const found = it.used.here<std::uint64_t>(64);
       it.world.one_sided().wait_any({it.other.here(), 8, nullptr}, kClear, found, it.stream);
     }},
    {"put of a column",
     [](const Side& it) {
       it.world.one_sided().put(it.used.there(), Layout::strided(8, {8}, {32}), it.other.here(), Layout::contiguous(64),
                                it.stream);
     }},
    {"get of a column",
     [](const Side& it) {
       it.world.one_sided().get(it.other.here(), Layout::contiguous(64), it.used.there(), Layout::strided(8, {8}, {32}),
                                it.stream);
     }},
};

const Use kOtherUses[] = {
    {"send",
     [](const Side& it) {
       it.world.send(it.used.here(), 64, it.used.next, {}, it.stream);
       it.world.recv(it.other.here(), 64, it.last(), {}, it.stream);
     }},
    {"recv",
     [](const Side& it) {
       it.world.send(it.other.here(), 64, it.used.next, {}, it.stream);
       it.world.recv(it.used.here(), 64, it.last(), {}, it.stream);
     }},
    {"isend",
     [](const Side& it) {
       const auto sent = it.world.isend(it.used.here(), 64, it.used.next, {}, it.stream);
       it.world.recv(it.other.here(), 64, it.last(), {}, it.stream);
       it.world.wait(sent, it.stream);
     }},
    {"irecv",
     [](const Side& it) {
       const auto arriving = it.world.irecv(it.used.here(), 64, it.last(), {}, it.stream);
       it.world.send(it.other.here(), 64, it.used.next, {}, it.stream);
       it.world.wait(arriving, it.stream);
     }},
    {"sendrecv",
     [](const Side& it) {
       it.world.sendrecv({it.other.here(), 64, it.used.next, {}}, {it.used.here(), 64, it.last(), {}}, it.stream);
     }},
    {"exchange",
     [](const Side& it) {
       const std::array out = {Outgoing{it.used.here(), 64, it.used.next, {}}};
       const std::array in = {Incoming{it.other.here(), 64, it.last(), {}}};
       it.world.exchange(out, in, it.stream);
     }},
    {"all_reduce",
     [](const Side& it) {
       it.world.collective().run(collective::all_reduce({it.used.here(), it.other.here(), 8, ElementType::int64}),
                                 it.stream);
     }},
    {"all_gather",
     [](const Side& it) {
       it.world.collective().run(collective::all_gather({it.other.here(), it.used.here(), 8, ElementType::int64}),
                                 it.stream);
     }},
};

// Captures, launches once, frees the segment that `use` is about, and tries again.
void free_under_a_graph(World& world, const Use& use) {
  Symmetric used(world);
  Symmetric other(world);
  const OwnStream stream(world);
  Device& device = world.device();
  device.begin_capture(stream);
  use.enqueue({world, used, other, stream});
  const auto graph = device.end_capture(stream);
  device.launch(graph, stream);
  device.synchronize(stream);
  world.barrier();
  world.free(used.segment);
  const std::string story = concat("segment ", used.segment->number(), " of 4096 B, which the graph uses, was freed");
  try {
    device.launch(graph, stream);
    failed(__FILE__, __LINE__, concat(use.name, " was launched"));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::closed || std::string(error.what()).find(story) == std::string::npos) {
      failed(__FILE__, __LINE__, concat(use.name, ": ", error.what()));
    }
  }
  device.synchronize(stream);
  world.barrier();
}

CASE(a_graph_that_uses_a_freed_segment_is_not_launched) {
  on_all_devices_over_gpus(2, [](World& world) {
    for (const Use& use : kOneSidedUses) free_under_a_graph(world, use);
    for (const Use& use : kOtherUses) free_under_a_graph(world, use);
  });
}

// The peers' parts are reached through their owners' proxies.
CASE(a_graph_that_uses_a_freed_segment_by_proxies_is_not_launched) {
  for (const std::string& device : device_specs_over_gpus(2)) {
    Parameters parameters = quick(device);
    parameters.path = "stage";
    run_ranks(2, parameters, [](World& world) {
      for (const Use& use : kOneSidedUses) free_under_a_graph(world, use);
    });
  }
}

CASE(a_graph_of_a_plan_on_a_freed_segment_is_not_launched) {
  on_all_devices_over_gpus(2, [](World& world) {
    const Use puts{"plan", [](const Side& it) {
                     PlanBuilder builder = it.world.plan("put");
                     const Layout all = Layout::contiguous(64);
                     builder.put(it.used.segment->peer(it.used.next), all, it.other.here(), all, it.used.next);
                     builder.build()->launch(it.stream);
                   }};
    const Use from{"plan from it", [](const Side& it) {
                     PlanBuilder builder = it.world.plan("put");
                     const Layout all = Layout::contiguous(64);
                     builder.put(it.other.segment->peer(it.used.next), all, it.used.here(), all, it.used.next);
                     builder.build()->launch(it.stream);
                   }};
    for (const Use& use : {puts, from}) free_under_a_graph(world, use);
  });
}

CASE(a_graph_keeps_a_segment_whose_handles_are_gone) {
  on_all_devices_over_gpus(2, [](World& world) {
    if (world.fabric()->is_remote(1 - world.rank())) only_on_one_host(world);
    auto used = std::make_unique<Symmetric>(world);
    Symmetric other(world);
    const std::size_t held = world.statistics().segment_bytes;
    const OwnStream stream(world);
    Device& device = world.device();
    device.begin_capture(stream);
    world.one_sided().put(used->there(), other.here(), 64, stream);
    world.one_sided().get(other.here(1024), used->there(), 64, stream);
    auto graph = device.end_capture(stream);
    used.reset();
    const std::vector<std::uint64_t> values = {1, 2, 3, 4, 5, 6, 7, 8};
    world.one_sided().copy(other.here(), values.data(), 64);
    world.barrier();
    device.launch(graph, stream);
    device.synchronize(stream);
    std::vector<std::uint64_t> back(8);
    world.one_sided().copy(back.data(), other.here(1024), 64);
    CHECK(back == values);
    CHECK(world.statistics().segment_bytes == held);
    world.barrier();
    graph.reset();
    const Deadline patience(kSoonS);
    while (world.statistics().segment_bytes == held && !patience.passed()) std::this_thread::yield();
    CHECK(world.statistics().segment_bytes == held - kPart);
    world.barrier();
  });
}

}  // namespace

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
