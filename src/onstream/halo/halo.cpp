// The ops of a halo exchange: for every direction one send and one receive, all in one plan.
//
// The message that travels in direction v leaves the sender's boundary on side v and fills the receiver's ghost cells
// on side -v. All ranks add their sends and their receives in the order of the direction of travel, so two neighbours
// that meet on both sides (a periodic grid of two) match the right pairs on one tag.
//
// An error may be one rank's alone, as blocks and their places differ: so it is not thrown here, but by build() on
// every rank.
#include "onstream/halo.hpp"

#include <algorithm>

#include "onstream/base/error.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream {

namespace {

constexpr std::size_t kMaxDims = 4;

using Direction = std::vector<int>;  // -1, 0 or 1 along each dimension

std::string listed(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::int64_t number : numbers) text += concat(text.empty() ? "" : " x ", number);
  return text;
}

bool is_periodic(const HaloSpec& spec, std::size_t d) { return d < spec.periodic.size() && spec.periodic[d]; }

// Cells of the block's own along a dimension: where it has neighbours they fill a neighbour's ghost cells.
std::int64_t needed_inside(const HaloSpec& spec, std::size_t d) {
  const bool alone = spec.grid[d] == 1 && !is_periodic(spec, d);
  return alone ? 1 : std::max<std::int64_t>(1, spec.ghost[d]);
}

std::string too_small(const HaloSpec& spec, std::size_t d) {
  const std::int64_t ghost = spec.ghost[d];
  const std::int64_t needed = needed_inside(spec, d);
  return concat("halo: the local array of ", listed(spec.shape), " cells is too small along dimension ", d, ": of ",
                spec.shape[d], " cells there ", ghost, " on each side are ghost cells, which leaves ",
                std::max<std::int64_t>(0, spec.shape[d] - 2 * ghost), " inside, and needed are ", needed,
                "; make the array ", needed + 2 * ghost,
                " or more long along it (a larger field, or fewer ranks in grid[", d, "]), or ghost narrower");
}

void check(const HaloSpec& spec, const Fabric& fabric, const void* array) {
  const std::size_t dims = spec.shape.size();
  require(dims >= 1 && dims <= kMaxDims, "halo shape has ", dims, " dimensions; 1 to ", kMaxDims, " work");
  require(spec.element_bytes > 0, "halo element_bytes is 0");
  require(array != nullptr, "the array of a halo is null");
  require(spec.ghost.size() == dims, "halo ghost has ", spec.ghost.size(), " widths for ", dims, " dimensions");
  require(spec.grid.size() == dims, "halo grid has ", spec.grid.size(), " numbers for ", dims, " dimensions");
  require(spec.strides_bytes.empty() || spec.strides_bytes.size() == dims, "halo strides_bytes has ",
          spec.strides_bytes.size(), " numbers for ", dims, " dimensions");
  require(spec.periodic.empty() || spec.periodic.size() == dims, "halo periodic has ", spec.periodic.size(),
          " flags for ", dims, " dimensions");
  std::int64_t ranks = 1;
  for (std::size_t d = 0; d < dims; ++d) {
    require(spec.grid[d] >= 1, "halo grid has ", spec.grid[d], " ranks along dimension ", d);
    ranks *= spec.grid[d];
    const std::int64_t ghost = spec.ghost[d];
    require(ghost >= 0, "halo ghost ", ghost, " along dimension ", d, " is negative");
    require(spec.shape[d] - 2 * ghost >= needed_inside(spec, d), too_small(spec, d));
  }
  require(ranks == fabric.size(), "halo grid has ", ranks, " ranks, the world has ", fabric.size());
}

std::vector<std::int64_t> strides_of(const HaloSpec& spec) {
  if (!spec.strides_bytes.empty()) return spec.strides_bytes;
  std::vector<std::int64_t> strides(spec.shape.size());
  std::int64_t stride = static_cast<std::int64_t>(spec.element_bytes);
  for (std::size_t d = spec.shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= spec.shape[d];
  }
  return strides;
}

// All directions of travel: along one dimension, or with corners along several at once.
std::vector<Direction> directions_of(const HaloSpec& spec) {
  std::vector<Direction> all{{}};
  for (std::size_t d = 0; d < spec.shape.size(); ++d) {
    std::vector<Direction> longer;
    for (const Direction& start : all) {
      for (int step : {-1, 0, 1}) {
        if (step != 0 && spec.ghost[d] == 0) continue;
        longer.push_back(start);
        longer.back().push_back(step);
      }
    }
    all = longer;
  }
  std::erase_if(all, [&](const Direction& direction) {
    const auto moved = std::count_if(direction.begin(), direction.end(), [](int step) { return step != 0; });
    return moved == 0 || (moved > 1 && !spec.corners);
  });
  return all;
}

std::string name_of_side(const Direction& direction) {
  std::string text = "halo";
  for (std::size_t d = 0; d < direction.size(); ++d) {
    if (direction[d] != 0) text += concat(" axis ", d, direction[d] > 0 ? "+" : "-");
  }
  return text;
}

struct Box {
  std::byte* address;
  Layout layout;
};

// The cells on side `side` of the array: the boundary inside (which is sent), or the ghost cells (which the receive
// fills).
enum class Cells { boundary, ghost };

Box box_of(std::byte* array, const HaloSpec& spec, const std::vector<std::int64_t>& strides, const Direction& side,
           Cells cells) {
  std::vector<std::int64_t> shape(spec.shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t ghost = spec.ghost[d];
    const std::int64_t extent = spec.shape[d];
    std::int64_t start = ghost;
    shape[d] = side[d] == 0 ? extent - 2 * ghost : ghost;
    if (side[d] < 0) start = cells == Cells::boundary ? ghost : 0;
    if (side[d] > 0) start = cells == Cells::boundary ? extent - 2 * ghost : extent - ghost;
    array += start * strides[d];
  }
  return {array, Layout::strided(spec.element_bytes, shape, strides)};
}

Direction opposite(Direction direction) {
  for (int& step : direction) step = -step;
  return direction;
}

int neighbour(const Fabric& fabric, const HaloSpec& spec, const Direction& direction) {
  std::vector<int> at = coordinates_of(fabric.rank(), spec.grid);
  for (std::size_t d = 0; d < at.size(); ++d) at[d] += direction[d];
  return rank_at(at, spec.grid, spec.periodic);
}

void add_messages(PlanBuilder& builder, const Fabric& fabric, void* array, const HaloSpec& spec) {
  const std::vector<std::int64_t> strides = strides_of(spec);
  auto* cells = static_cast<std::byte*>(array);
  for (const Direction& travel : directions_of(spec)) {
    const int to = neighbour(fabric, spec, travel);
    if (to >= 0) {
      const Box boundary = box_of(cells, spec, strides, travel, Cells::boundary);
      builder.send(boundary.address, boundary.layout, to, spec.tag, name_of_side(travel)).of(spec.element);
    }
    const Direction side = opposite(travel);
    const int from = neighbour(fabric, spec, side);
    if (from >= 0) {
      const Box ghost = box_of(cells, spec, strides, side, Cells::ghost);
      builder.recv(ghost.address, ghost.layout, from, spec.tag, name_of_side(side)).of(spec.element);
    }
  }
}

}  // namespace

void add_halo(PlanBuilder& builder, const Fabric& fabric, void* array, const HaloSpec& spec) {
  try {
    check(spec, fabric, array);
    add_messages(builder, fabric, array, spec);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    builder.refuse(error.what());
  }
}

}  // namespace onstream
