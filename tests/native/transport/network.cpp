// The conformance suite of networks (transport/net/network.hpp), over every implementation of the list.
#include <poll.h>

#include <algorithm>
#include <thread>

#include "network_nodes.hpp"

using namespace onstream;
using namespace onstream::test;

CASE(every_network_of_the_list_has_rows_here) {
  CHECK(net::network_kinds() == (std::vector<std::string>{"ucx", "sim"}));
}

CONFORMS(a_message_arrives_with_its_header) {
  Nodes nodes(kind, 2);
  nodes.net(0).send(1, bytes_of("head"), bytes_of("payload"));
  CHECK(nodes.until([&] { return !nodes.at(1).messages.empty(); }));
  CHECK(nodes.at(1).messages[0].peer == 0);
  CHECK(nodes.at(1).messages[0].header == "head");
  CHECK(nodes.at(1).messages[0].payload == "payload");
}

CONFORMS(messages_of_all_sizes_arrive_whole) {
  Nodes nodes(kind, 2);
  const std::vector<std::size_t> sizes = {0, 1, 7, 8, 63, 64, 4095, 4096, 8200, 65535, 65536};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::string payload = pattern(sizes[i], static_cast<unsigned>(i));
    nodes.net(0).send(1, bytes_of(std::to_string(i)), bytes_of(payload));  // the payload ends here
  }
  CHECK(nodes.until([&] { return nodes.at(1).messages.size() == sizes.size(); }));
  for (const NodeMessage& message : nodes.at(1).messages) {
    const auto i = static_cast<unsigned>(std::stoi(message.header));
    CHECK(message.payload == pattern(sizes[i], i));
  }
}

CONFORMS(headers_may_be_empty_or_64_bytes_but_no_more) {
  Nodes nodes(kind, 2);
  nodes.net(0).send(1, {}, bytes_of("a"));
  nodes.net(0).send(1, bytes_of(pattern(64, 3)), {});
  CHECK_THROWS(nodes.net(0).send(1, bytes_of(pattern(65, 3)), {}), "header of 65 B");
  CHECK_THROWS(nodes.net(0).offer(1, bytes_of(pattern(65, 3)), {}, 1), "header of 65 B");
  CHECK(nodes.until([&] { return nodes.at(1).messages.size() == 2; }));
  std::vector<std::string> headers = {nodes.at(1).messages[0].header, nodes.at(1).messages[1].header};
  std::sort(headers.begin(), headers.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  CHECK(headers[0].empty() && headers[1] == pattern(64, 3));
}

CONFORMS(too_large_payloads_and_unknown_peers_are_refused) {
  Nodes nodes(kind, 2);
  const std::string large = pattern(net::kMaxSendBytes + 1, 0);
  CHECK_THROWS(nodes.net(0).send(1, {}, bytes_of(large)), "offer it");
  CHECK_THROWS((void)nodes.net(0).send_in_place(1, {}, bytes_of(large), 1), "offer it");
  CHECK_THROWS(nodes.net(0).send(0, {}, {}), "not connected");
  CHECK_THROWS(nodes.net(0).send(7, {}, {}), "not connected");
  CHECK_THROWS(nodes.net(0).connect(1, nodes.net(1).address()), "connected already");
  CHECK_THROWS(nodes.net(0).take(12345, {}, 1), "no offer 12345");
  CHECK_THROWS(nodes.net(0).refuse(12345), "no offer 12345");
}

CONFORMS(an_address_of_a_stranger_is_refused) {
  Nodes nodes(kind, 2, "secret", /*meet=*/false);
  std::string damaged = nodes.net(1).address();
  CHECK(damaged.size() <= 4096);
  damaged.back() = damaged.back() == '1' ? '2' : '1';
  CHECK_THROWS(nodes.net(0).connect(1, damaged), "is not the address");
  CHECK_THROWS(nodes.net(0).connect(1, ""), "is not the address");
  CHECK_THROWS(nodes.net(0).connect(1, "tcp:10.0.0.1:4711"), "is not the address");
  CHECK_THROWS(nodes.net(0).connect(1, nodes.net(1).address() + "00"), "is not the address");
  nodes.net(0).connect(1, nodes.net(1).address());
}

CONFORMS(memory_of_sends_in_place_is_read_until_released) {
  Nodes nodes(kind, 2);
  constexpr unsigned kCount = 40;
  std::vector<std::string> payloads;
  for (unsigned i = 0; i < kCount; ++i) payloads.push_back(pattern(1000 + 1600 * i, i));
  std::vector<bool> at_once(kCount);
  for (unsigned i = 0; i < kCount; ++i)
    at_once[i] = nodes.net(0).send_in_place(1, bytes_of(std::to_string(i)), bytes_of(payloads[i]), i);
  const auto over = [&](unsigned i) { return at_once[i] || nodes.at(0).released.contains(i); };
  const auto overwrite_free = [&] {
    unsigned free = 0;
    for (unsigned i = 0; i < kCount; ++i) {
      if (!over(i)) continue;
      std::fill(payloads[i].begin(), payloads[i].end(), 'x');  // ours again
      ++free;
    }
    return free;
  };
  CHECK(nodes.until([&] { return overwrite_free() == kCount && nodes.at(1).messages.size() == kCount; }));
  for (const NodeMessage& message : nodes.at(1).messages) {
    const auto i = static_cast<unsigned>(std::stoi(message.header));
    CHECK(message.payload == pattern(1000 + 1600 * i, i));
  }
  for (unsigned i = 0; i < kCount; ++i) CHECK(nodes.at(0).released[i] == (at_once[i] ? 0 : 1));
}

CONFORMS(offers_of_all_sizes_are_taken_later) {
  Nodes nodes(kind, 2);
  const std::vector<std::size_t> sizes = {0, 1, 100, 5000, 65536, 1 << 20, 4 << 20};
  std::vector<std::string> data;
  for (std::size_t i = 0; i < sizes.size(); ++i) data.push_back(pattern(sizes[i], static_cast<unsigned>(i)));
  for (std::size_t i = 0; i < sizes.size(); ++i)
    nodes.net(0).offer(1, bytes_of(std::to_string(i)), bytes_of(data[i]), i);
  Node& receiver = nodes.at(1);
  CHECK(nodes.until([&] { return receiver.offers.size() == sizes.size(); }));
  nodes.settle();
  CHECK(receiver.taken.empty());
  std::map<std::uint64_t, std::string> places;
  for (const NodeOffer& offer : receiver.offers) {
    const auto i = static_cast<std::size_t>(std::stoi(offer.header));
    CHECK(offer.peer == 0 && offer.bytes == sizes[i]);
    places[i].assign(offer.bytes, '\0');
    nodes.net(1).take(offer.number, std::as_writable_bytes(std::span(places[i])), i);
    CHECK_THROWS(nodes.net(1).take(offer.number, std::as_writable_bytes(std::span(places[i])), i), "no offer");
  }
  CHECK(nodes.until(
      [&] { return receiver.taken.size() == sizes.size() && nodes.at(0).released.size() == sizes.size(); }));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    CHECK(places[i] == data[i]);
    CHECK(receiver.taken[i] == 1 && nodes.at(0).released[i] == 1);
  }
}

CONFORMS(offers_may_be_taken_or_refused_inside_the_event) {
  Nodes nodes(kind, 2);
  const std::string large = pattern(2 << 20, 1);
  std::string place(large.size(), '\0');
  nodes.at(1).at_offer = [&](const NodeOffer& offer) {
    if (offer.header == "no") return nodes.net(1).refuse(offer.number);
    nodes.net(1).take(offer.number, std::as_writable_bytes(std::span(place)), 9);
  };
  nodes.net(0).offer(1, bytes_of("no"), bytes_of(large), 1);
  nodes.net(0).offer(1, bytes_of("yes"), bytes_of(large), 2);
  nodes.net(0).offer(1, bytes_of("no"), bytes_of("small"), 3);
  CHECK(nodes.until([&] { return nodes.at(0).released.size() == 3 && nodes.at(1).taken.contains(9); }));
  CHECK(place == large);
}

CONFORMS(a_refused_offer_is_released) {
  Nodes nodes(kind, 2);
  const std::string data = pattern(1 << 20, 5);
  nodes.net(0).offer(1, {}, bytes_of(data), 77);
  CHECK(nodes.until([&] { return nodes.at(1).offers.size() == 1; }));
  const std::uint64_t number = nodes.at(1).offers[0].number;
  nodes.net(1).refuse(number);
  CHECK(nodes.until([&] { return nodes.at(0).released.contains(77); }));
  CHECK_THROWS(nodes.net(1).refuse(number), "no offer");
  CHECK(nodes.at(1).taken.empty());
}

CONFORMS(events_may_send_and_throw) {
  Nodes nodes(kind, 2);
  nodes.at(1).answer = [&](const NodeMessage& message) {
    nodes.net(1).send(0, bytes_of(message.header), bytes_of("answer"));
    if (message.header == "3") throw std::runtime_error("of the caller");
  };
  bool thrown = false;
  for (int i = 0; i < 8; ++i) nodes.net(0).send(1, bytes_of(std::to_string(i)), {});
  const Deadline deadline(kSoonS);
  while (nodes.at(0).messages.size() < 8 && !deadline.passed()) {
    try {
      (void)nodes.turn();
    } catch (const std::runtime_error& error) {
      thrown = std::string(error.what()) == "of the caller";
    }
  }
  CHECK(thrown && nodes.at(0).messages.size() == 8);
}

CONFORMS(many_in_flight_in_all_directions_arrive_once) {
  constexpr int kRanks = 3;
  constexpr int kEach = 300;
  Nodes nodes(kind, kRanks);
  std::vector<std::string> keep;
  keep.reserve(kRanks * kRanks * kEach);
  for (int i = 0; i < kEach; ++i) {
    for (int from = 0; from < kRanks; ++from) {
      for (int to = 0; to < kRanks; ++to) {
        if (to == from) continue;
        const std::string header = concat(from, " ", to, " ", i);
        keep.push_back(pattern(static_cast<std::size_t>(i * 37 % 9000), static_cast<unsigned>(i)));
        if (i % 3 == 0) nodes.net(from).send(to, bytes_of(header), bytes_of(keep.back()));
        if (i % 3 == 1) (void)nodes.net(from).send_in_place(to, bytes_of(header), bytes_of(keep.back()), 1);
        if (i % 3 == 2) nodes.net(from).offer(to, bytes_of(header), bytes_of(keep.back()), 1);
      }
    }
  }
  constexpr std::size_t kAll = (kRanks - 1) * kEach;
  CHECK(nodes.until([&] {
    bool all = true;
    for (int rank = 0; rank < kRanks; ++rank)
      all = all && nodes.at(rank).messages.size() + nodes.at(rank).offers.size() == kAll;
    return all;
  }));
  for (int rank = 0; rank < kRanks; ++rank) {
    std::map<std::string, int> seen;
    for (const NodeMessage& message : nodes.at(rank).messages) {
      ++seen[message.header];
      const int i = std::stoi(message.header.substr(4));
      CHECK(message.header.starts_with(concat(message.peer, " ", rank, " ")));
      CHECK(message.payload == pattern(static_cast<std::size_t>(i * 37 % 9000), static_cast<unsigned>(i)));
    }
    for (const NodeOffer& offer : nodes.at(rank).offers) {
      ++seen[offer.header];
      nodes.net(rank).refuse(offer.number);
    }
    CHECK(seen.size() == kAll);
  }
  CHECK(nodes.until([&] {
    return nodes.at(0).released[1] >= kEach / 3 * 2 && nodes.at(1).released[1] >= kEach / 3 * 2 &&
           nodes.at(2).released[1] >= kEach / 3 * 2;
  }));
}

CONFORMS(a_message_with_another_secret_is_dropped) {
  Nodes nodes(kind, 2, "secret", /*meet=*/false);
  nodes.end(1);
  nodes.open(1, 2, "another");
  nodes.connect_all();
  set_log(LogLevel::off, -1);
  const std::string data = pattern(1 << 20, 2);
  nodes.net(1).send(0, bytes_of("head"), bytes_of("wrong"));
  nodes.net(1).offer(0, bytes_of("head"), bytes_of(data), 1);
  nodes.settle(0.3);
  CHECK(nodes.at(0).messages.empty() && nodes.at(0).offers.empty());
  CHECK(nodes.net(0).describe().find("dropped") != std::string::npos);
  set_log(LogLevel::warn, -1);
}
int main(int argc, char** argv) { return run(argc, argv); }
