// Torus: the shape that ranks are laid out in, and which rank a node's coordinates name.
//
// Ranks follow x first, then y, then z.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "onstream_am.h"

namespace onstream::am {

class Torus {
 public:
  // `shape` is "auto", or three numbers such as "2x2x1". Throws invalid_argument for a shape of another number of
  // nodes, or with an axis that an address cannot hold.
  Torus(const std::string& shape, int ranks);

  const std::array<unsigned, 3>& shape() const { return shape_; }
  std::string text() const;  // "2x2x1"
  ape_net_address_t address_of(int rank) const;
  std::optional<int> rank_of(ape_net_address_t address) const;  // nothing: there is no such node

 private:
  std::array<unsigned, 3> shape_{};
};

// "(1, 0, 2)".
std::string text_of(ape_net_address_t address);

}  // namespace onstream::am
