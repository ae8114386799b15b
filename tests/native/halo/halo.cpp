// Halos: every ghost cell against the global array it comes from, for many shapes, grids and widths; and the grids.
#include "onstream/halo.hpp"
#include "onstream/transport/fabric.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <random>

#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

using Index = std::vector<std::int64_t>;

// A global array cut into blocks that may differ in size along every dimension.
struct Problem {
  HaloSpec spec;                                // shape of this rank's block is filled in by local_spec()
  std::vector<std::vector<std::int64_t>> cuts;  // per dimension: where each block begins, and the end
  std::int64_t padding = 0;                     // elements between rows
  Index steps;  // per dimension: the stride in places of an element or row; below 0: backwards; none: all 1

  std::size_t dims() const { return spec.grid.size(); }
  std::int64_t extent(std::size_t d) const { return cuts[d].back(); }
  Index begin(int rank) const {
    const std::vector<int> at = coordinates_of(rank, spec.grid);
    Index begin;
    for (std::size_t d = 0; d < dims(); ++d) begin.push_back(cuts[d][static_cast<std::size_t>(at[d])]);
    return begin;
  }
  HaloSpec local_spec(int rank) const {
    HaloSpec local = spec;
    const std::vector<int> at = coordinates_of(rank, spec.grid);
    for (std::size_t d = 0; d < dims(); ++d) {
      const auto block = static_cast<std::size_t>(at[d]);
      local.shape.push_back(cuts[d][block + 1] - cuts[d][block] + 2 * spec.ghost[d]);
    }
    if (padding == 0 && std::ranges::all_of(steps, [](std::int64_t step) { return step == 1; })) return local;
    std::int64_t place = static_cast<std::int64_t>(spec.element_bytes);
    local.strides_bytes.assign(dims(), 0);
    for (std::size_t d = dims(); d-- > 0;) {
      const std::int64_t step = steps.empty() ? 1 : steps[d];
      local.strides_bytes[d] = place * step;
      place *= local.shape[d] * std::abs(step) + padding;
    }
    return local;
  }
};

constexpr std::size_t kElementBytes[] = {1, 2, 4, 8, 16, 3, 12, 24};
constexpr std::int64_t kSteps[] = {1, 1, 2, -1, -3};

Problem make_problem(int size, unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](unsigned n) { return static_cast<std::int64_t>(random() % n); };
  Problem problem;
  const std::size_t dims = 1 + seed % 4;
  problem.spec.element_bytes = kElementBytes[below(std::size(kElementBytes))];
  problem.spec.corners = below(2) == 1;
  problem.padding = below(3);
  std::int64_t left = size;
  for (std::size_t d = 0; d < dims; ++d) {
    std::int64_t ranks = d + 1 == dims ? left : 1;
    if (d + 1 < dims) {
      do ranks = 1 + below(static_cast<unsigned>(left));
      while (left % ranks != 0);
    }
    left /= ranks;
    problem.spec.grid.push_back(static_cast<int>(ranks));
    problem.spec.ghost.push_back(below(4));
    problem.spec.periodic.push_back(below(2) == 1);
    problem.steps.push_back(kSteps[below(std::size(kSteps))]);
    std::vector<std::int64_t> cuts{0};
    for (std::int64_t r = 0; r < ranks; ++r) {
      cuts.push_back(cuts.back() + std::max<std::int64_t>(1, problem.spec.ghost[d]) + below(dims > 2 ? 3 : 6));
    }
    problem.cuts.push_back(cuts);
  }
  return problem;
}

// The element of the global array at `at`, in time step `step`.
std::vector<unsigned char> element_at(const Problem& problem, const Index& at, int step) {
  unsigned seed = static_cast<unsigned>(step + 1);
  for (std::size_t d = 0; d < at.size(); ++d) seed = seed * 131u + static_cast<unsigned>(at[d]);
  return pattern(problem.spec.element_bytes, seed);
}

std::vector<unsigned char> sentinel(const Problem& problem) {
  return std::vector<unsigned char>(problem.spec.element_bytes, 0xee);
}

Index strides_of(const HaloSpec& spec) {
  if (!spec.strides_bytes.empty()) return spec.strides_bytes;
  Index strides(spec.shape.size());
  std::int64_t stride = static_cast<std::int64_t>(spec.element_bytes);
  for (std::size_t d = spec.shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= spec.shape[d];
  }
  return strides;
}

std::size_t bytes_of(const HaloSpec& spec) {
  const Index strides = strides_of(spec);
  std::int64_t last = static_cast<std::int64_t>(spec.element_bytes);
  for (std::size_t d = 0; d < spec.shape.size(); ++d) last += std::abs(strides[d]) * (spec.shape[d] - 1);
  return static_cast<std::size_t>(last);
}

// Where the first element lies, from the lowest byte of the array on.
std::int64_t origin_of(const HaloSpec& spec) {
  const Index strides = strides_of(spec);
  std::int64_t origin = 0;
  for (std::size_t d = 0; d < spec.shape.size(); ++d)
    origin -= std::min<std::int64_t>(strides[d], 0) * (spec.shape[d] - 1);
  return origin;
}

enum class When { before, after };

// The local array before or after the exchange, by looking at every cell on its own.
std::vector<unsigned char> local_array(const Problem& problem, int rank, int step, When when) {
  const HaloSpec spec = problem.local_spec(rank);
  const Index strides = strides_of(spec);
  const Index begin = problem.begin(rank);
  std::vector<unsigned char> bytes(bytes_of(spec), 0xee);
  Index at(spec.shape.size(), 0);
  while (true) {
    int ghosts = 0;
    bool inside = true;
    Index global(at.size());
    std::int64_t offset = origin_of(spec);
    for (std::size_t d = 0; d < at.size(); ++d) {
      if (at[d] < spec.ghost[d] || at[d] >= spec.shape[d] - spec.ghost[d]) ++ghosts;
      global[d] = begin[d] + at[d] - spec.ghost[d];
      if (spec.periodic[d]) global[d] = (global[d] + problem.extent(d)) % problem.extent(d);
      inside = inside && global[d] >= 0 && global[d] < problem.extent(d);
      offset += at[d] * strides[d];
    }
    const bool known = ghosts == 0 || (when == When::after && inside && (ghosts == 1 || spec.corners));
    const auto value = known ? element_at(problem, global, step) : sentinel(problem);
    std::memcpy(bytes.data() + offset, value.data(), value.size());
    std::size_t d = at.size();
    while (d > 0 && ++at[d - 1] == spec.shape[d - 1]) at[--d] = 0;
    if (d == 0) return bytes;
  }
}

void check_problem(World& world, const Problem& problem, int steps) {
  const HaloSpec spec = problem.local_spec(world.rank());
  TestBuffer array(world, bytes_of(spec));
  const OwnStream stream(world);
  const auto plan = world.halo(array.data() + origin_of(spec), spec);
  for (int step = 0; step < steps; ++step) {
    array.write(local_array(problem, world.rank(), step, When::before));
    plan->launch(stream);
    world.synchronize(stream);
    CHECK(array.read() == local_array(problem, world.rank(), step, When::after));
  }
  world.barrier();
}

Problem plane(std::vector<int> grid, std::int64_t rows, std::int64_t columns) {
  Problem problem;
  problem.spec.element_bytes = 8;
  problem.spec.grid = grid;
  problem.spec.ghost = {1, 1};
  problem.spec.periodic = {true, true};
  for (std::size_t d = 0; d < 2; ++d) {
    std::vector<std::int64_t> cuts;
    for (int r = 0; r <= grid[d]; ++r) cuts.push_back(r * (d == 0 ? rows : columns));
    problem.cuts.push_back(cuts);
  }
  return problem;
}

}  // namespace

CASE(every_ghost_cell_comes_from_its_place_in_the_global_array) {
  for (int size = 1; size <= 8; ++size) {
    on_all_devices(size, [&](World& world) {
      for (unsigned seed = 0; seed < all_or_few(32u, 8u); ++seed)
        check_problem(world, make_problem(size, seed * 8 + static_cast<unsigned>(size)), 2);
    });
  }
}

CASE(a_periodic_grid_of_two_tells_its_sides_apart) {
  for (const bool corners : {false, true}) {
    on_all_devices(4, [&](World& world) {
      Problem problem = plane({2, 2}, 5, 7);
      problem.spec.corners = corners;
      check_problem(world, problem, 3);
    });
  }
}

CASE(elements_of_odd_sizes_lie_at_any_stride) {
  on_all_devices(4, [](World& world) {
    for (const std::size_t bytes : {3, 12, 24}) {
      for (const Index& steps : {Index{1, 1}, Index{1, 2}, Index{2, 1}, Index{1, -1}, Index{-1, 1}, Index{-2, -3}}) {
        Problem problem = plane({2, 2}, 5, 7);
        problem.spec.element_bytes = bytes;
        problem.spec.corners = true;
        problem.steps = steps;
        check_problem(world, problem, 2);
      }
    }
  });
}

CASE(large_faces_go_straight_from_layout_to_layout) {
  on_all_devices(2, [&](World& world) {
    const Problem problem = plane({1, 2}, 3000, 9);
    check_problem(world, problem, 3);
    const HaloSpec spec = problem.local_spec(world.rank());
    TestBuffer array(world, bytes_of(spec));
    const auto plan = world.halo(array.data(), spec);
    CHECK(plan->kernels_per_launch() == 1);
    CHECK(plan->explain().find("3000 x 8 B, stride 88 B") != std::string::npos);
    world.barrier();
  });
}

CASE(several_arrays_share_one_plan) {
  on_all_devices(3, [&](World& world) {
    const Problem first = make_problem(3, 5);
    const Problem second = make_problem(3, 6);
    const HaloSpec first_spec = first.local_spec(world.rank());
    const HaloSpec second_spec = second.local_spec(world.rank());
    TestBuffer a(world, bytes_of(first_spec));
    TestBuffer b(world, bytes_of(second_spec));
    PlanBuilder builder = world.plan("both");
    add_halo(builder, *world.fabric(), a.data() + origin_of(first_spec), first_spec);
    add_halo(builder, *world.fabric(), b.data() + origin_of(second_spec), second_spec);
    const auto plan = builder.build();
    const OwnStream stream(world);
    a.write(local_array(first, world.rank(), 0, When::before));
    b.write(local_array(second, world.rank(), 0, When::before));
    plan->launch(stream);
    world.synchronize(stream);
    CHECK(a.read() == local_array(first, world.rank(), 0, When::after));
    CHECK(b.read() == local_array(second, world.rank(), 0, When::after));
    world.barrier();
  });
}

CASE(a_captured_halo_replays_like_an_eager_one) {
  on_all_devices(4, [&](World& world) {
    const Problem problem = plane({2, 2}, 20, 30);
    TestBuffer array(world, bytes_of(problem.local_spec(world.rank())));
    const auto plan = world.halo(array.data(), problem.local_spec(world.rank()));
    const OwnStream stream(world);
    world.device().begin_capture(stream);
    plan->launch(stream);
    const auto graph = end_capture_of_all(world, stream);
    for (int step = 0; step < 12; ++step) {
      array.write(local_array(problem, world.rank(), step, When::before));
      if ((step + world.rank()) % 2 == 0) {
        plan->launch(stream);
      } else {
        world.device().launch(graph, stream);
      }
      world.synchronize(stream);
      CHECK(array.read() == local_array(problem, world.rank(), step, When::after));
    }
    world.barrier();
  });
}

CASE(a_bad_spec_names_its_field) {
  run_ranks(1, quick("host"), [&](World& world) {
    TestBuffer array(world, 8192);
    const Problem good = plane({1, 1}, 5, 7);
    const HaloSpec spec = good.local_spec(0);
    const auto refuse = [&](const HaloSpec& bad) {
      PlanBuilder builder = world.plan("bad");
      add_halo(builder, *world.fabric(), array.data(), bad);
      (void)builder.build();
    };
    HaloSpec bad = spec;
    bad.ghost = {1};
    CHECK_THROWS(refuse(bad), "halo ghost has 1 widths for 2 dimensions");
    bad = spec;
    bad.grid = {2, 1};
    CHECK_THROWS(refuse(bad), "halo grid has 2 ranks, the world has 1");
    bad = spec;
    bad.element_bytes = 0;
    CHECK_THROWS(refuse(bad), "element_bytes is 0");
    bad = spec;
    bad.ghost = {-1, 1};
    CHECK_THROWS(refuse(bad), "halo ghost -1 along dimension 0");
    bad = spec;
    bad.shape = {2, 9};
    CHECK_THROWS(refuse(bad), "which leaves 0 inside, and needed are 1");
    bad = spec;
    bad.shape = {1, 1, 1, 1, 1};
    CHECK_THROWS(refuse(bad), "5 dimensions; 1 to 4 work");
    bad = spec;
    bad.periodic = {true};
    CHECK_THROWS(refuse(bad), "halo periodic has 1 flags");
    bad = spec;
    bad.strides_bytes = {8};
    CHECK_THROWS(refuse(bad), "halo strides_bytes has 1 numbers");
    bad = spec;
    bad.shape = {5, 9};
    bad.ghost = {2, 1};
    CHECK_THROWS(refuse(bad), "ghost cells, which leaves 1 inside, and needed are 2; make the array 6 or more long");
  });
}

CASE(a_block_narrower_than_its_ghost_cells_fails_on_every_rank) {
  on_all_devices(2, [&](World& world) {
    HaloSpec spec;
    spec.element_bytes = 4;
    spec.ghost = {3};
    spec.grid = {2};
    spec.shape = {world.rank() == 0 ? 20 : 8};
    TestBuffer array(world, 80);
    CHECK_THROWS((void)world.halo(array.data(), spec), "rank 1: halo: the local array of 8");
  });
}

// And the world goes on.
CASE(what_is_wrong_with_one_block_fails_on_every_rank) {
  HaloSpec good;
  good.element_bytes = 4;
  good.ghost = {1};
  good.grid = {3};
  good.shape = {10};
  HaloSpec all_ghost = good;
  all_ghost.shape = {2};
  HaloSpec nowhere = good;
  nowhere.tag = 100'000;
  HaloSpec longer = good;
  longer.shape = {std::int64_t{1} << 46};  // 2^48 B: no process has an address there
  const std::vector<std::pair<HaloSpec, std::string>> wrong = {
      {all_ghost, "rank 1: halo: the local array of 2 cells is too small"},
      {nowhere, "rank 1: send op 0 of plan 'halo': tag 100000 is not one of"},
      {longer, "rank 1: recv op 1 of plan 'halo': nothing is mapped at"}};
  on_all_devices(3, [&](World& world) {
    TestBuffer array(world, 40);
    for (const auto& [spec, told] : wrong) {
      const std::uint64_t begin = now_ns();
      CHECK_THROWS((void)world.halo(array.data(), world.rank() == 1 ? spec : good), told);
      CHECK(ended_at_once(begin));
    }
    CHECK_THROWS((void)world.halo(world.rank() == 2 ? nullptr : array.data(), good), "rank 2: the array of a halo is");
    (void)world.halo(array.data(), good);
    world.barrier();
  });
}

CASE(grids_cut_where_it_costs_least) {
  CHECK((choose_grid(4, {100, 100}) == std::vector<int>{2, 2}));
  CHECK((choose_grid(4, {1000, 10}) == std::vector<int>{4, 1}));
  CHECK((choose_grid(4, {10, 1000}) == std::vector<int>{1, 4}));
  CHECK((choose_grid(7, {100, 100}) == std::vector<int>{7, 1}));
  CHECK((choose_grid(8, {64, 64, 64}) == std::vector<int>{2, 2, 2}));
  CHECK((choose_grid(6, {2, 3}) == std::vector<int>{2, 3}));
  CHECK((choose_grid(1, {5}) == std::vector<int>{1}));
  CHECK_THROWS((void)choose_grid(7, {3, 3}), "7 ranks do not fit an array of 3 x 3 cells");
  CHECK_THROWS((void)choose_grid(0, {3, 3}), "at least one rank");
  CHECK_THROWS((void)choose_grid(2, {}), "at least one dimension");
  CHECK_THROWS((void)choose_grid(2, {0, 4}), "nothing to cut");
}

CASE(coordinates_and_ranks_are_inverse) {
  const std::vector<int> grid{2, 3, 4};
  for (int rank = 0; rank < 24; ++rank) CHECK(rank_at(coordinates_of(rank, grid), grid, {}) == rank);
  CHECK(rank_at({0, -1, 0}, grid, {}) == -1);
  CHECK(rank_at({0, -1, 0}, grid, {false, true, false}) == rank_at({0, 2, 0}, grid, {}));
  CHECK(rank_at({2, 0, 0}, grid, {true, false, false}) == 0);
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
