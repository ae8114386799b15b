// Memory of which only those pages cost anything that somebody touches.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <string_view>

#include "onstream/base/error.hpp"

namespace onstream {

// Zeroed. Throws system, with what it is `for_what`.
inline std::shared_ptr<std::byte> zero_pages(std::size_t bytes, std::string_view for_what) {
  void* const made = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) fail_errno(concat("no ", bytes, " B for ", for_what));
  return {static_cast<std::byte*>(made), [bytes](std::byte* memory) { ::munmap(memory, bytes); }};
}

}  // namespace onstream
