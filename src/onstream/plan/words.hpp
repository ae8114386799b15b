// Words of path memop: what the stream of one rank writes and waits for in a launch, around the copies.
//
// Every edge has two words in pinned memory. The receiver writes `ready` at the sender when its launch begins; the
// sender waits for it, resets it, copies, and writes `done` at the receiver, which waits for it and resets it. All
// values are constants, so a captured launch means the same at every replay, and nobody overruns: `ready` comes again
// only after the receiver has reset `done`, and `done` only after the next `ready`.
//
// No deadlock: `opening` waits for nothing; `gate` waits for openings; nothing but `closing` waits for what is behind a
// gate. A pulse word tells the watch (transport/watch.hpp) which of the two the stream waits in.
#pragma once

#include <cstdint>
#include <vector>

#include "onstream/device/device.hpp"
#include "onstream/transport/watch.hpp"

namespace onstream::plan {

class Words {
 public:
  // An edge into this rank: `ready` lies at the peer, `done` here. `fault` says what is missing without it.
  void receive(std::uint32_t* ready_there, std::uint32_t* done_here, const FaultReport& fault) {
    opening_.push_back(write(ready_there, 1));
    arrivals_.push_back({done_here, fault});
  }
  // An edge out of it: `ready` lies here, `done` at the peer.
  void send(std::uint32_t* ready_here, std::uint32_t* done_there, const FaultReport& fault) {
    permits_.push_back({ready_here, fault});
    telling_.push_back(write(done_there, 1));
  }
  bool empty() const { return opening_.empty() && telling_.empty(); }

  std::vector<WordOp> opening() const { return opening_; }                                        // before all else
  std::vector<WordOp> gate(std::uint32_t* pulse) const { return await(permits_, pulse, 1); }      // before the copies
  std::vector<WordOp> telling() const { return telling_; }                                        // behind them
  std::vector<WordOp> closing(std::uint32_t* pulse) const { return await(arrivals_, pulse, 2); }  // at the end
  std::vector<std::vector<AwaitedWord>> phases() const { return {permits_, arrivals_}; }

 private:
  static WordOp write(std::uint32_t* word, std::uint32_t value) { return {WordAct::write, sizeof *word, word, value}; }

  // The pulse goes back before any word does, so that whoever sees the pulse sees the words as they were waited for.
  static std::vector<WordOp> await(const std::vector<AwaitedWord>& words, std::uint32_t* pulse, std::uint32_t phase) {
    std::vector<WordOp> ops;
    if (words.empty()) return ops;
    ops.push_back(write(pulse, phase));
    for (const AwaitedWord& one : words) ops.push_back({WordAct::wait_equal, sizeof *one.word, one.word, 1});
    ops.push_back(write(pulse, 0));
    for (const AwaitedWord& one : words) ops.push_back(write(one.word, 0));
    return ops;
  }

  std::vector<WordOp> opening_;
  std::vector<WordOp> telling_;
  std::vector<AwaitedWord> permits_;
  std::vector<AwaitedWord> arrivals_;
};

}  // namespace onstream::plan
