// Copies between a buffer that kernels or peers cannot reach and the bounce buffer that stands in for it (bounce.hpp).
//
// Where the host can read the bounce buffer, a host function of the stream copies: cudaMemcpyAsync of pageable memory
// would make the host wait for the stream, and with it every thread of the process that wants the GPU. Its arguments
// lie behind the data, in the bounce buffer, and so live as long. Other bounce buffers are copied by the device.
// Nothing here waits but take_now().
#pragma once

#include <cstddef>
#include <cstdint>

#include "onstream/device/lifetime/streams.hpp"
#include "onstream/message/grids.hpp"
#include "onstream/message/request.hpp"

namespace onstream {

// A copy that a host function makes.
struct alignas(16) HostCopy {
  void* destination;
  const void* source;
  std::size_t bytes;
  const std::uint64_t* status;  // of a receive: where its op says how it ended, and how much came; null: copy all
  const std::uint64_t* received;
  std::uint64_t own_status;  // for a receive without a request
  std::uint64_t own_received;

  // For the op of a receive without a request: the copy then takes the bytes that have come, no more.
  lane::Ticket own_ticket();
};

// Room to leave behind the data of a bounce buffer.
constexpr std::size_t kHostCopyBytes = 64;
static_assert(sizeof(HostCopy) <= kHostCopyBytes);

class HostCopies {
 public:
  HostCopies(Device& device, const Grids& grids);

  // All of a send's data into its bounce buffer.
  void fill(const Memory& bounce, const void* source, std::size_t bytes, Stream stream) const;

  // Of an ordered receive, whose bounce buffer is pinned: written down before its op is enqueued, enqueued after it.
  HostCopy* describe_take(void* destination, const Memory& bounce, std::size_t bytes) const;
  void take(HostCopy* copy, Stream stream) const;

  // Copies the bytes that have come for a posted receive, no more: in order behind a wait for it, or now that it is
  // through.
  void take(const Request& request, Stream stream) const;
  void take_now(const Request& request, StreamPool& streams) const;

 private:
  bool host_reads(const Memory& bounce) const;

  Device& device_;
  const Grids& grids_;
  bool on_host_;
};

}  // namespace onstream
