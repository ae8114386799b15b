#include "onstream/collective/runner.hpp"

#include <algorithm>

#include "onstream/base/error.hpp"
#include "onstream/collective/launching.hpp"
#include "onstream/transport/buffer.hpp"

namespace onstream::collective {

Runner::Runner(std::shared_ptr<Fabric> fabric, const char* owner)
    : fabric_(std::move(fabric)), device_(fabric_->device()), owner_(owner), streams_(device_), uses_(device_) {}

void Runner::drain() noexcept {
  try {
    constexpr double kDrainS = 10;
    if (uses_.done(Deadline(fabric_->parameters().timeout_s))) return;
    fabric_->abort(concat(owner_, " was destroyed while its collectives were under way"));
    (void)uses_.done(Deadline(kDrainS));
  } catch (const Error&) {
    // The device is gone, and the work with it.
  }
}

void Runner::check_buffer(const CollectiveCall& call, const char* what, const void* address, std::size_t bytes) const {
  if (bytes == 0) return;
  require(address != nullptr, name_of(call.kind), ": the ", what, " of ", bytes, " B is a null pointer");
  const std::size_t grain = std::min<std::size_t>(8, size_of(call.type));
  require(reinterpret_cast<std::uintptr_t>(address) % grain == 0, name_of(call.kind), ": the ", what, " at ", address,
          " is not aligned to the ", grain, " B of its elements");
  const MemoryInfo info = look_at_buffer(*device_, address, bytes);
  require(info.kernel_access, name_of(call.kind), ": kernels cannot access the ", name_of(info.kind), " memory of the ",
          what, " at ", address, "; allocate it with onstream, or pin it");
}

bool Runner::begin(Order& order, Stream stream) {
  const bool captured = device_->capturing(stream);
  if (!captured && order.newest != nullptr && order.last_stream != stream.handle) device_->wait(stream, order.newest);
  return captured;
}

void Runner::end(Order& order, Stream stream, bool captured) {
  if (captured) {
    device_->retain(stream, order.ground);
    return;
  }
  order.newest = uses_.note(stream);
  fabric_->uses().note(stream, order.newest);
  order.last_stream = stream.handle;
}

void Runner::enqueue(Order& order, Stream stream, const Launching& work) {
  enqueue(order, stream,
          [&] { device_->launch(*work.kernel, work.bytes.data(), work.bytes.size(), work.grid, stream); });
}

void Runner::run_and_wait(Order& order, const Launching& work) {
  std::unique_lock lock(order.mutex);
  const bool idle = order.newest == nullptr || order.newest->done();
  if (device_->kind() == DeviceKind::host && idle) {  // in this thread
    order.newest = nullptr;
    work.kernel->host(work.bytes.data(), work.grid.blocks);
    return;
  }
  const StreamPool::Lease stream = streams_.lease();
  enqueue(order, stream.get(), work);
  lock.unlock();
  device_->synchronize(stream.get());
}

}  // namespace onstream::collective
