// Settings: the variables of the standard, and the parts of onstream's own parameters that concern this interface. Each
// variable has an older name, SMA_..., which is asked where the SHMEM_ one is not set.
#pragma once

#include <cstddef>

namespace onstream::shmem {

struct Settings {
  std::size_t heap_bytes = std::size_t{256} << 20;  // SHMEM_SYMMETRIC_SIZE
  bool on_device = false;                           // parameter shmem_heap
  bool prints_version = false;                      // SHMEM_VERSION
  bool prints_variables = false;                    // SHMEM_INFO
};

// Throws invalid_argument naming the variable that cannot be read.
Settings settings_from_environment();

}  // namespace onstream::shmem
