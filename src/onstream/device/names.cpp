// Words for the enumerations of the device contract.
#include "onstream/device/device.hpp"

namespace onstream {

const char* name_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::host: return "host";
    case DeviceKind::cuda: return "cuda";
  }
  return "unknown";
}

const char* name_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::device: return "device";
    case MemoryKind::pinned: return "pinned";
    case MemoryKind::managed: return "managed";
    case MemoryKind::host: return "host";
  }
  return "unknown";
}

}  // namespace onstream
