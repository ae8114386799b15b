#include "onstream/device/memory/pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "onstream/base/error.hpp"

namespace onstream {

namespace {

// Small allocations get their pages at once, so that no page fault meets a message. Larger ones would take long, and
// might never be touched.
constexpr std::size_t kPopulateBytes = std::size_t{64} << 20;

std::byte* map_at(void* at, std::size_t bytes, int flags, int fd) {
  const int populate = bytes <= kPopulateBytes ? MAP_POPULATE : 0;
  void* const address = mmap(at, bytes, PROT_READ | PROT_WRITE, flags | populate, fd, 0);
  if (address == MAP_FAILED) fail_errno(concat("cannot map ", bytes, " B (", human_bytes(bytes), ") of host memory"));
  return static_cast<std::byte*>(address);
}

}  // namespace

// Addresses are taken for more than there is, the pages go to the first multiple among them, and the rest is given
// back.
std::byte* map_pages(std::size_t bytes, std::size_t alignment, int flags, int fd) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t wanted = (bytes + page - 1) / page * page;
  void* const taken = alignment <= page ? MAP_FAILED
                                        : mmap(nullptr, wanted + alignment, PROT_NONE,
                                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (taken == MAP_FAILED) return map_at(nullptr, bytes, flags, fd);
  const auto first = reinterpret_cast<std::uintptr_t>(taken);
  const std::size_t skipped = (alignment - first % alignment) % alignment;
  std::byte* const begin = static_cast<std::byte*>(taken) + skipped;
  try {
    (void)map_at(begin, bytes, flags | MAP_FIXED, fd);
  } catch (...) {
    munmap(taken, wanted + alignment);
    throw;
  }
  if (skipped > 0) munmap(taken, skipped);
  if (skipped < alignment) munmap(begin + wanted, alignment - skipped);
  return begin;
}

bool is_mapped(const void* address, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t start = first & ~(page - 1);
  // Only looks, for less than mincore does.
  return msync(reinterpret_cast<void*>(start), first - start + bytes, MS_ASYNC) == 0 || errno != ENOMEM;
}

}  // namespace onstream
