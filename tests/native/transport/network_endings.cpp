// How networks end and sleep, over every implementation of the list: loss, disconnecting, last messages, wake-up.
#include <poll.h>

#include <atomic>
#include <functional>
#include <thread>

#include "network_nodes.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

// Ends a rank's network while another thread drives the others, as their own processes would.
void end_while_others_turn(Nodes& nodes, int rank) {
  std::unique_ptr<net::Network> ending = std::move(nodes.at(rank).network);
  std::atomic<bool> over{false};
  std::thread ender([&] {
    ending.reset();
    over = true;
  });
  while (!over) (void)nodes.turn();
  ender.join();
}

void meet(Nodes& nodes, int one, int other) {
  const auto before = nodes.at(other).messages.size();
  nodes.net(one).send(other, bytes_of("hello"), {});
  CHECK(nodes.until([&] { return nodes.at(other).messages.size() > before; }));
}

}  // namespace

CONFORMS(the_end_of_a_network_is_a_loss_for_its_peers_once) {
  Nodes nodes(kind, 3);
  meet(nodes, 0, 1);
  meet(nodes, 2, 1);
  end_while_others_turn(nodes, 1);
  CHECK(nodes.until([&] { return nodes.at(0).lost.contains(1) && nodes.at(2).lost.contains(1); }));
  nodes.settle();
  CHECK(nodes.at(0).lost[1] == 1 && nodes.at(2).lost[1] == 1);
  CHECK(!nodes.at(0).reason.empty());
  CHECK(nodes.at(0).lost.size() == 1);
  meet(nodes, 0, 2);  // the others go on
}

CONFORMS(the_receiver_too_is_told_of_a_loss) {
  Nodes nodes(kind, 2);
  meet(nodes, 0, 1);
  end_while_others_turn(nodes, 0);
  CHECK(nodes.until([&] { return nodes.at(1).lost.contains(0); }));
}

CONFORMS(messages_before_the_end_arrive_before_the_loss) {
  Nodes nodes(kind, 2);
  meet(nodes, 0, 1);
  bool lost_first = false;
  nodes.at(1).at_loss = [&](int) { lost_first = nodes.at(1).messages.size() < 21; };
  const std::string payload = pattern(60000, 4);
  for (int i = 0; i < 20; ++i) nodes.net(0).send(1, bytes_of(std::to_string(i)), bytes_of(payload));
  end_while_others_turn(nodes, 0);
  CHECK(nodes.until([&] { return nodes.at(1).lost.contains(0); }));
  CHECK(!lost_first);
  for (int i = 1; i <= 20; ++i) CHECK(nodes.at(1).messages[static_cast<std::size_t>(i)].payload == payload);
}

CONFORMS(a_loss_releases_all_lent_memory_first) {
  Nodes nodes(kind, 2);
  meet(nodes, 0, 1);
  const std::string large = pattern(4 << 20, 8);
  const std::string small = pattern(65536, 8);
  std::size_t expected = 0;
  for (std::uint64_t i = 0; i < 4; ++i) nodes.net(0).offer(1, bytes_of("x"), bytes_of(large), i);
  expected += 4;
  CHECK(nodes.until([&] { return nodes.at(1).offers.size() == 4; }));
  for (std::uint64_t i = 100; i < 130; ++i)
    expected += nodes.net(0).send_in_place(1, bytes_of("x"), bytes_of(small), i) ? 0 : 1;
  std::size_t released_at_loss = 0;
  nodes.at(0).at_loss = [&](int) { released_at_loss = nodes.at(0).released.size(); };
  nodes.part(1, 0);  // without waiting for what is under way
  nodes.end(1);
  CHECK(nodes.until([&] { return nodes.at(0).lost.contains(1); }));
  CHECK(released_at_loss == expected);
  // To a lost peer all is dropped, and memory comes back.
  nodes.net(0).send(1, {}, bytes_of("late"));
  CHECK(nodes.net(0).send_in_place(1, {}, bytes_of(small), 200));
  nodes.net(0).offer(1, {}, bytes_of(large), 201);
  CHECK(nodes.until([&] { return nodes.at(0).released.contains(201); }));
  CHECK(nodes.at(0).lost[1] == 1);
}

CONFORMS(offers_of_a_lost_peer_come_to_nothing) {
  Nodes nodes(kind, 2);
  meet(nodes, 0, 1);
  const std::string large = pattern(4 << 20, 8);
  for (std::uint64_t i = 0; i < 3; ++i) nodes.net(0).offer(1, bytes_of("x"), bytes_of(large), i);
  CHECK(nodes.until([&] { return nodes.at(1).offers.size() == 3; }));
  std::string before(large.size(), '\0');
  std::string after(large.size(), '\0');
  nodes.net(1).take(nodes.at(1).offers[0].number, std::as_writable_bytes(std::span(before)), 0);
  nodes.part(0, 1);
  nodes.end(0);
  CHECK(nodes.until([&] { return nodes.at(1).lost.contains(0); }));
  nodes.net(1).take(nodes.at(1).offers[1].number, std::as_writable_bytes(std::span(after)), 1);
  nodes.net(1).refuse(nodes.at(1).offers[2].number);
  nodes.settle();
  CHECK(!nodes.at(1).taken.contains(1));
  CHECK(after == std::string(large.size(), '\0'));
  CHECK(!nodes.at(1).taken.contains(0) || before == large);
}

CONFORMS(disconnecting_releases_in_the_next_turn_and_tells_nothing) {
  Nodes nodes(kind, 2);
  meet(nodes, 0, 1);
  const std::string large = pattern(2 << 20, 8);
  nodes.net(0).offer(1, bytes_of("x"), bytes_of(large), 5);
  CHECK(nodes.until([&] { return nodes.at(1).offers.size() == 1; }));
  CHECK(nodes.at(0).released.empty());
  nodes.net(0).disconnect(1);
  (void)nodes.net(0).progress();
  CHECK(nodes.at(0).released[5] == 1);
  CHECK_THROWS(nodes.net(0).send(1, {}, {}), "not connected");
  CHECK_THROWS(nodes.net(0).disconnect(1), "not connected");
  nodes.settle();
  CHECK(nodes.at(0).lost.empty());
}

CONFORMS(peers_that_both_disconnected_may_meet_again) {
  Nodes nodes(kind, 2);
  meet(nodes, 0, 1);
  nodes.part(0, 1);
  nodes.part(1, 0);
  nodes.settle();
  nodes.connect_all();
  meet(nodes, 1, 0);
  meet(nodes, 0, 1);
}

CONFORMS(an_armed_descriptor_wakes_at_a_message) {
  Nodes nodes(kind, 2);
  meet(nodes, 0, 1);
  meet(nodes, 1, 0);
  for (int round = 0; round < 20; ++round) {
    CHECK(nodes.until([&] { return nodes.net(1).arm(); }));
    std::thread sender([&] {
      nodes.net(0).send(1, bytes_of("wake"), bytes_of("up"));
      for (int i = 0; i < 100; ++i) (void)nodes.net(0).progress();
    });
    pollfd waited{.fd = nodes.net(1).descriptor(), .events = POLLIN, .revents = 0};
    const auto before = nodes.at(1).messages.size();
    const Deadline deadline(kSoonS);
    // UCX may wake for its own business first.
    while (nodes.at(1).messages.size() == before && !deadline.passed()) {
      if (nodes.net(1).arm()) CHECK(::poll(&waited, 1, static_cast<int>(kSoonS * 1000)) == 1);
      (void)nodes.net(1).progress();
    }
    sender.join();
    CHECK(nodes.at(1).messages.size() == before + 1);
  }
}

CONFORMS(arming_tells_of_releases_and_takes_to_come) {
  Nodes nodes(kind, 2);
  meet(nodes, 0, 1);
  nodes.net(0).offer(1, {}, {}, 3);  // may end at once: then progress() has something to do
  const bool idle = nodes.net(0).arm();
  CHECK(!idle || nodes.at(0).released.empty());
  CHECK(nodes.until([&] { return !nodes.at(1).offers.empty(); }));
  nodes.net(1).take(nodes.at(1).offers[0].number, {}, 4);
  CHECK(!nodes.net(1).arm());
  CHECK(nodes.until([&] { return nodes.at(1).taken[4] == 1 && nodes.at(0).released[3] == 1; }));
}

int main(int argc, char** argv) { return run(argc, argv); }
