// WordPool: words of memory of a device, to be taken and given back. Zero when first taken; after that as they were
// given back. Thread-safe; the memory lives as long as this object.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "onstream/device.hpp"

namespace onstream {

template <class Word>
class WordPool {
 public:
  // Memory comes from `more`, which is asked for so many bytes now and then.
  using More = std::function<std::shared_ptr<std::byte>(std::size_t)>;
  explicit WordPool(More more) : more_(std::move(more)) {}
  WordPool(std::shared_ptr<Device> device, MemoryKind kind)
      : WordPool([device = std::move(device), kind](std::size_t bytes) {
          const std::shared_ptr<Memory> memory = device->allocate(bytes, kind);
          return std::shared_ptr<std::byte>(memory, memory->data());
        }) {}

  Word* take() {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      Word* const word = free_.back();
      free_.pop_back();
      return word;
    }
    if (pages_.empty() || taken_ == kOfPage) {
      pages_.push_back(more_(kOfPage * sizeof(Word)));
      taken_ = 0;
      free_.reserve(pages_.size() * kOfPage);  // giving back never fails
    }
    return reinterpret_cast<Word*>(pages_.back().get()) + taken_++;
  }
  // The work enqueued with it is over.
  void give_back(Word* word) {
    const std::lock_guard lock(mutex_);
    free_.push_back(word);
  }

 private:
  static constexpr std::size_t kOfPage = 1024;

  More more_;
  std::mutex mutex_;  // guards all below
  std::vector<std::shared_ptr<std::byte>> pages_;
  std::size_t taken_ = 0;  // of the last page
  std::vector<Word*> free_;
};

}  // namespace onstream
