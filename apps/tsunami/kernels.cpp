#include "kernels.hpp"

#include "launchers.hpp"

namespace onstream::tsunami {

#ifdef ONSTREAM_WITH_CUDA
#define ONSTREAM_CUDA_ADDRESS(body) cuda_address_of<body>()
#else
#define ONSTREAM_CUDA_ADDRESS(body) nullptr
#endif

#define ONSTREAM_TSUNAMI_KERNEL(body, name)                                          \
  template <>                                                                        \
  const Kernel& kernel_of<body>() {                                                  \
    static const Kernel kernel{name, host_entry<body>, ONSTREAM_CUDA_ADDRESS(body)}; \
    return kernel;                                                                   \
  }
#include "kernel_list.inc"
#undef ONSTREAM_TSUNAMI_KERNEL

}  // namespace onstream::tsunami
