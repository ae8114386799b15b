#include "onstream/plan/pulses.hpp"

#include "onstream/device/group.hpp"

namespace onstream::plan {

namespace {

constexpr std::size_t kOfPage = 1024;

}  // namespace

std::uint32_t* Pulses::take() {
  const std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    std::uint32_t* const pulse = free_.back();
    free_.pop_back();
    return pulse;
  }
  if (pages_.empty() || taken_ == kOfPage) {
    pages_.push_back(device_->allocate(kOfPage * sizeof(std::uint32_t), MemoryKind::pinned));
    taken_ = 0;
  }
  return reinterpret_cast<std::uint32_t*>(pages_.back()->data()) + taken_++;
}

void Pulses::give_back(std::uint32_t* pulse) {
  HostGroup::store_release(pulse, std::uint32_t{0});
  const std::lock_guard lock(mutex_);
  free_.push_back(pulse);
}

}  // namespace onstream::plan
