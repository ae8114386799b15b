#include "onstream/plan/slots.hpp"

namespace onstream::plan {

namespace {

// Puts all of `first` before `ops`: one call to the driver fewer.
void merge(std::vector<WordOp>& first, std::vector<WordOp>& ops) {
  ops.insert(ops.begin(), first.begin(), first.end());
  first.clear();
}

}  // namespace

Slots::Slots(std::shared_ptr<Device> device, StreamPool& streams, std::shared_ptr<Watchdog> watch, PlanWords words,
             WorkBetween between)
    : device_(std::move(device)),
      watch_(std::move(watch)),
      words_(std::move(words)),
      between_(between),
      pulses_(device_) {
  std::uint32_t* pulse = pulses_.take();
  const StreamPool::StreamLease stream = streams.lease();
  write_value(*device_, pulse, std::uint32_t{0}, stream.get());
  wait_value(*device_, pulse, std::uint32_t{0}, stream.get());
  device_->synchronize(stream.get());
}

PlanSlot Slots::make(std::uint32_t* pulse) const {
  PlanSlot slot;
  slot.opening = words_.opening(pulse);
  slot.gate = words_.gate(pulse);
  slot.telling = words_.telling();
  slot.closing = words_.closing(pulse);
  const bool apart = between_ == WorkBetween::kernels || slot.closing.empty();
  if (apart && !slot.telling.empty()) slot.telling.push_back(PlanWords::quiet(pulse));
  // Launches with another pulse reset the same words: this one must not seem to wait for them.
  if (!slot.closing.empty()) slot.closing.push_back(PlanWords::quiet(pulse));
  if (between_ == WorkBetween::nothing) {
    merge(slot.opening, slot.gate);
    merge(slot.telling, slot.closing);
  }
  slot.watched = watch_->stand_by({pulse, words_.phases()});
  return slot;
}

std::shared_ptr<const PlanSlot> Slots::of(Stream stream) {
  const bool captured = device_->capturing(stream);
  const std::lock_guard lock(mutex_);
  if (!captured) {
    std::shared_ptr<const PlanSlot>& known = by_stream_[stream.handle];
    if (known == nullptr) known = std::make_shared<const PlanSlot>(make(pulses_.take()));
    return known;
  }
  std::uint32_t* pulse = pulses_.take();
  return {new PlanSlot(make(pulse)), [this, pulse](const PlanSlot* slot) {
            delete slot;
            pulses_.give_back(pulse);
          }};
}

std::size_t Slots::operations() const {
  std::uint32_t nobody = 0;
  return words_.opening(&nobody).size() + words_.gate(&nobody).size() + words_.telling().size() +
         words_.closing(&nobody).size();
}

}  // namespace onstream::plan
