// Every device's check of a hint about managed memory.
#pragma once

#include "onstream/base/error.hpp"
#include "onstream/device.hpp"

namespace onstream {

inline void require_managed(const char* call, const MemoryInfo& info, const void* address, std::size_t bytes) {
  require(info.kind == MemoryKind::managed, call, " of ", bytes, " B at ", address, ", which is ", name_of(info.kind),
          " memory; only managed memory has pages that move");
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - info.base);
  require(bytes <= info.bytes && offset <= info.bytes - bytes, call, " of ", bytes, " B at ", address,
          ": beyond the end of its allocation of ", info.bytes, " B");
}

}  // namespace onstream
