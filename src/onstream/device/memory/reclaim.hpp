// Memory where little is left: waits, once, for memory that is about to be given back.
#pragma once

#include <cstddef>
#include <memory>

#include "onstream/base/error.hpp"
#include "onstream/device.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"

namespace onstream {

// As Device::allocate(). Where there is no room, blocks for up to 10 s until the process's DeferredRelease has released
// all that was handed over.
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
