// The grid of ranks: how many along each dimension, and the place of each rank.
#include <algorithm>
#include <limits>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/halo.hpp"

namespace onstream {

namespace {

// Cells exchanged per unit of ghost width: by the busiest block, which sets the time, and then by all.
using Cost = std::pair<double, double>;

Cost cost_of(const std::vector<int>& grid, const std::vector<std::int64_t>& shape) {
  Cost cost{0, 0};
  for (std::size_t d = 0; d < grid.size(); ++d) {
    double face = 1;
    double cut = 1;
    for (std::size_t other = 0; other < grid.size(); ++other) {
      if (other == d) continue;
      face *= static_cast<double>(shape[other]) / grid[other];
      cut *= static_cast<double>(shape[other]);
    }
    cost.first += face * std::min(2, grid[d] - 1);
    cost.second += cut * (grid[d] - 1);
  }
  return cost;
}

bool is_less(const Cost& a, const Cost& b) {
  constexpr double kEqual = 1e-9;  // of rounding, relative
  if (a.first < b.first * (1 - kEqual)) return true;
  return a.first <= b.first * (1 + kEqual) && a.second < b.second * (1 - kEqual);
}

struct Search {
  const std::vector<std::int64_t>& shape;
  std::vector<int> grid;
  std::vector<int> best;
  Cost best_cost{std::numeric_limits<double>::infinity(), 0};

  // Tries all ways to write `left` as a product over the dimensions from `d` on. Of equals the first wins, which cuts
  // the outer dimensions more, where faces are contiguous.
  void run(std::size_t d, int left) {
    if (d + 1 == shape.size()) {
      grid[d] = left;
      if (left > shape[d]) return;
      const Cost cost = cost_of(grid, shape);
      if (best.empty() || is_less(cost, best_cost)) {
        best_cost = cost;
        best = grid;
      }
      return;
    }
    for (int ranks = left; ranks >= 1; --ranks) {
      if (left % ranks != 0 || ranks > shape[d]) continue;
      grid[d] = ranks;
      run(d + 1, left / ranks);
    }
  }
};

template <class Number>
std::string listed(const std::vector<Number>& numbers) {
  std::string text;
  for (const Number number : numbers) text += concat(text.empty() ? "" : " x ", number);
  return text;
}

// Ranks in all. Throws for numbers that make no grid.
std::int64_t size_of(const std::vector<int>& grid) {
  std::int64_t size = 1;
  for (const int ranks : grid) {
    require(ranks >= 1, "a grid of ", listed(grid), " ranks: there must be at least one along every dimension");
    size *= ranks;
    require(size <= std::numeric_limits<int>::max(), "a grid of ", listed(grid), " has more ranks than there can be");
  }
  return size;
}

}  // namespace

std::vector<int> choose_grid(int size, const std::vector<std::int64_t>& shape) {
  require(size >= 1, "a grid needs at least one rank, not ", size);
  require(!shape.empty(), "a grid needs an array of at least one dimension");
  for (std::int64_t extent : shape)
    require(extent >= 1, "a grid over an array of ", listed(shape), " cells has nothing to cut");
  Search search{shape, std::vector<int>(shape.size(), 1), {}};
  search.run(0, size);
  require(!search.best.empty(), size, " ranks do not fit an array of ", listed(shape),
          " cells with a cell each along every dimension; use fewer ranks or a larger array");
  return search.best;
}

std::vector<int> coordinates_of(int rank, const std::vector<int>& grid) {
  const std::int64_t size = size_of(grid);
  require(rank >= 0 && rank < size, "rank ", rank, " is not in a grid of ", listed(grid), " ranks");
  std::vector<int> coordinates(grid.size());
  for (std::size_t d = grid.size(); d-- > 0;) {
    coordinates[d] = rank % grid[d];
    rank /= grid[d];
  }
  return coordinates;
}

int rank_at(std::vector<int> coordinates, const std::vector<int>& grid, const std::vector<bool>& periodic) {
  size_of(grid);
  require(coordinates.size() == grid.size(), "there are ", coordinates.size(), " coordinates for a grid of ",
          listed(grid), " ranks");
  require(periodic.empty() || periodic.size() == grid.size(), "periodic has ", periodic.size(),
          " entries for a grid of ", listed(grid), " ranks; give one a dimension, or none");
  int rank = 0;
  for (std::size_t d = 0; d < grid.size(); ++d) {
    if (d < periodic.size() && periodic[d])
      coordinates[d] = static_cast<int>((std::int64_t{coordinates[d] % grid[d]} + grid[d]) % grid[d]);
    if (coordinates[d] < 0 || coordinates[d] >= grid[d]) return -1;
    rank = rank * grid[d] + coordinates[d];
  }
  return rank;
}

}  // namespace onstream
