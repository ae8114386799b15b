// The simulated network alone: order by seed, faults, and random traffic over a thousand seeds.
#include "onstream/transport/net/sim.hpp"

#include <algorithm>
#include <random>
#include <thread>

#include "network_nodes.hpp"

using namespace onstream;
using namespace onstream::test;
using net::SimNetworks;
using net::SimOptions;
using net::SimOrder;

namespace {

// Ranks of one simulated network, driven by this thread.
struct Simulated {
  Simulated(int ranks, const SimOptions& options) : networks(SimNetworks::make("sim", options)), nodes(ranks) {
    for (int rank = 0; rank < ranks; ++rank) at(rank).network = networks->open(rank, "secret", at(rank));
    for (int rank = 0; rank < ranks; ++rank)
      for (int peer = 0; peer < ranks; ++peer)
        if (peer != rank) net(rank).connect(peer, net(peer).address());
  }
  Node& at(int rank) { return nodes[static_cast<std::size_t>(rank)]; }
  net::Network& net(int rank) { return *at(rank).network; }
  void turns(int count) {
    for (int i = 0; i < count; ++i)
      for (Node& node : nodes)
        if (node.network != nullptr) (void)node.network->progress();
  }

  std::shared_ptr<SimNetworks> networks;
  std::vector<Node> nodes;
};

std::vector<std::string> order_of(const SimOptions& options) {
  Simulated sim(2, options);
  std::vector<std::string> order;
  for (int i = 0; i < 100; ++i) {
    sim.net(0).send(1, bytes_of(std::to_string(i)), {});
    if (i % 10 == 0) sim.turns(1);
  }
  sim.turns(50);
  for (const NodeMessage& message : sim.at(1).messages) order.push_back(message.header);
  return order;
}

std::vector<std::string> sent_order() {
  std::vector<std::string> order;
  for (int i = 0; i < 100; ++i) order.push_back(std::to_string(i));
  return order;
}

}  // namespace

CASE(the_same_seed_gives_the_same_order_and_another_seed_another) {
  CHECK(order_of({.seed = 5}) == order_of({.seed = 5}));
  CHECK(order_of({.seed = 5}) != order_of({.seed = 6}));
}

CASE(messages_overtake_unless_order_is_kept) {
  std::vector<std::string> shuffled = order_of({.seed = 5});
  CHECK(shuffled != sent_order());
  CHECK(order_of({.seed = 5, .order = SimOrder::kept}) == sent_order());
  std::vector<std::string> all = sent_order();
  std::sort(all.begin(), all.end());
  std::sort(shuffled.begin(), shuffled.end());
  CHECK(shuffled == all);
}

CASE(a_message_takes_the_turns_that_were_asked_for) {
  Simulated sim(2, {.least_delay = 3, .most_delay = 3});
  sim.net(0).send(1, {}, {});
  sim.turns(3);
  CHECK(sim.at(1).messages.empty());
  sim.turns(1);
  CHECK(sim.at(1).messages.size() == 1);
  CHECK_THROWS((void)SimNetworks::make("x", {.least_delay = 3, .most_delay = 2}), "no range");
}

CASE(memory_that_is_written_too_early_shows) {
  Simulated sim(2, {});
  std::string first = "first";
  std::string second = "second";
  CHECK(sim.net(0).send_in_place(1, bytes_of("1"), bytes_of(first), 1));
  CHECK(!sim.net(0).send_in_place(1, bytes_of("2"), bytes_of(second), 2));
  first = "wrong";
  second = "wrong!";
  sim.turns(20);
  CHECK(sim.at(0).released == (std::map<std::uint64_t, int>{{2, 1}}));
  for (const NodeMessage& message : sim.at(1).messages)
    CHECK(message.payload == (message.header == "1" ? "first" : "wrong!"));
}

CASE(cut_and_heal_lose_nothing) {
  Simulated sim(3, {});
  const std::string data = "offered";
  sim.net(0).offer(1, bytes_of("o"), bytes_of(data), 1);
  sim.turns(10);
  sim.networks->cut(1, 0);
  std::string place(data.size(), ' ');
  sim.net(1).take(sim.at(1).offers.at(0).number, std::as_writable_bytes(std::span(place)), 2);
  for (int i = 0; i < 50; ++i) sim.net(0).send(1, bytes_of(std::to_string(i)), {});
  sim.net(1).send(0, {}, {});
  sim.net(0).send(2, {}, {});
  sim.turns(50);
  CHECK(sim.at(1).messages.empty() && sim.at(0).messages.empty() && sim.at(1).taken.empty());
  CHECK(sim.at(2).messages.size() == 1);
  CHECK(sim.net(1).arm());
  sim.networks->heal(0, 1);
  CHECK(!sim.net(1).arm());
  sim.turns(10);
  CHECK(sim.at(1).messages.size() == 50 && sim.at(0).messages.size() == 1);
  CHECK(sim.at(1).taken[2] == 1 && sim.at(0).released[1] == 1 && place == data);
}

CASE(a_stopped_rank_stands_still_until_go) {
  Simulated sim(2, {});
  sim.networks->stop(1);
  sim.net(0).send(1, {}, {});
  sim.turns(20);
  CHECK(sim.at(1).messages.empty() && sim.at(0).lost.empty());
  sim.networks->go(1);
  sim.turns(20);
  CHECK(sim.at(1).messages.size() == 1);
}

CASE(a_lost_rank_is_told_to_all_others_once) {
  Simulated sim(3, {});
  const std::string data = "offered";
  sim.net(0).offer(1, {}, bytes_of(data), 1);
  sim.net(1).send(0, bytes_of("never"), {});
  sim.networks->lose(1);
  sim.turns(20);
  CHECK(sim.at(0).lost == (std::map<int, int>{{1, 1}}) && sim.at(2).lost == (std::map<int, int>{{1, 1}}));
  CHECK(sim.at(0).released[1] == 1 && sim.at(0).messages.empty());
  CHECK(sim.at(1).lost.empty() && sim.at(1).messages.empty());
}

CASE(networks_of_one_name_are_one) {
  Node node;
  const auto one = SimNetworks::named("world", {.seed = 3});
  CHECK(SimNetworks::named("world", {.seed = 3}) == one);
  CHECK(SimNetworks::named("other", {.seed = 4}) != one);
  CHECK_THROWS((void)SimNetworks::named("world", {.seed = 4}), "another seed");
  node.network = one->open(0, "secret", node);
  CHECK(node.network->address() == "sim:world:0");
  CHECK_THROWS((void)one->open(0, "secret", node), "open already");
  CHECK_THROWS(node.network->connect(1, "sim:other:1"), "is not the address");
}

namespace {

// Three ranks that send each other random messages of all kinds while links are cut and healed.
class Traffic {
 public:
  explicit Traffic(unsigned seed) : random_(seed), sim_(kRanks, {.seed = seed, .most_delay = 6}) {
    data_.reserve(kOperations);
    places_.resize(kOperations);
    for (int rank = 0; rank < kRanks; ++rank)
      sim_.at(rank).at_offer = [this, rank](const NodeOffer& offer) { answer(rank, offer); };
  }

  void run() {
    for (int i = 0; i < kOperations; ++i) {
      send(static_cast<std::uint64_t>(i));
      if (pick(3) == 0) sim_.turns(1);
      if (pick(8) == 0) sim_.networks->cut(0, pick(2) + 1);
      if (pick(4) == 0) heal();
    }
    heal();
    sim_.turns(60);
    check();
  }

 private:
  static constexpr int kRanks = 3;
  static constexpr int kOperations = 60;

  int pick(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

  void heal() {
    sim_.networks->heal(0, 1);
    sim_.networks->heal(0, 2);
  }

  void send(std::uint64_t number) {
    const int from = pick(kRanks);
    const int to = (from + 1 + pick(kRanks - 1)) % kRanks;
    data_.push_back(pattern(static_cast<std::size_t>(pick(300)), static_cast<unsigned>(number)));
    const std::string header = std::to_string(number);
    const int kind = pick(3);
    if (kind == 0) sim_.net(from).send(to, bytes_of(header), bytes_of(data_.back()));
    if (kind == 1 && !sim_.net(from).send_in_place(to, bytes_of(header), bytes_of(data_.back()), number)) ++lent_;
    if (kind == 2) sim_.net(from).offer(to, bytes_of(header), bytes_of(data_.back()), number);
    if (kind == 2) ++offered_;
  }

  void answer(int rank, const NodeOffer& offer) {
    const auto number = static_cast<std::size_t>(std::stoi(offer.header));
    if (pick(4) == 0) return sim_.net(rank).refuse(offer.number);
    places_[number].resize(offer.bytes);
    sim_.net(rank).take(offer.number, std::as_writable_bytes(std::span(places_[number])), number);
    ++wanted_;
  }

  void check() {
    std::size_t arrived = 0;
    std::size_t taken = 0;
    std::size_t released = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      for (const NodeMessage& message : sim_.at(rank).messages)
        CHECK(message.payload == data_[static_cast<std::size_t>(std::stoi(message.header))]);
      for (const auto& [number, times] : sim_.at(rank).taken) CHECK(times == 1 && places_[number] == data_[number]);
      for (const auto& [number, times] : sim_.at(rank).released) CHECK(times == 1);
      arrived += sim_.at(rank).messages.size() + sim_.at(rank).offers.size();
      taken += sim_.at(rank).taken.size();
      released += sim_.at(rank).released.size();
      CHECK(sim_.at(rank).lost.empty());
    }
    CHECK(arrived == kOperations);
    CHECK(taken == wanted_);
    CHECK(released == lent_ + offered_);
  }

  std::mt19937 random_;
  Simulated sim_;
  std::vector<std::string> data_;
  std::vector<std::string> places_;
  std::size_t lent_ = 0;
  std::size_t offered_ = 0;
  std::size_t wanted_ = 0;
};

}  // namespace

CASE(random_traffic_arrives_once_over_a_thousand_seeds) {
  for (unsigned seed = 1; seed <= 1000; ++seed) {
    try {
      Traffic(seed).run();
    } catch (const std::exception& error) {
      failed(__FILE__, __LINE__, concat("seed ", seed, ": ", error.what()));
    }
  }
}

CASE(ranks_may_be_threads) {
  constexpr int kRanks = 4;
  constexpr std::size_t kEach = 200;
  Simulated sim(kRanks, {});
  std::vector<std::thread> threads;
  const std::string payload = pattern(500, 1);
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      for (std::size_t i = 0; i < kEach; ++i) {
        for (int peer = 0; peer < kRanks; ++peer)
          if (peer != rank) (void)sim.net(rank).send_in_place(peer, {}, bytes_of(payload), i);
        (void)sim.net(rank).progress();
      }
      const Deadline deadline(kSoonS);
      while (sim.at(rank).messages.size() < kEach * (kRanks - 1) && !deadline.passed())
        if (!sim.net(rank).progress()) std::this_thread::yield();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < kRanks; ++rank) {
    CHECK(sim.at(rank).messages.size() == kEach * (kRanks - 1));
    for (const NodeMessage& message : sim.at(rank).messages) CHECK(message.payload == payload);
  }
}

int main(int argc, char** argv) { return run(argc, argv); }
