// A lane as grids of several blocks and threads run it, by crowds of host threads (crowd.hpp), which take the way that
// a GPU takes: the place of each line of a message in the ring, and its bytes; small messages; large ones that are
// pushed, and fetched.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "lane_loop.hpp"
#include "support/check.hpp"
#include "support/crowd.hpp"
#include "support/ranks.hpp"
#include "support/sanitizer.hpp"

using namespace onstream;
using namespace onstream::test;
using namespace onstream::lane;

namespace {

// The calling thread, in which something else happens just before it tells how an op ended.
template <class Then>
class Interrupted : public HostGroup {
 public:
  Interrupted(const std::uint64_t* status, const Then& then) : HostGroup(0, 1), status_(status), then_(&then) {}
  using HostGroup::store_release;
  void store_release(std::uint64_t* word, std::uint64_t value) const {
    if (word == status_) (*then_)();
    HostGroup::store_release(word, value);
  }

 private:
  const std::uint64_t* status_;
  const Then* then_;
};

}  // namespace

// Counted in full: the line's number since the ring began, and the laps behind it.
CASE(a_line_lies_where_counting_all_lines_from_the_first_one_on_puts_it) {
  for (const std::uint64_t shift : {2, 5, 24}) {
    LaneView view;
    view.ring_shift = shift;
    const std::uint64_t units = std::uint64_t{1} << shift;
    const std::uint64_t lines = units * kUnitLines;
    for (const std::uint64_t lap :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 31, std::uint64_t{1} << 33}) {
      for (const std::uint64_t unit : {std::uint64_t{0}, std::uint64_t{1}, units / 2, units - 1}) {
        const std::uint64_t head = lap * units + unit;
        const Stretch stretch(view, head);
        for (const std::uint64_t line : {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{4}, lines / 2, lines - 1}) {
          const std::uint64_t at = head * kUnitLines + line;
          const LinePlace place = stretch.at(static_cast<std::uint32_t>(line));
          CHECK(place.index == at % lines);
          CHECK(place.flag == static_cast<std::uint32_t>(at / lines + 1));
        }
      }
    }
  }
}

CASE(a_payloads_lines_are_its_bytes_and_zero_behind_them) {
  const std::vector<unsigned char> bytes = pattern(64, 5);
  alignas(8) std::array<unsigned char, 80> room;
  for (std::size_t offset = 0; offset < 8; ++offset) {
    for (const std::size_t count : {0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 64}) {
      room.fill(0xee);
      std::memcpy(room.data() + offset, bytes.data(), count);
      const Payload payload(room.data() + offset, count);
      for (std::uint32_t line = 0; line < 10; ++line) {
        std::array<unsigned char, 8> wanted{};
        if (line * 8 < count)
          std::memcpy(wanted.data(), bytes.data() + line * 8, std::min<std::size_t>(8, count - line * 8));
        const std::uint64_t got = payload.at(line);
        CHECK(std::memcmp(&got, wanted.data(), 8) == 0);
      }
    }
  }
}

CASE(blocks_of_several_threads_pass_messages_of_every_size_through_small_rings) {
  for (const std::uint64_t shift : {2, 4}) {
    for (const int threads : all_or_few<std::vector<int>>({1, 3, 24, 100}, {3, 24})) {
      Loop loop(shift);
      unsigned seed = 0;
      std::vector<unsigned char> from(loop.most() + 1);
      std::vector<unsigned char> to(loop.most() + 2);
      std::vector<std::size_t> sizes = {loop.most()};
      for (std::size_t bytes = 0; bytes < loop.most(); bytes += bytes < 26 ? 1 : 13) sizes.push_back(bytes);
      for (const std::size_t bytes : sizes) {
        for (const std::size_t offset : {0, 1}) {
          const std::vector<unsigned char> wanted = pattern(bytes, ++seed);
          std::ranges::copy(wanted, from.begin() + static_cast<std::ptrdiff_t>(offset));
          std::ranges::fill(to, 0xee);
          loop.pass(loop.send(from.data() + offset, bytes, bytes), {1, threads},
                    loop.receive(to.data() + offset, bytes, bytes), {1, threads});
          CHECK(std::ranges::equal(wanted, std::span(to).subspan(offset, bytes)));
          CHECK(to[bytes + offset] == 0xee);
        }
      }
    }
  }
}

// A push, if the receive can be written to; else the receiver's blocks fetch together. Every third message is small,
// and comes by the ring into a receive that expects a large one.
CASE(grids_of_several_blocks_pass_large_messages_pushed_and_fetched) {
  constexpr std::uint64_t kRingMax = 64;
  const auto shapes = all_or_few<std::vector<Grid>>({{1, 1}, {1, 24}, {4, 5}, {7, 1}}, {{1, 1}, {3, 5}});
  for (const bool reached : {true, false}) {
    for (const Grid of_send : shapes) {
      for (const Grid of_receive : shapes) {
        Loop loop(4);
        for (unsigned message = 0; message < 6; ++message) {
          const std::size_t capacity = message % 2 == 0 ? 300 : 70'001;
          const std::size_t bytes = message % 3 == 2 ? 40 : capacity - message % 2 * 100;
          const std::vector<unsigned char> from = pattern(bytes, message);
          std::vector<unsigned char> to(capacity, 0xee);
          Receive receive = loop.receive(to.data(), capacity, kRingMax);
          if (!reached) receive.peer_destination = 0;
          const Grid grid = bytes <= kRingMax ? Grid{1, of_send.threads} : of_send;  // the ring is one block's
          loop.pass(loop.send(from.data(), bytes, kRingMax), grid, receive, of_receive);
          CHECK(std::equal(from.begin(), from.end(), to.begin()));
          CHECK(std::all_of(to.begin() + static_cast<std::ptrdiff_t>(bytes), to.end(),
                            [](auto one) { return one == 0xee; }));
        }
      }
    }
  }
}

CASE(what_a_posted_send_has_pushed_its_wait_does_not_push_once_more) {
  constexpr std::uint64_t kBytes = 20000;
  constexpr std::uint64_t kRing = 4096;
  const HostGroup here(0, 1);
  Loop loop(5);
  const std::vector<unsigned char> from = pattern(kBytes, 9);
  std::vector<unsigned char> to(kBytes);
  Asked sent;
  Asked received;
  loop.post(to.data(), kBytes, kRing, received.ticket())(here);
  Send send = loop.send(from.data(), kBytes, kRing);
  send.completion = Completion::posted;
  send.ticket = sent.ticket();
  bool looked = false;
  const auto meanwhile = [&] {
    loop.await(received.ticket())(here);
    CHECK(received.is_ok() && to == from);
    std::ranges::fill(to, static_cast<unsigned char>(0));  // the receiver's program goes on
    loop.glance(send)(here);
    looked = true;
  };
  send(Interrupted(&sent.status, meanwhile));
  CHECK(looked && sent.is_ok());
  CHECK(std::ranges::count(to, 0) == static_cast<std::ptrdiff_t>(kBytes));
}

int main(int argc, char** argv) { return run(argc, argv); }
