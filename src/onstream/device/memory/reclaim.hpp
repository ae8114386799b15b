// Memory where little is left: what is about to be given back is waited for, once.
#pragma once

#include <cstddef>
#include <memory>

#include "onstream/base/error.hpp"
#include "onstream/device/device.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"

namespace onstream {

// As Device::allocate(). Blocks for up to 10 s where there is no room before the process's disposal has let go of all
// that was handed over.
inline std::shared_ptr<Memory> allocate_in_time(Device& device, std::size_t bytes, MemoryKind kind) {
  try {
    return device.allocate(bytes, kind);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::system) throw;
  }
  constexpr double kLimitS = 10;
  static_cast<void>(DeferredRelease::of_process().finish(kLimitS));
  return device.allocate(bytes, kind);
}

}  // namespace onstream
