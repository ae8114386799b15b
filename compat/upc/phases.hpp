// Phases: how the threads meet - barriers, split ones too, and calls that all threads make together.
//
// Each phase has a number. A thread tells every other its act in it, by words in memory that all load and store, and
// the phase is over for a thread once it has heard from all. It can be one phase ahead of another at most, so there are
// two sets of words. Threads that do different things, or end, are known at once and named; those that do not come are
// named at the deadline.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "onstream/world.hpp"

namespace onstream::upc {

enum class Act : std::uint8_t { none, barrier, end, all_alloc, all_free, all_lock_alloc, all_lock_free, answer };

// A thread's act in a phase.
struct Step {
  Act act = Act::none;
  std::array<std::uint64_t, 3> values = {};
};

class Phases {
 public:
  static std::size_t word_bytes(int threads);

  // `words` is the begin of such words at every thread, zero at first, as this thread addresses them.
  Phases(World& world, std::vector<std::byte*> words);

  // Tells the others; does not wait.
  void notify(const Step& mine);
  bool notified() const { return notified_; }
  const Step& mine() const { return mine_; }  // of the phase that it notified
  // Ends the phase: returns every thread's step in it. Throws unless all are in the same call, timeout when one does
  // not come in time, and aborted when one has left, or the world fails.
  std::vector<Step> wait();
  // Both, for a call that all make with the same values. Throws naming each thread's act unless that is so.
  void agree(const Step& mine);
  // Both: the values that thread 0 has.
  std::array<std::uint64_t, 3> from_first(const std::array<std::uint64_t, 3>& mine);

 private:
  struct Words;
  Words* words(int at, int from) const;
  std::uint64_t tag(Act act) const { return number_ << kActBits | static_cast<std::uint64_t>(act); }
  bool has_come(int thread) const;
  std::string missing() const;

  static constexpr int kActBits = 8;
  World& world_;
  std::vector<std::byte*> words_;
  std::uint64_t number_ = 0;  // of the newest phase that this thread notified
  bool notified_ = false;
  Step mine_;
};

// "calls upc_all_alloc(4, 64) on the host"
std::string describe(const Step& step);

// Waits in rounds until ready(). Throws aborted with the story otherwise; at the deadline the world fails with
// `why()`, which goes on as "... within 60 s", and this throws timeout.
void await(World& world, const std::function<bool()>& ready, const std::function<std::string()>& why);

}  // namespace onstream::upc
