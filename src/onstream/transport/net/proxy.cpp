#include "onstream/transport/net/proxy.hpp"

#include <poll.h>

#include <algorithm>
#include <ctime>
#include <exception>

#include "onstream/base/error.hpp"
#include "onstream/base/log.hpp"
#include "onstream/base/quiet_thread.hpp"
#include "onstream/bootstrap/socket.hpp"

namespace onstream::net {

namespace {

// A token of the network: the service's number above the service's own token.
constexpr int kServiceShift = 56;
std::uint64_t full_token(ServiceNumber service, std::uint64_t token) {
  return static_cast<std::uint64_t>(service) << kServiceShift | token;
}
std::uint64_t own_token(std::uint64_t token) { return token & ((std::uint64_t{1} << kServiceShift) - 1); }

}  // namespace

void NetworkService::on_offer(int peer, Bytes, std::uint64_t bytes, std::uint64_t) {
  onstream::fail(ErrorCode::invalid_argument, "rank ", peer, " offers ", bytes,
                 " B to a part of the library that takes no offers");
}

NetworkProxy::NetworkProxy(int size, const Open& open, Hooks hooks)
    : hooks_(std::move(hooks)), counts_(at(size)), network_(open(*this)), waker_(make_waker()) {
  described_ = network_->describe();
  host_turn_.move = [](void* self) { return static_cast<NetworkProxy*>(self)->turn(); };
  host_turn_.nap = [](void* self, std::uint64_t ns) { static_cast<NetworkProxy*>(self)->nap(ns); };
  host_turn_.context = this;
}

NetworkProxy::~NetworkProxy() { stop(); }

void NetworkProxy::connect(int peer, const std::string& address) {
  with([&] { network_->connect(peer, address); });
}

void NetworkProxy::start() {
  turned_at_ns_.store(now_ns(), std::memory_order_relaxed);
  thread_ = quiet_thread([this] { serve_alone(); });
}

void NetworkProxy::stop() {
  stopping_.store(true, std::memory_order_release);
  wake(waker_);
  if (thread_.joinable()) thread_.join();
  with([&] { network_.reset(); });
}

void NetworkProxy::fail() {
  failed_.store(true, std::memory_order_release);  // pairs with turn()
  wake(waker_);
}

void NetworkProxy::serve(ServiceNumber number, NetworkService& service) {
  with([&] { services_[static_cast<std::size_t>(number)] = &service; });
}
void NetworkProxy::withdraw(ServiceNumber number) {
  with([&] { services_[static_cast<std::size_t>(number)] = nullptr; });
}

// One round, with the network in hand. What the ops of this rank have written goes out before the network moves, and
// once more behind it: an arriving credit may let an op go on.
bool NetworkProxy::move() {
  if (network_ == nullptr) return false;
  bool moved = false;
  for (NetworkService* service : services_) moved = (service != nullptr && service->look()) || moved;
  moved = network_->progress() || moved;
  turned_at_ns_.store(now_ns(), std::memory_order_relaxed);
  return moved;
}

bool NetworkProxy::turn() {
  if (failed_.load(std::memory_order_acquire)) [[unlikely]] {
    wanted_.store(false, std::memory_order_seq_cst);
    if (hands_.held_here()) return false;  // an event that fails the world: a later turn ends the network
    const std::lock_guard lock(hands_);
    if (network_ != nullptr) network_->abandon();
    network_.reset();
    return false;
  }
  wanted_.store(true, std::memory_order_seq_cst);  // before the attempt: a holder that ends now looks at it once more
  bool moved = false;
  while (wanted_.load(std::memory_order_seq_cst)) {
    const std::unique_lock lock(hands_, std::try_to_lock);
    if (!lock) return moved;
    wanted_.store(false, std::memory_order_seq_cst);
    try {
      moved = move() || moved;
    } catch (const std::exception& error) {
      hooks_.on_failure(error.what());
      return moved;
    }
  }
  turns_of_others_.fetch_add(1, std::memory_order_relaxed);
  return moved;
}

void NetworkProxy::Hands::lock() {
  while (!try_lock()) {
    if (held_here()) {
      onstream::fail(ErrorCode::invalid_argument,
                     "a call from a signal handler, or from an event, came while its thread moves the network; "
                     "call it later");
    }
    sched_yield();
  }
}

std::vector<std::uint64_t> NetworkProxy::last_turn() {
  return with([&] {
    wanted_.store(false, std::memory_order_seq_cst);
    (void)move();
    std::vector<std::uint64_t> sent;
    for (const Counts& counts : counts_) sent.push_back(counts.sent.load(std::memory_order_relaxed));
    services_ = {};  // from now on nothing more is sent
    return sent;
  });
}

void NetworkProxy::nap(std::uint64_t at_most_ns) {
  std::array<pollfd, 2> polled{};
  {
    const std::unique_lock lock(hands_, std::try_to_lock);
    if (!lock || network_ == nullptr || !network_->arm()) return;
    polled[0] = {network_->descriptor(), POLLIN, 0};
  }
  if (wanted_.load(std::memory_order_seq_cst)) {  // by a thread that could not have the network meanwhile
    turn();
    return;
  }
  polled[1] = {waker_.get(), POLLIN, 0};
  constexpr std::uint64_t kSecond = 1'000'000'000;
  const timespec limit{static_cast<time_t>(at_most_ns / kSecond), static_cast<long>(at_most_ns % kSecond)};
  (void)::ppoll(polled.data(), polled.size(), &limit, nullptr);
}

// The proxy's own thread. While others turn it stays out of their way.
void NetworkProxy::serve_alone() {
  constexpr std::uint64_t kAsideNs = 1'000'000;
  constexpr std::uint64_t kAsleepNs = 100'000'000;
  std::uint64_t seen = 0;
  while (!stopping_.load(std::memory_order_acquire)) {
    if (failed_.load(std::memory_order_acquire)) {
      turn();
      return;
    }
    const std::uint64_t turns = turns_of_others_.load(std::memory_order_relaxed);
    if (turns != seen) {
      seen = turns;
      pollfd polled{waker_.get(), POLLIN, 0};
      const timespec limit{0, static_cast<long>(kAsideNs)};
      (void)::ppoll(&polled, 1, &limit, nullptr);
      continue;
    }
    const bool moved = turn();
    turns_of_others_.fetch_sub(1, std::memory_order_relaxed);  // its own
    if (!moved) nap(kAsleepNs);
  }
}

void NetworkProxy::peer_leaves(int peer, std::uint64_t sent) {
  with([&] {
    Counts& counts = counts_[at(peer)];
    counts.leaves = true;
    counts.promised = sent;
    look_whether_left(peer);
  });
}

void NetworkProxy::look_whether_left(int peer) {
  Counts& counts = counts_[at(peer)];
  if (!counts.leaves || (counts.heard < counts.promised && !counts.lost)) return;
  counts.leaves = false;
  hooks_.on_left(peer);
}

void NetworkProxy::hear(int peer) {
  counts_[at(peer)].heard += 1;
  look_whether_left(peer);
}

Bytes NetworkProxy::full_header(ServiceNumber service, Bytes header) {
  require(header.size() < kMaxHeaderBytes, "a header of ", header.size(), " B is too large");
  header_[0] = static_cast<std::byte>(service);
  std::copy(header.begin(), header.end(), header_.begin() + 1);
  return {header_.data(), header.size() + 1};
}

void NetworkProxy::send(ServiceNumber service, int peer, Bytes header, Bytes payload) {
  if (network_ == nullptr) return;
  counts_[at(peer)].sent.fetch_add(1, std::memory_order_relaxed);
  network_->send(peer, full_header(service, header), payload);
}
bool NetworkProxy::send_in_place(ServiceNumber service, int peer, Bytes header, Bytes payload, std::uint64_t token) {
  if (network_ == nullptr) return true;
  counts_[at(peer)].sent.fetch_add(1, std::memory_order_relaxed);
  return network_->send_in_place(peer, full_header(service, header), payload, full_token(service, token));
}
void NetworkProxy::offer(ServiceNumber service, int peer, Bytes header, Bytes payload, std::uint64_t token) {
  if (network_ == nullptr) return;
  counts_[at(peer)].sent.fetch_add(1, std::memory_order_relaxed);
  network_->offer(peer, full_header(service, header), payload, full_token(service, token));
}
void NetworkProxy::take(ServiceNumber service, std::uint64_t offer, std::span<std::byte> place, std::uint64_t token) {
  if (network_ != nullptr) network_->take(offer, place, full_token(service, token));
}

NetworkService* NetworkProxy::service_of(Bytes header) {
  const std::size_t number = header.empty() ? services_.size() : static_cast<std::size_t>(header[0]);
  return number < services_.size() ? services_[number] : nullptr;
}

void NetworkProxy::refuse(std::uint64_t offer) {
  if (network_ != nullptr) network_->refuse(offer);
}

void NetworkProxy::on_message(int peer, Bytes header, Bytes payload) {
  if (NetworkService* service = service_of(header)) service->on_message(peer, header.subspan(1), payload);
  hear(peer);
}
void NetworkProxy::on_offer(int peer, Bytes header, std::uint64_t bytes, std::uint64_t offer) {
  if (NetworkService* service = service_of(header)) {
    service->on_offer(peer, header.subspan(1), bytes, offer);
  } else {
    network_->refuse(offer);
  }
  hear(peer);
}
void NetworkProxy::on_taken(std::uint64_t token) {
  if (NetworkService* service = services_.at(token >> kServiceShift)) service->on_taken(own_token(token));
}
void NetworkProxy::on_released(std::uint64_t token) {
  if (NetworkService* service = services_.at(token >> kServiceShift)) service->on_released(own_token(token));
}
void NetworkProxy::on_lost(int peer, const std::string& why) {
  counts_[at(peer)].lost = true;
  for (NetworkService* service : services_) {
    if (service != nullptr) service->on_lost(peer);
  }
  look_whether_left(peer);
  hooks_.on_lost(peer, why);
}

}  // namespace onstream::net
