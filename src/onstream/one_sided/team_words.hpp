// TeamWords: the symmetric words of all teams of a world, one slot a team.
//
// A slot has words for hosts (in pinned memory) and for kernels (in device memory), which every rank addresses at every
// other. Which slots are free, each rank knows of itself; a new team takes the lowest one that is free at all members.
#pragma once

#include <cstdint>
#include <memory>

#include "onstream/one_sided/device.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::one_sided {

class TeamWords {
 public:
  static constexpr std::size_t kExchangeBytes = 32;  // of each member
  enum class Kind { host, stream, kernel };

  explicit TeamWords(Fabric& fabric);  // collective

  // One bit a slot.
  std::uint64_t free_slots() const { return free_; }
  void claim(int slot) { free_ &= ~(std::uint64_t{1} << slot); }
  void release(int slot) { free_ |= std::uint64_t{1} << slot; }
  int slots() const { return slots_; }

  // Where rank's flags of a slot lie, as this rank addresses them: one word a member, then the barrier's number.
  std::uint64_t* flags(Kind kind, int slot, int rank) const;
  std::uint64_t* number(Kind kind, int slot, int rank) const { return flags(kind, slot, rank) + size_; }
  // What rank was told by `member`.
  std::uint64_t* exchanged(int slot, int rank, int member) const;
  // All words of this rank's slot are 0 again. No member may be in a barrier.
  void zero(Device& device, int slot);

 private:
  std::size_t flag_bytes() const { return flag_bytes_; }

  int size_;
  int rank_;
  int slots_;
  std::size_t flag_bytes_;  // of one kind of barrier
  std::size_t host_bytes_;  // of one slot
  std::uint64_t free_;
  std::shared_ptr<Segment> host_;
  std::shared_ptr<Segment> device_;
  std::shared_ptr<Memory> zeroes_;
};

}  // namespace onstream::one_sided
