// Plans of ranks on several hosts: which ops share a message, layouts, and the errors that only such plans have.
#include <random>

#include "onstream/halo.hpp"
#include "plan_ring.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

// Two ranks a pretended host, over a network that reorders messages; or over the one that TEST_NET names.
Parameters between_hosts(std::int64_t seed = 1) {
  Parameters parameters = quick("host");
  if (parameters.host_ranks == 0) parameters.network = "sim";
  parameters.host_ranks = 2;
  parameters.sim_seed = seed;
  return parameters;
}

constexpr std::size_t kRoom = 60000;  // for the elements of one message, and the gaps between them

struct Message {
  int source;
  int destination;
  int tag;
  std::size_t element;
  std::vector<std::int64_t> shape;      // of its elements, on both sides
  std::vector<std::int64_t> from_gaps;  // unused elements behind each row, by dimension
  std::vector<std::int64_t> to_gaps;

  Layout layout(const std::vector<std::int64_t>& gaps) const {
    std::vector<std::int64_t> strides(shape.size());
    std::int64_t stride = static_cast<std::int64_t>(element);
    for (std::size_t d = shape.size(); d-- > 0;) {
      strides[d] = stride;
      stride *= shape[d] + gaps[d];
    }
    return Layout::strided(element, shape, strides);
  }
};

// The same on every rank.
std::vector<Message> messages_of(unsigned seed, int ranks) {
  std::mt19937 random(seed);
  const auto below = [&](int end) { return static_cast<int>(random() % static_cast<unsigned>(end)); };
  std::vector<Message> all(static_cast<std::size_t>(1 + below(14)));
  for (Message& one : all) {
    one.source = below(ranks);
    one.destination = below(ranks);
    one.tag = below(3);
    one.element = std::size_t{1} << below(4);
    const bool large = below(4) == 0;
    for (int d = below(3); d >= 0; --d) {
      one.shape.push_back(below(20) == 0 ? 0 : 1 + below(large ? 16 : 5));
      one.from_gaps.push_back(below(3));
      one.to_gaps.push_back(below(3));
    }
  }
  return all;
}

// The bytes of a layout, one after the other.
std::vector<unsigned char> picked(const std::vector<unsigned char>& memory, const Layout& layout) {
  std::vector<unsigned char> out;
  const LayoutView& view = layout.view();
  std::vector<std::int64_t> at(static_cast<std::size_t>(view.dims), 0);
  if (layout.bytes() == 0) return out;
  for (;;) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < at.size(); ++d) offset += at[d] * view.strides[d];
    for (std::uint64_t b = 0; b < view.run_bytes; ++b) out.push_back(memory[static_cast<std::size_t>(offset) + b]);
    std::size_t d = at.size();
    while (d > 0 && ++at[d - 1] == view.counts[d - 1]) at[--d] = 0;
    if (d == 0) return out;
  }
}

unsigned number_of(std::size_t message, int launch) {
  return static_cast<unsigned>(message) * 100 + static_cast<unsigned>(launch);
}

// A plan of random messages, launched in all ways.
void exchange(World& world, unsigned seed) {
  const std::vector<Message> all = messages_of(seed, world.size());
  std::vector<std::unique_ptr<TestBuffer>> out;
  std::vector<std::unique_ptr<TestBuffer>> in;
  PlanBuilder builder = world.plan("random");
  for (const Message& one : all) {
    out.push_back(std::make_unique<TestBuffer>(world, kRoom));
    in.push_back(std::make_unique<TestBuffer>(world, kRoom));
    if (one.source == world.rank())
      builder.send(out.back()->data(), one.layout(one.from_gaps), one.destination, one.tag);
    if (one.destination == world.rank()) builder.recv(in.back()->data(), one.layout(one.to_gaps), one.source, one.tag);
  }
  // Receives of one source and tag meet its sends in the order added, which is that of `all` on both sides; their sizes
  // agree for the same reason.
  const auto plan = builder.build();
  const OwnStream stream(world);
  Device& device = world.device();
  device.begin_capture(stream);
  plan->launch(stream);
  const auto graph = device.end_capture(stream);
  for (int launch = 0; launch < 4; ++launch) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      out[i]->write(pattern(kRoom, number_of(i, launch)));
      in[i]->write(std::vector<unsigned char>(kRoom, 0xEE));
    }
    const int way = (launch + world.rank()) % 3;
    if (way == 0) plan->launch(stream);
    if (way == 1) device.launch(graph, stream);
    if (way == 2) plan->run();
    world.synchronize(stream);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].destination != world.rank()) continue;
      const Layout to = all[i].layout(all[i].to_gaps);
      const auto came = in[i]->read();
      CHECK(picked(came, to) == picked(pattern(kRoom, number_of(i, launch)), all[i].layout(all[i].from_gaps)));
      const auto touched = kRoom - static_cast<std::size_t>(std::ranges::count(came, 0xEE));
      CHECK(touched <= to.bytes());  // and nothing beside it
    }
    world.barrier();
  }
}

int far_from(const World& world) { return (world.rank() + 2) % 4; }  // a rank on another host, of four

// A plan of a message to that rank and one from it.
std::shared_ptr<Plan> exchange_with_far(World& world, const std::string& name, const TestBuffer& out, TestBuffer& in,
                                        std::size_t bytes, Path path = Path::automatic) {
  const Layout all = Layout::contiguous(bytes);
  PlanBuilder builder = world.plan(name);
  builder.use_path(path).send(out.data(), all, far_from(world)).recv(in.data(), all, far_from(world), 0, "from afar");
  return builder.build();
}

}  // namespace

CASE(random_plans_of_layouts_arrive_whole_between_hosts_and_within) {
  for (int seed = 1; seed <= 12; ++seed) {
    run_ranks(4, between_hosts(seed), [&](World& world) {
      for (unsigned plan = 0; plan < 4; ++plan) exchange(world, static_cast<unsigned>(seed) * 16 + plan);
    });
  }
}

CASE(ops_to_a_rank_of_another_host_share_one_exchange) {
  run_ranks(4, between_hosts(), [](World& world) {
    TestBuffer field(world, 64 * 64 * 8);
    HaloSpec spec;
    spec.shape = {64, 64};
    spec.element_bytes = 8;
    spec.ghost = {1, 1};
    spec.grid = {2, 2};
    spec.periodic = {true, true};
    spec.corners = true;
    const auto halo = world.halo(field.data(), spec, "corners");
    const std::string told = halo->explain();
    // Of the three others one shares the host; the 12 of 16 ops that go to the two others are in the exchange.
    CHECK(told.find(" and one exchange with 2 ranks of other hosts") != std::string::npos);
    CHECK(told.find("is on another host (simulated") != std::string::npos);
    int between = 0;
    for (const PlanOp& op : halo->ops()) between += op.path == Path::net ? 1 : 0;
    CHECK(between == 12);
    halo->run();
    const std::vector<OpTime> times = halo->times();
    for (std::size_t i = 0; i < times.size(); ++i) {
      CHECK(times[i].launches == 1);
      if (halo->ops()[i].path == Path::net) CHECK(times[i].wait_ns + times[i].move_ns > 0);
    }
    world.barrier();
  });
}

CASE(a_path_of_one_host_and_ops_of_segments_are_refused_between_hosts) {
  run_ranks(4, between_hosts(), [](World& world) {
    TestBuffer buffer(world, 64);
    const Layout all = Layout::contiguous(64);
    TestBuffer in(world, 64);
    CHECK_THROWS((void)exchange_with_far(world, "forced", buffer, in, 64, Path::store),
                 "path store (set by use_path) needs one host, and rank 2 is on another");
    PlanBuilder net = world.plan("near");
    const int near = world.rank() ^ 1;
    net.use_path(Path::net).send(buffer.data(), all, near).recv(in.data(), all, near);
    CHECK_THROWS((void)net.build(), "cannot work: the ranks share a host");
    CHECK_THROWS((void)world.plan("put").put(buffer.data(), all, in.data(), all, far_from(world)),
                 "is on another host, which put does not reach in this version; sends, receives and halos do");
  });
}

CASE(plans_between_hosts_have_a_bound_that_is_told_and_come_back) {
  Parameters parameters = between_hosts();
  parameters.teams = 3;
  run_ranks(4, parameters, [](World& world) {
    TestBuffer out(world, 64);
    TestBuffer in(world, 64);
    const auto make = [&] { return exchange_with_far(world, "one more", out, in, 64); };
    std::vector<std::shared_ptr<Plan>> plans;
    std::string why;
    while (why.empty() && plans.size() < 100) {
      try {
        plans.push_back(make());
      } catch (const Error& error) {
        why = error.what();
      }
    }
    CHECK(why.find("are taken; raise teams, or let some go") != std::string::npos);
    plans.clear();
    for (int round = 0; round < 3; ++round) make()->run();
    world.barrier();
  });
}

CASE(a_rank_that_stays_away_is_named_with_its_op) {
  Parameters parameters = between_hosts();
  parameters.timeout_s = 1.5;
  run_ranks(4, parameters, [](World& world) {
    TestBuffer out(world, 8);
    TestBuffer in(world, 8);
    const auto plan = exchange_with_far(world, "late", out, in, 8);
    if (world.rank() == 2) {
      await_failure(world);
    } else if (world.rank() == 0) {
      CHECK_THROWS(plan->run(),
                   "recv of 8 B from rank 2 with tag 0 (op 1 of plan 'late') passed its deadline of 1.5 s");
    }
  });
}

int main(int argc, char** argv) { return run(argc, argv); }
