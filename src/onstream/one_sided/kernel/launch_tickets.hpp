// LaunchTickets: words of device memory by which the blocks of one launch find out which of them is the last to finish.
//
// A word is 0 before the launch and again behind it. Launches on one stream run one after the other and share a word;
// one that a graph holds has its own, as branches of a graph may run side by side. Beside them lies the word by which
// the launches of a list that waits find out whether a wait has ended it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "onstream/device/memory/word_pool.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::one_sided {

class LaunchTickets {
 public:
  explicit LaunchTickets(Fabric& fabric);

  // The word for a launch on the stream. If that is capturing, the graph keeps the word.
  std::uint64_t* of(Stream stream);
  // 0, or, for ever, the Status of a wait that has failed: one word for all lists, as such a wait fails the world. If
  // the stream is capturing, the graph keeps the word.
  std::uint64_t* ended(Stream stream);
  // A word of 0 for one launch whose end the caller waits for. It goes back as 0.
  std::uint64_t* take() { return words_->take(); }
  void give_back(std::uint64_t* word) { words_->give_back(word); }

 private:
  using Words = WordPool<std::uint64_t>;
  std::shared_ptr<Words> words_;  // graphs may outlive this object
  std::shared_ptr<Device> device_;
  std::uint64_t* ended_;
  std::mutex mutex_;
  std::unordered_map<void*, std::uint64_t*> of_stream_;
};

}  // namespace onstream::one_sided
