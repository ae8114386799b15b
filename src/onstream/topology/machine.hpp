// A machine as its links: GPUs, the switches and bridges between them, and how many links join two of them.
//
// Read from text in UTF-8, a statement a line; `#` begins a comment, in any encoding:
//
//   gpus 8                 GPUs 0 to 7, first of all
//   switch NAME...         nodes that only pass data on: an NVSwitch, a PCIe switch, a CPU
//   link A B [COUNT]       so many links (1) between two GPUs or switches; each carries one stream in each direction
//   torus X Y Z            instead of all of these: GPUs on a 3-D torus, numbered with X the fastest
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace onstream::topology {

struct MachineLink {
  int a = 0;
  int b = 0;
  int count = 1;
};

struct Machine {
  int gpus = 0;                       // nodes 0 to gpus - 1
  std::vector<std::string> switches;  // the nodes behind them
  std::vector<MachineLink> links;     // at most one between two nodes

  int nodes() const { return gpus + static_cast<int>(switches.size()); }
  std::string name_of(int node) const;
};

// Throws invalid_argument with the line's number and text, and the expected form.
Machine machine_from(std::string_view text);

}  // namespace onstream::topology
