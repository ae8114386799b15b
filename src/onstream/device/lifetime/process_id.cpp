#include "onstream/device/lifetime/process_id.hpp"

#include <sys/random.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

#include "onstream/base/error.hpp"

namespace onstream {
namespace {

std::uint64_t draw() {
  for (;;) {
    std::uint64_t value = 0;
    const ssize_t got = ::getrandom(&value, sizeof(value), 0);
    if (got < 0 && errno != EINTR) fail_errno("getrandom for the process id");
    if (got == static_cast<ssize_t>(sizeof(value)) && value != 0) return value;
  }
}

}  // namespace

std::uint64_t process_id() {
  static std::mutex mutex;
  static std::uint64_t value = 0;
  static pid_t owner = 0;
  const std::lock_guard<std::mutex> lock(mutex);
  if (owner != ::getpid()) {
    value = draw();
    owner = ::getpid();
  }
  return value;
}

}  // namespace onstream
