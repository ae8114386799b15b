// A file descriptor with one owner. Closed on destruction.
//
// Never 0, 1 or 2: a program that closed those would have the system give their numbers to us, and its prints, and
// the logs of any library, would go into our sockets. Each descriptor that the library makes becomes an Fd in the
// expression that makes it (tests/layers.toml sees to that).
#pragma once

#include <unistd.h>

#include <string>
#include <utility>

namespace onstream {

class Fd {
 public:
  Fd() = default;
  // Takes over the result of a system call; a descriptor below 3 moves up, close-on-exec as all are. If the result is
  // no valid descriptor, errno says why.
  explicit Fd(int fd) : fd_(fd >= 0 && fd <= STDERR_FILENO ? moved_up(fd) : fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  static int moved_up(int fd);
  int fd_ = -1;
};

// A second descriptor of the same thing; not valid, and errno, where the system has none left.
Fd duplicate(const Fd& fd);

// A file's contents; empty, and errno, where it cannot be read.
std::string contents_of(const std::string& path);

}  // namespace onstream
