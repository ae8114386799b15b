// Opening, faults and endings of the simulated network.
#include "onstream/transport/net/sim.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "onstream/base/error.hpp"
#include "onstream/transport/net/sim_hub.hpp"

namespace onstream::net {
namespace {

using Lock = std::lock_guard<std::mutex>;

// A rank's network: the hub's calls under the rank's name.
class SimNetwork final : public Network {
 public:
  SimNetwork(std::shared_ptr<SimHub> hub, int rank, NetworkEvents& events)
      : hub_(std::move(hub)), rank_(rank), events_(events) {}
  ~SimNetwork() override { hub_->close(rank_); }

  std::string address() const override { return hub_->address(rank_); }
  void connect(int peer, const std::string& address) override { hub_->connect(rank_, peer, address); }
  void send(int peer, Bytes header, Bytes payload) override {
    check(payload);
    hub_->send(rank_, peer, header, payload);
  }
  bool send_in_place(int peer, Bytes header, Bytes payload, std::uint64_t token) override {
    check(payload);
    return hub_->send_in_place(rank_, {peer, {header.begin(), header.end()}, payload, token});
  }
  void offer(int peer, Bytes header, Bytes payload, std::uint64_t token) override {
    hub_->offer(rank_, {peer, {header.begin(), header.end()}, payload, token});
  }
  void take(std::uint64_t offer, std::span<std::byte> place, std::uint64_t token) override {
    hub_->take(rank_, offer, place, token);
  }
  void refuse(std::uint64_t offer) override { hub_->refuse(rank_, offer); }
  bool progress() override {
    bool any = false;
    hub_->begin_turn(rank_);
    while (const auto parcel = hub_->next(rank_)) {
      raise(*parcel);
      any = true;
    }
    return any;
  }
  int descriptor() const override { return hub_->descriptor(rank_); }
  bool arm() override { return hub_->arm(rank_); }
  void disconnect(int peer) override { hub_->disconnect(rank_, peer); }
  std::string describe() const override { return hub_->describe(rank_); }

 private:
  static void check(Bytes payload) {
    require(payload.size() <= kMaxSendBytes, "a payload of ", payload.size(), " B is longer than ", kMaxSendBytes,
            " B: offer it");
  }

  void raise(const SimParcel& parcel) {
    switch (parcel.kind) {
      case SimKind::message: return events_.on_message(parcel.from, parcel.header, parcel.payload);
      case SimKind::offer: return events_.on_offer(parcel.from, parcel.header, parcel.bytes, parcel.offer);
      case SimKind::taken: return events_.on_taken(parcel.token);
      case SimKind::released: return events_.on_released(parcel.token);
      case SimKind::lost: return events_.on_lost(parcel.from, parcel.why);
    }
  }

  const std::shared_ptr<SimHub> hub_;
  const int rank_;
  NetworkEvents& events_;
};

}  // namespace

std::shared_ptr<SimNetworks> SimNetworks::make(const std::string& name, const SimOptions& options) {
  require(options.least_delay >= 0 && options.least_delay <= options.most_delay, "the delay of a simulated network is ",
          options.least_delay, " to ", options.most_delay, " turns, which is no range");
  return std::make_shared<SimHub>(name, options);
}

std::shared_ptr<SimNetworks> SimNetworks::named(const std::string& name, const SimOptions& options) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<SimNetworks>> all;
  const Lock lock(mutex);
  auto found = all[name].lock();
  if (found == nullptr) {
    found = make(name, options);
    all[name] = found;
  }
  require(static_cast<const SimHub&>(*found).options() == options, "the simulated network ", name,
          " is in use with another seed or other delays");
  return found;
}

std::string SimHub::address(int rank) const { return concat("sim:", name_, ":", rank); }

std::string SimHub::describe(int rank) const {
  const Lock lock(mutex_);
  const std::uint64_t strangers = ports_.at(rank).strangers;
  const std::string dropped = strangers == 0 ? "" : concat(", ", strangers, " messages of strangers dropped");
  return concat("simulated, seed ", options_.seed, dropped);
}

std::unique_ptr<Network> SimHub::open(int rank, const std::string& secret, NetworkEvents& events) {
  const Lock lock(mutex_);
  require(rank >= 0 && !ports_.contains(rank), "rank ", rank, " of the simulated network ", name_, " is open already");
  Fd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.valid()) fail_errno("cannot make the descriptor of a simulated network (eventfd)");
  SimPort& port = ports_[rank];
  port.secret = secret;
  port.bell = std::move(bell);
  return std::make_unique<SimNetwork>(shared_from_this(), rank, events);
}

void SimHub::connect(int rank, int peer, const std::string& address) {
  const Lock lock(mutex_);
  require(address == this->address(peer) && peer != rank, "'", address, "' is not the address of rank ", peer,
          " in the simulated network ", name_);
  SimPort& port = ports_.at(rank);
  require(!port.peers.contains(peer) && !port.lost.contains(peer), "rank ", peer, " is connected already");
  port.peers.insert(peer);
}

void SimHub::disconnect(int rank, int peer) {
  const Lock lock(mutex_);
  SimPort& port = ports_.at(rank);
  require(port.peers.contains(peer) || port.lost.contains(peer), "rank ", peer, " is not connected");
  take_back(rank, peer);
  lose_offers(rank, peer);
  std::erase_if(port.inbox, [peer](const auto& each) { return each.second.from == peer; });
  leave(rank, peer, concat("rank ", rank, " has disconnected"));
  port.peers.erase(peer);
  port.lost.erase(peer);
}

void SimHub::close(int rank) {
  const Lock lock(mutex_);
  if (!ports_.at(rank).dead) read_in_place(rank);
  const std::set<int> peers = ports_.at(rank).peers;
  for (const int peer : peers) leave(rank, peer, concat("rank ", rank, " has closed its network"));
  ports_.erase(rank);
}

// The memory that the rank has lent for the peer comes back in its next turn.
void SimHub::take_back(int rank, int peer) {
  SimPort& port = ports_.at(rank);
  const auto give_back = [&](const SimLoan& loan) {
    if (loan.to == peer) put(rank, {.kind = SimKind::released, .from = rank, .token = loan.token});
    return loan.to == peer;
  };
  std::erase_if(port.in_place, give_back);
  std::erase_if(port.offered, [&](const auto& each) { return give_back(each.second); });
}

// All of the peer's data that has not moved to the rank yet.
void SimHub::lose_offers(int rank, int peer) {
  SimPort& port = ports_.at(rank);
  std::erase_if(port.received, [peer](const auto& each) {
    return each.second.from == peer && each.second.state == SimOfferState::taking;
  });
  for (auto& [number, offer] : port.received)
    if (offer.from == peer) offer.state = SimOfferState::lost;
  std::erase_if(port.inbox, [peer](const auto& each) {
    const SimKind kind = each.second.kind;
    return each.second.from == peer && (kind == SimKind::offer || kind == SimKind::taken);
  });
}

// Tells the rank of the peer's loss, after all messages of it that are still under way.
void SimHub::lose_peer(int rank, int peer, const std::string& why) {
  SimPort& port = ports_.at(rank);
  if (port.peers.erase(peer) == 0) return;
  port.lost.insert(peer);
  take_back(rank, peer);
  lose_offers(rank, peer);
  std::uint64_t turn = port.turns + 1;
  for (const auto& [due, parcel] : port.inbox)
    if (parcel.from == peer) turn = std::max(turn, due.turn + 1);
  port.inbox.emplace(SimDue{turn, next_order_++}, SimParcel{.kind = SimKind::lost, .from = peer, .why = why});
  ring(port);
}

// The peer is told if the two have met.
void SimHub::leave(int rank, int peer, const std::string& why) {
  const auto other = ports_.find(peer);
  if (other == ports_.end()) return;
  if (ports_.at(rank).sent.contains(peer) || other->second.sent.contains(rank)) lose_peer(peer, rank, why);
}

void SimHub::cut(int one, int other) {
  const Lock lock(mutex_);
  cuts_.insert(std::minmax(one, other));
}

void SimHub::heal(int one, int other) {
  const Lock lock(mutex_);
  cuts_.erase(std::minmax(one, other));
  for (auto& [rank, port] : ports_) ring(port);
}

void SimHub::lose(int rank) {
  const Lock lock(mutex_);
  std::erase_if(cuts_, [rank](const auto& cut) { return cut.first == rank || cut.second == rank; });
  if (const auto lost = ports_.find(rank); lost != ports_.end()) lost->second.dead = true;
  for (auto& [other, port] : ports_) {
    if (other == rank) continue;
    std::erase_if(port.inbox, [rank](const auto& each) { return each.second.from == rank; });
    lose_peer(other, rank, concat("rank ", rank, " was lost by the simulated network"));
  }
}

void SimHub::stop(int rank) {
  const Lock lock(mutex_);
  ports_.at(rank).stopped = true;
}

void SimHub::go(int rank) {
  const Lock lock(mutex_);
  ports_.at(rank).stopped = false;
  for (auto& [each, port] : ports_) ring(port);
}

int SimHub::descriptor(int rank) {
  const Lock lock(mutex_);
  return ports_.at(rank).bell.get();
}

bool SimHub::arm(int rank) {
  const Lock lock(mutex_);
  SimPort& port = ports_.at(rank);
  const bool still = port.stopped || port.dead;
  const auto moves = [&](const auto& each) { return !is_blocked(rank, each.second); };
  if (!still && (!port.in_place.empty() || std::any_of(port.inbox.begin(), port.inbox.end(), moves))) return false;
  std::uint64_t rung = 0;
  (void)!::read(port.bell.get(), &rung, sizeof rung);
  port.armed = true;
  return true;
}

void SimHub::ring(SimPort& port) {
  if (!port.armed) return;
  port.armed = false;
  const std::uint64_t one = 1;
  (void)!::write(port.bell.get(), &one, sizeof one);
}

}  // namespace onstream::net
