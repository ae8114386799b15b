// Spread messages (lane/spread.hpp): as grids of crowds run them, with every kind of message that may come instead; and
// as worlds do, where every pair of calls meets on lanes that spread and on those that do not.
#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "lane_loop.hpp"
#include "support/check.hpp"
#include "support/faults.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"
#include "support/sanitizer.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

constexpr std::uint64_t kShift = 4;  // 16 units
constexpr std::uint64_t kRingMax = 64;
const auto kShapes = all_or_few<std::vector<Grid>>({{1, 1}, {1, 5}, {3, 4}, {5, 1}, {4, 2}}, {{1, 3}, {3, 2}});

SendSpread spread(const Send& send) { return {send}; }
ReceiveSpread spread(const Receive& receive) { return {receive}; }

}  // namespace

CASE(spread_messages_of_every_size_arrive_by_any_grids) {
  for (const Grid of_send : kShapes) {
    for (const Grid of_receive : kShapes) {
      Loop loop(kShift);
      unsigned seed = 0;
      std::vector<unsigned char> from(loop.most() + 1);
      std::vector<unsigned char> to(loop.most() + 2);
      for (const std::size_t bytes :
           {std::size_t{1}, std::size_t{24}, std::size_t{100}, std::size_t{150}, loop.most_spread()}) {
        for (const std::size_t offset : {0, 1}) {
          const std::vector<unsigned char> wanted = pattern(bytes, ++seed);
          std::ranges::copy(wanted, from.begin() + static_cast<std::ptrdiff_t>(offset));
          std::ranges::fill(to, 0xee);
          loop.pass(spread(loop.send(from.data() + offset, bytes, bytes)), of_send,
                    spread(loop.receive(to.data() + offset, bytes, bytes)), of_receive);
          CHECK(std::ranges::equal(wanted, std::span(to).subspan(offset, bytes)));
          CHECK(to[bytes + offset] == 0xee);
        }
      }
    }
  }
}

// With any kind of receive, the next message must not wait for the credit that a spread receive keeps back.
CASE(a_ring_that_keeps_credit_back_has_room_for_the_longest_message_behind_a_spread_one) {
  for (const Grid grid : kShapes) {
    Loop loop(kShift);
    const std::vector<unsigned char> from = pattern(loop.most_spread(), 3);
    for (int round = 0; round < 40; ++round) {
      std::vector<unsigned char> to(from.size());
      const std::size_t bytes = from.size() - static_cast<std::size_t>(round) % 5 * 8;
      const Send send = loop.send(from.data(), bytes, bytes);
      const Receive receive = loop.receive(to.data(), bytes, bytes);
      if (round % 3 == 0) loop.pass(send, {1, grid.threads}, receive, {1, grid.threads});
      if (round % 3 != 0) loop.pass(spread(send), grid, spread(receive), grid);
      CHECK(std::equal(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(bytes), from.begin()));
    }
  }
}

// A smaller one; one that is pushed; one that the receiver has to fetch, alone or together; and a spread one into
// a receive of one block.
CASE(a_spread_receive_takes_whatever_comes_and_any_receive_a_spread_message) {
  for (const Grid of_send : kShapes) {
    for (const Grid of_receive : kShapes) {
      Loop loop(kShift);
      constexpr std::size_t kRoom = 5000;
      std::vector<unsigned char> to(kRoom);
      unsigned seed = 0;
      const auto check = [&](const std::vector<unsigned char>& from) {
        CHECK(std::equal(from.begin(), from.end(), to.begin()));
        CHECK(std::all_of(to.begin() + static_cast<std::ptrdiff_t>(from.size()), to.end(),
                          [](auto one) { return one == 0xee; }));
        std::ranges::fill(to, 0xee);
      };
      std::ranges::fill(to, 0xee);
      for (int round = 0; round < 3; ++round) {
        const std::vector<unsigned char> small = pattern(40, ++seed);
        loop.pass(loop.send(small.data(), small.size(), kRingMax), {1, of_send.threads},
                  spread(loop.receive(to.data(), 180, kRingMax)), of_receive);
        check(small);
        for (const bool reached : {true, false}) {
          for (const std::size_t bytes : {std::size_t{3000}, kRoom}) {
            const std::vector<unsigned char> large = pattern(bytes, ++seed);
            Receive receive = loop.receive(to.data(), bytes, kRingMax);
            if (!reached) receive.peer_destination = 0;
            loop.pass(loop.send(large.data(), bytes, kRingMax), of_send, spread(receive), of_receive);
            check(large);
          }
        }
        const std::vector<unsigned char> middling = pattern(170, ++seed);
        for (const std::size_t room : {std::size_t{170}, std::size_t{4000}}) {
          loop.pass(spread(loop.send(middling.data(), middling.size(), 180)), of_send,
                    loop.receive(to.data(), room, kRingMax), {1, of_receive.threads});
          check(middling);
        }
      }
    }
  }
}

// Posted receives that nobody has waited for come first: the receive's first block takes them, or a wait that runs
// beside it.
CASE(a_spread_receive_comes_after_posted_ones) {
  for (const Grid grid : kShapes) {
    for (const bool awaited : {false, true}) {
      Loop loop(kShift);
      for (unsigned round = 0; round < all_or_few(20u, 5u); ++round) {
        std::array<std::vector<unsigned char>, 3> from;
        std::array<std::vector<unsigned char>, 3> to;
        std::array<Asked, 2> asked;
        const HostGroup here(0, 1);
        for (unsigned i = 0; i < 3; ++i) {
          from[i] = pattern(i == 2 ? 170 : 30 + i, 3 * round + i);
          to[i].resize(from[i].size());
        }
        for (std::size_t i = 0; i < 2; ++i) {
          loop.post(to[i].data(), to[i].size(), kRingMax, asked[i].ticket())(here);
        }
        std::thread sender([&] {
          for (const auto& one : from) {
            const SendSpread body = spread(loop.send(one.data(), one.size(), 180));
            crowd_entry<SendSpread>(&body, grid);
          }
        });
        std::thread waiter([&] {
          if (awaited) loop.await(asked[1].ticket())(here);
        });
        const ReceiveSpread body = spread(loop.receive(to[2].data(), to[2].size(), 180));
        crowd_entry<ReceiveSpread>(&body, grid);
        sender.join();
        waiter.join();
        CHECK(from == to && asked[0].is_ok() && asked[1].is_ok());
        loop.check_passed(3);
      }
    }
  }
}

// The deadline of each wait is for one message, whichever block waits.
CASE(a_spread_receive_behind_slow_messages_has_a_deadline_for_each) {
  constexpr double kDeadlineS = 4;
  constexpr auto kApart = std::chrono::milliseconds(2500);
  Loop loop(6);
  loop.set_deadline(kDeadlineS);
  const HostGroup here(0, 1);
  const std::vector<unsigned char> from = pattern(150, 5);
  std::array<std::vector<unsigned char>, 3> to;
  std::array<Asked, 2> asked;
  for (auto& one : to) one.resize(from.size());
  for (std::size_t i = 0; i < 2; ++i) loop.post(to[i].data(), from.size(), 180, asked[i].ticket())(here);
  std::thread sender([&] {
    for (std::size_t i = 0; i < 3; ++i) {
      if (i < 2) std::this_thread::sleep_for(kApart);
      const SendSpread body = spread(loop.send(from.data(), from.size(), 180));
      crowd_entry<SendSpread>(&body, {2, 2});
    }
  });
  const ReceiveSpread body = spread(loop.receive(to[2].data(), from.size(), 180));
  crowd_entry<ReceiveSpread>(&body, {3, 2});
  sender.join();
  loop.check_passed(3);
  CHECK(to[0] == from && to[1] == from && to[2] == from);
}

namespace {

// The group of a grid whose second block has a clock that runs ahead of the others'.
class Hasty : public CrowdGroup {
 public:
  using CrowdGroup::CrowdGroup;
  std::uint64_t now_ns() const { return block() == 1 ? 30 * CrowdGroup::now_ns() : CrowdGroup::now_ns(); }
};

template <class Body>
void run_hasty(const Body& body, Grid grid) {
  std::vector<std::unique_ptr<CrowdBlock>> blocks;
  std::vector<std::thread> threads;
  for (int block = 0; block < grid.blocks; ++block) {
    blocks.push_back(std::make_unique<CrowdBlock>(grid.threads));
    for (int rank = 0; rank < grid.threads; ++rank) {
      threads.emplace_back(
          [&body, &together = *blocks.back(), grid, block, rank] { body(Hasty(together, rank, grid, block)); });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

// A message with holes would hold up its receiver without a reason that it could see.
CASE(a_spread_send_of_which_one_block_gives_up_has_sent_nothing_and_says_so_once) {
  Loop loop(6);                                              // 64 units
  loop.set_deadline(6);                                      // of the hasty block 0.2 s
  const std::vector<unsigned char> from = pattern(1000, 4);  // 32 units
  std::vector<unsigned char> to(from.size());
  const SendSpread send = spread(loop.send(from.data(), from.size(), 1000));
  for (int i = 0; i < 2; ++i) crowd_entry<SendSpread>(&send, {2, 2});
  std::thread sender([&] { run_hasty(send, {3, 2}); });
  while (loop.faults() == 0) std::this_thread::yield();
  for (int i = 0; i < 2; ++i) {
    const Receive receive = loop.receive(to.data(), to.size(), 1000);
    crowd_entry<Receive>(&receive, {1, 2});
    CHECK(to == from);
  }
  sender.join();
  CHECK(loop.faults() == 1 && loop.sent() == 2);
}

// One fault, though every block has waited in vain.
CASE(a_spread_receive_of_nothing_leaves_one_fault) {
  Loop loop(6);
  loop.set_deadline(0.3);
  std::vector<unsigned char> to(1000);
  const ReceiveSpread receive = spread(loop.receive(to.data(), to.size(), 1000));
  crowd_entry<ReceiveSpread>(&receive, {4, 3});
  CHECK(loop.faults() == 1);
}

namespace {

// How a rank may send, or receive; each is through, or ordered on the stream, when it returns.
struct Call {
  const char* name;
  std::function<void(World&, std::byte*, std::size_t, int, int lane, Stream)> make;
};

const std::vector<Call> kSends = {
    {"send", [](World& w, std::byte* at, std::size_t n, int peer, int lane,
                Stream s) { w.send(at, n, peer, {lane, Path::automatic}, s); }},
    {"send by ll",
     [](World& w, std::byte* at, std::size_t n, int peer, int lane, Stream s) {
       const bool fits = n <= (lane == 0 && w.device().kind() == DeviceKind::cuda ? 65537 : 8192);
       w.send(at, n, peer, {lane, fits ? Path::ll : Path::automatic}, s);
     }},
    {"send by store", [](World& w, std::byte* at, std::size_t n, int peer, int lane,
                         Stream s) { w.send(at, n, peer, {lane, Path::store}, s); }},
    {"send by load", [](World& w, std::byte* at, std::size_t n, int peer, int lane,
                        Stream s) { w.send(at, n, peer, {lane, Path::load}, s); }},
    {"send by stage", [](World& w, std::byte* at, std::size_t n, int peer, int lane,
                         Stream s) { w.send(at, n, peer, {lane, Path::stage}, s); }},
    {"isend", [](World& w, std::byte* at, std::size_t n, int peer, int lane,
                 Stream s) { w.wait(w.isend(at, n, peer, {lane, Path::automatic}, s), s); }},
    {"isend of the host", [](World& w, std::byte* at, std::size_t n, int peer, int lane,
                             Stream) { CHECK(w.wait(w.isend(at, n, peer, {lane, Path::automatic})) == Status::ok); }},
};

const std::vector<Call> kReceives = {
    {"recv", [](World& w, std::byte* at, std::size_t n, int peer, int lane,
                Stream s) { w.recv(at, n, peer, {lane, Path::automatic}, s); }},
    {"recv by store", [](World& w, std::byte* at, std::size_t n, int peer, int lane,
                         Stream s) { w.recv(at, n, peer, {lane, Path::store}, s); }},
    {"irecv", [](World& w, std::byte* at, std::size_t n, int peer, int lane,
                 Stream s) { w.wait(w.irecv(at, n, peer, {lane, Path::automatic}, s), s); }},
    {"recv of the host", [](World& w, std::byte* at, std::size_t n, int peer, int lane,
                            Stream) { CHECK(w.recv(at, n, peer, {lane, Path::automatic}) == Status::ok); }},
};

const auto kSizes = all_or_few<std::vector<std::size_t>>({4096, 4097, 8192, 8200, 20003, 65536, 65537}, {4097, 65536});

}  // namespace

CASE(every_pair_of_calls_meets_at_sizes_that_spread) {
  on_all_devices_over_gpus(2, [](World& world) {
    const OwnStream own(world);
    TestBuffer buffer(world, kSizes.back() + 8);
    unsigned seed = 0;
    for (const int lane : {0, 1}) {
      for (const Call& send : kSends) {
        for (const Call& receive : kReceives) {
          for (const std::size_t bytes : kSizes) {
            const std::size_t offset = ++seed % 3 * 4;
            const std::vector<unsigned char> sent = pattern(bytes, seed);
            std::byte* const at = buffer.data() + offset;
            if (world.rank() == 0) {
              std::vector<unsigned char> all(offset);
              all.insert(all.end(), sent.begin(), sent.end());
              buffer.write(all);
              send.make(world, at, bytes, 1, lane, own);
              world.synchronize(own);
              continue;
            }
            receive.make(world, at, bytes, 0, lane, own);
            world.synchronize(own);
            const std::vector<unsigned char> got = buffer.read();
            if (!std::equal(sent.begin(), sent.end(), got.begin() + static_cast<std::ptrdiff_t>(offset))) {
              throw CheckFailed(
                  concat(send.name, " to ", receive.name, " of ", bytes, " B with tag ", lane, " differs"));
            }
          }
        }
      }
    }
    world.barrier();
  });
}

// Messages of all sizes, ahead of their receives as far as the ring goes, in a graph and not; and both ways at once.
CASE(spread_messages_stay_in_order_replayed_and_exchanged) {
  on_all_devices_over_gpus(2, [](World& world) {
    const OwnStream own(world);
    const int peer = 1 - world.rank();
    const std::vector<std::size_t> sizes = {16384, 8,   65536, 5000,  65536, 65536,
                                            8192,  100, 40000, 65536, 65536, 300000};
    std::size_t total = 0;
    for (const std::size_t bytes : sizes) total += bytes;
    TestBuffer out(world, total);
    TestBuffer in(world, total);
    const auto pass = [&](bool first) {
      std::size_t at = 0;
      for (const std::size_t bytes : sizes) {
        if (first) world.send(out.data() + at, bytes, peer, {}, own);
        if (!first) world.recv(in.data() + at, bytes, peer, {}, own);
        at += bytes;
      }
    };
    const auto all = [&] {
      pass(world.rank() == 0);
      pass(world.rank() == 1);
      std::size_t at = 0;
      for (const std::size_t bytes : sizes) {
        world.sendrecv({out.data() + at, bytes, peer, {}}, {in.data() + at, bytes, peer, {}}, own);
        at += bytes;
      }
    };
    world.device().begin_capture(own);
    all();
    const auto graph = world.device().end_capture(own);
    for (unsigned round = 0; round < 6; ++round) {
      out.write(pattern(total, 2 * round + static_cast<unsigned>(world.rank())));
      world.barrier();
      if (round % 2 == 0) world.device().launch(graph, own);
      if (round % 2 == 1) all();
      world.synchronize(own);
      CHECK(in.read() == pattern(total, 2 * round + static_cast<unsigned>(peer)));
    }
    world.barrier();
  });
}

CASE(a_spread_message_that_does_not_fit_is_told_and_later_ones_are_intact) {
  on_all_devices_over_gpus(2, [](World& world) {
    const OwnStream own(world);
    TestBuffer buffer(world, 65536);
    for (const std::size_t room : {std::size_t{32}, std::size_t{5000}, std::size_t{30000}}) {
      if (world.rank() == 0) {
        buffer.write(pattern(65536, 8));
        world.send(buffer.data(), 32768, 1, {}, own);
        world.send(buffer.data(), 65536, 1, {}, own);
      } else {
        world.recv(buffer.data(), room, 0, {}, own);
        world.recv(buffer.data(), 65536, 0, {}, own);
      }
      world.device().synchronize(own);
      if (world.rank() == 1) CHECK(buffer.read() == pattern(65536, 8));
      const FaultReport fault = one_fault(world);
      CHECK(fault.status == Status::truncated && fault.peer == 1 - world.rank());
      world.barrier();
    }
  });
}

int main(int argc, char** argv) { return run(argc, argv); }
