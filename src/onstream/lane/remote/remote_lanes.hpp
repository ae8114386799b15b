// The lanes to peers on other hosts, of the host device.
//
// The ops of a lane are the same as on one host, and so is all memory: ring, credit, acks. But that part of the
// peer's memory which ops write lies here, as an outbox, and the peer's own copy of it is written by its proxy:
//
//   outbox of the sender -> proxy -> network -> proxy of the receiver -> ring of the receiver
//
// Positions in the ring, message numbers and acks are absolute, so network messages may overtake each other: each is
// put in its place, and the flags there tell the receiving op when its turn has come. A message of the ring travels as
// the units that the sender wrote. A larger one is announced in the outbox as path `load` announces it (Header::pull):
// up to net::kMaxSendBytes it goes over whole, from the sender's memory, and is put at its destination if the receive
// is posted, else kept; the sender may go on as soon as its memory is free. A still larger one is offered, and comes
// when the receive takes it.
#pragma once

#include <atomic>
#include <memory>
#include <unordered_map>
#include <vector>

#include "onstream/lane/host/remote_lane.hpp"
#include "onstream/lane/lanes.hpp"
#include "onstream/lane/memory/lane.hpp"
#include "onstream/transport/net/proxy.hpp"

namespace onstream::lane {

class RemoteEnd;

class RemoteLanes final : public net::NetworkService {
 public:
  RemoteLanes(std::shared_ptr<net::NetworkProxy> proxy, net::ServiceNumber service);
  ~RemoteLanes() override;

  // Before peers send. Replaces the peer's part of this view by an outbox of its own.
  void add(LaneView& view);
  // Behind all add(): from now on the proxy serves the lanes.
  void serve();

  net::NetworkProxy& proxy() { return *proxy_; }
  net::ServiceNumber service() const { return service_; }
  void open(RemoteEnd& end);
  // Zeroed, for as long as this object. Pages that nobody touches cost nothing.
  std::byte* outbox(std::size_t bytes);

  bool look() override;
  void on_message(int peer, net::Bytes header, net::Bytes payload) override;
  void on_offer(int peer, net::Bytes header, std::uint64_t bytes, std::uint64_t offer) override;
  void on_taken(std::uint64_t token) override;
  void on_released(std::uint64_t token) override;
  void on_lost(int peer) override;

  // A whole message whose memory the network still reads.
  struct LentMessage {
    RemoteEnd* end = nullptr;
    std::uint64_t number = 0;
  };
  std::uint64_t lend(RemoteEnd& end, std::uint64_t number);
  // A token for the take of this end's offer.
  std::uint64_t begin_take(RemoteEnd& end, std::uint64_t offer);

 private:
  RemoteEnd& end_of(int peer, std::int32_t lane);

  std::shared_ptr<net::NetworkProxy> proxy_;
  const net::ServiceNumber service_;
  std::vector<std::shared_ptr<std::byte>> outboxes_;
  std::byte* free_ = nullptr;  // in the last of them, and the bytes behind
  std::size_t room_ = 0;
  std::unordered_map<std::uint64_t, std::unique_ptr<RemoteEnd>> ends_;  // by peer and lane
  std::vector<RemoteEnd*> open_;
  std::unordered_map<std::uint64_t, LentMessage> lent_;
  struct Taking {
    RemoteEnd* end = nullptr;
    std::uint64_t offer = 0;
  };
  std::unordered_map<std::uint64_t, Taking> taking_;
  std::uint64_t last_token_ = 0;
};

// The views of all lanes, by peer and lane; those to other hosts are served by `remote` from now on.
std::vector<LaneView> all_views(const Fabric& fabric, const Lanes& lanes, RemoteLanes* remote);

}  // namespace onstream::lane
