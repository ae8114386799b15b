// Several networks of one implementation in this process, driven by one thread, and all that happened at each.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "onstream/base/clock.hpp"
#include "onstream/base/log.hpp"
#include "onstream/error.hpp"
#include "onstream/parameters.hpp"
#include "onstream/transport/net/networks.hpp"
#include "support/check.hpp"
#include "support/sanitizer.hpp"

namespace onstream::test {

using net::Bytes;

inline Bytes bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
inline std::string text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// Bytes that differ by place and by number.
inline std::string pattern(std::size_t bytes, unsigned number) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>((i * 31 + (i >> 9) * 7 + number * 101) & 0xff);
  return text;
}

struct NodeMessage {
  int peer;
  std::string header;
  std::string payload;
};

struct NodeOffer {
  int peer;
  std::string header;
  std::uint64_t bytes;
  std::uint64_t number;
};

class Node : public net::NetworkEvents {
 public:
  void on_message(int peer, Bytes header, Bytes payload) override {
    messages.push_back({peer, text_of(header), text_of(payload)});
    if (answer) answer(messages.back());
  }
  void on_offer(int peer, Bytes header, std::uint64_t bytes, std::uint64_t offer) override {
    offers.push_back({peer, text_of(header), bytes, offer});
    if (at_offer) at_offer(offers.back());
  }
  void on_taken(std::uint64_t token) override { ++taken[token]; }
  void on_released(std::uint64_t token) override { ++released[token]; }
  void on_lost(int peer, const std::string& why) override {
    ++lost[peer];
    reason = why;
    if (at_loss) at_loss(peer);
  }

  std::vector<NodeMessage> messages;
  std::vector<NodeOffer> offers;
  std::map<std::uint64_t, int> taken;
  std::map<std::uint64_t, int> released;
  std::map<int, int> lost;
  std::string reason;
  std::function<void(const NodeMessage&)> answer;
  std::function<void(const NodeOffer&)> at_offer;
  std::function<void(int)> at_loss;
  std::unique_ptr<net::Network> network;  // last: it ends first
};

inline std::string fresh_name() {
  static int count = 0;
  return "test" + std::to_string(++count);
}

class Nodes {
 public:
  Nodes(const std::string& kind, int count, const std::string& secret = "secret", bool meet = true)
      : kind_(kind), name_(fresh_name()) {
    for (int rank = 0; rank < count; ++rank) {
      nodes_.push_back(std::make_unique<Node>());
      open(rank, count, secret);
    }
    if (meet) connect_all();
  }

  // Without a word to the peers, who do not turn any more.
  ~Nodes() {
    for (int rank = 0; rank < size(); ++rank)
      for (int peer = 0; peer < size(); ++peer) part(rank, peer);
  }

  void open(int rank, int count, const std::string& secret) {
    // UCX rewrites the first bytes of libc's mmap, which the thread sanitizer has rewritten too: it crashes.
    if (kThreadSanitizer) ::setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 0);
    const Parameters parameters = Parameters::from_environment();
    net::NetworkSettings settings{.kind = kind_, .rank = rank, .size = count, .secret = secret};
    settings.interface = parameters.network_interface;
    settings.library = parameters.ucx_library;
    settings.wheel = parameters.ucx_wheel;
    settings.name = name_;
    try {
      at(rank).network = net::open_network(settings, at(rank));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::unsupported) SKIP(error.what());
      throw;
    }
  }

  void connect_all() {
    for (int rank = 0; rank < size(); ++rank)
      for (int peer = 0; peer < size(); ++peer)
        if (peer != rank) net(rank).connect(peer, net(peer).address());
  }

  void part(int rank, int peer) {
    try {
      if (at(rank).network != nullptr) net(rank).disconnect(peer);
    } catch (const Error&) {  // not connected
    }
  }

  int size() const { return static_cast<int>(nodes_.size()); }
  Node& at(int rank) { return *nodes_[static_cast<std::size_t>(rank)]; }
  net::Network& net(int rank) { return *at(rank).network; }
  void end(int rank) { at(rank).network.reset(); }

  bool turn() {
    bool any = false;
    for (const auto& node : nodes_)
      if (node->network != nullptr) any = node->network->progress() || any;
    return any;
  }

  template <class Condition>
  bool until(const Condition& holds, double timeout_s = kSoonS) {
    const Deadline deadline(timeout_s);
    while (!holds()) {
      if (deadline.passed()) return false;
      (void)turn();
    }
    return true;
  }

  // Until nothing has moved for a while.
  void settle(double quiet_s = 0.05) {
    const Deadline limit(kSoonS);
    for (Deadline quiet(quiet_s); !quiet.passed() && !limit.passed();)
      if (turn()) quiet = Deadline(quiet_s);
  }

 private:
  const std::string kind_;
  const std::string name_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace onstream::test

// A case for each network of the list.
#define CONFORMS(name)                       \
  static void name(const std::string& kind); \
  CASE(name##_over_ucx) { name("ucx"); }     \
  CASE(name##_over_sim) { name("sim"); }     \
  static void name(const std::string& kind)
