#include "onstream/lane/remote/remote_lanes.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/base/zero_pages.hpp"
#include "onstream/lane/remote/remote_end.hpp"

namespace onstream::lane {

namespace {

std::uint64_t key_of(int peer, std::int32_t lane) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(peer)) << 32 | static_cast<std::uint32_t>(lane);
}

RemoteHeader header_of(int peer, net::Bytes bytes) {
  RemoteHeader header{};
  require(bytes.size() == sizeof(header), "rank ", peer, " sent a header of ", bytes.size(), " B for a message");
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header;
}

}  // namespace

RemoteLanes::RemoteLanes(std::shared_ptr<net::NetworkProxy> proxy, net::ServiceNumber service)
    : proxy_(std::move(proxy)), service_(service) {}

RemoteLanes::~RemoteLanes() { proxy_->withdraw(service_); }

std::byte* RemoteLanes::outbox(std::size_t bytes) {
  constexpr std::size_t kSlab = std::size_t{4} << 20;
  constexpr std::size_t kAligned = 64;
  const std::size_t need = (bytes + kAligned - 1) / kAligned * kAligned;
  if (need > room_) {
    const std::size_t slab = std::max(kSlab, need);
    outboxes_.push_back(zero_pages(slab, "messages to ranks of other hosts"));
    free_ = outboxes_.back().get();
    room_ = slab;
  }
  room_ -= need;
  return std::exchange(free_, free_ + need);
}

void RemoteLanes::add(LaneView& view) {
  ends_.emplace(key_of(view.peer, view.lane), std::make_unique<RemoteEnd>(*this, view));
}

void RemoteLanes::serve() { proxy_->serve(service_, *this); }

void RemoteLanes::open(RemoteEnd& end) {
  if (end.opened.exchange(true, std::memory_order_relaxed)) return;
  open_.push_back(&end);
}

RemoteEnd& RemoteLanes::end_of(int peer, std::int32_t lane) {
  const auto found = ends_.find(key_of(peer, lane));
  require(found != ends_.end(), "rank ", peer, " sent a message with tag ", lane, ", which does not exist");
  open(*found->second);
  return *found->second;
}

bool RemoteLanes::look() {
  bool sent = false;
  for (std::size_t i = 0; i < open_.size(); ++i) sent = open_[i]->look() || sent;
  return sent;
}

void RemoteLanes::on_message(int peer, net::Bytes bytes, net::Bytes payload) {
  const RemoteHeader header = header_of(peer, bytes);
  RemoteEnd& end = end_of(peer, header.lane);
  switch (header.kind) {
    case RemoteKind::units: return end.take_units(header, payload);
    case RemoteKind::whole: return end.take_whole(header, payload);
    case RemoteKind::credit: return end.take_credit(header);
    case RemoteKind::ack: return end.take_ack(header);
    case RemoteKind::offered: break;
  }
  fail(ErrorCode::invalid_argument, "rank ", peer, " sent a network message of unknown kind");
}

void RemoteLanes::on_offer(int peer, net::Bytes bytes, std::uint64_t size, std::uint64_t offer) {
  const RemoteHeader header = header_of(peer, bytes);
  require(header.kind == RemoteKind::offered && header.bytes == size, "rank ", peer, " offers ", size,
          " B as a message of ", header.bytes, " B");
  end_of(peer, header.lane).take_offer(header, offer);
}

std::uint64_t RemoteLanes::lend(RemoteEnd& end, std::uint64_t number) {
  lent_.emplace(++last_token_, LentMessage{&end, number});
  return last_token_;
}

std::uint64_t RemoteLanes::begin_take(RemoteEnd& end, std::uint64_t offer) {
  taking_.emplace(++last_token_, Taking{&end, offer});
  return last_token_;
}

void RemoteLanes::on_taken(std::uint64_t token) {
  const auto taking = taking_.extract(token);
  if (!taking.empty()) taking.mapped().end->note_taken(taking.mapped().offer);
}

// A whole message has left its sender's memory; that of an offer is told by the receiver's ack.
void RemoteLanes::on_released(std::uint64_t token) {
  const auto lent = lent_.extract(token);
  if (!lent.empty()) lent.mapped().end->note_released(lent.mapped().number);
}

void RemoteLanes::on_lost(int peer) {
  for (RemoteEnd* end : open_) {
    if (end->peer() == peer) end->lose();
  }
}

std::vector<LaneView> all_views(const Fabric& fabric, const Lanes& lanes, RemoteLanes* remote) {
  std::vector<LaneView> views;
  for (int peer = 0; peer < fabric.size(); ++peer) {
    for (int lane = 0; lane < lanes.count(); ++lane) {
      views.push_back(lanes.view(peer, lane));
      if (fabric.is_remote(peer)) remote->add(views.back());
    }
  }
  if (remote != nullptr) remote->serve();
  return views;
}

}  // namespace onstream::lane
