#include "onstream/one_sided/kernel/launch_tickets.hpp"

namespace onstream::one_sided {

LaunchTickets::LaunchTickets(Fabric& fabric)
    : words_(std::make_shared<Words>([own = fabric.own_memory()](std::size_t bytes) { return own->take(bytes); })),
      device_(fabric.device()),
      ended_(words_->take()) {}

std::uint64_t* LaunchTickets::of(Stream stream) {
  if (device_->capturing(stream)) {
    std::uint64_t* const word = words_->take();
    device_->retain(stream,
                    std::shared_ptr<const void>(word, [words = words_, word](const void*) { words->give_back(word); }));
    return word;
  }
  const std::lock_guard lock(mutex_);
  std::uint64_t*& word = of_stream_[stream.handle];
  if (word == nullptr) word = words_->take();
  return word;
}

std::uint64_t* LaunchTickets::ended(Stream stream) {
  if (device_->capturing(stream)) device_->retain(stream, words_);
  return ended_;
}

}  // namespace onstream::one_sided
