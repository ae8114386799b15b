// The threads' numbers, and pointers to shared: their parts, and their arithmetic by UPC's layout: blocks are dealt to
// the threads in turn.
#include "guarded.hpp"
#include "lookout.hpp"

using namespace onstream;
using namespace onstream::upc;

namespace {

struct Divided {
  std::ptrdiff_t quotient;
  std::ptrdiff_t rest;  // never negative
};

Divided divide(std::ptrdiff_t value, std::ptrdiff_t by) {
  const std::ptrdiff_t rest = (value % by + by) % by;
  return {(value - rest) / by, rest};
}

void check_array(std::size_t elem, std::size_t block) {
  require(elem > 0, "elements of 0 B");
  require(block <= UPC_MAX_BLOCK_SIZE, "blocks of ", block, " elements; the largest has ", UPC_MAX_BLOCK_SIZE,
          " (UPC_MAX_BLOCK_SIZE)");
}

// Not by require(), whose text costs more than the arithmetic.
void check_pointer(const Runtime& upc, upc_ptr_t ptr, std::size_t block) {
  if (ptr.thread >= static_cast<std::uint32_t>(upc.threads())) [[unlikely]] {
    fail(ErrorCode::invalid_argument, upc.text_of(ptr), ": there are threads 0 to ", upc.threads() - 1);
  }
  if (ptr.phase >= std::max<std::size_t>(block, 1)) [[unlikely]] {
    fail(ErrorCode::invalid_argument, upc.text_of(ptr), ": in blocks of ", block, " elements there is no such phase");
  }
}

[[noreturn]] void refuse_two_arrays(const Runtime& upc, upc_ptr_t to, upc_ptr_t from, std::size_t elem,
                                    std::size_t block) {
  fail(ErrorCode::invalid_argument, upc.text_of(to), " and ", upc.text_of(from), " are not in one array of blocks of ",
       block, " elements of ", elem, " B");
}

}  // namespace

int upc_mythread(void) {
  return guarded("MYTHREAD", [](Runtime& upc) { return upc.thread(); });
}
int upc_threads(void) {
  return guarded("THREADS", [](Runtime& upc) { return upc.threads(); });
}

void upc_global_exit(int status) {
  guarded("upc_global_exit", [&](Runtime& upc) -> int { end_all(upc, status); });
  leave(kFailedExit);  // not reached
}

size_t upc_threadof(upc_ptr_t ptr) { return ptr.thread; }
size_t upc_phaseof(upc_ptr_t ptr) { return ptr.phase; }
size_t upc_addrfield(upc_ptr_t ptr) { return ptr.addr; }

upc_ptr_t upc_resetphase(upc_ptr_t ptr) {
  ptr.phase = 0;
  return ptr;
}

size_t upc_affinitysize(size_t totalsize, size_t nbytes, size_t threadid) {
  return guarded("upc_affinitysize", [&](Runtime& upc) -> std::size_t {
    const auto threads = static_cast<std::size_t>(upc.threads());
    require(threadid < threads, "thread ", threadid, " does not exist; there are threads 0 to ", threads - 1);
    if (nbytes == 0) return threadid == 0 ? totalsize : 0;
    const std::size_t whole = totalsize / nbytes;
    const std::size_t last = whole % threads;  // the thread that has the block that is not whole
    const std::size_t blocks = whole / threads + (threadid < last ? 1 : 0);
    return blocks * nbytes + (threadid == last ? totalsize % nbytes : 0);
  });
}

int upc_is_on_device(upc_ptr_t ptr) { return Runtime::on_device(ptr) ? 1 : 0; }

void* upc_cast(upc_ptr_t ptr) {
  if (upc_ptr_is_null(ptr)) return nullptr;
  return guarded("upc_cast", [&](Runtime& upc) -> void* { return upc.place("the pointer", ptr, 0).here; });
}

upc_ptr_t upc_ptr_add(upc_ptr_t ptr, size_t elem, size_t block, ptrdiff_t n) {
  return guarded("upc_ptr_add", [&](Runtime& upc) {
    check_array(elem, block);
    require(ptr.addr != 0, "the pointer is null");
    check_pointer(upc, ptr, block);
    const auto bytes = static_cast<std::ptrdiff_t>(elem);
    upc_ptr_t sum = ptr;
    if (block == 0) {
      sum.addr += static_cast<std::uint64_t>(n * bytes);
      return sum;
    }
    const auto length = static_cast<std::ptrdiff_t>(block);
    const Divided in_block = divide(static_cast<std::ptrdiff_t>(ptr.phase) + n, length);
    const Divided in_row = divide(static_cast<std::ptrdiff_t>(ptr.thread) + in_block.quotient, upc.threads());
    const std::ptrdiff_t moved = in_row.quotient * length + in_block.rest - static_cast<std::ptrdiff_t>(ptr.phase);
    sum.addr += static_cast<std::uint64_t>(moved * bytes);
    sum.thread = static_cast<std::uint32_t>(in_row.rest);
    sum.phase = static_cast<std::uint32_t>(in_block.rest);
    return sum;
  });
}

ptrdiff_t upc_ptr_diff(upc_ptr_t to, upc_ptr_t from, size_t elem, size_t block) {
  return guarded("upc_ptr_diff", [&](Runtime& upc) {
    check_array(elem, block);
    check_pointer(upc, to, block);
    check_pointer(upc, from, block);
    if (to.addr == 0 || from.addr == 0 || Runtime::on_device(to) != Runtime::on_device(from)) [[unlikely]] {
      refuse_two_arrays(upc, to, from, elem, block);
    }
    const auto bytes = static_cast<std::ptrdiff_t>(elem);
    const auto length = static_cast<std::ptrdiff_t>(block);
    const auto apart = static_cast<std::ptrdiff_t>(to.addr - from.addr);
    if (apart % bytes != 0 || (block == 0 && to.thread != from.thread)) refuse_two_arrays(upc, to, from, elem, block);
    if (block == 0) return apart / bytes;
    const auto phases = static_cast<std::ptrdiff_t>(to.phase) - static_cast<std::ptrdiff_t>(from.phase);
    const std::ptrdiff_t in_blocks = apart / bytes - phases;  // of the blocks that they lie in, within a part
    if (in_blocks % length != 0) refuse_two_arrays(upc, to, from, elem, block);
    const auto threads = static_cast<std::ptrdiff_t>(to.thread) - static_cast<std::ptrdiff_t>(from.thread);
    return in_blocks * upc.threads() + threads * length + phases;
  });
}
