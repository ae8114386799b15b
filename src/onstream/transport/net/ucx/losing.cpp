// The end of a peer in the network over UCX: its endpoint closes, all memory comes back, and then the caller is told.
#include <algorithm>
#include <utility>

#include "onstream/base/clock.hpp"
#include "onstream/base/error.hpp"
#include "onstream/transport/net/ucx/network.hpp"

namespace onstream::net {
namespace {

// UCX does not always end a take of data whose sender is dead. After this time nothing can arrive any more.
constexpr std::uint64_t kPatienceNs = 1'000'000'000;
constexpr int kMostTurns = 1000;

}  // namespace

void UcxNetwork::on_failure(void* peer, ucp_ep_h /*endpoint*/, ucs_status_t status) noexcept {
  auto& failed = *static_cast<UcxPeer*>(peer);
  failed.network->fail_peer(failed, status);
}

void UcxNetwork::fail_peer(UcxPeer& peer, ucs_status_t status) {
  if (peer.state != UcxPeerState::connected) return;
  peer.state = UcxPeerState::failing;
  peer.why = worker_.ucx().status_string(status);
  unsettled_ = true;
}

ucp_request_param_t UcxNetwork::ending(ucp_send_nbx_callback_t callback, void* argument, unsigned flags) {
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  how.cb.send = callback;
  how.user_data = argument;
  how.flags = flags;
  return how;
}

void UcxNetwork::flush(UcxPeer& peer) {
  const ucp_request_param_t how = ending(&UcxNetwork::on_flushed, this, 0);
  ucs_status_ptr_t const request = worker_.ucx().ep_flush_nbx(peer.endpoint, &how);
  if (request != nullptr && !UCS_PTR_IS_ERR(request)) ++flushes_;
}

// Without a word to the peer, which learns of it as of a failure; what UCX still holds ends with an error.
void UcxNetwork::close(UcxPeer& peer) {
  const ucp_request_param_t how = ending(&UcxNetwork::on_closed, &peer, UCP_EP_CLOSE_FLAG_FORCE);
  ucs_status_ptr_t const request = worker_.ucx().ep_close_nbx(std::exchange(peer.endpoint, nullptr), &how);
  if (request != nullptr && !UCS_PTR_IS_ERR(request)) ++peer.in_flight;
}

void UcxNetwork::on_flushed(void* request, ucs_status_t /*status*/, void* network) noexcept {
  auto& self = *static_cast<UcxNetwork*>(network);
  self.worker_.ucx().request_free(request);
  --self.flushes_;
}

void UcxNetwork::on_closed(void* request, ucs_status_t /*status*/, void* peer) noexcept {
  auto& closed = *static_cast<UcxPeer*>(peer);
  closed.network->worker_.ucx().request_free(request);
  --closed.in_flight;
}

void UcxNetwork::lose_offers(int peer) {
  for (auto& [number, offer] : offers_) {
    if (offer.peer != peer || offer.lost) continue;
    if (offer.descriptor != nullptr) unwanted_.push_back(std::exchange(offer.descriptor, nullptr));
    offer.lost = true;
  }
}

int UcxNetwork::takes_of(const UcxPeer& peer) {
  int takes = 0;
  takes_.for_all([&](const UcxTake& take) { takes += take.peer == &peer ? 1 : 0; });
  return takes;
}

// True once UCX holds nothing of the peer any more.
bool UcxNetwork::settle(UcxPeer& peer) {
  if (peer.state == UcxPeerState::failing) {
    peer.state = UcxPeerState::closing;
    peer.since = now_ns();
    if (peer.endpoint != nullptr) close(peer);
  }
  const int takes = peer.in_flight > 0 ? takes_of(peer) : 0;
  if (peer.in_flight > takes || (takes > 0 && now_ns() - peer.since < kPatienceNs)) return false;
  takes_.for_all([&](UcxTake& take) {
    if (take.peer == &peer) take.peer = nullptr;
  });
  peer.in_flight = 0;
  return true;
}

void UcxNetwork::settle_peers() {
  unsettled_ = !settle_forgotten();
  for (const auto& peer : peers_) {
    if (peer == nullptr || peer->state == UcxPeerState::lost) continue;
    if (peer->state == UcxPeerState::connected && (!peer->heard || reach(*peer))) continue;
    if (peer->state == UcxPeerState::failing) lose_offers(peer->rank);
    if (settle(*peer)) {
      peer->state = UcxPeerState::lost;
      ended_.push_back({UcxEnd::lost, static_cast<std::uint64_t>(peer->rank)});
    } else {
      unsettled_ = true;
    }
  }
}

// The memory of forgotten peers comes back in this turn: a closed endpoint gives it up as soon as UCX has a look.
bool UcxNetwork::settle_forgotten() {
  const auto settled = [this](const auto& peer) { return settle(*peer); };
  for (int turn = 0; turn < kMostTurns && !forgotten_.empty(); ++turn) {
    forgotten_.erase(std::remove_if(forgotten_.begin(), forgotten_.end(), settled), forgotten_.end());
    if (!forgotten_.empty()) (void)worker_.turn();
  }
  return forgotten_.empty();
}

}  // namespace onstream::net
