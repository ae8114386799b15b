// Collectives along the edges of a neighbourhood: grids and graphs, edges to oneself and double ones, every size by
// every way, on the host, on a stream and captured; and the errors when the ends of an edge do not fit.
#include "onstream/collective.hpp"

#include <algorithm>
#include <memory>
#include <numeric>

#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;
using onstream::collective::neighbour_all_gather;
using onstream::collective::neighbour_all_to_all;
using onstream::collective::neighbour_all_to_all_v;

namespace {

using Bytes = std::vector<unsigned char>;

// How a call is made: the host waits, or a stream orders it.
enum class Way { host, stream };

// Memory that peers can address, or that they cannot: then large messages go through the stage.
enum class Where { reachable, plain };

class Buffer {
 public:
  Buffer(World& world, std::size_t bytes, Where where)
      : device_(where == Where::reachable ? std::make_unique<TestBuffer>(world, bytes) : nullptr), plain_(bytes + 1) {}
  std::byte* data() { return device_ ? device_->data() : reinterpret_cast<std::byte*>(plain_.data()); }
  void write(const Bytes& values) {
    if (device_) return device_->write(values);
    std::copy(values.begin(), values.end(), plain_.begin());
  }
  Bytes read() const { return device_ ? device_->read() : Bytes(plain_.begin(), plain_.end() - 1); }

 private:
  std::unique_ptr<TestBuffer> device_;
  Bytes plain_;
};

std::vector<Where> places(World& world) {
  if (world.device().kind() == DeviceKind::host) return {Where::reachable, Where::plain};
  return {Where::reachable};
}

// For every rank, and each of its sources, whose and which edge that is: {rank, number among its destinations}.
struct From {
  int rank = -1;
  int edge = -1;
};
using Wiring = std::vector<std::vector<From>>;

Bytes sent(int from, int edge, std::size_t bytes) { return pattern(bytes, static_cast<unsigned>(from * 100 + edge)); }

void put(Bytes& all, std::size_t at, const Bytes& part) {
  std::copy(part.begin(), part.end(), all.begin() + static_cast<std::ptrdiff_t>(at));
}

void run(World& world, Neighbourhood& hood, const CollectiveCall& call, Way way) {
  if (way == Way::host) return hood.run(call);
  const auto stream = CopyStream::of(world);  // one made now might wait for other ranks' kernels on the same GPU
  hood.run(call, *stream);
  world.synchronize(*stream);
}

// all_gather, all_to_all and all_to_all_v of `bytes` along each edge (v: more and less), against the wiring.
void check_moves(World& world, Neighbourhood& hood, const std::vector<From>& wiring, std::size_t bytes,
                 Algorithm algorithm, Way way, Where where) {
  const std::size_t outs = hood.destinations().size();
  const std::size_t ins = hood.sources().size();
  const auto length = [&](int from, int edge) { return bytes * static_cast<std::size_t>((from + 2 * edge) % 3); };
  Buffer one(world, bytes, where);
  Buffer input(world, outs * bytes, where);
  Buffer output(world, ins * bytes, where);
  const Bytes untouched(ins * bytes, 7);
  const auto expect = [&](const char* what, const Bytes& got, const Bytes& expected) {
    if (got == expected) return;
    throw CheckFailed(concat(what, " of ", bytes, " B by ", name_of(algorithm), " on rank ", world.rank(),
                             ": differs from byte ",
                             std::mismatch(got.begin(), got.end(), expected.begin()).first - got.begin()));
  };
  const auto with = [&](CollectiveCall call) {
    call.algorithm = algorithm;
    return where_it_runs(world, call);
  };

  Bytes expected = untouched;
  output.write(untouched);
  one.write(sent(world.rank(), 0, bytes));
  run(world, hood, with(neighbour_all_gather({one.data(), output.data(), bytes})), way);
  for (std::size_t j = 0; j < ins; ++j) {
    if (wiring[j].rank >= 0) put(expected, j * bytes, sent(wiring[j].rank, 0, bytes));
  }
  expect("all_gather", output.read(), expected);

  Bytes mine;
  for (std::size_t k = 0; k < outs; ++k) {
    const Bytes part = sent(world.rank(), static_cast<int>(k), bytes);
    mine.insert(mine.end(), part.begin(), part.end());
  }
  input.write(mine);
  output.write(untouched);
  run(world, hood, with(neighbour_all_to_all({input.data(), output.data(), bytes})), way);
  for (std::size_t j = 0; j < ins; ++j) {
    if (wiring[j].rank >= 0) put(expected, j * bytes, sent(wiring[j].rank, wiring[j].edge, bytes));
  }
  expect("all_to_all", output.read(), expected);

  CollectiveCall call = with(neighbour_all_to_all_v({}));
  std::size_t at = 1;
  for (std::size_t k = 0; k < outs; ++k) {
    call.send_counts.push_back(length(world.rank(), static_cast<int>(k)));
    call.send_offsets.push_back(at);
    at += call.send_counts.back() + k % 2;
  }
  Bytes all_mine(at);
  for (std::size_t k = 0; k < outs; ++k) {
    put(all_mine, call.send_offsets[k], sent(world.rank(), static_cast<int>(k), call.send_counts[k]));
  }
  at = 0;
  for (std::size_t j = 0; j < ins; ++j) {
    call.receive_counts.push_back(wiring[j].rank < 0 ? 5 : length(wiring[j].rank, wiring[j].edge));
    call.receive_offsets.push_back(at);
    at += call.receive_counts.back() + 3;
  }
  Bytes all_expected(at);
  for (std::size_t j = 0; j < ins; ++j) {
    if (wiring[j].rank < 0) continue;
    put(all_expected, call.receive_offsets[j], sent(wiring[j].rank, wiring[j].edge, call.receive_counts[j]));
  }
  Buffer from(world, all_mine.size(), where);
  Buffer to(world, all_expected.size(), where);
  from.write(all_mine);
  to.write(Bytes(all_expected.size()));
  call.input = from.data();
  call.output = to.data();
  run(world, hood, call, way);
  expect("all_to_all_v", to.read(), all_expected);
}

void check_everything(World& world, Neighbourhood& hood, const std::vector<From>& wiring,
                      const std::vector<std::size_t>& sizes) {
  for (const std::size_t bytes : sizes) {
    for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::ll, Algorithm::simple}) {
      if (algorithm == Algorithm::ll && bytes > 10'000) continue;
      check_moves(world, hood, wiring, bytes, algorithm, Way::host, Where::reachable);
      for (const Where where : places(world)) check_moves(world, hood, wiring, bytes, algorithm, Way::stream, where);
    }
  }
}

// The data for the lower neighbour comes from its upper one.
std::vector<From> wiring_of_grid(const Neighbourhood& hood) {
  std::vector<From> wiring;
  for (std::size_t j = 0; j < hood.sources().size(); ++j) {
    wiring.push_back({hood.sources()[j], static_cast<int>(j ^ 1)});
  }
  return wiring;
}

// The n-th edge to a rank is the n-th that it names from there.
struct Edges {
  std::vector<NeighbourGraph> of;
  explicit Edges(int size) : of(static_cast<std::size_t>(size)) {}
  void edge(int from, int to) {
    of[static_cast<std::size_t>(from)].destinations.push_back(to);
    of[static_cast<std::size_t>(to)].sources.push_back(from);
  }
  std::vector<From> wiring(int rank) const {
    std::vector<From> out;
    std::vector<int> seen(of.size());
    for (const int source : of[static_cast<std::size_t>(rank)].sources) {
      const auto& edges = of[static_cast<std::size_t>(source)].destinations;
      int left = seen[static_cast<std::size_t>(source)]++;
      for (std::size_t k = 0; k < edges.size(); ++k) {
        if (edges[k] == rank && left-- == 0) out.push_back({source, static_cast<int>(k)});
      }
    }
    return out;
  }
};

// Edges by a fixed rule: to oneself, double, one way only.
Edges tangle(int size, int edges) {
  Edges graph(size);
  for (int i = 0; i < edges; ++i) graph.edge(i * 7 / 3 % size, (i * i + i / 2) % size);
  return graph;
}

}  // namespace

CASE(a_grid_has_mpis_order_of_neighbours) {
  on_all_devices(6, [](World& world) {
    const auto hood = world.collective().neighbourhood(NeighbourGrid{{2, 3}, {false, true}});
    if (world.rank() == 0) CHECK((hood->sources() == std::vector{-1, 3, 2, 1}));
    if (world.rank() == 4) CHECK((hood->destinations() == std::vector{1, -1, 3, 5}));
    CHECK(hood->sources() == hood->destinations());
    CHECK(hood->device_bytes() > 0 || world.fabric()->network() != nullptr);
  });
}

CASE(grids_of_every_shape_bring_every_part_to_its_place) {
  const NeighbourGrid grids[] = {{{1}, {true}},          {{1}, {}},
                                 {{2}, {true}},          {{3}, {false}},
                                 {{2, 2}, {true, true}}, {{1, 4}, {true, false}},
                                 {{3, 2}, {true, true}}, {{2, 1, 2}, {true, true, false}}};
  for (const NeighbourGrid& grid : grids) {
    const int size = std::accumulate(grid.dims.begin(), grid.dims.end(), 1, std::multiplies<>());
    on_all_devices(size, [&](World& world) {
      const auto hood = world.collective().neighbourhood(grid);
      check_everything(world, *hood, wiring_of_grid(*hood), {1, 8, 500, 20'000});
    });
  }
}

CASE(graphs_may_have_edges_to_oneself_double_ones_and_one_way_ones) {
  for (const int size : {1, 2, 3, 5}) {
    const Edges graph = tangle(size, 3 * size);
    on_all_devices(size, [&](World& world) {
      const auto hood = world.collective().neighbourhood(graph.of[static_cast<std::size_t>(world.rank())]);
      check_everything(world, *hood, graph.wiring(world.rank()), {0, 3, 64, 30'000});
    });
  }
}

CASE(more_edges_than_a_short_kernel_holds_are_fine) {
  Edges graph(3);
  for (int i = 0; i < 60; ++i) graph.edge(i % 3, i / 3 % 3);
  on_all_devices(3, [&](World& world) {
    const auto hood = world.collective().neighbourhood(graph.of[static_cast<std::size_t>(world.rank())]);
    CHECK(hood->sources().size() > 8);
    check_everything(world, *hood, graph.wiring(world.rank()), {24, 10'000});
  });
}

CASE(one_that_runs_ahead_overwrites_nothing) {
  // One way round a ring: nobody hears from whom it sends to.
  Edges ring(3);
  for (int rank = 0; rank < 3; ++rank) ring.edge(rank, (rank + 1) % 3);
  on_all_devices(3, [&](World& world) {
    const auto hood = world.collective().neighbourhood(ring.of[static_cast<std::size_t>(world.rank())]);
    const int source = (world.rank() + 2) % 3;
    constexpr std::size_t kRounds = 60;
    constexpr std::size_t kBytes = 200;
    TestBuffer input(world, kRounds * kBytes);
    TestBuffer output(world, kRounds * kBytes);
    Bytes mine(kRounds * kBytes);
    Bytes expected(kRounds * kBytes);
    for (std::size_t i = 0; i < kRounds; ++i) {
      put(mine, i * kBytes, sent(world.rank(), static_cast<int>(i), kBytes));
      put(expected, i * kBytes, sent(source, static_cast<int>(i), kBytes));
    }
    input.write(mine);
    const OwnStream stream(world);
    for (std::size_t i = 0; i < kRounds; ++i) {
      CollectiveCall call =
          neighbour_all_to_all({input.data() + i * kBytes, output.data() + i * kBytes, kBytes / (1 + i % 2)});
      call.algorithm = i % 3 == 0 ? Algorithm::simple : Algorithm::ll;
      call.count = kBytes;
      hood->run(where_it_runs(world, call), stream);
    }
    world.synchronize(stream);
    CHECK(output.read() == expected);
  });
}

CASE(neighbours_exchange_in_a_graph_as_often_as_it_is_replayed) {
  on_all_devices(4, [](World& world) {
    const auto hood = world.collective().neighbourhood(NeighbourGrid{{4}, {true}});
    TestBuffer input(world, 2 * 4096);
    TestBuffer output(world, 2 * 4096);
    const OwnStream stream(world);
    for (const Algorithm algorithm : {Algorithm::ll, Algorithm::simple}) {
      CollectiveCall call = neighbour_all_to_all({input.data(), output.data(), 4096});
      call.algorithm = algorithm;
      call = where_it_runs(world, call);
      hood->run(call);  // maps the buffers before the capture
      Device& device = world.device();
      device.begin_capture(stream);
      hood->run(call, stream);
      hood->run(call, stream);
      const auto graph = device.end_capture(stream);
      for (int replay = 0; replay < 3; ++replay) {
        const int left = (world.rank() + 3) % 4;
        const int right = (world.rank() + 1) % 4;
        const auto part = [&](int rank, int edge) { return sent(rank + 10 * replay, edge, 4096); };
        Bytes mine = part(world.rank(), 0);
        Bytes expected = part(left, 1);
        const Bytes second = part(world.rank(), 1);
        const Bytes other = part(right, 0);
        mine.insert(mine.end(), second.begin(), second.end());
        expected.insert(expected.end(), other.begin(), other.end());
        input.write(mine);
        device.launch(graph, stream);
        world.synchronize(stream);
        CHECK(output.read() == expected);
        world.barrier();
      }
    }
  });
}

CASE(large_ones_go_from_buffer_to_buffer_or_through_the_stage_in_chunks) {
  Edges graph = tangle(3, 7);
  on_all_devices(3, [&](World& world) {
    const auto hood = world.collective().neighbourhood(graph.of[static_cast<std::size_t>(world.rank())]);
    for (const Where where : places(world)) {
      check_moves(world, *hood, graph.wiring(world.rank()), 1'000'003, Algorithm::automatic, Way::stream, where);
    }
  });
  run_ranks(3, quick("host"), [&](World& world) {  // some can be stored to, some not
    const auto hood = world.collective().neighbourhood(graph.of[static_cast<std::size_t>(world.rank())]);
    const Where where = world.rank() == 1 ? Where::plain : Where::reachable;
    check_moves(world, *hood, graph.wiring(world.rank()), 700'000, Algorithm::automatic, Way::host, where);
  });
}

CASE(teams_have_neighbourhoods_of_their_own) {
  on_all_devices(5, [](World& world) {
    const std::vector<int> members = world.rank() % 2 == 0 ? std::vector{4, 0, 2} : std::vector{1, 3};
    const auto team = world.collective().among(members);
    const auto hood = team->neighbourhood(NeighbourGrid{{static_cast<int>(members.size())}, {true}});
    std::vector<From> wiring = wiring_of_grid(*hood);
    for (From& from : wiring) from.rank = members[static_cast<std::size_t>(from.rank)];
    check_everything(world, *hood, wiring, {16, 12'000});
  });
}

CASE(edges_that_only_one_end_names_are_refused_by_name) {
  on_all_devices(3, [](World& world) {
    Collective& all = world.collective();
    NeighbourGraph graph;
    if (world.rank() == 0) graph.destinations = {2, 2};
    if (world.rank() == 2) graph.sources = {0};
    CHECK_THROWS(all.neighbourhood(graph),
                 "rank 0 sends along 2 edges to rank 2, which receives along 1 from it; both ends name an edge");
    graph = {};
    if (world.rank() == 1) graph.sources = {2};
    CHECK_THROWS(all.neighbourhood(graph), "rank 2 sends along 0 edges to rank 1, which receives along 1");
    graph = {};
    if (world.rank() == 1) graph.sources = {3};
    CHECK_THROWS(all.neighbourhood(graph), "rank 3 among the sources does not exist; this team has ranks 0 to 2");
    CHECK_THROWS(all.neighbourhood(NeighbourGrid{{2, 2}, {}}), "a grid of 2 x 2 has no place for each of the team's 3");
    CHECK_THROWS(all.neighbourhood(NeighbourGrid{{0, 3}, {}}), "a dimension of 0 ranks");
    CHECK_THROWS(all.neighbourhood(NeighbourGrid{{3}, {true, true}}), "periodic has 2 entries for 1 dimensions");
    CHECK_THROWS(all.neighbourhood(NeighbourGrid{{3}, {world.rank() == 0}}), "both ends name an edge");
    graph = {};
    graph.sources = graph.destinations = std::vector<int>(65, world.rank());
    CHECK_THROWS(all.neighbourhood(graph), "65 edges; a rank has at most 64");
    const auto hood = all.neighbourhood(NeighbourGrid{{3}, {true}});  // nothing is broken
    check_everything(world, *hood, wiring_of_grid(*hood), {8});
  });
}

CASE(what_cannot_go_along_edges_is_refused_with_its_values) {
  on_all_devices(2, [](World& world) {
    const auto hood = world.collective().neighbourhood(NeighbourGrid{{2}, {true}});
    TestBuffer buffer(world, 64);
    const auto on = [&](std::size_t in, std::size_t out, std::size_t count) {
      return neighbour_all_to_all({buffer.data() + in, buffer.data() + out, count});
    };
    CHECK_THROWS(hood->run(on(0, 8, 8)), "overlap; along edges nothing goes in place");
    CHECK_THROWS(hood->run(on(0, 0, 8)), "overlap; along edges nothing goes in place");
    CHECK_THROWS(hood->run(neighbour_all_gather({buffer.data(), buffer.data(), 8})), "nothing goes in place");
    CollectiveCall counts = neighbour_all_to_all_v({buffer.data(), buffer.data(), 0});
    counts.send_counts = counts.receive_counts = {8, 8};
    counts.send_offsets = counts.receive_offsets = {0, 8};
    CHECK_THROWS(hood->run(counts), "nothing goes in place");
    counts.output = buffer.data() + 32;
    counts.receive_offsets = {4, 0};
    CHECK_THROWS(hood->run(counts), "what comes from source 1 (rank ");
    CHECK_THROWS(hood->run(on(0, 32, 17)), "ends");
    CHECK_THROWS(hood->run(neighbour_all_gather({nullptr, buffer.data(), 4})), "input of 4 B is a null pointer");
    CHECK_THROWS(hood->run(neighbour_all_to_all_v({buffer.data(), buffer.data() + 32, 0})),
                 "send_counts has 0 entries and send_offsets 0; this rank has 2 such neighbours");
    CHECK_THROWS(hood->run(collective::barrier()), "not barrier");
    CHECK_THROWS(world.collective().run(on(0, 32, 8)), "neighbourhood(...) gives an object that does it");
    CollectiveCall call = on(0, 32, 8);
    call.channel = 1;
    CHECK_THROWS(hood->run(call), "channel 1 does not exist");
    call = on(0, 32, 8);
    call.algorithm = Algorithm::two_shot;
    CHECK_THROWS(hood->run(call), "no algorithm two_shot along edges");
    hood->run(on(0, 32, 8));  // nothing is broken
  });
}

CASE(lengths_that_differ_at_the_ends_of_an_edge_are_named_with_both) {
  struct Row {
    std::size_t sends, gets;
  };
  constexpr Row kRows[] = {{16, 24}, {24, 16}, {0, 8}, {8, 0}, {100'000, 50'000}, {16, 100'000}, {100'000, 16}};
  for (const std::string& device : device_specs()) {
    for (const Row& row : kRows) {
      Parameters parameters = quick(device);
      parameters.timeout_s = 100;
      run_ranks(2, parameters, [&](World& world) {
        NeighbourGraph graph;
        (world.rank() == 0 ? graph.destinations : graph.sources).push_back(1 - world.rank());
        const auto hood = world.collective().neighbourhood(graph);
        only_on_one_host(world);  // between hosts the other end says it in other words
        TestBuffer buffer(world, 200'000);
        CollectiveCall call = neighbour_all_to_all({buffer.data(), buffer.data(), 0});
        call.count = world.rank() == 0 ? row.sends : row.gets;
        call.algorithm = Algorithm::automatic;
        try {
          hood->run(call);
          world.collective().run(collective::barrier());  // a rank that only sends small ones comes here
        } catch (const Error&) {                          // as soon as any rank knows
        }
        const std::string story = world.failure()->story + world.failure()->reason;
        const auto told = [&](int finder, std::size_t here, std::size_t there) {
          return story.find(concat("rank ", finder, ": neighbour_all_to_all of ", here, " B found that rank ",
                                   1 - finder, ", at the other end of the edge, gives ", there, " B")) !=
                 std::string::npos;
        };
        const bool both_look = row.sends > 10'000 && row.gets > 10'000;
        CHECK(told(1, row.gets, row.sends) || (both_look && told(0, row.sends, row.gets)));
      });
    }
  }
}

CASE(checking_refuses_what_the_ends_of_an_edge_do_not_call_alike_and_the_world_goes_on) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.collective_check = "on";
    run_ranks(4, parameters, [](World& world) {
      TestBuffer input(world, 1024);
      TestBuffer output(world, 1024);
      const Bytes before(1024, 7);
      output.write(before);
      const bool odd = world.rank() == 1;
      // Around 0 1 2; two edges from 0 to 1 more; rank 3 has none, and is told too.
      NeighbourGraph graph;
      if (world.rank() == 0) graph = {{2}, {1, 1, 1}};
      if (world.rank() == 1) graph = {{0, 0, 0}, {2}};
      if (world.rank() == 2) graph = {{1}, {0}};
      const auto hood = world.collective().neighbourhood(graph);
      const collective::Vector vector{input.data(), output.data(), 4, ElementType::float32};
      const auto refused = [&](CollectiveCall usual, const CollectiveCall& other, const char* words) {
        CHECK_THROWS(hood->run(odd ? other : usual), words);
        CHECK(output.read() == before);
      };
      collective::Vector of_five = vector;
      of_five.count = 5;
      refused(neighbour_all_gather(vector), neighbour_all_gather(of_five),
              "the two ends of an edge do not call the same:\n"
              "  rank 0 sends neighbour_all_gather of float32: 4 4 4; rank 1 expects neighbour_all_gather of float32: "
              "5 5 5\n"
              "  rank 1 sends neighbour_all_gather of float32: 5; rank 2 expects neighbour_all_gather of float32: 4");
      collective::Vector of_integers = vector;
      of_integers.type = ElementType::int32;
      refused(
          neighbour_all_gather(vector), neighbour_all_gather(of_integers),
          "rank 0 sends neighbour_all_gather of float32: 4 4 4; rank 1 expects neighbour_all_gather of int32: 4 4 4");
      refused(neighbour_all_gather(vector), neighbour_all_to_all(vector),
              "rank 1 sends neighbour_all_to_all of float32: 4; rank 2 expects neighbour_all_gather of float32: 4");
      // Each of several edges between two ranks has its own count; the second one differs.
      CollectiveCall counted = neighbour_all_to_all_v({input.data(), output.data(), 0, ElementType::int16});
      if (world.rank() == 0) counted.send_counts = {1, 2, 3};
      if (world.rank() == 1) counted.receive_counts = {1, 9, 3};
      if (world.rank() == 1 || world.rank() == 2) counted.send_counts = {4};
      if (world.rank() == 0 || world.rank() == 2) counted.receive_counts = {4};
      for (std::size_t i = 0; i < counted.send_counts.size(); ++i) counted.send_offsets.push_back(16 * i);
      for (std::size_t i = 0; i < counted.receive_counts.size(); ++i) counted.receive_offsets.push_back(16 * i);
      refused(
          counted, counted,
          "rank 0 sends neighbour_all_to_all_v of int16: 1 2 3; rank 1 expects neighbour_all_to_all_v of int16: 1 9 3");
      if (odd) counted.receive_counts = {1, 2, 3};
      const OwnStream stream(world);
      hood->run(counted, stream);
      world.synchronize(stream);
      world.barrier();
      world.check();  // nothing is broken
    });
  }
}

CASE(another_collective_at_the_other_end_is_named) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.timeout_s = 100;
    run_ranks(2, parameters, [&](World& world) {
      const auto hood = world.collective().neighbourhood(NeighbourGrid{{2}, {true}});
      TestBuffer buffer(world, 256);
      const collective::Vector vector{buffer.data(), buffer.data() + 128, 8};
      CHECK_THROWS(hood->run(world.rank() == 0 ? neighbour_all_gather(vector) : neighbour_all_to_all(vector)),
                   "calls another collective");
    });
  }
}

CASE(a_late_neighbour_is_named_at_the_deadline) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.timeout_s = 2;
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{300'000}}) {  // by lines, and from buffer to buffer
      run_ranks(3, parameters, [&](World& world) {
        const auto hood = world.collective().neighbourhood(NeighbourGrid{{3}, {false}});
        TestBuffer input(world, bytes);
        TestBuffer output(world, 2 * bytes);
        const collective::Vector vector{input.data(), output.data(), bytes};
        hood->run(neighbour_all_gather(vector));
        if (world.rank() == 1) return await_failure(world);
        CHECK_THROWS(hood->run(neighbour_all_gather(vector)), "waiting for rank 1");
        CHECK_THROWS(world.check(), "neighbour_all_gather");
      });
    }
  }
}

CASE(counts_and_offsets_beyond_all_addresses_are_refused) {
  on_all_devices(2, [](World& world) {
    constexpr std::size_t kAll = ~std::size_t{0};
    const auto hood = world.collective().neighbourhood(NeighbourGrid{{2}, {true}});
    TestBuffer input(world, 64);
    TestBuffer output(world, 64);
    const auto of = [&](std::size_t count) {
      return collective::Vector{input.data(), output.data(), count, ElementType::int32};
    };
    const char* const told = "are more than there are addresses";
    CHECK_THROWS(hood->run(neighbour_all_gather(of(kAll / 4 + 2))), told);
    CHECK_THROWS(hood->run(neighbour_all_to_all(of(kAll / 8 + 2))), told);
    CollectiveCall call = neighbour_all_to_all_v(of(0));
    call.send_counts = call.receive_counts = {4, 4};
    call.send_offsets = call.receive_offsets = {0, kAll / 4 + 1};
    CHECK_THROWS(hood->run(call), told);
    call.send_offsets = call.receive_offsets = {0, kAll - 1};
    CHECK_THROWS(hood->run(call), told);
    call.send_offsets = call.receive_offsets = {0, 4};
    hood->run(call);  // nothing is broken
  });
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
