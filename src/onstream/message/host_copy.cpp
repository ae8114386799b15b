#include "onstream/message/host_copy.hpp"

#include <algorithm>
#include <cstring>

#include "onstream/lane/kernels.hpp"
#include "onstream/lane/recv.hpp"

namespace onstream {

namespace {

void run(void* argument) {
  const HostCopy& copy = *static_cast<const HostCopy*>(argument);
  if (copy.status == nullptr) {
    std::memcpy(copy.destination, copy.source, copy.bytes);
  } else if (HostGroup::load_acquire(copy.status) == static_cast<std::uint64_t>(Status::ok)) {
    std::memcpy(copy.destination, copy.source,
                std::min<std::size_t>(copy.bytes, HostGroup::load_relaxed(copy.received)));
  }
}

HostCopy* describe(void* destination, const void* source, std::size_t bytes, const Memory& bounce) {
  return new (bounce.data() + bounce.bytes() - kHostCopyBytes)
      HostCopy{destination, source, bytes, nullptr, nullptr, static_cast<std::uint64_t>(Status::pending), 0};
}

}  // namespace

lane::Ticket HostCopy::own_ticket() { return {nullptr, &own_status, &own_received, 0}; }

HostCopies::HostCopies(Device& device, const Grids& grids)
    : device_(device), grids_(grids), on_host_(device.kind() == DeviceKind::host) {}

bool HostCopies::host_reads(const Memory& bounce) const { return on_host_ || bounce.kind() == MemoryKind::pinned; }

void HostCopies::fill(const Memory& bounce, const void* source, std::size_t bytes, Stream stream) const {
  if (!host_reads(bounce)) return device_.copy(bounce.data(), source, bytes, stream);
  device_.call(&run, describe(bounce.data(), source, bytes, bounce), stream);
}

HostCopy* HostCopies::describe_take(void* destination, const Memory& bounce, std::size_t bytes) const {
  HostCopy* copy = describe(destination, bounce.data(), bytes, bounce);
  copy->status = &copy->own_status;
  copy->received = &copy->own_received;
  return copy;
}

void HostCopies::take(HostCopy* copy, Stream stream) const { device_.call(&run, copy, stream); }

void HostCopies::take(const Request& request, Stream stream) const {
  const Memory& bounce = *request.bounce;
  if (!host_reads(bounce)) {
    const lane::Deliver body{request.copy_back, bounce.data(), request.bytes, request.slot.ticket};
    return launch(device_, lane::deliver_kernel(), body, grids_.deliver(request.bytes), stream);
  }
  HostCopy* copy = describe(request.copy_back, bounce.data(), request.bytes, bounce);
  copy->status = request.slot.ticket.status;
  copy->received = request.slot.ticket.received;
  take(copy, stream);
}

void HostCopies::take_now(const Request& request, StreamPool& streams) const {
  const Memory& bounce = *request.bounce;
  if (host_reads(bounce)) {
    std::memcpy(request.copy_back, bounce.data(), request.received);
    return;
  }
  streams.copy_now(request.copy_back, bounce.data(), request.received);
}

}  // namespace onstream
