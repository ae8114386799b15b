// Tickets: words of device memory by which the blocks of one launch find out which of them is the last to finish.
//
// A word is 0 before the launch and again behind it. Launches on one stream run one after the other and share a word;
// one that a graph holds has its own, as branches of a graph may run side by side.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "onstream/device/device.hpp"
#include "onstream/device/word_pool.hpp"

namespace onstream::one_sided {

class Tickets {
 public:
  explicit Tickets(std::shared_ptr<Device> device);

  // The word for a launch on the stream. If that is capturing, the graph keeps the word.
  std::uint64_t* of(Stream stream);

 private:
  using Words = WordPool<std::uint64_t>;
  std::shared_ptr<Words> words_;  // graphs may outlive this object
  std::shared_ptr<Device> device_;
  std::mutex mutex_;
  std::unordered_map<void*, std::uint64_t*> of_stream_;
};

}  // namespace onstream::one_sided
