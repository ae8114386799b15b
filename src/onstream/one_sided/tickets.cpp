#include "onstream/one_sided/tickets.hpp"

#include <vector>

namespace onstream::one_sided {

struct Tickets::Words {
  static constexpr std::size_t kAtOnce = 4096;

  std::uint64_t* take(Device& device) {
    const std::lock_guard lock(mutex);
    if (free.empty()) {
      pages.push_back(device.allocate(kAtOnce * sizeof(std::uint64_t), MemoryKind::device));
      auto* const first = reinterpret_cast<std::uint64_t*>(pages.back()->data());
      for (std::size_t i = 0; i < kAtOnce; ++i) free.push_back(first + i);
    }
    std::uint64_t* const word = free.back();
    free.pop_back();
    return word;
  }
  void give(std::uint64_t* word) {
    const std::lock_guard lock(mutex);
    free.push_back(word);  // there was room for it before
  }

  std::mutex mutex;
  std::vector<std::shared_ptr<Memory>> pages;
  std::vector<std::uint64_t*> free;
};

Tickets::Tickets(std::shared_ptr<Device> device) : words_(std::make_shared<Words>()), device_(std::move(device)) {}

std::uint64_t* Tickets::of(Stream stream) {
  if (device_->capturing(stream)) {
    std::uint64_t* const word = words_->take(*device_);
    device_->retain(stream,
                    std::shared_ptr<const void>(word, [words = words_, word](const void*) { words->give(word); }));
    return word;
  }
  const std::lock_guard lock(mutex_);
  std::uint64_t*& word = of_stream_[stream.handle];
  if (word == nullptr) word = words_->take(*device_);
  return word;
}

}  // namespace onstream::one_sided
