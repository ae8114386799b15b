// Bytes between private and shared memory, and within shared memory. All are done when they return.
#include <algorithm>
#include <cstring>
#include <vector>

#include "guarded.hpp"

using namespace onstream;
using namespace onstream::upc;

namespace {

constexpr std::size_t kBounce = std::size_t{1} << 20;

// Between two parts neither of which this thread addresses.
void copy_through_here(Runtime& upc, const Runtime::Place& to, const Runtime::Place& from, std::size_t bytes) {
  std::vector<std::byte> bounce(std::min(bytes, kBounce));
  for (std::size_t done = 0; done < bytes; done += bounce.size()) {
    const std::size_t now = std::min(bounce.size(), bytes - done);
    upc.context().get(bounce.data(), from.local + done, now, from.thread);
    upc.context().put(to.local + done, bounce.data(), now, to.thread);
  }
}

}  // namespace

void upc_memput(upc_ptr_t dst, const void* src, size_t n) {
  guarded("upc_memput", [&](Runtime& upc) {
    const Runtime::Place to = upc.place("dst", dst, n);
    upc.context().put(to.local, src, n, to.thread);
  });
}

void upc_memget(void* dst, upc_ptr_t src, size_t n) {
  guarded("upc_memget", [&](Runtime& upc) {
    const Runtime::Place from = upc.place("src", src, n);
    upc.context().get(dst, from.local, n, from.thread);
  });
}

void upc_memcpy(upc_ptr_t dst, upc_ptr_t src, size_t n) {
  guarded("upc_memcpy", [&](Runtime& upc) {
    const Runtime::Place to = upc.place("dst", dst, n);
    const Runtime::Place from = upc.place("src", src, n);
    if (dst.thread == src.thread && dst.addr < src.addr + n && src.addr < dst.addr + n) [[unlikely]] {
      fail(ErrorCode::invalid_argument, "dst, ", upc.text_of(dst), ", and src, ", upc.text_of(src), ", overlap in ", n,
           " B");
    }
    if (from.here != nullptr) return upc.context().put(to.local, from.here, n, to.thread);
    if (to.here != nullptr) return upc.context().get(to.here, from.local, n, from.thread);
    copy_through_here(upc, to, from, n);
  });
}

void upc_memset(upc_ptr_t dst, int c, size_t n) {
  guarded("upc_memset", [&](Runtime& upc) {
    const Runtime::Place to = upc.place("dst", dst, n);
    if (to.here != nullptr && to.cpu) {
      std::memset(to.here, c, n);
      return;
    }
    const std::vector<std::byte> values(std::min(n, kBounce), static_cast<std::byte>(c));
    for (std::size_t done = 0; done < n; done += values.size()) {
      upc.context().put(to.local + done, values.data(), std::min(values.size(), n - done), to.thread);
    }
  });
}

void upc_fence(void) {
  guarded("upc_fence", [](Runtime& upc) { upc.context().quiet(); });
}
