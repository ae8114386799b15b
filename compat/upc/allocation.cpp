// Allocation. One thread alone allocates and frees by tables that all reach; in calls that all make together, thread 0
// does it for them.
#include <limits>

#include "guarded.hpp"
#include "onstream/base/log.hpp"

using namespace onstream;
using namespace onstream::upc;

namespace {

// The bytes of every part; nothing where no memory has so many.
std::optional<std::size_t> part_bytes(const Runtime& upc, std::size_t nblocks, std::size_t nbytes) {
  const auto threads = static_cast<std::size_t>(upc.threads());
  const std::size_t blocks = nblocks / threads + (nblocks % threads != 0 ? 1 : 0);
  if (blocks != 0 && nbytes > std::numeric_limits<std::size_t>::max() / 4 / blocks) return std::nullopt;
  return blocks * nbytes;
}

upc_ptr_t allocate_blocks(Runtime& upc, const char* call, std::size_t nblocks, std::size_t nbytes) {
  if (nblocks == 0 || nbytes == 0) return UPC_NULL;
  const std::optional<std::size_t> bytes = part_bytes(upc, nblocks, nbytes);
  if (!bytes) {
    log(LogLevel::warn, call, ": ", nblocks, " blocks of ", nbytes, " B are more than any memory has");
    return UPC_NULL;
  }
  return upc.allocate(call, Half::symmetric, upc.kind(), *bytes);
}

}  // namespace

void upc_on_device(void) {
  guarded("upc_on_device", [](Runtime& upc) { upc.set_kind(MemoryKind::device); });
}
void upc_off_device(void) {
  guarded("upc_off_device", [](Runtime& upc) { upc.set_kind(MemoryKind::pinned); });
}

upc_ptr_t upc_all_alloc(size_t nblocks, size_t nbytes) {
  return guarded("upc_all_alloc", [&](Runtime& upc) {
    const std::uint64_t on_device = upc.kind() == MemoryKind::device ? 1 : 0;
    upc.phases().agree({Act::all_alloc, {nblocks, nbytes, on_device}});
    const upc_ptr_t first = upc.thread() == 0 ? allocate_blocks(upc, "upc_all_alloc", nblocks, nbytes) : UPC_NULL;
    return upc_ptr_t{upc.phases().from_first({first.addr, 0, 0})[0], 0, 0};
  });
}

upc_ptr_t upc_global_alloc(size_t nblocks, size_t nbytes) {
  return guarded("upc_global_alloc",
                 [&](Runtime& upc) { return allocate_blocks(upc, "upc_global_alloc", nblocks, nbytes); });
}

upc_ptr_t upc_alloc(size_t nbytes) {
  return guarded("upc_alloc", [&](Runtime& upc) {
    return nbytes == 0 ? UPC_NULL : upc.allocate("upc_alloc", Half::own, upc.kind(), nbytes);
  });
}

void upc_free(upc_ptr_t ptr) {
  guarded("upc_free", [&](Runtime& upc) {
    if (!upc_ptr_is_null(ptr)) upc.free(ptr);
  });
}

void upc_all_free(upc_ptr_t ptr) {
  guarded("upc_all_free", [&](Runtime& upc) {
    upc.context().quiet();
    upc.phases().agree({Act::all_free, {ptr.addr, ptr.thread, ptr.phase}});
    if (upc_ptr_is_null(ptr)) return;
    if (upc.thread() == 0) upc.free(ptr);
    upc.phases().from_first({});  // it is freed for all
  });
}
