#include "onstream/transport/hosts.hpp"

#include <algorithm>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/bootstrap/sha256.hpp"
#include "onstream/bootstrap/wire.hpp"
#include "onstream/transport/net/networks.hpp"

namespace onstream {

namespace {

constexpr const char* kEndTopic = "the end of a network";
// A process that ends closes its network before the mesh tells of it, and may wait for takes that are under way.
constexpr double kNewsTravelS = 4.0;

net::NetworkSettings settings_of(const Launch& launch, const Parameters& parameters, const std::string& name) {
  net::NetworkSettings settings;
  settings.kind = parameters.network;
  settings.rank = launch.rank;
  settings.size = launch.size;
  settings.secret = launch.secret;
  settings.interface = parameters.network_interface;
  settings.library = parameters.ucx_library;
  settings.wheel = parameters.ucx_wheel;
  settings.name = name;
  settings.seed = static_cast<std::uint64_t>(parameters.sim_seed);
  return settings;
}

std::vector<int> hosts_of(const Launch& launch, const Parameters& parameters, const Mesh& mesh) {
  const auto pretended = static_cast<int>(parameters.host_ranks);
  std::map<std::pair<int, int>, int> first;  // by the host, and the pretended one
  std::vector<int> hosts;
  for (int rank = 0; rank < launch.size; ++rank) {
    const std::pair host(mesh.host_of(rank), pretended > 0 ? rank / pretended : 0);
    hosts.push_back(first.try_emplace(host, rank).first->second);
  }
  return hosts;
}

}  // namespace

Hosts::Hosts(const Launch& launch, const Parameters& parameters, Mesh& mesh, Hooks hooks)
    : launch_(launch),
      parameters_(parameters),
      rank_(launch.rank),
      size_(launch.size),
      mesh_(mesh),
      hooks_(std::move(hooks)),
      hosts_(hosts_of(launch, parameters, mesh)) {
  several_ = std::ranges::any_of(hosts_, [&](int host) { return host != hosts_.front(); });
  if (!several_) return;
  mesh_.on_pulse([this] { return turns(); });
  mesh_.on(kEndTopic, [this](int peer, const std::string& payload, Fd) {
    const std::lock_guard lock(mutex_);
    announced_[peer] = wire::Unpacker(payload).u64();
    return std::string();
  });
}

// Whether the network still moves: its thread looks there ten times a second.
bool Hosts::turns() const {
  constexpr std::uint64_t kStandsStillNs = 10'000'000'000;
  const std::uint64_t turned_ns = started_.load(std::memory_order_acquire) ? network_->turned_at_ns() : 0;
  return turned_ns == 0 || now_ns() - turned_ns < kStandsStillNs;
}

std::string Hosts::why_apart(int peer) const {
  return is_remote(peer) ? concat("rank ", peer, " is on another host") : "";
}

// The name is a new one for each world: a simulated network goes by it.
void Hosts::open(Deadline deadline) {
  constexpr std::size_t kNameBytes = 8;
  const std::string mine = rank_ == 0 ? to_hex(random_bytes(kNameBytes)) : "";
  const std::string name = mesh_.all_gather("the network's name", mine, deadline).front();
  const auto open = [settings = settings_of(launch_, parameters_, name)](net::NetworkEvents& events) {
    return net::open_network(settings, events);
  };
  const auto on_lost = [this](int peer, const std::string& why) {
    const std::lock_guard lock(mutex_);
    lost_.emplace(peer, LostPeer{why, Deadline(kNewsTravelS)});
  };
  network_ = std::make_shared<net::NetworkProxy>(size_, open,
                                                 net::NetworkProxy::Hooks{on_lost, hooks_.on_left, hooks_.on_failure});
}

void Hosts::connect(Deadline deadline) {
  if (!several_) return;
  open(deadline);
  const std::vector<std::string> all = mesh_.all_gather("the network's addresses", network_->address(), deadline);
  for (int peer = 0; peer < size_; ++peer) {
    if (is_remote(peer)) network_->connect(peer, all[static_cast<std::size_t>(peer)]);
  }
  (void)mesh_.all_gather("the start of the network", "", deadline);  // nobody sends to a rank that does not know it
  network_->start();
  started_.store(true, std::memory_order_release);  // pairs with threads of the mesh
}

void Hosts::note_goodbye(int peer) {
  if (!is_remote(peer) || !started_.load(std::memory_order_acquire)) return hooks_.on_left(peer);
  std::uint64_t sent = 0;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = announced_.find(peer); found != announced_.end()) sent = found->second;
  }
  network_->peer_leaves(peer, sent);
}

void Hosts::tick() {
  std::map<int, LostPeer> due;
  {
    const std::lock_guard lock(mutex_);
    for (auto it = lost_.begin(); it != lost_.end();) {
      const auto next = std::next(it);
      if (it->second.limit.passed()) due.insert(lost_.extract(it));
      it = next;
    }
  }
  for (const auto& [peer, lost] : due) {
    if (!mesh_.alive(peer)) continue;
    hooks_.on_death(peer, concat("rank ", peer, " cannot be reached over the network any more: ", lost.why));
  }
}

void Hosts::leave() {
  if (network_ == nullptr) return;
  const std::vector<std::uint64_t> sent = network_->last_turn();
  for (int peer = 0; peer < size_; ++peer) {
    const std::uint64_t count = sent[static_cast<std::size_t>(peer)];
    if (is_remote(peer) && count > 0) mesh_.notify(peer, kEndTopic, wire::Packer().u64(count).body());
  }
  network_->stop();
}

}  // namespace onstream
