// Remote process addresses: plain memory of another process, as the kernels of the host device name it.
//
// Such memory is mapped nowhere here. The operating system copies to and from it by process id and address
// (cross-memory attach, process_vm_readv and process_vm_writev): one copy, no bounce buffer. A remote process address
// says in its upper bits which process (Device::attach gives them) and in its lower 48 the address there; no address of
// our own has bit 63. It may be added to and copied with, never followed.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "onstream/error.hpp"

namespace onstream {

constexpr int kRemoteProcessShift = 48;

inline bool is_remote_process(std::uint64_t address) { return address >> 63 != 0; }
inline bool is_remote_process(const void* address) {
  return is_remote_process(reinterpret_cast<std::uint64_t>(address));
}

// Copies between own memory and another process's; at most one of the two is a remote process address. Returns ok;
// unmapped if either is not mapped (the log has the system's error); aborted if the process is gone. Where the system
// refuses, the relay's answer (relay.hpp). Never faults.
Status copy_cross_memory(void* destination, const void* source, std::size_t bytes);

// The same from a remote process address to pieces of own memory, in their order, with few calls of the system.
Status scatter_cross_memory(std::span<const iovec> pieces, const void* source);

}  // namespace onstream
