// How the memory of one process reaches another: exports of allocations, and the right to copy plain memory. The part
// of the device contract (onstream/device.hpp) that only the library sees.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "onstream/base/fd.hpp"
#include "onstream/device.hpp"

namespace onstream {

// How another process finds exported memory. Plain data: travels on a socket, with at most one file descriptor.
struct ExportRecord {
  DeviceKind device = DeviceKind::host;
  MemoryKind kind = MemoryKind::host;
  std::int32_t device_index = -1;
  std::int32_t pid = 0;
  std::uint64_t process_id = 0;  // random per process: tells apart processes with one pid in two namespaces
  std::uint64_t base = 0;        // in the exporter's address space
  std::uint64_t bytes = 0;
  std::uint64_t id = 0;
  std::uint32_t flavour = 0;  // the implementation's own: which kind of handle
  std::uint32_t has_fd = 0;
  std::array<std::uint8_t, 64> handle{};
};

struct Export {
  ExportRecord record;
  Fd fd;
};

// Imported memory: a peer's allocation in this address space. Unmapped with the last owner.
class Mapping {
 public:
  virtual ~Mapping() = default;
  virtual std::byte* data() const = 0;  // corresponds to ExportRecord::base
  virtual std::size_t bytes() const = 0;
};

// How a peer finds this process, to copy from and to its plain memory. Plain data.
struct ProcessRecord {
  std::int32_t pid = 0;  // as this process sees itself
  std::uint64_t process_id = 0;
  std::uint64_t word_address = 0;  // where the process id lies, to be read as a proof
};

class Relay;

// The right to copy from and to the plain memory of another process. Ends with the last owner.
class Attachment {
 public:
  virtual ~Attachment() = default;
  virtual std::uint64_t base() const = 0;           // added to an address of that process, for kernels here
  virtual void relay_by(std::shared_ptr<Relay>) {}  // where the system refuses later; see relay.hpp
};

}  // namespace onstream
