#include "onstream/transport/net/sim_hub.hpp"

#include <algorithm>
#include <cstring>

#include "onstream/base/error.hpp"

namespace onstream::net {
namespace {

using Lock = std::lock_guard<std::mutex>;

std::uint64_t mixed(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t SimHub::draw(int from, int to, std::uint64_t number) const {
  const std::uint64_t pair = static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint32_t>(to);
  return mixed(mixed(mixed(options_.seed) ^ pair) ^ number);
}

bool SimHub::reaches(int rank, int peer) const {
  const auto from = ports_.find(rank);
  return from != ports_.end() && !from->second.dead && from->second.peers.contains(peer) && ports_.contains(peer) &&
         !ports_.at(peer).dead;
}

SimPort& SimHub::sender(int rank, const SimLoan& loan) {
  require(loan.header.size() <= kMaxHeaderBytes, "a header of ", loan.header.size(), " B for rank ", loan.to,
          " is longer than ", kMaxHeaderBytes, " B");
  SimPort& from = ports_.at(rank);
  require(from.peers.contains(loan.to) || from.lost.contains(loan.to), "rank ", loan.to, " is not connected");
  return from;
}

// To the receiver's inbox, after a pseudo-random number of its turns.
void SimHub::post(int from, int to, SimParcel parcel) {
  SimPort& sender = ports_.at(from);
  SimPort& receiver = ports_.at(to);
  const std::uint64_t drawn = draw(from, to, sender.sent[to]++);
  const auto range = static_cast<std::uint64_t>(options_.most_delay - options_.least_delay + 1);
  SimDue due{receiver.turns + 1 + static_cast<std::uint64_t>(options_.least_delay) + drawn % range, mixed(drawn)};
  if (options_.order == SimOrder::kept) due = {std::max(due.turn, sender.last_turn[to]), next_order_++};
  std::uint64_t& last = sender.last_turn[to];
  last = std::max(last, due.turn);
  receiver.inbox.emplace(due, std::move(parcel));
  ring(receiver);
}

// To the rank's own inbox, for its next turn.
void SimHub::put(int rank, SimParcel parcel) {
  SimPort& port = ports_.at(rank);
  port.inbox.emplace(SimDue{port.turns + 1, next_order_++}, std::move(parcel));
  ring(port);
}

SimParcel SimHub::message_of(int rank, const SimLoan& loan) const {
  SimParcel parcel{.kind = SimKind::message, .from = rank, .secret = ports_.at(rank).secret, .header = loan.header};
  parcel.payload.assign(loan.payload.data(), loan.payload.data() + loan.payload.size());
  return parcel;
}

void SimHub::send(int rank, int peer, Bytes header, Bytes payload) {
  const Lock lock(mutex_);
  const SimLoan loan{.to = peer, .header = {header.begin(), header.end()}, .payload = payload};
  (void)sender(rank, loan);
  if (reaches(rank, peer)) post(rank, peer, message_of(rank, loan));
}

bool SimHub::send_in_place(int rank, const SimLoan& loan) {
  const Lock lock(mutex_);
  SimPort& from = sender(rank, loan);
  if (!reaches(rank, loan.to)) return true;
  const bool late = from.in_place_sends++ % 2 == 1;
  if (late) {
    from.in_place.push_back(loan);
  } else {
    post(rank, loan.to, message_of(rank, loan));
  }
  return !late;
}

void SimHub::offer(int rank, const SimLoan& loan) {
  const Lock lock(mutex_);
  SimPort& from = sender(rank, loan);
  if (!reaches(rank, loan.to)) return put(rank, {.kind = SimKind::released, .from = rank, .token = loan.token});
  const std::uint64_t number = next_offer_++;
  from.offered.emplace(number, loan);
  post(rank, loan.to,
       {.kind = SimKind::offer,
        .from = rank,
        .secret = from.secret,
        .header = loan.header,
        .offer = number,
        .bytes = loan.payload.size()});
}

void SimHub::take(int rank, std::uint64_t offer, std::span<std::byte> place, std::uint64_t token) {
  const Lock lock(mutex_);
  SimPort& port = ports_.at(rank);
  const auto found = port.received.find(offer);
  require(found != port.received.end() && found->second.state != SimOfferState::taking, "there is no offer ", offer,
          ", or it was taken or refused");
  if (found->second.state == SimOfferState::lost) {
    port.received.erase(found);
    return;
  }
  require(found->second.bytes <= place.size(), "an offer of ", found->second.bytes, " B does not fit into ",
          place.size(), " B");
  found->second.place = place;
  found->second.state = SimOfferState::taking;
  post(found->second.from, rank, {.kind = SimKind::taken, .from = found->second.from, .offer = offer, .token = token});
}

void SimHub::refuse(int rank, std::uint64_t offer) {
  const Lock lock(mutex_);
  SimPort& port = ports_.at(rank);
  const auto found = port.received.find(offer);
  require(found != port.received.end() && found->second.state != SimOfferState::taking, "there is no offer ", offer,
          ", or it was taken or refused");
  const SimOffer refused = found->second;
  port.received.erase(found);
  if (refused.state == SimOfferState::lost) return;
  const auto loan = ports_.at(refused.from).offered.extract(offer);
  if (loan.empty()) return;
  put(refused.from, {.kind = SimKind::released, .from = refused.from, .token = loan.mapped().token});
}

void SimHub::begin_turn(int rank) {
  const Lock lock(mutex_);
  SimPort& port = ports_.at(rank);
  if (port.stopped || port.dead) return;
  ++port.turns;
  read_in_place(rank);
}

void SimHub::read_in_place(int rank) {
  SimPort& port = ports_.at(rank);
  for (const SimLoan& loan : std::exchange(port.in_place, {})) {
    if (reaches(rank, loan.to)) post(rank, loan.to, message_of(rank, loan));
    port.inbox.emplace(SimDue{port.turns, next_order_++},
                       SimParcel{.kind = SimKind::released, .from = rank, .token = loan.token});
  }
}

bool SimHub::is_blocked(int rank, const SimParcel& parcel) const {
  if (parcel.from == rank) return false;
  if (cuts_.contains(std::minmax(rank, parcel.from))) return true;
  const auto from = ports_.find(parcel.from);
  return parcel.kind == SimKind::taken && from != ports_.end() && from->second.stopped;
}

std::optional<SimParcel> SimHub::next(int rank) {
  const Lock lock(mutex_);
  SimPort& port = ports_.at(rank);
  if (port.stopped || port.dead) return std::nullopt;
  for (auto each = port.inbox.begin(); each != port.inbox.end() && each->first.turn <= port.turns;) {
    if (is_blocked(rank, each->second)) {
      ++each;
      continue;
    }
    SimParcel parcel = std::move(each->second);
    each = port.inbox.erase(each);
    if (arrives(rank, parcel)) return parcel;
  }
  return std::nullopt;
}

// False for a parcel that is dropped.
bool SimHub::arrives(int rank, SimParcel& parcel) {
  SimPort& port = ports_.at(rank);
  if (parcel.kind == SimKind::released) return true;
  if (parcel.kind == SimKind::lost) return port.lost.contains(parcel.from);
  if (parcel.kind == SimKind::taken) return move_data(rank, parcel);
  const bool known = port.peers.contains(parcel.from) || port.lost.contains(parcel.from);
  if (parcel.secret != port.secret) ++port.strangers;
  if (!known || parcel.secret != port.secret) return false;
  if (parcel.kind == SimKind::offer) port.received[parcel.offer] = {.from = parcel.from, .bytes = parcel.bytes};
  return true;
}

bool SimHub::move_data(int rank, const SimParcel& parcel) {
  SimPort& port = ports_.at(rank);
  const auto offer = port.received.extract(parcel.offer);
  const auto from = ports_.find(parcel.from);
  if (offer.empty() || from == ports_.end()) return false;
  const auto loan = from->second.offered.extract(parcel.offer);
  if (loan.empty()) return false;
  const Bytes data = loan.mapped().payload;
  if (!data.empty()) std::memcpy(offer.mapped().place.data(), data.data(), data.size());
  put(parcel.from, {.kind = SimKind::released, .from = parcel.from, .token = loan.mapped().token});
  return true;
}

}  // namespace onstream::net
