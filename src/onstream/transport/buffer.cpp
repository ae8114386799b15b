#include "onstream/transport/buffer.hpp"

#include "onstream/base/error.hpp"
#include "onstream/device/memory/pages.hpp"

namespace onstream {

void check_buffer(const Device& device, const MemoryInfo& info, const void* begin, std::size_t bytes) {
  const bool foreign = info.kind == MemoryKind::device && info.device_index >= 0 && info.device_index != device.index();
  require(!foreign, "the buffer at ", begin, " lies on ", name_of(device.kind()), ":", info.device_index,
          ", this world runs on ", name_of(device.kind()), ":", device.index());
  if (info.id != 0) {
    const auto left = static_cast<std::size_t>(info.base + info.bytes - static_cast<const std::byte*>(begin));
    require(bytes <= left, "the buffer of ", bytes, " B at ", begin, " ends ", bytes - left,
            " B after its allocation of ", info.bytes, " B");
  } else if (info.kind == MemoryKind::host) {
    // Its first page alone, as every message asks, and every collective that is new.
    require(is_mapped(begin, 1), "nothing is mapped at ", begin, ": the buffer of ", bytes,
            " B was freed, or never was one");
  }
}

MemoryInfo look_at_buffer(const Device& device, const void* begin, std::size_t bytes) {
  MemoryInfo info = device.inspect(begin);
  check_buffer(device, info, begin, bytes);
  return info;
}

}  // namespace onstream
