#include "onstream/one_sided/helper.hpp"

#include <atomic>
#include <cstring>

#include "onstream/base/error.hpp"
#include "onstream/one_sided/kernels.hpp"

namespace onstream::one_sided {

namespace {

constexpr std::size_t kLine = 64;

}  // namespace

Helper::Helper(Fabric& fabric)
    : fabric_(fabric),
      device_(fabric.device()),
      chunk_bytes_((static_cast<std::size_t>(fabric.parameters().stage_chunk_bytes) + kLine - 1) / kLine * kLine),
      slot_bytes_(sizeof(Errand) + chunk_bytes_),
      slots_(fabric.segment(kSlots * slot_bytes_ * static_cast<std::size_t>(fabric.size()), MemoryKind::pinned)),
      locks_(device_->allocate(sizeof(std::uint64_t) * static_cast<std::size_t>(fabric.size()), MemoryKind::device)),
      stream_(device_->create_stream()),
      thread_(quiet_thread([this] { serve(); })) {}

Helper::~Helper() {
  stopping_.store(true, std::memory_order_relaxed);
  thread_.join();
  device_->destroy_stream(stream_);
}

Errand* Helper::slot(int peer, std::size_t number) const {
  const std::size_t before = kSlots * static_cast<std::size_t>(fabric_.rank()) + number;
  return reinterpret_cast<Errand*>(slots_->peer(peer) + slot_bytes_ * before);
}

// Looks without rest for a moment after each request, then every 50 us (HostGroup::pause).
void Helper::serve() {
  constexpr std::uint32_t kSpins = 256;
  try {
    for (std::uint32_t idle = 0; !stopping_.load(std::memory_order_relaxed); ++idle) {
      if (look()) idle = 0;
      HostGroup::pause(idle, kSpins);
    }
  } catch (const std::exception& error) {
    fabric_.abort(concat("the helper of rank ", fabric_.rank(), " failed: ", error.what()));
  }
}

bool Helper::look() {
  bool worked = false;
  const std::size_t slots = kSlots * static_cast<std::size_t>(fabric_.size());
  for (std::size_t slot = 0; slot < slots; ++slot) {
    std::byte* own = slots_->local() + slot_bytes_ * slot;
    auto& request = *reinterpret_cast<Errand*>(own);
    if (HostGroup::load_acquire(&request.work) == static_cast<std::uint64_t>(Work::none)) continue;
    perform(request, own + sizeof(Errand));
    HostGroup::store_release(&request.work, static_cast<std::uint64_t>(Work::none));  // pairs with the asker's wait
    worked = true;
  }
  return worked;
}

void Helper::perform(Errand& request, std::byte* data) {
  const auto work = static_cast<Work>(request.work);
  switch (work) {
    case Work::none: return;
    case Work::put: return move(reinterpret_cast<void*>(request.address), data, request.bytes);
    case Work::get: return move(data, reinterpret_cast<const void*>(request.address), request.bytes);
    case Work::store:
    case Work::add:
    case Work::atomic: return change(request, data);
  }
}

// Words in a GPU's memory are changed by a kernel: the CPU cannot, and its atomics would not be theirs.
void Helper::change(const Errand& request, std::byte* data) {
  const auto work = static_cast<Work>(request.work);
  Step step;
  step.target = request.address;
  step.source = request.value;
  step.width = static_cast<std::uint8_t>(request.bytes);
  step.kind = work == Work::add ? StepKind::add : StepKind::store;
  if (work == Work::atomic) {
    step.kind = StepKind::atomic;
    step.compare = static_cast<Compare>(op_of(request.bytes));
    step.width = width_of(request.bytes);
    step.bytes = reinterpret_cast<std::uint64_t>(data);
  }
  FewSteps body;
  body.wait = fabric_.wait_view();
  body.count = 1;
  body.steps[0] = step;
  if (!on_gpu(reinterpret_cast<const void*>(request.address))) return body(HostGroup(0, 1));
  launch(*device_, few_steps_kernel(), body, {1, 32}, stream_);
  device_->synchronize(stream_);
}

bool Helper::on_gpu(const void* address) const {
  return device_->kind() == DeviceKind::cuda && device_->inspect(address).kind == MemoryKind::device;
}

void Helper::move(void* destination, const void* source, std::size_t bytes) {
  const auto whole_word = [&](std::size_t width) {
    return bytes == width && (reinterpret_cast<std::uintptr_t>(destination) % width) == 0;
  };
  if (on_gpu(destination) || on_gpu(source)) {
    device_->copy(destination, source, bytes, stream_);
    device_->synchronize(stream_);
  } else if (whole_word(sizeof(std::uint32_t)) || whole_word(sizeof(std::uint64_t))) {
    // Whoever looks at the word sees it whole.
    if (bytes == sizeof(std::uint64_t)) {
      std::uint64_t value = 0;
      std::memcpy(&value, source, bytes);
      HostGroup::store_release(static_cast<std::uint64_t*>(destination), value);
    } else {
      std::uint32_t value = 0;
      std::memcpy(&value, source, bytes);
      HostGroup::store_release(static_cast<std::uint32_t*>(destination), value);
    }
  } else {
    std::memcpy(destination, source, bytes);
  }
}

}  // namespace onstream::one_sided
