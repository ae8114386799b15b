// RemoteFlags: the words of teams (team_words.hpp) at members on other hosts.
//
// A barrier stores a number at every member. Of a member on another host this rank has a stand-in of its words: the
// network carries a number that changes there over, with the words that this rank exchanged just before, and stores
// them at the same places of the member. Numbers only grow, and words change behind a barrier alone, so messages may
// overtake each other: an older one is dropped. The words of a slot go from team to team: each message names the
// generation of the slot, so that one of a team that has gone touches nothing. One of the first team, of all ranks, is
// kept until this rank has made it too; members of others make them together.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "onstream/transport/fabric.hpp"
#include "onstream/transport/net/proxy.hpp"

namespace onstream::one_sided {

constexpr std::size_t kExchangeWords = 4;  // that a member gives to each other one
using ExchangeWords = std::array<std::uint64_t, kExchangeWords>;

class RemoteFlags final : public net::NetworkService {
 public:
  // The flags of one barrier of a team, by numbers that mean the same to all members.
  struct FlagsPlace {
    std::uint16_t kind = 0;
    std::uint16_t slot = 0;
    bool operator==(const FlagsPlace&) const = default;
  };
  // Where this rank has a rank's flags and exchanged words, its own or a stand-in. No words: that kind has none.
  struct FlagsMemory {
    std::uint64_t* flags = nullptr;
    std::uint64_t* words = nullptr;  // of the first member
  };
  using Find = std::function<FlagsMemory(FlagsPlace place, int rank)>;

  // Places have these numbers of kinds and slots. find() is not called before the first install().
  struct Counts {
    int kinds;
    int slots;
    std::size_t bytes_of_a_rank;
  };
  RemoteFlags(const Fabric& fabric, const Counts& counts, Find find);
  ~RemoteFlags() override;

  std::byte* stand_in(int rank) const {
    return memory_.get() + static_cast<std::size_t>(rank) * counts_.bytes_of_a_rank;
  }
  // From now on the slot is of a team with this generation, the same at all members. All its words are 0.
  void install(int slot, std::uint64_t generation);
  // Carries the numbers of these barriers over, which this rank stores as member `place`, to the members on other
  // hosts.
  void watch(std::span<const FlagsPlace> barriers, const std::vector<int>& others, int place);
  // From now on nothing is stored to the slot's words, which may be set to 0 then.
  void forget(int slot);

  bool look() override;
  void on_message(int peer, net::Bytes header, net::Bytes payload) override;
  void on_lost(int peer) override;

 private:
  struct Watched {
    int rank;
    std::uint64_t* flag;         // its stand-in
    const std::uint64_t* words;  // null: none
    std::uint64_t told = 0;
    bool lost = false;
  };
  struct Watch {
    FlagsPlace place;
    std::uint64_t generation;
    int member;  // this rank
    std::vector<Watched> others;
    bool behind = false;  // one of the others may have a number that is not told
  };
  struct FlagsMessage {
    std::uint64_t generation;
    std::uint64_t number;
    FlagsPlace place;
    std::int32_t member;
    ExchangeWords words;
  };
  static_assert(sizeof(FlagsMessage) < net::kMaxHeaderBytes);
  std::uint64_t generation_of(int slot) const;
  bool tell(const Watch& watch, Watched& other);
  void apply(const FlagsMessage& message);

  std::shared_ptr<net::NetworkProxy> network_;
  int size_;
  int rank_;
  Counts counts_;
  Find find_;
  std::shared_ptr<std::byte> memory_;
  std::vector<std::uint64_t> generations_;  // by slot; 0: no team's
  std::vector<Watch> watches_;
  std::vector<FlagsMessage> early_;
};

}  // namespace onstream::one_sided
