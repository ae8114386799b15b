// Foreign addresses: plain memory of another process, as the kernels of the host device name it.
//
// Such memory is mapped nowhere here. The operating system copies to and from it by process id and address
// (cross-memory attach, process_vm_readv and process_vm_writev): one copy, no bounce buffer. A foreign address says in
// its upper bits which process (Device::attach gives them) and in its lower 48 the address there; no address of our own
// has bit 63. It may be added to and copied with, never followed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "onstream/base/status.hpp"

namespace onstream {

constexpr int kForeignShift = 48;

inline bool is_remote_process(std::uint64_t address) { return address >> 63 != 0; }
inline bool is_remote_process(const void* address) {
  return is_remote_process(reinterpret_cast<std::uint64_t>(address));
}

// Copies between own and foreign memory; at most one of both is foreign. ok; unmapped if either is not mapped (the log
// says what the system said); aborted if the process is gone. Where the system refuses, as the relay says (relay.hpp).
// Never faults.
Status copy_cross_memory(void* destination, const void* source, std::size_t bytes);

}  // namespace onstream
