// Pages of host memory, mapped from a multiple of a power of two on.
#pragma once

#include <cstddef>

namespace onstream {

// mmap, readable and writable, with these `flags` and `fd`, at a multiple of `alignment`, a power of two; from any page
// on where the process has too few addresses left for that (a limit on them). munmap(result, bytes) undoes it. Throws.
std::byte* map_pages(std::size_t bytes, std::size_t alignment, int flags, int fd);

// Whether all pages of [address, address + bytes) are mapped in this process: memory that was freed usually is not.
bool is_mapped(const void* address, std::size_t bytes);

}  // namespace onstream
