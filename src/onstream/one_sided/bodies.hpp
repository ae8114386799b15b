// Kernel bodies of one-sided ops that are no list of steps: a barrier, and a copy between layouts.
#pragma once

#include "onstream/layout/walk.hpp"
#include "onstream/one_sided/device.hpp"

namespace onstream::one_sided {

// One block; a thread or more a member.
struct Barrier {
  TeamView team;

  template <class Group>
  ONSTREAM_BODY void operator()(const Group& group) const {
    (void)team.barrier(group);  // what does not end well has left a fault
  }
};

// Any grid. Seen by peers whom a later op of the stream tells.
struct Walk {
  LayoutView to_layout;
  LayoutView from_layout;
  std::byte* to;
  std::byte* from;
  std::uint64_t bytes;
  std::uint32_t grain;

  template <class Group>
  ONSTREAM_BODY void operator()(const Group& group) const {
    copy_part(group, {to, &to_layout}, {from, &from_layout}, bytes, grain, static_cast<std::uint32_t>(group.block()),
              static_cast<std::uint32_t>(group.blocks()));
    group.fence();
  }
};

}  // namespace onstream::one_sided
