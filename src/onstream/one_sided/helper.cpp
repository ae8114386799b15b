#include "onstream/one_sided/helper.hpp"

#include <atomic>
#include <cstring>

#include "onstream/base/error.hpp"

namespace onstream::one_sided {

namespace {

constexpr std::size_t kLine = 64;

template <class Word>
void write_word(std::uint64_t address, std::uint64_t value, Work work) {
  const std::atomic_ref<Word> word(*reinterpret_cast<Word*>(address));
  if (work == Work::add) {
    word.fetch_add(static_cast<Word>(value), std::memory_order_acq_rel);
  } else {
    word.store(static_cast<Word>(value), std::memory_order_release);  // pairs with the acquire of a wait for it
  }
}

}  // namespace

Helper::Helper(Fabric& fabric)
    : fabric_(fabric),
      device_(fabric.device()),
      chunk_bytes_((static_cast<std::size_t>(fabric.parameters().stage_chunk_bytes) + kLine - 1) / kLine * kLine),
      stride_(sizeof(Errand) + chunk_bytes_),
      slots_(fabric.segment(stride_ * static_cast<std::size_t>(fabric.size()), MemoryKind::pinned)),
      locks_(device_->allocate(sizeof(std::uint64_t) * static_cast<std::size_t>(fabric.size()), MemoryKind::device)),
      stream_(device_->create_stream()),
      thread_(quiet_thread([this] { serve(); })) {}

Helper::~Helper() {
  stopping_.store(true, std::memory_order_relaxed);
  thread_.join();
  device_->destroy_stream(stream_);
}

Errand* Helper::slot(int peer) const {
  return reinterpret_cast<Errand*>(slots_->peer(peer) + stride_ * static_cast<std::size_t>(fabric_.rank()));
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
  for (int peer = 0; peer < fabric_.size(); ++peer) {
    std::byte* own = slots_->local() + stride_ * static_cast<std::size_t>(peer);
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
      if (request.bytes == sizeof(std::uint64_t))
        return write_word<std::uint64_t>(request.address, request.value, work);
      if (request.bytes == sizeof(std::uint32_t))
        return write_word<std::uint32_t>(request.address, request.value, work);
      std::memcpy(reinterpret_cast<void*>(request.address), &request.value, request.bytes);
  }
}

void Helper::move(void* destination, const void* source, std::size_t bytes) {
  const auto whole_word = [&](std::size_t width) {
    return bytes == width && (reinterpret_cast<std::uintptr_t>(destination) % width) == 0;
  };
  const MemoryInfo to = device_->inspect(destination);
  const MemoryInfo from = device_->inspect(source);
  const auto on_gpu = [&](const MemoryInfo& info) {
    return device_->kind() == DeviceKind::cuda && info.kind == MemoryKind::device;
  };
  if (on_gpu(to) || on_gpu(from)) {
    device_->copy(destination, source, bytes, stream_);
    device_->synchronize(stream_);
  } else if (whole_word(sizeof(std::uint32_t)) || whole_word(sizeof(std::uint64_t))) {
    std::uint64_t value = 0;
    std::memcpy(&value, source, bytes);
    const auto address = reinterpret_cast<std::uint64_t>(destination);
    if (bytes == sizeof value) {
      write_word<std::uint64_t>(address, value, Work::store);
    } else {
      write_word<std::uint32_t>(address, value, Work::store);
    }
  } else {
    std::memcpy(destination, source, bytes);
  }
}

}  // namespace onstream::one_sided
