#include "onstream/transport/buffer.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "onstream/base/error.hpp"

namespace onstream {

namespace {

// Whether the page at `address` is mapped in this process at all: memory that was freed usually is not.
bool is_mapped(const void* address) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto* start = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) & ~(page - 1));
  return ::msync(start, 1, MS_ASYNC) == 0 || errno != ENOMEM;  // only looks, for less than mincore does
}

}  // namespace

void check_buffer(const Device& device, const MemoryInfo& info, const void* begin, std::size_t bytes) {
  const bool foreign = info.kind == MemoryKind::device && info.device_index >= 0 && info.device_index != device.index();
  require(!foreign, "the buffer at ", begin, " lies on ", name_of(device.kind()), ":", info.device_index,
          ", this world runs on ", name_of(device.kind()), ":", device.index());
  if (info.id != 0) {
    const auto* end = static_cast<const std::byte*>(begin) + bytes;
    require(end <= info.base + info.bytes, "the buffer of ", bytes, " B at ", begin, " ends ",
            end - (info.base + info.bytes), " B after its allocation of ", info.bytes, " B");
  } else if (info.kind == MemoryKind::host) {
    require(is_mapped(begin), "nothing is mapped at ", begin, ": the buffer of ", bytes,
            " B was freed, or never was one");
  }
}

MemoryInfo look_at_buffer(const Device& device, const void* begin, std::size_t bytes) {
  MemoryInfo info = device.inspect(begin);
  check_buffer(device, info, begin, bytes);
  return info;
}

}  // namespace onstream
