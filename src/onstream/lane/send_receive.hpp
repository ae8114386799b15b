// SendReceive: a receive and an ordered send of one rank side by side in one kernel, as a ring or a halo by messages
// needs them. Neither waits for the other, so ranks that all exchange at once do not deadlock.
//
// ExchangeMany is the same for several of each, all of different lanes: a group of messages, in any order.
//
// The first blocks receive: a block that answers a peer is never placed behind one that waits for a peer. All blocks
// fit on the GPU together. For devices whose blocks run side by side; the host device's do not, and it never launches
// this.
#pragma once

#include "onstream/lane/recv.hpp"
#include "onstream/lane/send.hpp"

namespace onstream::lane {

// Some blocks of a grid as a grid of their own.
template <class Group>
class SubGrid : public Group {
 public:
  ONSTREAM_BODY SubGrid(const Group& whole, int first, int count) : Group(whole), first_(first), count_(count) {}

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

struct SendReceive {
  std::int32_t receive_blocks = 1;
  Receive receive;
  Send send;

  template <class Group>
  ONSTREAM_BODY void operator()(const Group& group) const {
    if (group.block() < receive_blocks) {
      receive.either(SubGrid<Group>(group, 0, receive_blocks));
    } else {
      send.ordered(SubGrid<Group>(group, receive_blocks, group.blocks() - receive_blocks));
    }
  }
};

// At most so many receives, and so many sends.
template <int kMost>
struct ExchangeMany {
  std::int32_t receives = 0;
  std::int32_t sends = 0;
  std::int32_t ends[2 * kMost] = {};  // the block behind those of each receive, then of each send
  Receive receive[kMost];
  Send send[kMost];

  template <class Group>
  ONSTREAM_BODY void operator()(const Group& group) const {
    int part = 0;
    while (group.block() >= ends[part]) ++part;
    const int first = part == 0 ? 0 : ends[part - 1];
    const SubGrid<Group> mine(group, first, ends[part] - first);
    if (part < receives) return receive[part].either(mine);
    send[part - receives].ordered(mine);
  }
};

constexpr int kFew = 3;   // all others of four ranks; larger arguments take longer to come
constexpr int kMany = 7;  // all others of eight, and as many as fit in a kernel's arguments
static_assert(sizeof(ExchangeMany<kMany>) <= 4096, "a kernel's arguments end there");

}  // namespace onstream::lane
