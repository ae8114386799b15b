// Checking (parameter collective_check): before a collective runs, all ranks of its team tell each other which call
// they make, by an all_gather on its channel, and all refuse it if they do not agree. Nothing is broken then.
//
// Each channel has one: threads that use different channels do not wait for each other. The hosts wait for each other
// at every call. A captured call is checked when it is captured.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "onstream/collective/call/call.hpp"
#include "onstream/device.hpp"

namespace onstream::collective {

// A call in words, the same on all its ranks: "all_reduce of 4 float64 sum". Arguments on which only pairs of ranks
// agree are left out: counts of an all_to_all_v, and along the edges of a neighbourhood. In these two, ranks that
// neither give nor get elements may name any type.
std::string words_of(const CollectiveCall& call);
std::string what_of(const CollectiveCall& call);  // the same, whichever algorithm does it

class Checking {
 public:
  // Runs a collective on the channel of the checked one, and waits for it.
  using Run = std::function<void(const CollectiveCall&)>;

  Checking(Device& device, std::vector<int> ranks);
  // Throws invalid_argument, the same on every rank, naming the ranks that differ and how.
  void check(const CollectiveCall& call, const Run& run);

 private:
  enum class Alike { all, as_told };
  void compare(std::string words, Alike alike, const CollectiveCall& call, const Run& run);
  std::string wrong_parts(const CollectiveCall& call, const Run& run);

  std::mutex mutex_;
  std::vector<int> ranks_;
  std::shared_ptr<Memory> mine_;  // pinned: the words of this rank
  std::shared_ptr<Memory> all_;   // and those of all ranks
};

}  // namespace onstream::collective
