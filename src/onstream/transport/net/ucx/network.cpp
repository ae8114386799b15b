#include "onstream/transport/net/ucx/network.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "onstream/base/clock.hpp"
#include "onstream/base/error.hpp"
#include "onstream/bootstrap/sha256.hpp"

namespace onstream::net {
namespace {

constexpr std::string_view kKind = "ucx";
constexpr double kGoodbyeS = 2;
constexpr int kTurnsAtOnce = 16;

}  // namespace

UcxNetwork::UcxNetwork(const UcxSettings& settings, NetworkEvents& events)
    : peers_(static_cast<std::size_t>(settings.size)),
      rank_(settings.rank),
      secret_(settings.secret),
      identity_(random_bytes(kIdentityBytes)),
      events_(&events),
      worker_(load_ucx(settings.places), settings.interface) {
  worker_.on_arrival(kUcxMessage, &UcxNetwork::on_message, this);
  worker_.on_arrival(kUcxOffer, &UcxNetwork::on_offer, this);
}

// UCX asserts that nothing is under way at the end of its worker, so all endpoints are closed by then.
UcxNetwork::~UcxNetwork() {
  events_ = nullptr;
  for (auto& [number, offer] : offers_)
    if (offer.descriptor != nullptr) unwanted_.push_back(offer.descriptor);
  drop_unwanted();
  for (const auto& peer : peers_) {
    const bool has_more = peer != nullptr && peer->endpoint != nullptr && peer->state == UcxPeerState::connected;
    if (has_more && !abandoned_) flush(*peer);  // which waits for a peer that stands still
  }
  turn_while([this] { return flushes_ > 0; });
  for (auto& peer : peers_) {
    if (peer == nullptr) continue;
    if (peer->state == UcxPeerState::connected) peer->state = UcxPeerState::failing;
    forgotten_.push_back(std::move(peer));
  }
  turn_while([this] { return !settle_forgotten(); });
}

template <class Condition>
void UcxNetwork::turn_while(const Condition& holds) {
  const Deadline deadline(kGoodbyeS);
  while (holds() && !deadline.passed())
    if (!worker_.turn()) std::this_thread::yield();
}

std::string UcxNetwork::address() const { return text_of(kKind, {identity_, worker_.address()}); }

void UcxNetwork::connect(int peer, const std::string& address) {
  require(peer >= 0 && peer < static_cast<int>(peers_.size()) && peer != rank_, "rank ", peer, " is no peer of rank ",
          rank_, " of ", peers_.size());
  auto& slot = peers_[static_cast<std::size_t>(peer)];
  require(slot == nullptr, "rank ", peer, " is connected already");
  const NetworkAddress other = read_address(kKind, address);
  auto made = std::make_unique<UcxPeer>();
  made->network = this;
  made->rank = peer;
  made->contact = other.contact;
  made->sends = pair_key(secret_, {rank_, identity_}, {peer, other.identity});
  made->receives = pair_key(secret_, {peer, other.identity}, {rank_, identity_});
  slot = std::move(made);
}

void UcxNetwork::disconnect(int peer) {
  UcxPeer& forgotten = peer_of(peer);
  lose_offers(peer);
  if (forgotten.state == UcxPeerState::connected) forgotten.state = UcxPeerState::failing;
  forgotten_.push_back(std::move(peers_[static_cast<std::size_t>(peer)]));
  unsettled_ = true;
}

bool UcxNetwork::progress() {
  bool moved = false;
  for (int turn = 0; turn < kTurnsAtOnce && worker_.turn(); ++turn) moved = true;
  drop_unwanted();
  if (unsettled_) settle_peers();
  moved = raise() || moved;
  if (thrown_ != nullptr) std::rethrow_exception(std::exchange(thrown_, nullptr));
  return moved;
}

bool UcxNetwork::raise() {
  if (ended_.empty()) return false;
  raised_.swap(ended_);
  for (std::size_t i = 0; i < raised_.size(); ++i) {
    try {
      raise(raised_[i]);
    } catch (...) {  // the rest is for the next turn
      ended_.insert(ended_.begin(), raised_.begin() + static_cast<std::ptrdiff_t>(i) + 1, raised_.end());
      raised_.clear();
      throw;
    }
  }
  raised_.clear();
  return true;
}

void UcxNetwork::raise(const UcxEvent& event) {
  if (event.end == UcxEnd::released) return events_->on_released(event.token);
  if (event.end == UcxEnd::taken) return events_->on_taken(event.token);
  const UcxPeer* const peer = peers_[event.token].get();
  if (peer == nullptr || peer->state != UcxPeerState::lost) return;  // forgotten by an event before this one
  events_->on_lost(peer->rank, std::string(peer->why));
}

bool UcxNetwork::arm() { return ended_.empty() && unwanted_.empty() && !unsettled_ && worker_.arm(); }

std::string UcxNetwork::describe() const {
  std::string text = concat("UCX ", worker_.ucx().version);
  for (const auto& peer : peers_) {
    if (peer == nullptr || peer->endpoint == nullptr || worker_.ucx().minor < 14) continue;
    ucp_transport_entry_t entries[8];
    ucp_ep_attr_t asked{};
    asked.field_mask = UCP_EP_ATTR_FIELD_TRANSPORTS;
    asked.transports = {entries, std::size(entries), sizeof(entries[0])};
    if (worker_.ucx().ep_query(peer->endpoint, &asked) != UCS_OK) continue;
    for (unsigned i = 0; i < asked.transports.num_entries; ++i)
      text += concat(", ", entries[i].transport_name, " over ", entries[i].device_name);
    break;
  }
  if (strangers_ > 0) text += concat(", ", strangers_, " messages of strangers dropped");
  return text;
}

}  // namespace onstream::net
