// Arrivals of the network over UCX, and the data of offers.
#include <cstring>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/base/log.hpp"
#include "onstream/transport/net/ucx/network.hpp"

namespace onstream::net {

UcxPeer* UcxNetwork::sender_of(Bytes whole_header) {
  UcxHeader shown;
  const bool whole = whole_header.size() >= sizeof shown;
  if (whole) std::memcpy(&shown, whole_header.data(), sizeof shown);
  if (!whole || shown.from < 0 || shown.from >= static_cast<int>(peers_.size())) {
    drop_stranger();
    return nullptr;
  }
  UcxPeer* const peer = peers_[static_cast<std::size_t>(shown.from)].get();
  if (peer == nullptr || peer->state == UcxPeerState::lost) return nullptr;  // its last words
  if (!matches(peer->receives, std::as_bytes(std::span(shown.key)))) {
    drop_stranger();
    return nullptr;
  }
  // From now on the peer's death concerns this rank, and only an endpoint of its own tells of it.
  if (!peer->heard) peer->heard = unsettled_ = true;
  return peer;
}

void UcxNetwork::drop_stranger() {
  ++strangers_;
  log_once(LogLevel::warn, "net-stranger",
           "a message that does not prove this job's secret came by the network and was dropped: another job may use "
           "the address of a rank that has ended");
}

ucs_status_t UcxNetwork::on_message(void* network, const void* header, std::size_t header_bytes, void* data,
                                    std::size_t bytes, const ucp_am_recv_param_t* /*how*/) noexcept {
  auto& self = *static_cast<UcxNetwork*>(network);
  if (self.events_ == nullptr) return UCS_OK;
  try {
    const Bytes whole(static_cast<const std::byte*>(header), header_bytes);
    UcxPeer* const peer = self.sender_of(whole);
    if (peer != nullptr) {
      self.events_->on_message(peer->rank, whole.subspan(sizeof(UcxHeader)), {static_cast<std::byte*>(data), bytes});
    }
  } catch (...) {
    if (self.thrown_ == nullptr) self.thrown_ = std::current_exception();
  }
  return UCS_OK;
}

ucs_status_t UcxNetwork::on_offer(void* network, const void* header, std::size_t header_bytes, void* data,
                                  std::size_t bytes, const ucp_am_recv_param_t* how) noexcept {
  auto& self = *static_cast<UcxNetwork*>(network);
  if (self.events_ == nullptr) return UCS_OK;
  const bool at_sender = (how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  bool kept = false;
  try {
    const Bytes whole(static_cast<const std::byte*>(header), header_bytes);
    UcxPeer* const peer = self.sender_of(whole);
    if (peer == nullptr) return UCS_OK;
    UcxOffer offer;
    offer.peer = peer->rank;
    if (at_sender) {
      offer.descriptor = data;
    } else {  // UCX sends small ones whole
      const auto* const from = static_cast<const std::byte*>(data);
      offer.data.assign(from, from + bytes);
    }
    kept = at_sender;
    self.deliver_offer(*peer, whole.subspan(sizeof(UcxHeader)), std::move(offer), bytes);
  } catch (...) {
    if (self.thrown_ == nullptr) self.thrown_ = std::current_exception();
  }
  return kept ? UCS_INPROGRESS : UCS_OK;
}

void UcxNetwork::deliver_offer(UcxPeer& peer, Bytes header, UcxOffer offer, std::size_t bytes) {
  offer.bytes = bytes;
  const std::uint64_t number = next_offer_++;
  offers_.emplace(number, std::move(offer));
  events_->on_offer(peer.rank, header, bytes, number);
}

UcxOffer UcxNetwork::offer_of(std::uint64_t offer) {
  const auto found = offers_.find(offer);
  require(found != offers_.end(), "there is no offer ", offer, ", or it was taken or refused");
  return std::move(offers_.extract(found).mapped());
}

void UcxNetwork::take(std::uint64_t offer, std::span<std::byte> place, std::uint64_t token) {
  const auto found = offers_.find(offer);
  require(found == offers_.end() || found->second.lost || found->second.bytes <= place.size(), "an offer of ",
          found == offers_.end() ? 0 : found->second.bytes, " B does not fit into ", place.size(), " B");
  const UcxOffer taken = offer_of(offer);
  if (taken.lost) return;
  if (taken.descriptor == nullptr) {
    if (taken.bytes > 0) std::memcpy(place.data(), taken.data.data(), taken.bytes);
    ended_.push_back({UcxEnd::taken, token});
    return;
  }
  UcxPeer& peer = peer_of(taken.peer);
  UcxTake& take = takes_.get();
  take = {this, &peer, token};
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.cb.recv_am = &UcxNetwork::on_taken;
  how.user_data = &take;
  ucs_status_ptr_t const request =
      worker_.ucx().am_recv_data_nbx(worker_.handle(), taken.descriptor, place.data(), taken.bytes, &how);
  if (request == nullptr) ended_.push_back({UcxEnd::taken, token});
  if (UCS_PTR_IS_ERR(request)) fail_peer(peer, UCS_PTR_STATUS(request));
  if (request == nullptr || UCS_PTR_IS_ERR(request)) {
    take = {};
    takes_.put(take);
  } else {
    ++peer.in_flight;
  }
}

void UcxNetwork::on_taken(void* request, ucs_status_t status, std::size_t /*bytes*/, void* take) noexcept {
  auto& ended = *static_cast<UcxTake*>(take);
  UcxNetwork& network = *ended.network;
  network.worker_.ucx().request_free(request);
  if (UcxPeer* const peer = ended.peer; peer != nullptr) {
    --peer->in_flight;
    if (status != UCS_OK) network.fail_peer(*peer, status);
    if (peer->state == UcxPeerState::connected) network.ended_.push_back({UcxEnd::taken, ended.token});
  }
  ended = {};
  network.takes_.put(ended);
}

void UcxNetwork::refuse(std::uint64_t offer) {
  const UcxOffer refused = offer_of(offer);
  if (refused.descriptor != nullptr) unwanted_.push_back(refused.descriptor);
}

// Not in refuse(), which may be called while UCX itself still works on the offer.
void UcxNetwork::drop_unwanted() {
  for (void* const descriptor : unwanted_) worker_.ucx().am_data_release(worker_.handle(), descriptor);
  unwanted_.clear();
}

}  // namespace onstream::net
