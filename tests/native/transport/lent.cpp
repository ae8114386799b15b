// A rank's proxy does nothing for peers with memory that is not lent any more, and the world fails with a story that
// names the user, the memory and its owner.
#include "onstream/one_sided/proxy/lent_memory.hpp"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "onstream/device/memory/pages.hpp"
#include "onstream/one_sided/proxy/proxy.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

// Where the threads of both ranks meet after the last call that all ranks make: a later failure of the world on one of
// them does not reach the other within such a call.
using Gate = std::barrier<>;

// Rank 1 uses memory of rank 0 by its proxy, in the way that `use` says, after rank 0 has let go of it: both hear the
// story, at once, and nobody crashes.
void use_after_the_end(const std::function<std::shared_ptr<void>(World&)>& lend, const std::string& story,
                       const std::function<void(World&, const std::shared_ptr<void>&)>& use) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.path = "stage";
    Gate gate(2);
    run_ranks(2, parameters, [&](World& world) {
      std::shared_ptr<void> lent = lend(world);
      gate.arrive_and_wait();
      if (world.rank() == 0) lent.reset();
      gate.arrive_and_wait();
      const std::uint64_t start = now_ns();
      if (world.rank() == 1) CHECK_THROWS(use(world, lent), story);
      await_failure(world);
      CHECK_THROWS(world.check(), story);
      CHECK(ended_at_once(start));
    });
  }
}

constexpr const char* kSegmentGone = "rank 0's part of segment";

const Segment& segment_in(const std::shared_ptr<void>& held) { return *static_cast<const Segment*>(held.get()); }

}  // namespace

CASE(every_op_on_a_segment_whose_owner_let_go_of_it_fails_the_world_with_the_story) {
  using Op = std::function<void(World&, const Remote&)>;
  const std::vector<unsigned char> bytes(2000, 5);
  const std::vector<std::pair<std::string, Op>> ops = {
      {"a put of 2000 B by rank 1 is for ",
       [&](World& world, const Remote& to) { world.one_sided().put(to, bytes.data(), bytes.size()); }},
      {"a get of 3 B by rank 1 is for ",
       [&](World& world, const Remote& from) {
         unsigned char got[3];
         world.one_sided().get(got, from, sizeof got);
       }},
      {"a store of 4 B by rank 1 is for ",
       [](World& world, const Remote& word) { world.one_sided().signal({word, SignalOp::set, 1, 4}); }},
      {"an add to a word of 8 B by rank 1 is for ",
       [](World& world, const Remote& word) { world.one_sided().signal({word, SignalOp::add, 1, 8}); }},
      {"an atomic swap of a word of 4 B by rank 1 is for ",
       [](World& world, const Remote& word) {
         const OwnStream stream(world);
         world.one_sided().atomic(AtomicOp::swap, word, 4, 1, nullptr, 0, stream);
         world.synchronize(stream);
       }},
  };
  for (const auto& [said, op] : ops) {
    use_after_the_end([](World& world) { return world.segment(4096); }, said + kSegmentGone,
                      [&op = op](World& world, const std::shared_ptr<void>& held) {
                        const Remote place = world.one_sided().symmetric(segment_in(held).local() + 8, 0);
                        op(world, place);
                      });
  }
}

// The address is soon another segment's. That one is not touched.
CASE(memory_that_takes_the_place_of_a_segment_is_not_mistaken_for_it) {
  Parameters parameters = quick("host");
  parameters.path = "stage";
  Gate gate(2);
  run_ranks(2, parameters, [&](World& world) {
    std::shared_ptr<Segment> first = world.segment(8192, MemoryKind::host);
    if (world.rank() == 0) first.reset();
    std::vector<std::shared_ptr<Segment>> others;
    for (int i = 0; i < 8; ++i) others.push_back(world.segment(8192, MemoryKind::host));
    gate.arrive_and_wait();
    const std::uint64_t one = 1;
    if (world.rank() == 1) {
      CHECK_THROWS(world.one_sided().put(world.one_sided().symmetric(first->local(), 0), &one, sizeof one),
                   kSegmentGone);
    }
    await_failure(world);
    if (world.rank() == 0) {
      for (const auto& other : others) CHECK(*reinterpret_cast<const std::uint64_t*>(other->local()) == 0);
    }
  });
}

CASE(a_captured_put_that_is_replayed_after_the_owner_let_go_of_the_segment_tells) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.path = "stage";
    Gate gate(2);
    run_ranks(2, parameters, [&](World& world) {
      std::shared_ptr<Segment> segment = world.segment(64);
      const OwnStream stream(world);
      TestBuffer source(world, 64);
      std::shared_ptr<Graph> graph;
      if (world.rank() == 1) {
        world.device().begin_capture(stream);
        world.one_sided().put(world.one_sided().symmetric(segment->local(), 0), source.data(), 64, stream);
        graph = world.device().end_capture(stream);
        world.device().launch(graph, stream);
        world.synchronize(stream);
      }
      world.barrier();
      if (world.rank() == 0) segment.reset();
      gate.arrive_and_wait();
      if (world.rank() == 1) {
        world.device().launch(graph, stream);
        world.device().synchronize(stream);
      }
      await_failure(world);
      CHECK_THROWS(world.check(), "a put of 64 B by rank 1 is for rank 0's part of segment");
    });
  }
}

CASE(a_window_whose_owner_let_go_of_it_or_of_its_memory_fails_the_world_with_the_story) {
  for (const bool only_memory : {false, true}) {
    Gate gate(2);
    std::atomic<void*> place = nullptr;
    std::atomic<bool> taken = false;  // by memory of another thread: then there is nothing to see
    run_ranks(2, quick("host"), [&](World& world) {
      constexpr std::size_t kBytes = std::size_t{1} << 16;
      void* const own = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      CHECK(own != MAP_FAILED);
      if (world.rank() == 0) place = own;
      auto window = world.window(own, kBytes);
      std::uint64_t value = 0;
      world.one_sided().get(&value, Remote{*window, 1 - world.rank(), kBytes - 8}, 8);
      gate.arrive_and_wait();
      const bool owner = world.rank() == 0;
      if (owner && !only_memory) window.reset();
      if (owner) CHECK(munmap(own, kBytes) == 0);
      gate.arrive_and_wait();
      const std::string story = only_memory ? "which was freed while it was still lent" : "B and is no longer there";
      const auto use = [&] { world.one_sided().get(&value, Remote{*window, 0, kBytes - 8}, 8); };
      const char* const told = "a get of 8 B by rank 1 is for a window of rank 0 at";
      if (!owner && !only_memory) CHECK_THROWS(use(), told);
      if (!owner && only_memory) {
        try {
          use();
          taken = is_mapped(static_cast<std::byte*>(place.load()) + kBytes - 8, 8);
          CHECK(taken);
        } catch (const Error& error) {
          CHECK(std::string(error.what()).find(told) != std::string::npos);
        }
      }
      const Deadline deadline(kSoonS);
      while (!taken && !world.failure().has_value() && !deadline.passed()) std::this_thread::yield();
      if (!taken) CHECK_THROWS(world.check(), story);
      if (!owner) CHECK(munmap(own, kBytes) == 0);
    });
  }
}

CASE(memory_that_nobody_lends_is_refused_whatever_a_peer_was_told) {
  Gate gate(2);
  on_all_devices(2, [&](World& world) {
    std::vector<unsigned char> own(4096);
    world.one_sided().start_proxy();
    auto lent = world.one_sided().lend(own.data(), 1024);
    const auto told = world.fabric()->all_gather("test", std::to_string(reinterpret_cast<std::uint64_t>(own.data())));
    gate.arrive_and_wait();
    if (world.rank() == 0) {
      const Window window(*world.fabric(), {1, std::stoull(told[1]), 0, own.size()});
      world.one_sided().put(Remote{window, 1, 1000}, own.data(), 24);
      CHECK_THROWS(world.one_sided().put(Remote{window, 1, 1000}, own.data(), 25),
                   "a put of 25 B by rank 0 is for memory of rank 1 at");
    }
    await_failure(world);
    CHECK_THROWS(world.check(), "which it does not lend, or not any more");
  });
}

CASE(what_is_no_request_or_reaches_out_of_what_is_lent_is_refused) {
  using one_sided::Lent;
  using one_sided::Proxy;
  using one_sided::ProxyRequest;
  using one_sided::ProxyWork;
  constexpr std::size_t kBytes = 16;
  struct Wrong {
    std::uint64_t work;
    std::uint64_t offset;
    std::uint64_t bytes;
    std::string story;
  };
  const auto plain = [](ProxyWork work) { return static_cast<std::uint64_t>(work); };
  const std::uint64_t most = ~std::uint64_t{0};
  const std::vector<Wrong> all = {
      {9, 0, 8, "rank 0 left the proxy of rank 1 what is no request: work 9"},
      {plain(ProxyWork::get), 0, most, "18446744073709551615 B in a slot of"},
      {plain(ProxyWork::put), 8, 9, "which has only the 16 B"},
      {plain(ProxyWork::get), most - 7, 16, "which has only the 16 B"},  // begins in front, and its end wraps
      {plain(ProxyWork::get), kBytes, 1, "which has only the 16 B"},
      {plain(ProxyWork::store), 0, 3, "a word of 3 B"},
      {plain(ProxyWork::add), 0, 1, "a word of 1 B"},
      {plain(ProxyWork::add), 4, 8, "a word of 8 B at"},
      {plain(ProxyWork::store), 12, 8, "a word of 8 B at"},
      {plain(ProxyWork::atomic), 0, one_sided::packed(AtomicOp::add, 2), "a word of 2 B"},
      {plain(ProxyWork::atomic), 0, 99 << 8 | 8, "an atomic op 99"},
      {plain(ProxyWork::atomic), 16, one_sided::packed(AtomicOp::add, 8), "which has only the 16 B"},
  };
  Gate gate(2);
  for (const Wrong& wrong : all) {
    on_all_devices(2, [&](World& world) {
      alignas(8) std::array<std::byte, kBytes> own{};
      const auto lent = std::make_shared<Lent>(world.fabric()->device());
      const auto loan = lent->lend(own.data(), own.size());
      Proxy helper(*world.fabric(), lent);
      const auto address = std::to_string(reinterpret_cast<std::uint64_t>(own.data()));
      const std::uint64_t there = std::stoull(world.fabric()->all_gather("test", address)[1]);
      gate.arrive_and_wait();
      if (world.rank() == 0) {
        ProxyRequest& slot = *helper.slot(1);
        slot.address = there + wrong.offset;
        slot.bytes = wrong.bytes;
        HostGroup::store_release(&slot.work, one_sided::asked(static_cast<ProxyWork>(wrong.work), loan->id));
      }
      await_failure(world);
      CHECK_THROWS(world.check(), wrong.story);
      for (const std::byte byte : own) CHECK(byte == std::byte{0});
    });
  }
}

// The proxy waits for a GPU while it uses memory: other memory comes and goes meanwhile, and the memory in use stays.
CASE(only_the_end_of_what_is_in_use_waits_for_the_proxy) {
  using one_sided::Lent;
  const auto lent = std::make_shared<Lent>(open_device("host", 0));
  std::array<std::uint64_t, 2> words{};
  auto used = lent->lend(&words[0], sizeof words[0]);
  auto other = lent->lend(&words[1], sizeof words[1]);
  const one_sided::LentId id = used->id;
  const auto use = [&](const std::function<void(Lent::Where)>& touch) {
    return lent->use(id, reinterpret_cast<std::uint64_t>(&words[0]), sizeof words[0], touch);
  };
  std::promise<void> begun, go_on;
  bool over = false;
  bool over_before_the_end = false;
  auto helper = std::async(std::launch::async, [&] {
    return use([&](Lent::Where) {
      begun.set_value();
      go_on.get_future().wait();
      over = true;
    });
  });
  begun.get_future().wait();
  auto others = std::async(std::launch::async, [&] {
    other.reset();
    (void)lent->lend(&words[1], sizeof words[1]);
  });
  const bool others_went = others.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  auto owner = std::async(std::launch::async, [&] {
    used.reset();
    over_before_the_end = over;
  });
  // Once the memory is refused, its owner waits.
  if (others_went) {
    while (use([](Lent::Where) {}).empty()) HostGroup::pause(1u << 20, 0);
  }
  go_on.set_value();
  owner.wait();
  CHECK(others_went);
  CHECK(helper.get().empty());
  CHECK(over_before_the_end);
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
