#include "onstream/base/fork_guard.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>

#include "onstream/base/error.hpp"

namespace onstream {

ForkGuard::ForkGuard() {
  static const int listens = ::pthread_atfork(nullptr, nullptr, [] { forks_.fetch_add(1, std::memory_order_relaxed); });
  if (listens != 0) {
    errno = listens;
    fail_errno("pthread_atfork");
  }
  made_after_ = forks_.load(std::memory_order_relaxed);
  made_in_ = ::getpid();
}

void ForkGuard::refuse(const char* what) const {
  fail(ErrorCode::closed, what, " was made in process ", made_in_, ", and this is process ", ::getpid(),
       ", a forked child of it: it stays its parent's, and a forked child makes its own");
}

}  // namespace onstream
