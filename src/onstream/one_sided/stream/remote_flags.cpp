#include "onstream/one_sided/stream/remote_flags.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/base/zero_pages.hpp"
#include "onstream/device/host/group.hpp"

namespace onstream::one_sided {

namespace {

constexpr net::ServiceNumber kService = net::ServiceNumber::teams;

}  // namespace

RemoteFlags::RemoteFlags(const Fabric& fabric, const Counts& counts, Find find)
    : network_(fabric.network()),
      size_(fabric.size()),
      rank_(fabric.rank()),
      counts_(counts),
      find_(std::move(find)),
      memory_(zero_pages(static_cast<std::size_t>(size_) * counts.bytes_of_a_rank, "teams with ranks of other hosts")) {
  network_->serve(kService, *this);
}

// A barrier may have returned while another thread had the network, and has its number told here.
RemoteFlags::~RemoteFlags() {
  network_->with([&] { (void)look(); });
  network_->withdraw(kService);
}

std::uint64_t RemoteFlags::generation_of(int slot) const {
  const auto place = static_cast<std::size_t>(slot);
  return place < generations_.size() ? generations_[place] : 0;
}

void RemoteFlags::install(int slot, std::uint64_t generation) {
  network_->with([&] {
    const auto place = static_cast<std::size_t>(slot);
    if (place >= generations_.size()) generations_.resize(place + 1);
    generations_[place] = generation;
    const auto is_its = [&](const FlagsMessage& message) { return message.place.slot == slot; };
    for (const FlagsMessage& message : early_) {
      if (is_its(message) && message.generation == generation) apply(message);
    }
    std::erase_if(early_, is_its);
  });
}

void RemoteFlags::watch(std::span<const FlagsPlace> barriers, const std::vector<int>& others, int place) {
  if (others.empty()) return;
  network_->with([&] {
    for (const FlagsPlace& barrier : barriers) {
      Watch watch{barrier, generation_of(barrier.slot), place, {}};
      for (const int member : others) {
        const FlagsMemory at = find_(barrier, member);
        const auto mine = static_cast<std::size_t>(place);
        std::uint64_t* const words = at.words == nullptr ? nullptr : at.words + mine * kExchangeWords;
        HostGroup::store_relaxed(at.flags + mine, 0);  // an older team had the slot
        watch.others.push_back({member, at.flags + mine, words});
      }
      watches_.push_back(std::move(watch));
    }
  });
}

void RemoteFlags::forget(int slot) {
  network_->with([&] {
    (void)look();  // as at the end
    std::erase_if(watches_, [&](const Watch& watch) { return watch.place.slot == slot; });
    const auto place = static_cast<std::size_t>(slot);
    if (place < generations_.size()) generations_[place] = 0;
  });
}

// A barrier stores its number at one member after the other, so the first shows whether there is a new one.
bool RemoteFlags::look() {
  bool sent = false;
  for (Watch& watch : watches_) {
    const std::uint64_t newest = HostGroup::load_acquire(watch.others.front().flag);  // pairs with TeamView::tell
    if (newest == watch.others.front().told && !watch.behind) continue;
    watch.behind = false;
    for (Watched& other : watch.others) {
      sent = tell(watch, other) || sent;
      watch.behind = watch.behind || other.told != newest;
    }
  }
  return sent;
}

bool RemoteFlags::tell(const Watch& watch, Watched& other) {
  const std::uint64_t number = HostGroup::load_acquire(other.flag);  // pairs with TeamView::tell
  if (number == other.told) return false;
  other.told = number;
  if (other.lost) return false;
  FlagsMessage message{watch.generation, number, watch.place, watch.member, {}};
  for (std::size_t i = 0; other.words != nullptr && i < kExchangeWords; ++i) {
    message.words[i] = HostGroup::load_relaxed(other.words + i);
  }
  network_->send(kService, other.rank, std::as_bytes(std::span(&message, 1)), {});
  return true;
}

void RemoteFlags::on_message(int peer, net::Bytes header, net::Bytes payload) {
  FlagsMessage message{};
  require(header.size() == sizeof(message) && payload.empty(), "rank ", peer, " sent a header of ", header.size(),
          " B, and ", payload.size(), " B more, for a barrier");
  std::memcpy(&message, header.data(), sizeof(message));
  const bool exists = message.place.kind < counts_.kinds && message.place.slot < counts_.slots;
  require(exists && message.member >= 0 && message.member < size_, "rank ", peer, " comes to a barrier as member ",
          message.member, " of a team with words ", message.place.slot, '.', message.place.kind,
          ", which do not exist");
  if (message.generation != 0 && generation_of(message.place.slot) == message.generation) return apply(message);
  // Of the team of all, which the peer has made already; else of a team that has gone.
  const auto most = static_cast<std::size_t>(2 * counts_.kinds * size_);
  if (message.place.slot == 0 && generation_of(0) == 0 && early_.size() < most) early_.push_back(message);
}

void RemoteFlags::apply(const FlagsMessage& message) {
  const FlagsMemory own = find_(message.place, rank_);
  const auto member = static_cast<std::size_t>(message.member);
  std::uint64_t* const flag = own.flags + member;
  if (static_cast<std::int64_t>(message.number - HostGroup::load_relaxed(flag)) <= 0) return;
  for (std::size_t i = 0; own.words != nullptr && i < kExchangeWords; ++i) {
    HostGroup::store_relaxed(own.words + member * kExchangeWords + i, message.words[i]);
  }
  HostGroup::store_release(flag, message.number);  // pairs with TeamView::await
}

void RemoteFlags::on_lost(int peer) {
  for (Watch& watch : watches_) {
    for (Watched& other : watch.others) other.lost = other.lost || other.rank == peer;
  }
}

}  // namespace onstream::one_sided
