// The sends and offers of the network over UCX.
#include <algorithm>
#include <cstring>

#include "onstream/base/error.hpp"
#include "onstream/transport/net/ucx/network.hpp"

namespace onstream::net {

UcxPeer& UcxNetwork::peer_of(int rank) {
  const bool known = rank >= 0 && rank < static_cast<int>(peers_.size());
  UcxPeer* const peer = known ? peers_[static_cast<std::size_t>(rank)].get() : nullptr;
  require(peer != nullptr, "rank ", rank, " is not connected");
  return *peer;
}

void UcxNetwork::check_message(int peer, Bytes header, std::size_t payload_bytes) const {
  require(header.size() <= kMaxHeaderBytes, "a header of ", header.size(), " B for rank ", peer, " is longer than ",
          kMaxHeaderBytes, " B");
  require(payload_bytes <= kMaxSendBytes, "a payload of ", payload_bytes, " B for rank ", peer, " is longer than ",
          kMaxSendBytes, " B: offer it");
}

void UcxNetwork::send(int peer, Bytes header, Bytes payload) {
  check_message(peer, header, payload.size());
  UcxPeer& to = peer_of(peer);
  if (!reach(to)) return;
  UcxSend& send = prepared(to, header);
  // UCX may read the payload after the call, and tells so only at its end: so the copy is made before.
  send.copy.assign(payload.data(), payload.data() + payload.size());  // by pointers, which is one memcpy
  (void)post(send, kUcxMessage, UCP_AM_SEND_FLAG_EAGER, send.copy);
}

bool UcxNetwork::send_in_place(int peer, Bytes header, Bytes payload, std::uint64_t token) {
  check_message(peer, header, payload.size());
  UcxPeer& to = peer_of(peer);
  if (!reach(to)) return true;
  UcxSend& send = prepared(to, header);
  send.memory = UcxMemory::lent;
  send.token = token;
  return post(send, kUcxMessage, UCP_AM_SEND_FLAG_EAGER, payload);
}

void UcxNetwork::offer(int peer, Bytes header, Bytes payload, std::uint64_t token) {
  check_message(peer, header, 0);
  UcxPeer& to = peer_of(peer);
  bool released = true;
  if (reach(to)) {
    UcxSend& send = prepared(to, header);
    send.memory = UcxMemory::lent;
    send.token = token;
    released = post(send, kUcxOffer, payload.empty() ? 0U : unsigned{UCP_AM_SEND_FLAG_RNDV}, payload);
  }
  if (released) ended_.push_back({UcxEnd::released, token});
}

UcxSend& UcxNetwork::prepared(UcxPeer& peer, Bytes header) {
  UcxSend& send = sends_.get();
  send.peer = &peer;
  send.memory = UcxMemory::copied;
  const UcxHeader ours{peer.sends, rank_};
  std::memcpy(send.header.data(), &ours, sizeof ours);
  std::copy(header.begin(), header.end(), send.header.begin() + sizeof ours);
  send.header_bytes = sizeof ours + header.size();
  return send;
}

bool UcxNetwork::post(UcxSend& send, unsigned kind, unsigned flags, Bytes payload) {
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  how.cb.send = &UcxNetwork::on_sent;
  how.user_data = &send;
  how.flags = flags;
  UcxPeer& peer = *send.peer;
  ucs_status_ptr_t const request = worker_.ucx().am_send_nbx(peer.endpoint, kind, send.header.data(), send.header_bytes,
                                                             payload.data(), payload.size(), &how);
  const bool over = request == nullptr || UCS_PTR_IS_ERR(request);
  if (UCS_PTR_IS_ERR(request)) fail_peer(peer, UCS_PTR_STATUS(request));
  if (over) {
    sends_.put(send);
  } else {
    ++peer.in_flight;
  }
  return over;
}

void UcxNetwork::on_sent(void* request, ucs_status_t status, void* send) noexcept {
  auto& ended = *static_cast<UcxSend*>(send);
  UcxNetwork& network = *ended.peer->network;
  network.worker_.ucx().request_free(request);
  network.ended(ended, status);
}

void UcxNetwork::ended(UcxSend& send, ucs_status_t status) {
  UcxPeer& peer = *send.peer;
  --peer.in_flight;
  if (status != UCS_OK) fail_peer(peer, status);
  if (send.memory == UcxMemory::lent) ended_.push_back({UcxEnd::released, send.token});
  sends_.put(send);
}

bool UcxNetwork::reach(UcxPeer& peer) {
  if (peer.state != UcxPeerState::connected) return false;
  if (peer.endpoint != nullptr) return true;
  ucp_ep_params_t how{};
  how.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  how.address = reinterpret_cast<const ucp_address_t*>(peer.contact.data());
  how.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  how.err_handler = {&UcxNetwork::on_failure, &peer};
  const ucs_status_t status = worker_.ucx().ep_create(worker_.handle(), &how, &peer.endpoint);
  if (status != UCS_OK) {
    peer.endpoint = nullptr;
    fail_peer(peer, status);
  }
  return status == UCS_OK;
}

}  // namespace onstream::net
