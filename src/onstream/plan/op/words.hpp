// Words of path memop: the stream of one rank writes them and waits for them in a launch, around the copies.
//
// Every edge has two words in pinned memory. The receiver resets `done` and writes `ready` at the sender when its
// launch begins; the sender waits for that, copies, resets `ready`, and writes `done` at the receiver, which waits for
// it. All values are constants, so a captured launch means the same at every replay, and nobody overruns: `ready` comes
// again only after `done` has come, and `done` only after the next `ready`.
//
// No deadlock: `opening` waits for nothing; `gate` waits for openings; only `closing` waits for work behind a gate. A
// pulse word tells the watch (transport/watch.hpp) in which of the two the stream may be waiting. Between the end of a
// copy and the start of the peer's next one lie three writes, as few as can be: each costs its trip.
#pragma once

#include <cstdint>
#include <vector>

#include "onstream/device.hpp"
#include "onstream/transport/watch.hpp"

namespace onstream::plan {

class PlanWords {
 public:
  // An edge into this rank: `ready` lies at the peer, `done` here. `fault` is reported if the word does not come.
  void receive(std::uint32_t* ready_there, std::uint32_t* done_here, const FaultReport& fault) {
    invitations_.push_back(ready_there);
    arrivals_.push_back({done_here, fault});
  }
  // An edge out of it: `ready` lies here, `done` at the peer.
  void send(std::uint32_t* ready_here, std::uint32_t* done_there, const FaultReport& fault) {
    permits_.push_back({ready_here, fault});
    notices_.push_back(done_there);
  }
  bool empty() const { return arrivals_.empty() && permits_.empty(); }

  // Before all else in a launch.
  std::vector<WordOp> opening(std::uint32_t* pulse) const {
    std::vector<WordOp> ops;
    if (arrivals_.empty()) return ops;
    ops.push_back(write(pulse, 0));  // first, so that no reset word looks awaited
    for (const AwaitedWord& one : arrivals_) ops.push_back(write(one.word, 0));
    for (std::uint32_t* ready : invitations_) ops.push_back(write(ready, 1));
    return ops;
  }
  // Before the copies.
  std::vector<WordOp> gate(std::uint32_t* pulse) const { return await(permits_, pulse, 1); }
  // Behind them.
  std::vector<WordOp> telling() const {
    std::vector<WordOp> ops;
    for (const AwaitedWord& one : permits_) ops.push_back(write(one.word, 0));
    for (std::uint32_t* done : notices_) ops.push_back(write(done, 1));
    return ops;
  }
  // At the end.
  std::vector<WordOp> closing(std::uint32_t* pulse) const { return await(arrivals_, pulse, 2); }

  // Right behind telling(), unless closing() follows at once; and behind closing().
  static WordOp quiet(std::uint32_t* pulse) { return write(pulse, 0); }

  std::vector<std::vector<AwaitedWord>> phases() const { return {permits_, arrivals_}; }

 private:
  static WordOp write(std::uint32_t* word, std::uint32_t value) { return {WordAct::write, sizeof *word, word, value}; }

  static std::vector<WordOp> await(const std::vector<AwaitedWord>& words, std::uint32_t* pulse, std::uint32_t phase) {
    std::vector<WordOp> ops;
    if (words.empty()) return ops;
    ops.push_back(write(pulse, phase));
    for (const AwaitedWord& one : words) ops.push_back({WordAct::wait_equal, sizeof *one.word, one.word, 1});
    return ops;
  }

  std::vector<std::uint32_t*> invitations_;
  std::vector<std::uint32_t*> notices_;
  std::vector<AwaitedWord> permits_;
  std::vector<AwaitedWord> arrivals_;
};

}  // namespace onstream::plan
