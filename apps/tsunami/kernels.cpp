#include "kernels.hpp"

#include "launchers.hpp"
#include "onstream/device/host/group.hpp"

namespace onstream::tsunami {

// The loops once for any x86-64 and once for AVX2, chosen when the program starts: a quarter less time a cell. The same
// operations in the same order, so the same bits. Sanitizers are not up yet when that choice is made.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ONSTREAM_WIDE __attribute__((flatten, target_clones("avx2", "default")))
#else
#define ONSTREAM_WIDE
#endif

#define ONSTREAM_TSUNAMI_KERNEL(body, name)                                                                \
  ONSTREAM_WIDE static void run_##body(const void* bytes, int blocks) { host_entry<body>(bytes, blocks); } \
  template <>                                                                                              \
  const Kernel& kernel_of<body>() {                                                                        \
    static const Kernel kernel{name, run_##body, ONSTREAM_CUDA_ADDRESS(cuda_address_of<body>())};          \
    return kernel;                                                                                         \
  }
#include "kernel_list.inc"
#undef ONSTREAM_TSUNAMI_KERNEL

}  // namespace onstream::tsunami
