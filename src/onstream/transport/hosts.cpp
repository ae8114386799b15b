#include "onstream/transport/hosts.hpp"

#include <algorithm>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/bootstrap/wire.hpp"
#include "onstream/transport/net/networks.hpp"

namespace onstream {

namespace {

constexpr const char* kEndTopic = "the end of a network";
// A process that ends closes its network before the mesh tells of it.
constexpr double kNewsTravelS = 1.0;

net::NetworkSettings settings_of(const Launch& launch, const Parameters& parameters) {
  net::NetworkSettings settings;
  settings.kind = parameters.network;
  settings.rank = launch.rank;
  settings.size = launch.size;
  settings.secret = launch.secret;
  settings.job = concat(launch.address, ':', launch.port, '/', launch.generation);
  settings.seed = static_cast<std::uint64_t>(parameters.sim_seed);
  settings.interfaces = parameters.network_interface;
  settings.ucx_library = parameters.ucx_library;
  return settings;
}

std::vector<int> hosts_of(const Launch& launch, const Parameters& parameters, const Mesh& mesh) {
  std::vector<int> hosts;
  const auto pretended = static_cast<int>(parameters.host_ranks);
  for (int rank = 0; rank < launch.size; ++rank) {
    hosts.push_back(pretended > 0 ? rank / pretended : mesh.host_of(rank));
  }
  return hosts;
}

}  // namespace

Hosts::Hosts(const Launch& launch, const Parameters& parameters, Mesh& mesh, Hooks hooks)
    : rank_(launch.rank),
      size_(launch.size),
      mesh_(mesh),
      hooks_(std::move(hooks)),
      hosts_(hosts_of(launch, parameters, mesh)) {
  const bool several = std::ranges::any_of(hosts_, [&](int host) { return host != hosts_.front(); });
  if (!several) return;
  mesh_.on(kEndTopic, [this](int peer, const std::string& payload, Fd) {
    const std::lock_guard lock(mutex_);
    announced_[peer] = wire::Unpacker(payload).u64();
    return std::string();
  });
  const auto open = [settings = settings_of(launch, parameters)](net::NetworkEvents& events) {
    return net::open_network(settings, events);
  };
  const auto on_lost = [this](int peer, const std::string& why) {
    const std::lock_guard lock(mutex_);
    lost_.emplace(peer, LostPeer{why, Deadline(kNewsTravelS)});
  };
  network_ = std::make_shared<net::NetworkProxy>(
      launch.size, open, net::NetworkProxy::Hooks{on_lost, hooks_.on_left, hooks_.on_failure});
}

std::string Hosts::why_apart(int peer) const {
  return is_remote(peer) ? concat("rank ", peer, " is on another host") : "";
}

void Hosts::connect(Deadline deadline) {
  if (!several()) return;
  const std::vector<std::string> all = mesh_.all_gather("the network's addresses", network_->address(), deadline);
  for (int peer = 0; peer < size_; ++peer) {
    if (is_remote(peer)) network_->connect(peer, all[static_cast<std::size_t>(peer)]);
  }
  network_->start();
}

void Hosts::note_goodbye(int peer) {
  if (!is_remote(peer)) return hooks_.on_left(peer);
  std::uint64_t sent = 0;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = announced_.find(peer); found != announced_.end()) sent = found->second;
  }
  network_->peer_leaves(peer, sent);
}

void Hosts::tick() {
  if (!several()) return;
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
  if (!several()) return;
  network_->turn();
  for (int peer = 0; peer < size_; ++peer) {
    const std::uint64_t sent = is_remote(peer) ? network_->sent_to(peer) : 0;
    if (sent > 0) mesh_.notify(peer, kEndTopic, wire::Packer().u64(sent).body());
  }
  network_->stop();
}

}  // namespace onstream
