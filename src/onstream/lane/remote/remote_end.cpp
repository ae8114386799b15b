#include "onstream/lane/remote/remote_end.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "onstream/base/error.hpp"
#include "onstream/lane/host/packed.hpp"
#include "onstream/lane/memory/refusals.hpp"

namespace onstream::lane {

namespace {

const HostGroup kProxy(0, 1);

constexpr std::uint64_t kMostUnits = 128;  // of one network message that carries several messages: 8 KiB

net::Bytes bytes_of(const RemoteHeader& header) { return std::as_bytes(std::span(&header, 1)); }

}  // namespace

RemoteEnd::RemoteEnd(RemoteLanes& lanes, LaneView& view) : lanes_(lanes) {
  const std::size_t ring = (std::size_t{1} << view.ring_shift) * kUnitBytes;
  const std::size_t descriptors = descriptors_of(view.receives) * sizeof(ReceiveDescriptor);
  const std::size_t acks = acks_of(view.receives) * sizeof(std::uint64_t);
  std::byte* at = lanes.outbox(ring + sizeof(Returned) + descriptors + acks);
  view.peer_ring = reinterpret_cast<Line*>(at);
  view.peer_returned = reinterpret_cast<Returned*>(at += ring);
  view.peer_descriptors = reinterpret_cast<ReceiveDescriptor*>(at += sizeof(Returned));
  view.peer_acks = reinterpret_cast<std::uint64_t*>(at + descriptors);
  view.remote = this;
  view_ = view;
}

void RemoteEnd::open() {
  if (opened.load(std::memory_order_relaxed)) return;
  lanes_.proxy().with([&] { lanes_.open(*this); });
}

std::byte* RemoteEnd::unit_at(Line* ring, std::uint64_t position) const {
  return reinterpret_cast<std::byte*>(ring) + (position & (ring_size() - 1)) * kUnitBytes;
}

bool RemoteEnd::look() {
  if (lost_) return false;
  const bool sent = send_messages();
  const bool told = send_credit();
  const bool took = waiting_ > 0 && take_posted();
  return send_acks() || sent || told || took;
}

// All messages that the ops have written since. Small ones that follow each other share a network message.
bool RemoteEnd::send_messages() {
  const std::uint64_t begin = head_;
  for (;;) {
    const LinePlace first = place_of(view_, head_, 0);
    const Line line = kProxy.load_line(view_.peer_ring + first.index);
    if (!has_flag(line, first.flag)) break;
    const std::uint64_t word = line_data(line);
    const std::uint64_t bytes = header_bytes(word);
    if (header_kind(word) == Header::data) {
      const std::uint64_t units = ring_units<HostGroup>(bytes);
      if (head_ + units - flushed_ > kMostUnits) flush_units();
      head_ += units;
    } else {
      flush_units();
      const Line second = kProxy.load_line(view_.peer_ring + place_of(view_, head_, 1).index);
      send_large(head_, number_, bytes, line_data(second));
      head_ += 1;
      flushed_ = head_;
    }
    number_ += 1;
  }
  flush_units();
  return head_ != begin;
}

void RemoteEnd::flush_units() {
  if (flushed_ == head_) return;
  const std::uint64_t units = head_ - flushed_;
  const RemoteHeader header{RemoteKind::units, 0, 0, view_.lane, flushed_, 0, units};
  const std::uint64_t before_end = ring_size() - (flushed_ & (ring_size() - 1));
  const std::byte* from = unit_at(view_.peer_ring, flushed_);
  if (units > before_end) {
    gathered_.resize(units * kUnitBytes);
    std::memcpy(gathered_.data(), from, before_end * kUnitBytes);
    std::memcpy(gathered_.data() + before_end * kUnitBytes, view_.peer_ring, (units - before_end) * kUnitBytes);
    from = gathered_.data();
  }
  send(header, {from, units * kUnitBytes});
  flushed_ = head_;
}

void RemoteEnd::send_large(std::uint64_t position, std::uint64_t number, std::uint64_t bytes, std::uint64_t address) {
  const auto* from = reinterpret_cast<const std::byte*>(address);
  RemoteHeader header{RemoteKind::offered, 0, 0, view_.lane, position, number, bytes};
  if (bytes > net::kMaxSendBytes) {
    own_offers_.insert(number);
    return lanes_.proxy().offer(lanes_.service(), peer(), bytes_of(header), {from, bytes}, 0);
  }
  header.kind = RemoteKind::whole;
  const std::uint64_t token = lanes_.lend(*this, number);
  if (lanes_.proxy().send_in_place(lanes_.service(), peer(), bytes_of(header), {from, bytes}, token)) {
    lanes_.on_released(token);
  }
}

void RemoteEnd::send(const RemoteHeader& header, net::Bytes payload) {
  lanes_.proxy().send(lanes_.service(), peer(), bytes_of(header), payload);
}

bool RemoteEnd::send_credit() {
  const std::uint64_t now = kProxy.load_acquire(&view_.peer_returned->credit);
  if (now == credit_) return false;
  credit_ = now;
  send({RemoteKind::credit, 0, 0, view_.lane, now, 0, 0}, {});
  return true;
}

// Acks of offers that the ops have taken since, in any order.
bool RemoteEnd::send_acks() {
  const auto is_through = [&](std::uint64_t number) {
    const std::uint64_t ack = kProxy.load_acquire(view_.peer_acks + (number & (view_.receives - 1)));
    if (ack / 2 < number + 1) return false;
    RemoteHeader header{RemoteKind::ack, 0, 0, view_.lane, 0, number, 0};
    if (ack / 2 != number + 1 || ack % 2 == 1) {
      const RefusedMessage refusal = refusal_of(kProxy, refusals_of(view_.peer_acks, view_.receives), number);
      header.position = refusal.room;
      header.refused = refusal.why == Status::ok ? 0 : refusal.why == Status::truncated ? 1 : 2;
    }
    send(header, {});
    return true;
  };
  return std::erase_if(owed_, is_through) != 0;
}

// Nothing of a peer that proved the secret goes outside of the ring, whatever it says.
void RemoteEnd::check_position(const RemoteHeader& header, std::uint64_t units) const {
  const std::uint64_t consumed = kProxy.load_relaxed(&view_.receiving->head);
  require(units > 0 && header.position + units - consumed <= 2 * ring_size(), "rank ", peer(),
          " sent units that the ring of tag ", view_.lane, " has no room for");
}

// Whether these are whole messages that travel in the ring, and nothing else: other headers name memory.
bool RemoteEnd::are_messages(net::Bytes units) const {
  std::size_t at = 0;
  while (at < units.size()) {
    Line first;
    std::memcpy(&first, units.data() + at, sizeof(Line));
    const std::uint64_t word = line_data(first);
    const std::uint64_t bytes = header_bytes(word);
    if (header_kind(word) != Header::data || bytes > ring_size() * kUnitBytes) return false;
    at += ring_units<HostGroup>(bytes) * kUnitBytes;
  }
  return at == units.size();
}

void RemoteEnd::take_units(const RemoteHeader& header, net::Bytes units) {
  const std::uint64_t count = units.size() / kUnitBytes;
  require(units.size() == header.bytes * kUnitBytes && count <= ring_size(), "rank ", peer(), " sent ", units.size(),
          " B for ", header.bytes, " units");
  check_position(header, count);
  require(are_messages(units), "rank ", peer(), " sent units that are no messages of the ring");
  for (std::uint64_t at = 0; at < count;) {
    Line first;
    std::memcpy(&first, units.data() + at * kUnitBytes, sizeof(Line));
    const std::uint64_t bytes = header_bytes(line_data(first));
    const std::uint64_t its = ring_units<HostGroup>(bytes);
    put_message(header.position + at, units.subspan(at * kUnitBytes, its * kUnitBytes), is_packed<HostGroup>(bytes));
    at += its;
  }
}

// As the ops store one: lines that prove themselves one by one, the bytes of a packed message as they are, and the
// first line last.
void RemoteEnd::put_message(std::uint64_t position, net::Bytes units, bool packed) const {
  const std::uint64_t count = units.size() / kUnitBytes;
  for (std::uint64_t unit = count; unit-- > 0;) {
    std::byte* const to = unit_at(view_.ring, position + unit);
    const std::byte* const from = units.data() + unit * kUnitBytes;
    const std::size_t begin = unit == 0 ? sizeof(Line) : 0;
    if (packed) {
      std::memcpy(to + begin, from + begin, kUnitBytes - begin);
      continue;
    }
    for (std::size_t at = begin; at < kUnitBytes; at += sizeof(Line)) {
      Line line;
      std::memcpy(&line, from + at, sizeof(Line));
      kProxy.store_line(reinterpret_cast<Line*>(to + at), line);
    }
  }
  Line first;
  std::memcpy(&first, units.data(), sizeof(Line));
  kProxy.store_line(reinterpret_cast<Line*>(unit_at(view_.ring, position)), first);
}

// Writes the header of a large message into this rank's ring: its kind, and for a pull the payload's name.
void RemoteEnd::announce(const RemoteHeader& header, Header kind, std::uint64_t payload) {
  check_position(header, 1);
  LaneView own = view_;
  own.peer_ring = view_.ring;
  store_unit(kProxy, own, header.position, header_word(kind, header.bytes), payload);
}

// Where the receive of message `number` wants it, if it is posted and has room.
std::byte* RemoteEnd::posted_place(std::uint64_t number, std::uint64_t bytes) const {
  LaneView own = view_;
  own.descriptors = view_.peer_descriptors;
  Answered answer{Status::ok, Answer::refused, 0, 0};
  const bool here = answered(kProxy, own, number, answer) && answer.answer == Answer::here && bytes <= answer.room;
  return here ? reinterpret_cast<std::byte*>(answer.address) : nullptr;
}

void RemoteEnd::take_whole(const RemoteHeader& header, net::Bytes payload) {
  require(payload.size() == header.bytes, "rank ", peer(), " sent ", payload.size(), " B of a message of ",
          header.bytes, " B");
  if (std::byte* const place = posted_place(header.number, header.bytes)) {
    std::memcpy(place, payload.data(), payload.size());
    return announce(header, Header::placed, 0);
  }
  const std::uint64_t name = kKept | ++last_kept_;
  kept_.emplace(name, std::vector(payload.begin(), payload.end()));
  announce(header, Header::pull, name);
}

void RemoteEnd::take_offer(const RemoteHeader& header, std::uint64_t offer) {
  owed_.push_back(header.number);
  Offered& offered = offered_[offer];
  offered = {header.number, header.bytes};
  waiting_ += 1;
  if (std::byte* const place = posted_place(header.number, header.bytes)) take(offer, offered, place);
  announce(header, Header::pull, offer);
}

// Two ranks that wait for their sends before their receives are posted both go on.
bool RemoteEnd::take_posted() {
  bool took = false;
  for (auto& [offer, offered] : offered_) {
    if (offered.taking) continue;
    std::byte* const place = posted_place(offered.number, offered.bytes);
    if (place == nullptr) continue;
    take(offer, offered, place);
    took = true;
  }
  return took;
}

void RemoteEnd::take(std::uint64_t offer, Offered& offered, void* destination) {
  offered.taking = true;
  waiting_ -= 1;
  const std::uint64_t token = lanes_.begin_take(*this, offer);
  lanes_.proxy().take(lanes_.service(), offer, {static_cast<std::byte*>(destination), offered.bytes}, token);
}

// The sender hears at once: the op of the receive may run much later.
void RemoteEnd::note_taken(std::uint64_t offer) {
  const auto found = offered_.find(offer);
  if (found == offered_.end()) return;
  std::erase(owed_, found->second.number);
  send({RemoteKind::ack, 0, 0, view_.lane, 0, found->second.number, 0}, {});
  kProxy.store_release(&found->second.done, 1);  // pairs with fetch
}

void RemoteEnd::take_credit(const RemoteHeader& header) {
  const std::uint64_t before = kProxy.load_relaxed(&view_.returned->credit);
  if (header.position > before) kProxy.store_release(&view_.returned->credit, header.position);
}

void RemoteEnd::take_ack(const RemoteHeader& header) {
  if (own_offers_.erase(header.number) == 0) return;  // of none that is open
  end_own(header.number, {header.refused, header.position});
}

void RemoteEnd::note_released(std::uint64_t number) { end_own(number, {0, 0}); }

// Tells the ops of all messages in this one's place that no older offer there keeps back.
void RemoteEnd::end_own(std::uint64_t number, OwnEnd end) {
  own_ends_.emplace(number, end);
  const auto same_place = [&](std::uint64_t other) { return ((other ^ number) & (view_.receives - 1)) == 0; };
  const auto open = std::ranges::find_if(own_offers_, same_place);
  const std::uint64_t oldest = open == own_offers_.end() ? ~std::uint64_t{0} : *open;
  for (auto it = own_ends_.begin(); it != own_ends_.end() && it->first < oldest;) {
    if (!same_place(it->first)) {
      ++it;
      continue;
    }
    acknowledge(it->first, it->second.refused, it->second.room);
    it = own_ends_.erase(it);
  }
}

void RemoteEnd::acknowledge(std::uint64_t number, std::uint8_t refused, std::uint64_t room) {
  if (refused != 0) {
    const Status why = refused == 1 ? Status::truncated : Status::unmapped;
    note_refusal(kProxy, refusals_of(view_.acks, view_.receives), number, why, room);
  }
  std::uint64_t* const ack = view_.acks + (number & (view_.receives - 1));
  const std::uint64_t word = (number + 1) * 2 + (refused != 0 ? 1 : 0);
  if (kProxy.load_relaxed(ack) < word) kProxy.store_release(ack, word);  // pairs with wait_for_ack and AwaitSend
}

Status RemoteEnd::fetch(const WaitView& wait, void* destination, std::uint64_t payload, std::uint64_t bytes) {
  net::NetworkProxy& proxy = lanes_.proxy();
  if (is_here(payload)) {
    const auto kept = proxy.with([&] { return kept_.extract(payload); });
    if (kept.empty() || kept.mapped().size() != bytes) return Status::unmapped;
    std::memcpy(destination, kept.mapped().data(), bytes);
    return Status::ok;
  }
  Offered* const offered = proxy.with([&]() -> Offered* {
    const auto found = offered_.find(payload);
    if (found == offered_.end() || found->second.bytes != bytes) return nullptr;
    if (!found->second.taking) take(payload, found->second, destination);
    return &found->second;
  });
  if (offered == nullptr) return Status::unmapped;
  const Status status = wait_until(kProxy, wait, [&] { return kProxy.load_acquire(&offered->done) != 0; });
  if (status == Status::ok) proxy.with([&] { offered_.erase(payload); });
  return status;
}

void RemoteEnd::refuse(std::uint64_t payload) {
  lanes_.proxy().with([&] {
    if (is_here(payload)) {
      kept_.erase(payload);
      return;
    }
    const auto found = offered_.find(payload);
    if (found == offered_.end() || found->second.taking) return;
    offered_.erase(found);
    waiting_ -= 1;
    lanes_.proxy().refuse(payload);
  });
}

// A look at a posted receive: does the payload come to it without a wait?
bool RemoteEnd::is_ready(std::uint64_t payload) {
  return is_here(payload) || lanes_.proxy().with([&] {
    const auto found = offered_.find(payload);
    if (found == offered_.end()) return true;
    if (!found->second.taking) (void)take_posted();
    return !found->second.taking || found->second.done != 0;  // not taken: its receive is too small
  });
}

}  // namespace onstream::lane
