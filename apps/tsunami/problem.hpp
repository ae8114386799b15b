// Problem: one rank's input: the sea, the wave and the clock.
//
// The sea is a grid of rows x columns cells in metres. Cells of one row are equally wide; rows may differ, as they do
// on a sphere. A rank holds one block of it; `depth` covers that block and one cell on every side, where a cell outside
// the sea, or on land, has depth <= 0. A value type: nothing here blocks or refers to a device.
#pragma once

#include <cstdint>
#include <vector>

namespace onstream::tsunami {

// The half-open range of rows and columns that a rank owns, and the grid of ranks it lies in.
struct Block {
  std::int64_t first_row = 0;
  std::int64_t last_row = 0;
  std::int64_t first_column = 0;
  std::int64_t last_column = 0;
  std::int64_t rows() const { return last_row - first_row; }
  std::int64_t columns() const { return last_column - first_column; }
};

// Ranks per dimension. Throws invalid_argument when a rank would have no cell.
std::vector<int> rank_grid(int ranks, std::int64_t rows, std::int64_t columns);

// Blocks of a grid differ by at most one row and one column.
Block block_of(int rank, const std::vector<int>& grid, std::int64_t rows, std::int64_t columns);

enum class Replay : std::int32_t {
  captured,  // a step is captured once and replayed
  eager      // every step is enqueued anew
};

struct Problem {
  std::int64_t rows = 0;  // of the whole sea
  std::int64_t columns = 0;
  double height_m = 0;  // of a row of cells
  double time_step_s = 0;
  double gravity = 9.81;             // m/s^2
  std::vector<double> width_m;       // of a cell of each row: rows
  std::vector<double> face_width_m;  // of the southern face of each row, and the northern one of the last: rows + 1
  std::vector<double> depth_m;       // this rank's block and its surroundings: (rows() + 2) x (columns() + 2)
  std::vector<double> elevation_m;   // the sea surface at the start: rows() x columns()
  std::vector<std::int64_t> gauges;  // cells of the whole sea (row * columns + column) whose elevation is recorded
  std::int64_t steps = 0;            // how many the gauges have room for
  Replay replay = Replay::captured;
};

}  // namespace onstream::tsunami
