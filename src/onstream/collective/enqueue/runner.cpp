#include "onstream/collective/enqueue/runner.hpp"

#include <algorithm>

#include "onstream/base/error.hpp"
#include "onstream/collective/enqueue/compiled_call.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"
#include "onstream/transport/buffer.hpp"

namespace onstream::collective {

Runner::Runner(std::shared_ptr<Fabric> fabric)
    : fabric_(std::move(fabric)), device_(fabric_->device()), uses_(device_) {}

Runner::~Runner() {
  for (auto& [behind, kept] : kept_) let_go(std::move(kept));
}

void Runner::let_go(std::shared_ptr<const void> used) noexcept {
  DeferredRelease::Events after = uses_.points();
  std::erase_if(after, [](const auto& event) { return ended(*event); });
  if (!after.empty()) DeferredRelease::of_process().hand_over(std::move(used), std::move(after));
}

Looked Runner::check_buffer(const CollectiveCall& call, const char* what, const void* address,
                            std::size_t bytes) const {
  if (bytes == 0) return {};
  require(address != nullptr, name_of(call.kind), ": the ", what, " of ", bytes, " B is a null pointer");
  const std::size_t access_width = std::min<std::size_t>(8, size_of(call.type));
  require(reinterpret_cast<std::uintptr_t>(address) % access_width == 0, name_of(call.kind), ": the ", what, " at ",
          address, " is not aligned to the ", access_width, " B of its elements");
  const std::uint64_t frees = device_->frees();  // first: memory freed meanwhile is looked at again
  const MemoryInfo info = look_at_buffer(*device_, address, bytes);
  require(info.kernel_access, name_of(call.kind), ": kernels cannot access the ", name_of(info.kind), " memory of the ",
          what, " at ", address, "; allocate it with onstream, or pin it");
  return {address, info, frees};
}

CachedCall Runner::find_again(Order& order, CallCache& recent, BlockBudget::BudgetShare* budget,
                              const CollectiveCall& call) const {
  std::unique_lock held(order.mutex);
  const CompiledCall* const work = recent.find(call, *device_);
  if (work == nullptr) return {};
  if (budget != nullptr && !budget->takes_next_call(work->most)) {  // calls have another number of blocks now
    recent.forget();
    return {};
  }
  return {&order, std::move(held), work};
}

void Runner::note(Order& order, Stream stream, const std::shared_ptr<const void>& kept) {
  order.newest = uses_.note(stream, fabric_->uses());
  order.last_stream = stream.handle;
  if (kept == nullptr) return;
  const std::lock_guard lock(kept_mutex_);
  std::erase_if(kept_, [](const auto& one) { return ended(*one.first); });
  kept_.emplace_back(order.newest, kept);
}

void Runner::note_captured(const Order& order, Stream stream, const CompiledCall& work) {
  if (order.budget != nullptr) order.budget->keep(work.blocks());
  device_->retain(stream, order.ground);
  if (work.kept != nullptr) device_->retain(stream, work.kept);
  for (const void* buffer : work.buffers) fabric_->guard(stream, buffer);
}

void Runner::enqueue_next(Order& order, Stream stream, const CompiledCall& work) {
  const bool captured = device_->capturing(stream);
  if (!captured && order.newest != nullptr && order.last_stream != stream.handle) device_->wait(stream, order.newest);
  const auto note_it = [&] { captured ? note_captured(order, stream, work) : note(order, stream, work.kept); };
  try {
    if (work.copies) work.copies->engine->enqueue(*device_, work.copies->work, stream);
    bool late = !order.last_epoch.is_in_front(*device_, stream, captured);
    work.for_each_kernel([&](const KernelLaunch& one) {
      const std::vector<std::byte> bytes = late && one.takes_epoch() ? one.late() : std::vector<std::byte>();
      device_->launch(*one.kernel, bytes.empty() ? one.bytes.data() : bytes.data(), one.bytes.size(), one.grid, stream);
      late = late && !one.takes_epoch();
    });
    order.last_epoch.set(*device_, stream, captured, work.kernels());
  } catch (...) {
    note_it();  // the parts before the failed one are on the stream
    throw;
  }
  note_it();
}

void Runner::enqueue(Order& order, Stream stream, const CompiledCall& work) {
  if (work.empty()) return;
  const std::lock_guard lock(order.mutex);
  enqueue_next(order, stream, work);
}

bool Runner::runs_here(const Order& order, const CompiledCall& work) const {
  const bool idle = order.newest == nullptr || order.newest->done();
  return device_->kind() == DeviceKind::host && idle && !work.copies;
}

void Runner::run_and_wait(Order& order, const CompiledCall& work) {
  if (work.empty()) return;
  run_next(order, std::unique_lock(order.mutex), work);
}

void Runner::run_next(Order& order, std::unique_lock<std::mutex> held, const CompiledCall& work) {
  if (runs_here(order, work)) {
    order.newest = nullptr;
    work.for_each_kernel([](const KernelLaunch& one) { one.kernel->host(one.bytes.data(), one.grid.blocks); });
  } else {
    const StreamPool::StreamLease stream = fabric_->streams()->lease();
    enqueue_next(order, stream.get(), work);
    held.unlock();
    device_->synchronize(stream.get());
  }
  fabric_->check_waited();
}

plan::PreparedCall Runner::for_plan(std::shared_ptr<const void> home, Order& order, CompiledCall work, PlanOp row) {
  plan::PreparedCall call;
  call.kernels = work.kernels();
  call.row = std::move(row);
  const auto shared = std::make_shared<const CompiledCall>(std::move(work));
  call.enqueue = [this, home, &order, shared](Stream stream) { enqueue(order, stream, *shared); };
  call.run = [this, home, &order, shared] { run_and_wait(order, *shared); };
  return call;
}

}  // namespace onstream::collective
