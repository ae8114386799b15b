// The network over UCX: active messages between workers, with endpoints that tell of a peer's failure.
//
// Both kinds of messages carry the pair's key in front of the caller's header; UCX itself asks nobody for a secret, so
// a message of a stranger is dropped before anything of it is read. UCX calls back in the middle of its own work: those
// callbacks note the end of an operation or a failure, and progress() raises the events and closes endpoints after it.
// Only messages and offers are raised within a callback, which is the time their bytes are there.
#pragma once

#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "onstream/transport/net/network.hpp"
#include "onstream/transport/net/ucx/peer.hpp"
#include "onstream/transport/net/ucx/worker.hpp"

namespace onstream::net {

struct UcxSettings {
  int rank = 0;
  int size = 1;
  std::string secret;
  std::string interface = "auto";
  UcxPlaces places;
};

class UcxNetwork final : public Network {
 public:
  UcxNetwork(const UcxSettings& settings, NetworkEvents& events);
  // Waits, for two seconds at most, until each peer's UCX has what was sent, which it tells at its next turn.
  ~UcxNetwork() override;

  std::string address() const override;
  void connect(int peer, const std::string& address) override;
  void send(int peer, Bytes header, Bytes payload) override;
  bool send_in_place(int peer, Bytes header, Bytes payload, std::uint64_t token) override;
  void offer(int peer, Bytes header, Bytes payload, std::uint64_t token) override;
  void take(std::uint64_t offer, std::span<std::byte> place, std::uint64_t token) override;
  void refuse(std::uint64_t offer) override;
  bool progress() override;
  int descriptor() const override { return worker_.descriptor(); }
  bool arm() override;
  void disconnect(int peer) override;
  void abandon() override { abandoned_ = true; }
  std::string describe() const override;

 private:
  static ucs_status_t on_message(void* network, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t bytes, const ucp_am_recv_param_t* how) noexcept;
  static ucs_status_t on_offer(void* network, const void* header, std::size_t header_bytes, void* data,
                               std::size_t bytes, const ucp_am_recv_param_t* how) noexcept;
  static void on_sent(void* request, ucs_status_t status, void* send) noexcept;
  static void on_taken(void* request, ucs_status_t status, std::size_t bytes, void* take) noexcept;
  static void on_flushed(void* request, ucs_status_t status, void* network) noexcept;
  static void on_closed(void* request, ucs_status_t status, void* peer) noexcept;
  static void on_failure(void* peer, ucp_ep_h endpoint, ucs_status_t status) noexcept;

  // Sending.
  UcxPeer& peer_of(int rank);
  void check_message(int peer, Bytes header, std::size_t payload_bytes) const;
  UcxSend& prepared(UcxPeer& peer, Bytes header);
  // True if the memory is free.
  bool post(UcxSend& send, unsigned kind, unsigned flags, Bytes payload);
  void ended(UcxSend& send, ucs_status_t status);
  bool reach(UcxPeer& peer);

  // Receiving.
  // None for a message that is dropped.
  UcxPeer* sender_of(Bytes whole_header);
  void drop_stranger();
  void deliver_offer(UcxPeer& peer, Bytes header, UcxOffer offer, std::size_t bytes);
  UcxOffer offer_of(std::uint64_t offer);
  void drop_unwanted();

  // The end of a peer.
  void fail_peer(UcxPeer& peer, ucs_status_t status);
  static ucp_request_param_t ending(ucp_send_nbx_callback_t callback, void* argument, unsigned flags);
  void flush(UcxPeer& peer);
  void close(UcxPeer& peer);
  void lose_offers(int peer);
  bool settle(UcxPeer& peer);
  int takes_of(const UcxPeer& peer);
  void settle_peers();
  bool settle_forgotten();
  template <class Condition>
  void turn_while(const Condition& holds);
  bool raise();
  void raise(const UcxEvent& event);

  // First, so that it outlives UCX's callbacks at the worker's end.
  UcxPool<UcxSend> sends_;
  UcxPool<UcxTake> takes_;
  std::vector<std::unique_ptr<UcxPeer>> peers_;  // by rank
  std::vector<std::unique_ptr<UcxPeer>> forgotten_;
  std::map<std::uint64_t, UcxOffer> offers_;
  std::vector<void*> unwanted_;  // descriptors of offers, for UCX at the next turn
  std::vector<UcxEvent> ended_;
  std::vector<UcxEvent> raised_;
  std::exception_ptr thrown_;  // by an event inside a callback

  const int rank_;
  const std::string secret_;
  const std::string identity_;
  NetworkEvents* events_;  // none at the end
  std::uint64_t next_offer_ = 1;
  std::uint64_t strangers_ = 0;
  int flushes_ = 0;
  bool unsettled_ = false;  // a peer was heard of, fails or closes
  bool abandoned_ = false;
  UcxWorker worker_;
};

}  // namespace onstream::net
