#include "problem.hpp"

#include "onstream/base/error.hpp"
#include "onstream/halo.hpp"

namespace onstream::tsunami {

std::vector<int> rank_grid(int ranks, std::int64_t rows, std::int64_t columns) {
  require(ranks >= 1 && rows >= 1 && columns >= 1, ranks, " ranks cannot share a sea of ", rows, " x ", columns,
          " cells");
  std::vector<int> grid = choose_grid(ranks, {rows, columns});
  require(grid[0] <= rows && grid[1] <= columns, ranks, " ranks in a grid of ", grid[0], " x ", grid[1],
          " are too many for a sea of ", rows, " x ", columns,
          " cells: every rank needs at least one; use fewer ranks or a finer grid");
  return grid;
}

Block block_of(int rank, const std::vector<int>& grid, std::int64_t rows, std::int64_t columns) {
  const std::vector<int> at = coordinates_of(rank, grid);
  return {at[0] * rows / grid[0], (at[0] + 1) * rows / grid[0], at[1] * columns / grid[1],
          (at[1] + 1) * columns / grid[1]};
}

}  // namespace onstream::tsunami
