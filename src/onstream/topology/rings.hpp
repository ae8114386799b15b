// Edge-disjoint rings over a machine's links, for a caller that lays out ranks or streams along them.
//
// A ring visits every GPU once and comes back. No two rings, and no two parts of one, share a link in the same
// direction. Where GPUs are joined directly a ring's links serve its reverse too, so rings come in pairs of directions
// (Hamiltonian cycles found by rotations and extensions, Posa 1976); through switches each direction is searched for by
// itself. The search is the same in every run, and bounded: it may miss a ring of a large machine, never invent one.
#pragma once

#include <string>
#include <vector>

#include "onstream/topology/machine.hpp"

namespace onstream::topology {

struct Ring {
  std::vector<int> gpus;   // in order; the last is joined to the first
  std::vector<int> nodes;  // the same with the switches between them
};

struct Rings {
  std::vector<Ring> all;
  int bound = 0;  // no more can there be: the links of the least joined GPU
};

Rings find_rings(const Machine& machine);
// A ring a line.
std::string describe(const Machine& machine, const Rings& rings);

}  // namespace onstream::topology
