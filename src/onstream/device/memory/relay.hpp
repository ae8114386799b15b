// The way to another process's plain memory where the system refuses later the copies it permitted at first: a process
// that gives up its user (setuid) or its dumpability is closed to others from then on, although they hold remote
// process addresses of it (remote_process.hpp). A Relay then makes the copies, so that ops that are under way, captured
// or kept by a peer come to their end all the same.
#pragma once

#include <cstddef>
#include <cstdint>

namespace onstream {

// A copy between this process and another one.
struct CrossMemoryCopy {
  enum class CopyDirection { read, write };  // theirs to own, own to theirs
  CopyDirection direction;
  std::byte* own;
  std::uint64_t theirs;  // as that process has it
  std::size_t bytes;
};

// Asks one process to copy. Any thread.
class Relay {
 public:
  virtual ~Relay() = default;
  // Makes the whole copy, with the world's deadline; `refusal` is the errno that the system gave. 0; EFAULT where
  // memory is not mapped; ESRCH where the process, or the world, is gone; ETIMEDOUT.
  virtual int copy(CrossMemoryCopy what, int refusal) = 0;
};

// Copies within this process between addresses of which one may not be mapped. 0, or the errno, EFAULT for that.
int copy_carefully(void* destination, const void* source, std::size_t bytes);

}  // namespace onstream
