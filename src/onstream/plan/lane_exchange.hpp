// Exchange: a receive and an ordered send of one rank side by side in one kernel, as a ring or a halo by messages needs
// them. Neither waits for the other, so ranks that all exchange at once do not deadlock.
//
// The first blocks receive: what answers a peer is never placed behind what waits for one. All blocks fit on the GPU
// together. For devices whose blocks run side by side; the host device's do not, and it never launches this.
#pragma once

#include "onstream/plan/lane_recv.hpp"
#include "onstream/plan/lane_send.hpp"

namespace onstream::lane {

// Some blocks of a grid as a grid of their own.
template <class Group>
class Part : public Group {
 public:
  ONSTREAM_BODY Part(const Group& whole, int first, int count) : Group(whole), first_(first), count_(count) {}

  ONSTREAM_BODY int block() const { return Group::block() - first_; }
  ONSTREAM_BODY int blocks() const { return count_; }

  using Group::copy;
  ONSTREAM_BODY void copy(void* destination, const void* source, std::size_t bytes) const {
    Group::copy(destination, source, bytes, static_cast<std::uint32_t>(block()), static_cast<std::uint32_t>(blocks()));
  }

 private:
  int first_;
  int count_;
};

struct Exchange {
  std::int32_t receive_blocks = 1;
  Receive receive;
  Send send;

  template <class Group>
  ONSTREAM_BODY void operator()(const Group& group) const {
    if (group.block() < receive_blocks) {
      receive(Part<Group>(group, 0, receive_blocks));
    } else {
      const Part<Group> rest(group, receive_blocks, group.blocks() - receive_blocks);
      if (send.bytes <= send.ring_max) {
        send.small(rest);
      } else {
        send.direct(rest);
      }
    }
  }
};

}  // namespace onstream::lane
