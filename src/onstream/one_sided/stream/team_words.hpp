// TeamWords: the symmetric words of all teams of a world, one slot a team.
//
// A slot has words for hosts (in pinned memory) and for kernels (in device memory), which every rank addresses at every
// other, or, of a rank on another host, has a stand-in of (remote_flags.hpp). Each rank knows which of its slots are
// free; a new team takes the lowest one that is free at all members. Threads of a rank may split several teams at once,
// and a team may go on any thread: the state of the slots is locked. A team that goes in a forked child keeps its slot.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "onstream/base/fork_guard.hpp"
#include "onstream/kernel.hpp"
#include "onstream/one_sided/stream/remote_flags.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::one_sided {

class TeamWords {
 public:
  static constexpr std::size_t kExchangeBytes = kExchangeWords * sizeof(std::uint64_t);  // of each member
  // `world`: the hosts in the world's own barrier, of slot 0 alone; apart from those of the team of all.
  enum class CallerKind { host, world, stream, kernel };
  static constexpr int kKinds = 4;

  explicit TeamWords(Fabric& fabric);  // collective
  ~TeamWords();

  // One bit a slot.
  struct Offer {
    std::uint64_t free;
    std::uint64_t may_be_free;  // those too that another split has claimed and may release
    std::uint64_t changes;      // of both so far
  };
  Offer offer() const;
  // A split of the team that has slot `parent`, from when all its members have come to it until it ends.
  void begin_split(int parent);
  void end_split(int parent);
  // For this split. False: it is not free, or belongs to a split of a team with a lower slot, which goes first. Members
  // of two such teams that are in both agree which that is, so of splits that claim at once one always gets on.
  bool claim(int slot, int parent);
  void keep(int slot);     // the claimed slot is a team's now
  void release(int slot);  // claimed or kept
  int slots() const { return slots_; }

  // The slot's words are of a team with this generation from now on, which is the same at all members. They are 0.
  void install(int slot, std::uint64_t generation);
  // Of such a team, until it releases the slot.
  void watch(int slot, const std::vector<int>& members);

  // Where rank's flags of a slot lie, as this rank addresses them: one word a member, then the barrier's number.
  std::uint64_t* flags(CallerKind kind, int slot, int rank) const;
  std::uint64_t* number(CallerKind kind, int slot, int rank) const { return flags(kind, slot, rank) + size_; }
  // The words that `member` gave to `rank`.
  std::uint64_t* exchanged(int slot, int rank, int member) const;
  // All words of this rank's slot are 0 again. No member may be in a barrier.
  void zero(StreamPool& streams, int slot);

 private:
  std::unique_ptr<RemoteFlags> remote_of(const Fabric& fabric) const;
  std::byte* host_part(int rank) const;
  std::byte* device_part(int rank) const;
  RemoteFlags::FlagsMemory find(RemoteFlags::FlagsPlace place, int rank) const;

  const ForkGuard guard_;
  int size_;
  int rank_;
  int slots_;
  std::size_t flag_bytes_;    // of one kind of barrier
  std::size_t host_bytes_;    // of one slot
  mutable std::mutex mutex_;  // guards the fields below, one bit a slot
  std::uint64_t free_;
  std::uint64_t claimed_ = 0;  // not free, and no team's yet
  std::uint64_t changes_ = 0;
  std::uint64_t splitting_ = 0;  // of the teams that are being split
  std::size_t host_part_bytes_;
  std::size_t device_part_bytes_;
  std::unique_ptr<RemoteFlags> remote_;  // in a world of several hosts
  std::shared_ptr<Segment> host_;
  std::shared_ptr<Segment> device_;
  std::shared_ptr<const std::byte> zeroes_;
};

}  // namespace onstream::one_sided
