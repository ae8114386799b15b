// PeerExchange: parts of memory to and from several peers at once, over one lane of each, by a thread of the host.
//
// To a peer of this host a part goes in pieces through the lane's ring; to one of another host as one message, which
// the network takes from its place and puts into its place. Nobody waits for a peer while another one has something, so
// ranks that exchange with each other in any pattern do not deadlock. Ahead of each part goes the
// signature of the call, so ranks that make different calls hear of it. Both ends give the same number of bytes.
// Several parts of one lane go one after the other, in the same order at both ends. Collectives between hosts and plans
// are made of such exchanges.
#pragma once

#include <cstddef>
#include <vector>

#include "onstream/device/kernel/wait.hpp"
#include "onstream/lane/memory/lane.hpp"

namespace onstream::lane {

class PeerExchange {
 public:
  // A part in each direction, or in one.
  struct Pair {
    const LaneView* lane;
    const std::byte* out;
    std::size_t out_bytes;
    std::byte* in;
    std::size_t in_bytes;
    bool sends;
    bool receives;
  };
  // How it ended, and the peer that it waited for then.
  struct Ended {
    Status status = Status::ok;
    int peer = -1;
    std::size_t bytes = 0;
    std::size_t theirs = 0;   // misused: bytes that the peer's part has
    bool other_call = false;  // misused: the peer makes another call
  };

  PeerExchange(const WaitView& wait, const std::vector<Pair>& pairs, std::uint64_t signature);
  // Each time anew: lanes count for themselves. The memory may be used when it returns.
  Ended run();

 private:
  struct Side {
    const Pair* pair = nullptr;
    std::size_t sent = 0;
    std::size_t received = 0;
    std::uint64_t number = 0;  // of a large message, whose ack is awaited
    bool announced = false;
    bool signed_out = false;  // the signature has gone out, and has come
    bool signed_in = false;
    bool sending = false;
    bool receiving = false;
    int before = -1;  // the side before it on its lane
  };
  bool send_some(Side& side) const;
  bool send_piece(const LaneView& lane, const void* source, std::size_t bytes) const;
  bool receive_some(Side& side);
  bool step(Side& side);
  bool acknowledged(const Side& side) const;
  bool may_send(const Side& side) const;
  bool may_receive(const Side& side) const;

  WaitView wait_;
  std::uint64_t signature_;
  std::vector<Side> sides_;
  Ended ended_;
};

}  // namespace onstream::lane
