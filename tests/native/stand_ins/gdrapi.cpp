// Stands in for NVIDIA's libgdrapi on machines without it. "GPU memory" is the test's own, from mmap and shared; a
// window is a second mapping of it, so that nothing reaches it once it is unmapped. Pins, maps and copies are
// counted, and may be refused. STAND_IN_NO_DRIVER makes it behave as without gdrdrv.
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>

namespace {

constexpr int kInvalid = 22;  // EINVAL

struct Pin {
  void* memory = nullptr;
  std::size_t bytes = 0;
  std::byte* window = nullptr;  // null while it is not mapped
};

struct Handle {
  unsigned long number;
};

std::mutex mutex;  // guards the variables below
std::map<unsigned long, Pin> pins;
unsigned long newest = 0;
int mapped = 0;
int refuse_pin = 0;
int refuse_map = 0;

std::atomic<int> pins_asked{0};
std::atomic<int> bytes_written{0};
std::atomic<int> bytes_read{0};

bool in_window(Handle handle, const void* address, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto at = pins.find(handle.number);
  if (at == pins.end() || at->second.window == nullptr || address < at->second.window) return false;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - at->second.window);
  return offset <= at->second.bytes && bytes <= at->second.bytes - offset;
}

}  // namespace

extern "C" {
int stand_in_pinned() {
  const std::lock_guard lock(mutex);
  return static_cast<int>(pins.size());
}
int stand_in_mapped() {
  const std::lock_guard lock(mutex);
  return mapped;
}
// In the life of the library: calls to pin, and bytes that went through windows.
int stand_in_pins_asked() { return pins_asked; }
int stand_in_written() { return bytes_written; }
int stand_in_read() { return bytes_read; }
// Sets the result of later calls; 0: they work.
void stand_in_refuse(int pin, int map) {
  const std::lock_guard lock(mutex);
  refuse_pin = pin;
  refuse_map = map;
}

void* gdr_open() {
#ifdef STAND_IN_NO_DRIVER
  return nullptr;
#else
  return &pins;
#endif
}
int gdr_close(void*) { return 0; }
int gdr_pin_buffer(void*, unsigned long address, std::size_t bytes, std::uint64_t, std::uint32_t, Handle* handle) {
  ++pins_asked;
  const std::lock_guard lock(mutex);
  if (refuse_pin != 0) return refuse_pin;
  if (address % 65536 != 0 || bytes == 0) return kInvalid;
  handle->number = ++newest;
  pins[newest] = {reinterpret_cast<void*>(address), bytes, nullptr};
  return 0;
}
int gdr_unpin_buffer(void*, Handle handle) {
  const std::lock_guard lock(mutex);
  const auto at = pins.find(handle.number);
  if (at == pins.end() || at->second.window != nullptr) return kInvalid;
  pins.erase(at);
  return 0;
}
int gdr_map(void*, Handle handle, void** address, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  if (refuse_map != 0) return refuse_map;
  const auto at = pins.find(handle.number);
  if (at == pins.end() || bytes != at->second.bytes || at->second.window != nullptr) return kInvalid;
  *address = mremap(at->second.memory, 0, bytes, MREMAP_MAYMOVE);  // of no bytes: mapped again, and not moved
  if (*address == MAP_FAILED) return kInvalid;
  at->second.window = static_cast<std::byte*>(*address);
  ++mapped;
  return 0;
}
int gdr_unmap(void*, Handle handle, void* address, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto at = pins.find(handle.number);
  if (at == pins.end() || address == nullptr || address != at->second.window || bytes != at->second.bytes) {
    return kInvalid;
  }
  at->second.window = nullptr;
  --mapped;
  return munmap(address, bytes);
}
int gdr_copy_to_mapping(Handle handle, void* to, const void* from, std::size_t bytes) {
  if (!in_window(handle, to, bytes)) return kInvalid;
  std::memcpy(to, from, bytes);
  bytes_written += static_cast<int>(bytes);
  return 0;
}
int gdr_copy_from_mapping(Handle handle, void* to, const void* from, std::size_t bytes) {
  if (!in_window(handle, from, bytes)) return kInvalid;
  std::memcpy(to, from, bytes);
  bytes_read += static_cast<int>(bytes);
  return 0;
}
}
