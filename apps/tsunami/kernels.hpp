// The kernels of one time step, as bodies over a Group: the same text runs on the host and on a GPU.
//
// Linear shallow-water equations on a staggered (Arakawa C) grid, leapfrog in time: C. Goto, Y. Ogawa, N. Shuto and
// F. Imamura, "Numerical method of tsunami simulation with the leap-frog scheme" (IUGG/IOC TIME project), IOC Manuals
// and Guides 35, UNESCO 1997, chapter 1, linear theory, without the Coriolis term:
//
//     area d(eta)/dt = -(east_e - east_w + north_n - north_s)      east, north: volume fluxes through the faces, m^3/s
//     d(east)/dt  = -g h height / width  (eta_e - eta_w)           h: mean depth of the two cells of the face;
//     d(north)/dt = -g h face_width / height (eta_n - eta_s)       a face of a dry cell is closed: its h is 0
//
// Volume fluxes instead of Goto's fluxes per width make the scheme conservative on a sphere too: the water that leaves
// a cell enters its neighbour. Each face's flux is computed by every rank that touches the face, from the same numbers
// in the same order, so one exchange of eta a step is enough and any decomposition gives the same bits.
//
// Local arrays have (rows + 2) x (columns + 2) elements: the block, rows 1 to rows, and a ring of ghost cells.
// east[j][i] lies between cells i and i + 1 of row j; north[j][i] between rows j and j + 1.
#pragma once

#include <cstdint>

#include "onstream/device/kernel/group.hpp"

namespace onstream::tsunami {

// The block's arrays, by value into every body.
struct Sea {
  std::int64_t rows = 0;  // of the block, without ghosts
  std::int64_t columns = 0;
  double* eta = nullptr;
  double* east = nullptr;
  double* north = nullptr;
  const double* east_factor = nullptr;   // g dt h height / width; 0: closed
  const double* north_factor = nullptr;  // g dt h face_width / height
  const double* row_factor = nullptr;    // dt / area, one a row with ghosts

  ONSTREAM_BOTH std::int64_t pitch() const { return columns + 2; }
};

ONSTREAM_BODY double higher(double one, double other) { return one < other ? other : one; }

// New elevation of one cell; `highest` as in RaiseRows.
ONSTREAM_BODY void raise(const Sea& sea, double* highest, std::int64_t row, std::int64_t column) {
  const std::int64_t at = row * sea.pitch() + column;
  const double out = (sea.east[at] - sea.east[at - 1]) + (sea.north[at] - sea.north[at - sea.pitch()]);
  const double before = sea.eta[at];
  const double now = before - sea.row_factor[row] * out;
  sea.eta[at] = now;
  if (highest != nullptr) highest[at] = higher(highest[at], higher(before, now));
}

ONSTREAM_BODY void push_east(const Sea& sea, std::int64_t row, std::int64_t column) {
  const std::int64_t at = row * sea.pitch() + column;
  sea.east[at] -= sea.east_factor[at] * (sea.eta[at + 1] - sea.eta[at]);
}

ONSTREAM_BODY void push_north(const Sea& sea, std::int64_t row, std::int64_t column) {
  const std::int64_t at = row * sea.pitch() + column;
  sea.north[at] -= sea.north_factor[at] * (sea.eta[at + sea.pitch()] - sea.eta[at]);
}

// Elevation of the block's outermost cells, those that neighbours wait for.
struct RaiseRim {
  Sea sea;
  double* highest = nullptr;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    const std::int64_t ends = sea.rows > 1 ? 2 : 1;      // whole rows at top and bottom
    const std::int64_t sides = sea.columns > 1 ? 2 : 1;  // and the columns between them
    const std::int64_t between = sea.rows > 2 ? sea.rows - 2 : 0;
    const std::int64_t in_rows = ends * sea.columns;
    const std::int64_t count = in_rows + sides * between;
    const std::int64_t stride = static_cast<std::int64_t>(group.blocks()) * group.size();
    for (std::int64_t k = static_cast<std::int64_t>(group.block()) * group.size() + group.rank(); k < count;
         k += stride) {
      if (k < in_rows) {
        raise(sea, highest, k < sea.columns ? 1 : sea.rows, 1 + k % sea.columns);
      } else {
        raise(sea, highest, 2 + (k - in_rows) % between, k - in_rows < between ? 1 : sea.columns);
      }
    }
  }
};

// Elevation of all other cells. `highest`, unless null, keeps the highest ever of each cell: of the step before too,
// whose result is at hand anyway, so that two steps take one pass over that array.
struct RaiseRows {
  Sea sea;
  double* highest = nullptr;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    for (std::int64_t row = 2 + group.block(); row < sea.rows; row += group.blocks()) {
      const std::int64_t at = row * sea.pitch();
      double* __restrict__ eta = sea.eta + at;
      const double* __restrict__ east = sea.east + at;
      const double* __restrict__ north = sea.north + at;
      const double* __restrict__ south = north - sea.pitch();
      double* __restrict__ high = highest == nullptr ? nullptr : highest + at;
      const double factor = sea.row_factor[row];
      const std::int64_t end = sea.columns;
      for (std::int64_t i = 2 + group.rank(); i < end; i += group.size()) {
        const double out = (east[i] - east[i - 1]) + (north[i] - south[i]);
        const double before = eta[i];
        const double now = before - factor * out;
        eta[i] = now;
        if (high != nullptr) high[i] = higher(high[i], higher(before, now));
      }
    }
  }
};

// Fluxes that need no ghost cell: each row's inner eastern faces and, except for the first row, its southern faces.
struct PushRows {
  Sea sea;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    for (std::int64_t row = 1 + group.block(); row <= sea.rows; row += group.blocks()) {
      const std::int64_t at = row * sea.pitch();
      const double* __restrict__ eta = sea.eta + at;
      const std::int64_t end = sea.columns;
      {
        double* __restrict__ east = sea.east + at;
        const double* __restrict__ factor = sea.east_factor + at;
        for (std::int64_t i = 1 + group.rank(); i < end; i += group.size())
          east[i] -= factor[i] * (eta[i + 1] - eta[i]);
      }
      if (row > 1) {
        const double* __restrict__ below = eta - sea.pitch();
        double* __restrict__ south = sea.north + at - sea.pitch();
        const double* __restrict__ factor = sea.north_factor + at - sea.pitch();
        for (std::int64_t i = 1 + group.rank(); i <= end; i += group.size())
          south[i] -= factor[i] * (eta[i] - below[i]);
      }
    }
  }
};

// Fluxes through the block's outline, which need the neighbours' elevation.
struct PushRim {
  Sea sea;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    const std::int64_t count = 2 * (sea.rows + sea.columns);
    const std::int64_t stride = static_cast<std::int64_t>(group.blocks()) * group.size();
    for (std::int64_t k = static_cast<std::int64_t>(group.block()) * group.size() + group.rank(); k < count;
         k += stride) {
      if (k < 2 * sea.columns) {
        push_north(sea, k < sea.columns ? 0 : sea.rows, 1 + k % sea.columns);
      } else {
        const std::int64_t side = k - 2 * sea.columns;
        push_east(sea, 1 + side % sea.rows, side < sea.rows ? 0 : sea.columns);
      }
    }
  }
};

// Adds the time since the last lap to `total` (null: only starts the clock).
struct Lap {
  std::uint64_t* clock = nullptr;
  std::uint64_t* total = nullptr;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (group.block() != 0 || group.rank() != 0) return;
    const std::uint64_t now = group.now_ns();
    if (total != nullptr) *total += now - *clock;
    *clock = now;
  }
};

// Appends the elevation at each gauge to its series. The number of the sample lives in device memory, so that a
// replayed step counts on.
struct Record {
  const double* eta = nullptr;
  const std::int64_t* cells = nullptr;  // elements of the local array
  std::int64_t gauges = 0;
  double* series = nullptr;  // gauges x capacity
  std::int64_t capacity = 0;
  std::uint64_t* samples = nullptr;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    if (group.block() != 0) return;
    const auto sample = static_cast<std::int64_t>(*samples);
    if (sample < capacity) {
      for (std::int64_t g = group.rank(); g < gauges; g += group.size()) series[g * capacity + sample] = eta[cells[g]];
    }
    group.sync();
    if (group.rank() == 0) *samples += 1;
  }
};

// Raises the highest water to the last step's elevation, as RaiseRows does for the steps before.
struct KeepHighest {
  Sea sea;
  double* highest = nullptr;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    for (std::int64_t row = 1 + group.block(); row <= sea.rows; row += group.blocks()) {
      const double* __restrict__ eta = sea.eta + row * sea.pitch();
      double* __restrict__ high = highest + row * sea.pitch();
      const std::int64_t end = sea.columns;
      for (std::int64_t i = 1 + group.rank(); i <= end; i += group.size()) high[i] = higher(high[i], eta[i]);
    }
  }
};

// Copies the block, without ghosts, to contiguous memory, which is then sent to rank 0.
struct Pack {
  Sea sea;
  const double* field = nullptr;
  double* packed = nullptr;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    for (std::int64_t row = group.block(); row < sea.rows; row += group.blocks()) {
      const double* __restrict__ from = field + (row + 1) * sea.pitch() + 1;
      double* __restrict__ to = packed + row * sea.columns;
      const std::int64_t end = sea.columns;
      for (std::int64_t i = group.rank(); i < end; i += group.size()) to[i] = from[i];
    }
  }
};

}  // namespace onstream::tsunami
