// One lane to a peer on another host: the outbox that ops write, and the proxy's side of it. Except for RemoteLane's
// calls, all is used with the network in hand.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "onstream/device/kernel/group.hpp"
#include "onstream/lane/remote/remote_lanes.hpp"

namespace onstream::lane {

// The first bytes of every network message of a lane.
enum class RemoteKind : std::uint8_t {
  units = 1,  // payload: units of the ring from `position` on
  whole,      // payload: message `number`, announced at `position`
  offered,    // an offer: the same
  credit,     // `position`: units that the receiver has consumed
  ack         // of message `number`; position: the receive's room
};
struct RemoteHeader {
  RemoteKind kind;
  std::uint8_t refused;  // of an ack: 1 truncated, 2 unmapped
  std::uint16_t unused;
  std::int32_t lane;
  std::uint64_t position;
  std::uint64_t number;
  std::uint64_t bytes;
};
static_assert(sizeof(RemoteHeader) < net::kMaxHeaderBytes);

class RemoteEnd final : public RemoteLane {
 public:
  // Sets the view's pointers into the peer's memory.
  RemoteEnd(RemoteLanes& lanes, LaneView& view);

  void open() override;
  void turn() override { lanes_.proxy().turn(); }
  Status fetch(const WaitView& wait, void* destination, std::uint64_t payload, std::uint64_t bytes) override;
  bool is_ready(std::uint64_t payload) override;
  void refuse(std::uint64_t payload) override;
  bool is_here(std::uint64_t payload) const override { return (payload & kKept) != 0; }

  int peer() const { return view_.peer; }
  bool look();
  void take_units(const RemoteHeader& header, net::Bytes units);
  void take_whole(const RemoteHeader& header, net::Bytes payload);
  void take_offer(const RemoteHeader& header, std::uint64_t offer);
  void take_credit(const RemoteHeader& header);
  void take_ack(const RemoteHeader& header);
  // The payload of an offer is in its place.
  void note_taken(std::uint64_t offer);
  // The memory of this rank's own message `number`, which went over whole, is free.
  void note_released(std::uint64_t number);
  void lose() { lost_ = true; }

  std::atomic<bool> opened = false;

 private:
  // A large message of the peer. It comes when its receive is posted, or when its op asks, whichever is first.
  struct Offered {
    std::uint64_t number;
    std::uint64_t bytes;
    bool taking = false;
    std::uint64_t done = 0;  // its op waits for that
  };
  void take(std::uint64_t offer, Offered& offered, void* destination);

  static constexpr std::uint64_t kKept = std::uint64_t{1} << 55;  // in a payload's name: it lies here

  bool send_messages();
  bool send_credit();
  bool send_acks();
  bool take_posted();
  void flush_units();
  struct OwnEnd {
    std::uint8_t refused;
    std::uint64_t room;
  };
  void end_own(std::uint64_t number, OwnEnd end);
  void acknowledge(std::uint64_t number, std::uint8_t refused, std::uint64_t room);
  void send_large(std::uint64_t position, std::uint64_t number, std::uint64_t bytes, std::uint64_t address);
  void send(const RemoteHeader& header, net::Bytes payload);
  void announce(const RemoteHeader& header, Header kind, std::uint64_t payload);
  std::byte* posted_place(std::uint64_t number, std::uint64_t bytes) const;
  bool are_messages(net::Bytes units) const;
  void put_message(std::uint64_t position, net::Bytes units, bool packed) const;
  void check_position(const RemoteHeader& header, std::uint64_t units) const;
  std::byte* unit_at(Line* ring, std::uint64_t position) const;
  std::uint64_t ring_size() const { return std::uint64_t{1} << view_.ring_shift; }

  RemoteLanes& lanes_;
  LaneView view_;                    // as this rank's ops have it
  std::vector<std::byte> gathered_;  // units around the end of the ring

  std::uint64_t head_ = 0;           // units of the outbox that are through
  std::uint64_t flushed_ = 0;        // and of these, that are sent
  std::uint64_t number_ = 0;         // messages that are through
  std::uint64_t credit_ = 0;         // told
  std::vector<std::uint64_t> owed_;  // offers of the peer that this rank's ops have not acknowledged
  // An ack's place serves every `receives`-th message, and says of all older ones there that they are through: an end
  // that comes before that of an older offer in its place is kept back.
  std::set<std::uint64_t> own_offers_;        // this rank's own messages that the peer has not acknowledged
  std::map<std::uint64_t, OwnEnd> own_ends_;  // how those ended that are kept back
  std::unordered_map<std::uint64_t, Offered> offered_;
  std::uint64_t waiting_ = 0;  // of these, that nobody takes yet
  std::unordered_map<std::uint64_t, std::vector<std::byte>> kept_;
  std::uint64_t last_kept_ = 0;
  bool lost_ = false;
};

}  // namespace onstream::lane
