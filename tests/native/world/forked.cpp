// A forked child lets go of its inherited objects, though a thread of its parent was in the midst of the same thing at
// the fork: a lock that this thread held stays locked in the child for ever.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <thread>

#include "onstream/collective.hpp"
#include "onstream/message/bounce.hpp"
#include "onstream/message/message_tickets.hpp"
#include "onstream/one_sided/proxy/lent_memory.hpp"
#include "onstream/one_sided/stream/segments.hpp"
#include "onstream/one_sided/stream/team_words.hpp"
#include "support/check.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

// Whether a child that does this ends of itself.
bool ends_in_a_child(const std::function<void()>& lets_go) {
  constexpr unsigned kLongS = 10;
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kLongS);
    lets_go();
    ::_exit(0);
  }
  int status = -1;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Another thread comes to a place and stays there while a child is forked.
class Midst {
 public:
  // The other thread calls it at that place.
  void stay() {
    come_.set_value();
    over_.get_future().wait();
  }
  // Whether a child that does `lets_go` ends, forked while the other thread does `act`, which comes to stay().
  bool child_ends(const std::function<void()>& act, const std::function<void()>& lets_go) {
    std::thread other(act);
    come_.get_future().wait();
    const bool ends = ends_in_a_child(lets_go);
    over_.set_value();
    other.join();
    return ends;
  }

 private:
  std::promise<void> come_;
  std::promise<void> over_;
};

// Whether all of many children that do `lets_go` end, forked while another thread does `act` over and over.
bool children_end(const std::function<void()>& act, const std::function<void()>& lets_go) {
  constexpr int kChildren = 50;
  std::atomic<bool> over = false;
  std::atomic<bool> begun = false;
  std::thread other([&] {
    for (; !over; begun = true) act();
  });
  while (!begun) std::this_thread::yield();
  bool all = true;
  for (int i = 0; i < kChildren && all; ++i) all = ends_in_a_child(lets_go);
  over = true;
  other.join();
  return all;
}

// Memory that somebody looks at for as long as that is wanted.
class LookedAt final : public Memory {
 public:
  explicit LookedAt(Midst& midst) : midst_(midst) {}
  std::byte* data() const override { return nullptr; }
  std::size_t bytes() const override { return 4096; }
  MemoryKind kind() const override {
    midst_.stay();
    return MemoryKind::host;
  }

 private:
  Midst& midst_;
};

}  // namespace

CASE(a_forked_child_lets_go_of_a_request_while_its_parent_takes_tickets) {
  const auto device = open_device("host", 0);
  MessageTickets tickets(device, std::make_shared<OwnMemory>(device));
  const auto open_ticket = [&] {
    const MessageTickets::TicketSlot slot = tickets.take();
    MessageTickets::open(slot);
    return MessageTickets::Left{slot, nullptr, nullptr, 0, lane::LaneView{}, 8};
  };
  tickets.give_back(open_ticket());
  const MessageTickets::Left held = open_ticket();
  Midst midst;
  const auto look = [&](std::span<const MessageTickets::Left* const>) {
    midst.stay();
    return std::shared_ptr<Event>();
  };
  CHECK(midst.child_ends([&] { tickets.settle_unasked(look); }, [&] { tickets.give_back(held); }));
}

CASE(a_forked_child_lets_go_of_a_bounce_buffer_while_its_parent_takes_one) {
  const auto pool = std::make_shared<BouncePool>(open_device("host", 0));
  Midst midst;
  pool->give_back(std::make_shared<LookedAt>(midst));
  const auto held = pool->take(8192, MemoryKind::host);
  const auto take = [&] { CHECK(pool->take(4096, MemoryKind::pinned) != nullptr); };
  CHECK(midst.child_ends(take, [&] {
    auto later = pool->give_back_later(held);
    later.reset();
    pool->give_back(held, {});
  }));
}

CASE(a_forked_child_lets_go_of_what_its_parents_helper_uses) {
  using one_sided::Lent;
  const auto lent = std::make_shared<Lent>(open_device("host", 0));
  std::uint64_t word = 0;
  auto loan = lent->lend(&word, sizeof word);
  Midst midst;
  std::string why_not;
  const auto use = [&] {
    why_not =
        lent->use(loan->id, reinterpret_cast<std::uint64_t>(&word), sizeof word, [&](Lent::Where) { midst.stay(); });
  };
  CHECK(midst.child_ends(use, [&] { loan.reset(); }));
  CHECK(why_not.empty());
}

CASE(a_forked_child_lets_go_of_a_segment_while_its_parent_lets_go_of_another) {
  run_ranks(1, quick("host"), [](World& world) {
    one_sided::SegmentRows segments;
    const std::array made = {world.segment(4096), world.segment(4096)};
    Midst midst;
    const auto gone = [&](one_sided::SegmentRow* row) {
      midst.stay();
      delete row;
    };
    std::shared_ptr<one_sided::SegmentRow> row(new one_sided::SegmentRow, gone);
    row->segment = made[0].get();
    segments.add(*made[0], row);
    row.reset();
    CHECK(midst.child_ends([&] { segments.remove(*made[0]); }, [&] { segments.remove(*made[1]); }));
  });
}

CASE(a_forked_child_lets_go_of_a_team_while_its_parent_splits_one) {
  run_ranks(1, quick("host"), [](World& world) {
    one_sided::TeamWords words(*world.fabric());
    CHECK(words.claim(0, 0));
    words.keep(0);
    CHECK(children_end([&] { (void)words.offer(); }, [&] { words.release(0); }));
  });
}

CASE(a_forked_child_lets_go_of_memory_while_its_parent_looks_some_up) {
  const auto device = open_device("host", 0);
  auto memory = device->allocate(4096, MemoryKind::pinned);
  const int plain = 0;
  CHECK(children_end([&] { CHECK(device->inspect(&plain).id == 0); }, [&] { memory.reset(); }));
}

// All of it at once, as programs have it.
CASE(a_forked_child_lets_go_of_requests_teams_and_segments_of_a_busy_world) {
  run_ranks(1, quick("host"), [](World& world) {
    int out = 1;
    int in = 0;
    auto request = world.isend(&out, sizeof out, 0, {2});
    auto team = world.team()->split(0, 0);
    auto segment = world.segment(4096);
    const auto work = [&] {
      int got = 0;
      const auto receive = world.irecv(&got, sizeof got, 0, {1});
      const auto send = world.isend(&out, sizeof out, 0, {1});
      CHECK(world.wait(receive) == Status::ok && world.wait(send) == Status::ok && got == 1);
      CHECK(world.one_sided().symmetric(segment->local(), 0).rank == 0);
    };
    CHECK(children_end(work, [&] {
      request.reset();
      team.reset();
      segment.reset();
    }));
    CHECK(world.recv(&in, sizeof in, 0, {2}) == Status::ok && in == 1);
    CHECK(world.wait(request) == Status::ok);
    team->sync();
  });
}

// Also one that its parent makes over and over, which is looked for before anything else.
CASE(a_forked_child_is_refused_the_collective_that_its_parent_is_making) {
  run_ranks(1, quick("host"), [](World& world) {
    std::array<double, 2> values{};
    const auto call = collective::all_reduce({values.data(), values.data(), values.size(), ElementType::float64});
    CHECK(children_end([&] { world.collective().run(call); },
                       [&] {
                         try {
                           world.collective().run(call);
                         } catch (const Error& error) {
                           if (error.code() == ErrorCode::closed) return;
                         }
                         ::_exit(1);
                       }));
  });
}

int main(int argc, char** argv) { return run(argc, argv); }
