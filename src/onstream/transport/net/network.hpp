// The contract of a network: how bytes travel between ranks of different hosts.
//
// The base is messages. Messages of one sender to one receiver may overtake each other; nothing is lost or doubled
// while the peer is there. Completion is local: it says that memory may be used again, not that anything has arrived.
// A small message is copied (send) or leaves from its place (send_in_place); a large one is offered, and moves when the
// receiver names the place (take).
//
// One thread at a time uses a Network: its owner locks. No call blocks. Events are raised inside progress() alone; an
// event may call everything but progress(). A message reaches an event only if its sender has proved the job's secret:
// other bytes are dropped unread. The implementations stand in network.cpp, the conformance suite in
// tests/native/transport/network.cpp runs over all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace onstream::net {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kMaxHeaderBytes = 64;
constexpr std::size_t kMaxSendBytes = std::size_t{64} << 10;  // payload of send() and send_in_place(), at most

// The owner's side. `token` is the caller's own number, given with the call that the event ends.
class NetworkEvents {
 public:
  virtual ~NetworkEvents() = default;

  // `header` and `payload` are valid inside the call.
  virtual void on_message(int peer, Bytes header, Bytes payload) = 0;
  // A peer offers `bytes`. Ends with take() or refuse() of `offer`, now or later.
  virtual void on_offer(int peer, Bytes header, std::uint64_t bytes, std::uint64_t offer) = 0;
  // The data of take() is in its place.
  virtual void on_taken(std::uint64_t token) = 0;
  // The memory of offer() or send_in_place() is the caller's again.
  virtual void on_released(std::uint64_t token) = 0;
  // The peer, with which a message was exchanged, cannot be reached any more: told once. Before it, on_released() for
  // all memory lent for the peer; takes from the peer that have not ended are dropped, and their places are the
  // caller's again.
  virtual void on_lost(int peer, const std::string& why) = 0;
};

class Network {
 public:
  // Messages that were sent arrive all the same at peers that go on turning: for them the end may wait two seconds. No
  // event is raised any more, and all lent memory is the caller's again.
  virtual ~Network() = default;

  // For peers' connect(): printable text of at most 4 KiB.
  virtual std::string address() const = 0;
  // Names the peer's address; contact is made by the first message. A message of a peer that is not connected is
  // dropped, so all peers are connected before the first progress(). Throws invalid_argument for an address that
  // address() of the same implementation did not make.
  virtual void connect(int peer, const std::string& address) = 0;

  // Throw invalid_argument for a header or payload over its limit, or a peer without connect(). A message to a lost
  // peer is dropped: on_released() still comes for memory that was lent.
  virtual void send(int peer, Bytes header, Bytes payload) = 0;
  // Returns true if the memory is free already; else on_released() tells.
  virtual bool send_in_place(int peer, Bytes header, Bytes payload, std::uint64_t token) = 0;
  virtual void offer(int peer, Bytes header, Bytes payload, std::uint64_t token) = 0;

  // Copies an offer of on_offer() to `place`, which has at least its bytes; on_taken() tells of the end. Throws
  // invalid_argument for an offer that is unknown, taken or refused. Nothing happens for an offer of a lost peer.
  virtual void take(std::uint64_t offer, std::span<std::byte> place, std::uint64_t token) = 0;
  // The sender's memory is released as if it had been taken.
  virtual void refuse(std::uint64_t offer) = 0;

  // Moves all that can move; true if anything happened.
  virtual bool progress() = 0;
  // For sleeping: arm() returns true when nothing is under way at this moment, and the descriptor then becomes readable
  // as soon as progress() has something to do.
  virtual int descriptor() const = 0;
  virtual bool arm() = 0;

  // Forgets the peer, without on_lost(): all memory lent for it is released in the next progress(). Messages under way
  // may be lost, and the peer, unless it forgets this rank too, is told of a loss.
  virtual void disconnect(int peer) = 0;
  // For a world that has failed: the end waits for no message that is under way. They may be lost.
  virtual void abandon() {}
  // What carries the bytes, for people: "tcp over eth0".
  virtual std::string describe() const = 0;
};

}  // namespace onstream::net
