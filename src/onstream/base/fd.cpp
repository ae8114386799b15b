#include "onstream/base/fd.hpp"

#include <fcntl.h>

#include <array>
#include <cerrno>

namespace onstream {
namespace {

constexpr int kLowest = STDERR_FILENO + 1;

}  // namespace

int Fd::moved_up(int fd) {
  const int up = ::fcntl(fd, F_DUPFD_CLOEXEC, kLowest);
  const int saved = errno;
  ::close(fd);
  errno = saved;
  return up;
}

Fd duplicate(const Fd& fd) { return Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kLowest)); }

std::string contents_of(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string contents;
  if (!file.valid()) return contents;
  std::array<char, 4096> part;
  while (true) {
    const ssize_t got = ::read(file.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {};
    if (got == 0) return contents;
    contents.append(part.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace onstream
