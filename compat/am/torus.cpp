#include "torus.hpp"

#include <algorithm>
#include <charconv>

#include "onstream/base/error.hpp"

namespace onstream::am {

namespace {

// The number of nodes that one axis of an address can tell apart.
constexpr std::array<unsigned, 3> kMost = {1u << 11, 1u << 11, 1u << 10};

// The parameter's rule has seen to three numbers.
std::array<unsigned, 3> parsed(const std::string& text) {
  std::array<unsigned, 3> shape{};
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  for (unsigned& axis : shape) {
    at = std::from_chars(at, end, axis).ptr;
    at = std::min(at + 1, end);
  }
  return shape;
}

// The shape with the least faces; among equals the one that is longest along x, then along y.
std::array<unsigned, 3> nearest_to_a_cube(unsigned ranks) {
  std::array<unsigned, 3> best = {ranks, 1, 1};
  const auto surface = [](const std::array<unsigned, 3>& s) { return s[0] * s[1] + s[1] * s[2] + s[0] * s[2]; };
  for (unsigned z = 1; z * z * z <= ranks; ++z) {
    for (unsigned y = z; ranks % z == 0 && y * y <= ranks / z; ++y) {
      const std::array<unsigned, 3> shape = {ranks / z / y, y, z};
      if (ranks / z % y == 0 && surface(shape) < surface(best)) best = shape;
    }
  }
  return best;
}

}  // namespace

Torus::Torus(const std::string& shape, int ranks)
    : shape_(shape == "auto" ? nearest_to_a_cube(static_cast<unsigned>(ranks)) : parsed(shape)) {
  const std::size_t nodes = std::size_t{shape_[0]} * shape_[1] * shape_[2];
  require(nodes == static_cast<std::size_t>(ranks), "parameter torus is ", shape, ", a shape of ", nodes,
          " nodes, but this job has ", ranks, " ranks; three numbers whose product is ", ranks, ", or auto, fit it");
  for (std::size_t axis = 0; axis < shape_.size(); ++axis) {
    require(shape_[axis] <= kMost[axis], "the torus ", text(), " is longer than ", kMost[axis],
            " along one axis, which ", "no address holds");
  }
}

std::string Torus::text() const { return concat(shape_[0], 'x', shape_[1], 'x', shape_[2]); }

ape_net_address_t Torus::address_of(int rank) const {
  const auto number = static_cast<unsigned>(rank);
  ape_net_address_t address;
  address.u = 0;
  address.s.x = number % shape_[0] & 0x7ffu;
  address.s.y = number / shape_[0] % shape_[1] & 0x7ffu;
  address.s.z = number / shape_[0] / shape_[1] & 0x3ffu;
  return address;
}

std::optional<int> Torus::rank_of(ape_net_address_t address) const {
  const std::array<unsigned, 3> at = {address.s.x, address.s.y, address.s.z};
  for (std::size_t axis = 0; axis < at.size(); ++axis) {
    if (at[axis] >= shape_[axis]) return std::nullopt;
  }
  return static_cast<int>(at[0] + shape_[0] * (at[1] + shape_[1] * at[2]));
}

std::string text_of(ape_net_address_t address) {
  return concat('(', unsigned{address.s.x}, ", ", unsigned{address.s.y}, ", ", unsigned{address.s.z}, ')');
}

}  // namespace onstream::am
