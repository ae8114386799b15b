#include "onstream/lane/remote/peer_exchange.hpp"

#include <algorithm>

#include "onstream/device/host/group.hpp"
#include "onstream/lane/recv.hpp"
#include "onstream/lane/send.hpp"

namespace onstream::lane {

namespace {

const HostGroup kCaller(0, 1);

constexpr std::size_t kPiece = 4096;  // through the ring

std::uint64_t ring_size(const LaneView& lane) { return std::uint64_t{1} << lane.ring_shift; }

bool has_room(const LaneView& lane, std::uint64_t units) {
  const std::uint64_t consumed = kCaller.load_acquire(&lane.returned->credit);  // pairs with give_credit
  return lane.sending->head + units - consumed <= ring_size(lane);
}

bool is_large(const LaneView& lane, std::size_t bytes) { return lane.remote != nullptr && bytes > kPiece; }

}  // namespace

PeerExchange::PeerExchange(const WaitView& wait, const std::vector<Pair>& pairs, std::uint64_t signature)
    : wait_(wait), signature_(signature) {
  for (const Pair& pair : pairs) {
    Side side;
    side.pair = &pair;
    side.sending = pair.sends;
    side.receiving = pair.receives;
    for (std::size_t i = 0; i < sides_.size(); ++i) {
      if (sides_[i].pair->lane == pair.lane) side.before = static_cast<int>(i);
    }
    sides_.push_back(side);
  }
}

// True if there was room.
bool PeerExchange::send_piece(const LaneView& lane, const void* source, std::size_t bytes) const {
  if (!has_room(lane, ring_units<HostGroup>(bytes))) return false;
  Send body;
  body.wait = wait_;
  body.lane = lane;
  body.source = source;
  body.bytes = body.ring_max = body.offer_min = bytes;
  return body.small(kCaller) == Status::ok;
}

// The signature, the next piece, or the announcement of a large message. True if anything was written.
bool PeerExchange::send_some(Side& side) const {
  const LaneView& lane = *side.pair->lane;
  const std::size_t bytes = side.pair->out_bytes;
  if (!side.signed_out) {
    side.signed_out = send_piece(lane, &signature_, sizeof(signature_));
    side.sending = !side.signed_out || bytes > 0;
    return side.signed_out;
  }
  if (side.announced) {
    side.sending = !acknowledged(side);
    return !side.sending;
  }
  if (is_large(lane, bytes)) {
    if (!has_room(lane, 1)) return false;
    side.number = lane.sending->number;
    store_unit(kCaller, lane, lane.sending->head, header_word(Header::pull, bytes),
               reinterpret_cast<std::uint64_t>(side.pair->out));
    store_pair(kCaller, &lane.sending->head, lane.sending->head + 1, side.number + 1);
    side.announced = true;
    return true;
  }
  const std::size_t now = std::min(kPiece, bytes - side.sent);
  if (!send_piece(lane, side.pair->out + side.sent, now)) return false;
  side.sent += now;
  side.sending = side.sent < bytes;
  return true;
}

bool PeerExchange::acknowledged(const Side& side) const {
  const LaneView& lane = *side.pair->lane;
  const std::uint64_t* ack = lane.acks + (side.number & (lane.receives - 1));
  return kCaller.load_acquire(ack) / 2 >= side.number + 1;  // pairs with RemoteEnd::take_ack
}

// The next message of the peer, if it is there. Another number of bytes than is expected ends the exchange.
bool PeerExchange::receive_some(Side& side) {
  const LaneView& lane = *side.pair->lane;
  const std::size_t bytes = side.pair->in_bytes;
  Receiving* const state = lane.receiving;
  Seen seen;
  if (!look(kCaller, lane, state->head, seen)) return false;
  const bool is_signature = !side.signed_in;
  std::uint64_t theirs = 0;
  const std::size_t part = is_large(lane, bytes) ? bytes : std::min(kPiece, bytes - side.received);
  const std::size_t expected = is_signature ? sizeof(theirs) : part;
  auto* const place = is_signature ? reinterpret_cast<std::byte*>(&theirs) : side.pair->in + side.received;
  Fetcher fetcher(wait_, nullptr);
  RingReader reader(wait_, lane, fetcher, state->head, state->returned);
  const std::uint64_t number = state->drained;
  std::uint64_t came = 0;
  const Target target{place, seen.bytes() == expected ? expected : 0, number, 0, true};
  const Status status = reader.take(kCaller, target, came);
  reader.give_credit(kCaller);
  store_pair(kCaller, &state->drained, number + 1, reader.head());
  store_pair(kCaller, &state->posted, number + 1, reader.returned());
  const bool other_call = is_signature && (came != expected || theirs != signature_);
  if (status != Status::ok || came != expected || other_call) {
    const bool differs = came != expected || other_call;
    ended_ = {differs ? Status::misused : status, lane.peer, bytes, side.received + came, other_call};
    return true;
  }
  if (is_signature) {
    side.signed_in = true;
    side.receiving = bytes > 0;
    return true;
  }
  side.received += came;
  side.receiving = side.received < bytes;
  return true;
}

// All parts before it on its lane are written, or announced.
bool PeerExchange::may_send(const Side& side) const {
  for (int i = side.before; i >= 0; i = sides_[static_cast<std::size_t>(i)].before) {
    const Side& other = sides_[static_cast<std::size_t>(i)];
    if (other.sending && !other.announced) return false;
  }
  return true;
}
bool PeerExchange::may_receive(const Side& side) const {
  for (int i = side.before; i >= 0; i = sides_[static_cast<std::size_t>(i)].before) {
    if (sides_[static_cast<std::size_t>(i)].receiving) return false;
  }
  return true;
}

// All that the ring has room for goes out at once: a small part shares a network message with its signature.
bool PeerExchange::step(Side& side) {
  bool moved = false;
  while (side.sending && (side.announced || may_send(side)) && send_some(side)) moved = true;
  if (moved) carry_over(*side.pair->lane);
  if (side.receiving && may_receive(side)) {
    while (side.receiving && ended_.status == Status::ok && receive_some(side)) moved = true;
  }
  if (moved) carry_over(*side.pair->lane);
  return moved;
}

PeerExchange::Ended PeerExchange::run() {
  const auto open = [](const Side& side) { return side.sending || side.receiving; };
  while (ended_.status == Status::ok && std::ranges::any_of(sides_, open)) {
    const auto word = [&] {
      std::uint64_t bits = kCaller.load_relaxed(wait_.abort);
      for (const Side& side : sides_) {
        if (open(side)) bits |= word_of_peer(kCaller, wait_, side.pair->lane->peer);
      }
      return bits;
    };
    const auto ready = [&] {
      bool moved = false;
      for (Side& side : sides_) moved = (open(side) && step(side)) || moved;
      return moved || ended_.status != Status::ok || std::ranges::none_of(sides_, open);
    };
    const Status status = wait_on(kCaller, wait_, word, ready);
    if (status == Status::ok) continue;
    const auto stuck = std::ranges::find_if(sides_, open);
    const PeerExchange::Pair& pair = *stuck->pair;
    return {status, pair.lane->peer, stuck->receiving ? pair.in_bytes : pair.out_bytes, 0};
  }
  return ended_;
}

}  // namespace onstream::lane
