// The demo's solver: against a plain reference, against itself on other numbers of ranks (bit for bit), and its books.
#include "tsunami.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <mutex>
#include <thread>

#include "support/check.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;
using namespace onstream::tsunami;

namespace {

// A sea with islands, walls and rows of different widths.
struct Sea0 {
  std::int64_t rows;
  std::int64_t columns;
  std::vector<double> depth;
  std::vector<double> surface;
  std::vector<double> width;
  std::vector<double> face_width;
  double height = 900.0;
  double time_step = 2.0;

  Sea0(std::int64_t r, std::int64_t c) : rows(r), columns(c) {
    for (std::int64_t j = 0; j < rows; ++j) {
      width.push_back(1000.0 - 3.0 * static_cast<double>(j));
      face_width.push_back(1001.5 - 3.0 * static_cast<double>(j));
      for (std::int64_t i = 0; i < columns; ++i) {
        const bool island = (j * 7 + i * 3) % 11 == 0;
        depth.push_back(island ? -20.0 : 200.0 + static_cast<double>((j * 31 + i * 17) % 97));
        const double y = static_cast<double>(j) - static_cast<double>(rows) / 3;
        const double x = static_cast<double>(i) - static_cast<double>(columns) / 2;
        surface.push_back(island ? 0.0 : 3.0 * std::exp(-(x * x + y * y) / 9.0));
      }
    }
    face_width.push_back(1001.5 - 3.0 * static_cast<double>(rows));
  }

  double volume(const std::vector<double>& eta) const {
    double sum = 0;
    for (std::int64_t k = 0; k < rows * columns; ++k) sum += eta[k] * width[k / columns] * height;
    return sum;
  }

  // The part of the problem that a rank knows.
  Problem part(const Block& block) const {
    Problem problem;
    problem.rows = rows;
    problem.columns = columns;
    problem.height_m = height;
    problem.time_step_s = time_step;
    problem.width_m = width;
    problem.face_width_m = face_width;
    for (std::int64_t j = block.first_row - 1; j <= block.last_row; ++j) {
      for (std::int64_t i = block.first_column - 1; i <= block.last_column; ++i) {
        const bool inside = j >= 0 && j < rows && i >= 0 && i < columns;
        problem.depth_m.push_back(inside ? depth[j * columns + i] : 0.0);
      }
    }
    for (std::int64_t j = block.first_row; j < block.last_row; ++j) {
      for (std::int64_t i = block.first_column; i < block.last_column; ++i) {
        problem.elevation_m.push_back(surface[j * columns + i]);
      }
    }
    problem.steps = 1000;
    return problem;
  }
};

struct Waves {
  std::vector<double> elevation;
  std::vector<double> highest;
};

void keep_highest(std::vector<double>& highest, const std::vector<double>& elevation) {
  for (std::size_t k = 0; k < highest.size(); ++k) highest[k] = std::max(highest[k], elevation[k]);
}

// The equations over the whole sea with fluxes per metre of width, as the paper writes them.
Waves reference(const Sea0& sea, int steps) {
  const std::int64_t nx = sea.columns;
  std::vector<double> eta = sea.surface;
  std::vector<double> highest = eta;
  std::vector<double> m(eta.size(), 0.0);  // through the eastern face of a cell
  std::vector<double> n(eta.size(), 0.0);  // through the northern one
  const auto open_depth = [&](std::int64_t a, std::int64_t b) {
    return sea.depth[a] > 0 && sea.depth[b] > 0 ? (sea.depth[a] + sea.depth[b]) / 2 : 0.0;
  };
  for (int step = 0; step < steps; ++step) {
    for (std::int64_t k = 0; k < sea.rows * nx; ++k) {
      const std::int64_t j = k / nx;
      const double west = k % nx > 0 ? m[k - 1] : 0.0;
      const double south = j > 0 ? n[k - nx] * sea.face_width[j] : 0.0;
      const double out = (m[k] - west) * sea.height + n[k] * sea.face_width[j + 1] - south;
      eta[k] -= sea.time_step * out / (sea.width[j] * sea.height);
    }
    for (std::int64_t k = 0; k < sea.rows * nx; ++k) {
      const std::int64_t j = k / nx;
      const double push = 9.81 * sea.time_step;
      if (k % nx + 1 < nx) m[k] -= push * open_depth(k, k + 1) * (eta[k + 1] - eta[k]) / sea.width[j];
      if (j + 1 < sea.rows) n[k] -= push * open_depth(k, k + nx) * (eta[k + nx] - eta[k]) / sea.height;
    }
    keep_highest(highest, eta);
  }
  return {eta, highest};
}

std::shared_ptr<World> borrowed(World& world) { return {std::shared_ptr<void>(), &world}; }

// Rank 0's elevation after each of these numbers of further steps, one after the other, and then the highest of all.
std::vector<double> simulate(const std::string& device, int ranks, const Sea0& sea, const std::vector<int>& runs,
                             Replay replay = Replay::captured) {
  std::vector<double> all;
  run_ranks(ranks, quick(device), [&](World& world) {
    const std::vector<int> grid = rank_grid(ranks, sea.rows, sea.columns);
    Problem problem = sea.part(block_of(world.rank(), grid, sea.rows, sea.columns));
    problem.replay = replay;
    Tsunami tsunami(borrowed(world), problem);
    for (const int steps : runs) {
      tsunami.run(steps);
      const std::vector<double> whole = tsunami.gather(Field::elevation);
      if (world.rank() == 0) all.insert(all.end(), whole.begin(), whole.end());
    }
    const std::vector<double> highest = tsunami.gather(Field::highest);
    if (world.rank() == 0) all.insert(all.end(), highest.begin(), highest.end());
  });
  return all;
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && !a.empty() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

}  // namespace

CASE(blocks_cover_the_sea_once_and_differ_by_one_cell) {
  for (int ranks = 1; ranks <= 13; ++ranks) {
    const std::vector<int> grid = rank_grid(ranks, 23, 31);
    std::vector<int> owners(23 * 31, 0);
    std::int64_t low[2] = {99, 99};
    std::int64_t high[2] = {0, 0};
    for (int rank = 0; rank < ranks; ++rank) {
      const Block block = block_of(rank, grid, 23, 31);
      const std::int64_t extents[2] = {block.rows(), block.columns()};
      for (int d = 0; d < 2; ++d) {
        low[d] = std::min(low[d], extents[d]);
        high[d] = std::max(high[d], extents[d]);
      }
      for (std::int64_t j = block.first_row; j < block.last_row; ++j) {
        for (std::int64_t i = block.first_column; i < block.last_column; ++i) ++owners[j * 31 + i];
      }
    }
    CHECK(std::all_of(owners.begin(), owners.end(), [](int count) { return count == 1; }));
    CHECK(low[0] >= 1 && high[0] - low[0] <= 1 && low[1] >= 1 && high[1] - low[1] <= 1);
  }
}

CASE(one_rank_matches_a_plain_reference) {
  const Sea0 sea(24, 37);
  for (const int steps : {60, 7}) {  // an even and an odd number
    const Waves waves = reference(sea, steps);
    std::vector<double> expected = waves.elevation;
    expected.insert(expected.end(), waves.highest.begin(), waves.highest.end());
    for (const std::string& device : device_specs()) {
      const std::vector<double> got = simulate(device, 1, sea, {steps});
      CHECK(got.size() == expected.size());
      double worst = 0;
      for (std::size_t k = 0; k < expected.size(); ++k) worst = std::max(worst, std::abs(got[k] - expected[k]));
      CHECK(worst < 1e-12);
      CHECK(*std::max_element(waves.elevation.begin(), waves.elevation.end()) > 0.01);
    }
  }
}

CASE(the_highest_water_is_that_of_every_step) {
  const Sea0 sea(19, 21);
  const std::vector<int> runs(15, 1);
  const std::size_t cells = sea.surface.size();
  for (const std::string& device : device_specs()) {
    const std::vector<double> all = simulate(device, 1, sea, runs);
    CHECK(all.size() == (runs.size() + 1) * cells);
    std::vector<double> highest = sea.surface;
    std::size_t rose = 0;
    for (std::size_t step = 0; step < runs.size(); ++step) {
      const std::vector<double> before = highest;
      keep_highest(highest, {&all[step * cells], &all[(step + 1) * cells]});
      rose += before != highest;
    }
    CHECK(rose == runs.size() - 1);  // the first raises nothing yet; no other can be left out
    const std::vector<double> kept(all.end() - static_cast<std::ptrdiff_t>(cells), all.end());
    CHECK(same_bits(kept, highest));
    const auto in_other_runs = [&](int ranks, const std::vector<int>& steps, Replay replay) {
      const std::vector<double> got = simulate(device, ranks, sea, steps, replay);
      CHECK(got.size() >= cells);
      return std::vector<double>(got.end() - static_cast<std::ptrdiff_t>(cells), got.end());
    };
    CHECK(same_bits(in_other_runs(4, {15}, Replay::captured), highest));
    CHECK(same_bits(in_other_runs(4, {2, 3, 10}, Replay::captured), highest));
    CHECK(same_bits(in_other_runs(3, {15}, Replay::eager), highest));
  }
}

CASE(any_number_of_ranks_gives_the_bits_of_one) {
  const Sea0 sea(23, 29);
  for (const std::string& device : device_specs()) {
    const std::vector<double> one = simulate(device, 1, sea, {1, 20, 21});
    for (const int ranks : {2, 3, 4, 5, 6, 7}) {
      if (device != "host" && ranks > 4) continue;  // their streams share the hardware queues of one GPU (README)
      CHECK(same_bits(simulate(device, ranks, sea, {1, 20, 21}), one));
    }
  }
}

CASE(eager_steps_give_the_bits_of_captured_ones) {
  const Sea0 sea(17, 12);
  for (const std::string& device : device_specs()) {
    const std::vector<double> one = simulate(device, 1, sea, {30});
    CHECK(same_bits(simulate(device, 1, sea, {30}, Replay::eager), one));
    CHECK(same_bits(simulate(device, 3, sea, {30}, Replay::eager), one));
  }
}

CASE(blocks_one_cell_wide_or_small_work) {
  for (const auto& [rows, columns] : {std::pair{3, 40}, std::pair{40, 3}, std::pair{1, 12}, std::pair{2, 2}}) {
    const Sea0 sea(rows, columns);
    const std::vector<double> one = simulate("host", 1, sea, {25});
    CHECK(same_bits(simulate("host", 4, sea, {25}), one));
  }
}

CASE(a_closed_sea_keeps_its_water) {
  const Sea0 sea(31, 30);
  const std::vector<double> after = simulate("host", 2, sea, {900});
  const double before = sea.volume(sea.surface);
  CHECK(std::abs(sea.volume(after) / before - 1.0) < 1e-12);
  for (std::size_t k = 0; k < sea.depth.size(); ++k) CHECK(sea.depth[k] > 0 || after[k] == 0.0);
}

CASE(gauges_record_every_step_whoever_owns_them) {
  const Sea0 sea(20, 20);
  const std::vector<std::int64_t> cells = {2 * 20 + 3, 17 * 20 + 18, 9 * 20 + 10};
  std::vector<std::vector<double>> series;
  std::vector<double> last;
  run_ranks(4, quick("host"), [&](World& world) {
    Problem problem = sea.part(block_of(world.rank(), rank_grid(4, 20, 20), 20, 20));
    problem.gauges = cells;
    problem.steps = 50;
    Tsunami tsunami(borrowed(world), problem);
    tsunami.run(30);
    tsunami.run(12);
    for (std::size_t g = 0; g < cells.size(); ++g) {
      const std::vector<double> one = tsunami.gauge(g);
      if (world.rank() == 0) series.push_back(one);
    }
    const std::vector<double> whole = tsunami.gather(Field::elevation);
    if (world.rank() == 0) last = whole;
  });
  CHECK(series.size() == cells.size());
  for (std::size_t g = 0; g < cells.size(); ++g) {
    CHECK(series[g].size() == 42);
    CHECK(series[g].back() == last[cells[g]]);
    CHECK(std::abs(series[g][20] - reference(sea, 21).elevation[cells[g]]) < 1e-12);
  }
}

// Rank 1 begins its step late. Rank 0 has computed its inside long before, and only then waits for the exchange.
CASE(the_inside_is_computed_while_a_neighbour_is_late) {
  constexpr std::uint64_t kLateNs = 1'000'000'000;
  const Sea0 sea(40, 40);
  for (const std::string& device : device_specs()) {
    for (const Replay replay : {Replay::eager, Replay::captured}) {
      if (device == "host" && replay == Replay::captured) continue;  // there the laps lie around the exchange
      run_ranks(2, quick(device), [&](World& world) {
        Problem problem = sea.part(block_of(world.rank(), rank_grid(2, 40, 40), 40, 40));
        problem.replay = replay;
        Tsunami tsunami(borrowed(world), problem);
        tsunami.run(2);
        tsunami.reset_times();
        world.barrier();
        if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::nanoseconds(kLateNs));
        tsunami.run(1);
        const StepTimes times = tsunami.times();
        if (world.rank() == 0) CHECK(times.wait_ns > kLateNs / 2 && times.compute_ns < kLateNs / 2);
        world.barrier();
      });
    }
  }
}

CASE(times_count_steps_and_can_be_reset) {
  const Sea0 sea(40, 40);
  run_ranks(2, quick("host"), [&](World& world) {
    Tsunami tsunami(borrowed(world), sea.part(block_of(world.rank(), rank_grid(2, 40, 40), 40, 40)));
    tsunami.run(10);
    StepTimes times = tsunami.times();
    CHECK(times.steps == 10);
    CHECK(times.compute_ns > 0);
    tsunami.reset_times();
    times = tsunami.times();
    CHECK(times.steps == 0 && times.compute_ns == 0 && times.wait_ns == 0);
    CHECK(!tsunami.exchanges().empty());
    world.barrier();
  });
}

CASE(a_problem_that_cannot_work_is_refused_with_its_values) {
  const Sea0 sea(9, 9);
  run_ranks(1, quick("host"), [&](World& world) {
    const Problem good = sea.part({0, 9, 0, 9});
    const auto make = [&](const Problem& problem) { Tsunami tsunami(borrowed(world), problem); };
    Problem bad = good;
    bad.depth_m.pop_back();
    CHECK_THROWS(make(bad), "depth_m has 120 elements, but this rank's part needs 121");
    bad = good;
    bad.time_step_s = 0;
    CHECK_THROWS(make(bad), "time_step_s=0");
    bad = good;
    bad.gauges = {81};
    CHECK_THROWS(make(bad), "gauge cell 81");
    bad = good;
    bad.elevation_m[4] = std::nan("");
    CHECK_THROWS(make(bad), "elevation_m holds values that are not finite");
  });
  CHECK_THROWS(rank_grid(50, 6, 8), "50 ranks");
}

int main(int argc, char** argv) { return run(argc, argv); }
