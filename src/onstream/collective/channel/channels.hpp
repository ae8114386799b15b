// Channels: the channels of one team, by number, each made with its first call.
//
// Making one is collective over the world and blocks for it. Ranks may come to the first calls of channels, and to the
// first by copy on them, in different orders: all ranks then make each part that any of them asks for, in ascending
// order. Each part is made once, so its messages are new. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "onstream/collective/channel/channel.hpp"

namespace onstream::collective {

class Channels {
 public:
  Channels(std::shared_ptr<Fabric> fabric, std::shared_ptr<BlockBudget> budget, std::vector<int> ranks);

  // Collective over the world: all `count` channels of a team, from now on the only ones.
  void make_all(int count);
  // The same for a team whose channels are elsewhere (network/network_collectives.hpp): their numbers alone.
  void meet(int count);
  bool is_team() const { return is_team_; }

  bool has(int number) const { return number >= 0 && static_cast<std::size_t>(number) < places_.size(); }
  void check_number(int number) const;  // throws invalid_argument
  // Null: there is none yet.
  Channel* find(int number) const {
    const auto place = static_cast<std::size_t>(number);
    return place < places_.size() ? places_[place].load(std::memory_order_acquire) : nullptr;  // start()
  }
  // The channel of the call, which is made if there is none.
  Channel& of(const CollectiveCall& call);
  // A channel's part for algorithm `copy`, which is made if there is none. The caller holds the channel's order: the
  // hosts of all ranks come to these in the same order, one call after the other.
  Copies& copies_of(Channel& channel, const CollectiveCall& call);

  std::uint64_t number_of_first() const { return channels_.front()->number(); }
  std::size_t device_bytes() const;
  std::vector<std::unique_ptr<Channel>> take_all();  // for the end

 private:
  // The parts that first calls make: a channel, and the copies of one.
  enum class Made { channel, copies };
  void make_with_all(Made part, const CollectiveCall& call);  // the caller holds making_mutex_
  void start(int number);
  void start_copies(int number);
  Copies* find_copies(const Channel& channel) const;

  std::shared_ptr<Fabric> fabric_;
  std::shared_ptr<BlockBudget> budget_;
  std::vector<int> ranks_;
  bool is_team_ = false;
  bool checks_;
  std::mutex making_mutex_;                    // held, while all ranks meet, by the maker of channels or their copies
  std::vector<std::atomic<Channel*>> places_;  // by number; null: not made yet
  mutable std::mutex mutex_;                   // guards channels_, and which copies channels have; never for long
  std::vector<std::unique_ptr<Channel>> channels_;
};

}  // namespace onstream::collective
