// Stands in for NVIDIA's libgdrapi on machines without it: "GPU memory" is the test's own memory, and what is pinned
// and mapped is counted. STAND_IN_NO_DRIVER makes it behave as without gdrdrv.
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {
int pinned = 0;
int mapped = 0;
struct Handle {
  unsigned long number;
};
}  // namespace

extern "C" {
int stand_in_pinned() { return pinned; }
int stand_in_mapped() { return mapped; }

void* gdr_open() {
#ifdef STAND_IN_NO_DRIVER
  return nullptr;
#else
  return &pinned;
#endif
}
int gdr_close(void*) { return 0; }
int gdr_pin_buffer(void*, unsigned long address, std::size_t bytes, std::uint64_t, std::uint32_t, Handle* handle) {
  if (address % 65536 != 0 || bytes == 0) return 22;
  handle->number = address;
  ++pinned;
  return 0;
}
int gdr_unpin_buffer(void*, Handle) {
  --pinned;
  return 0;
}
int gdr_map(void*, Handle handle, void** address, std::size_t) {
  *address = reinterpret_cast<void*>(handle.number);
  ++mapped;
  return 0;
}
int gdr_unmap(void*, Handle, void*, std::size_t) {
  --mapped;
  return 0;
}
int gdr_copy_to_mapping(Handle, void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
  return 0;
}
int gdr_copy_from_mapping(Handle, void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
  return 0;
}
}
