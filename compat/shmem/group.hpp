// Group: the PEs of one collective, and how they meet: a team, or an active set with its pSync.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "guarded.hpp"
#include "onstream/collective.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/symmetric.hpp"

namespace onstream::shmem {

class Group {
 public:
  Group(Runtime& shmem, TeamHandle& team);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  // Throws invalid_argument for a set that does not exist, or that this PE is not in. One that has all PEs is the
  // team of the world, and needs no pSync.
  struct ActiveSet {
    int start;
    int log_stride;
    int size;
    long* sync;
  };
  Group(Runtime& shmem, const ActiveSet& set);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  int world_rank(int member) const { return members_[static_cast<std::size_t>(member)]; }
  Context& context() const { return *context_; }
  Runtime& shmem() const { return shmem_; }
  bool is_world() const { return size() == shmem_.size(); }

  // Waits until all have come, and until the earlier puts of their contexts of this group are there.
  void meet();
  struct Range {
    const void* begin;
    std::size_t bytes;
  };
  // Whether the library's collectives do one from `source` to `dest`, as the program names them. The same on every
  // member, as all name the same symmetric objects: so ask of these, not of the ranges that the call makes of them at
  // one member, and give the most bytes that any member reads. Not where the two overlap and are not one: that is
  // undefined, but ends no job, and loops end on all members with any data.
  bool in_library(Range dest, Range source) const;
  // By the library's collectives, of buffers as the program names them, if in_library(). Waits; throws timeout or
  // aborted when the world failed meanwhile.
  void run(CollectiveCall call);
  // Collective: the values of all members, in their order.
  std::vector<std::uint64_t> exchange(std::uint64_t mine);

 private:
  void meet_by_words();

  Runtime& shmem_;
  std::vector<int> set_;  // of an active set
  std::span<const int> members_;
  int rank_ = -1;
  std::shared_ptr<Team> team_;  // null: an active set's words
  std::shared_ptr<Collective> collective_;
  long* sync_ = nullptr;
  Context* context_;
};

}  // namespace onstream::shmem
