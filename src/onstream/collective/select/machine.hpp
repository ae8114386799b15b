// MachineTraits: the properties, apart from the call, on which the choice of an algorithm depends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "onstream/path/table.hpp"

namespace onstream::collective {

// The calls that may ask the copy engine to move data (collective_engine): none; those with large data; all.
enum class EngineUse { off, large, on };

struct MachineTraits {
  DeviceKind device = DeviceKind::host;
  int rank = 0;
  int size = 1;
  std::size_t slot_bytes = 0;                     // of data in one slot
  std::size_t ll128_bytes = 0;                    // of data in one slot of LL128 lines; 0: there are none
  int group = 0;                                  // ranks of a group (collective_group); 0: there are no groups
  std::uint64_t chain_bytes = ~std::uint64_t{0};  // collective_chain_bytes
  EngineUse engine = EngineUse::off;              // collective_engine
  bool crowded = false;                           // some host has more ranks than cores
  const path::Table* paths = &path::Table::built_in();
};

}  // namespace onstream::collective
