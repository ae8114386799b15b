// Halo: exchange of the ghost cells of a block-decomposed array, as a Plan.
//
// The global array of 1 to 4 dimensions is cut into one block a rank by a grid of ranks (row-major: the last dimension
// varies fastest with the rank). Each rank's local array holds its block with `ghost` cells on both sides of every
// dimension. One launch fills the ghost cells from the neighbours' boundary cells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "onstream/plan.hpp"

namespace onstream {

class Fabric;

struct HaloSpec {
  std::vector<std::int64_t> shape;          // of the local array, ghost cells included, outermost dimension first
  std::vector<std::int64_t> strides_bytes;  // empty: row-major contiguous
  std::size_t element_bytes = 0;
  std::vector<std::int64_t> ghost;  // width per dimension; 0: no exchange along it
  std::vector<int> grid;            // ranks per dimension; its product is the world's size
  std::vector<bool> periodic;       // per dimension; empty: none
  bool corners = false;             // also fill edges and corners (needed by stencils with diagonal terms)
  int tag = 0;
  std::string element;  // name of the element type, which the ranks compare; "" if not told
};

// Ranks per dimension for `size` ranks over an array of `shape`, minimising the cells exchanged.
std::vector<int> choose_grid(int size, const std::vector<std::int64_t>& shape);

// This rank's coordinates in the grid, and the rank at coordinates (-1 outside a non-periodic grid).
std::vector<int> coordinates_of(int rank, const std::vector<int>& grid);
int rank_at(std::vector<int> coordinates, const std::vector<int>& grid, const std::vector<bool>& periodic);

// Adds the ops that exchange `array`. Several arrays can share one plan: add each to the same builder.
// For a spec that cannot work, or a missing array, the builder's build() throws on every rank, naming the field of spec
// with its value: blocks may differ, so it may be wrong on one rank alone.
void add_halo(PlanBuilder& builder, const Fabric& fabric, void* array, const HaloSpec& spec);

}  // namespace onstream
