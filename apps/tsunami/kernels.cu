#include "kernels.hpp"
#include "launchers.hpp"
#include "onstream/device/cuda/entry.cuh"

namespace onstream::tsunami {

#define ONSTREAM_TSUNAMI_KERNEL(body, name)                  \
  template <>                                                \
  const void* cuda_address_of<body>() {                      \
    return reinterpret_cast<const void*>(&cuda_entry<body>); \
  }
#include "kernel_list.inc"
#undef ONSTREAM_TSUNAMI_KERNEL

}  // namespace onstream::tsunami
