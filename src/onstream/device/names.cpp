// Words for the enumerations of the device contract, and what a device does not do unless it says so.
#include "onstream/base/error.hpp"
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

std::shared_ptr<Attachment> Device::attach(const ProcessRecord& record, pid_t /*pid*/) {
  fail(ErrorCode::unsupported, "kernels of the ", name_of(kind()), " device cannot reach the plain memory of process ",
       record.pid);
}

}  // namespace onstream
