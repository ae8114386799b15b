// The registration cache: one request per allocation to a peer, the notice when memory goes, and the log lines.
#include "onstream/transport/peer_mapping.hpp"

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "onstream/base/log.hpp"
#include "onstream/device/host/group.hpp"
#include "onstream/transport/fabric.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"
#include "support/standard_error.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

constexpr std::size_t kBytes = std::size_t{1} << 16;

PeerMappingStatistics counts(const World& world) { return world.statistics().peer_mapping; }

}  // namespace

CASE(the_first_look_up_asks_the_peer_and_later_ones_do_not) {
  on_all_devices(2, [](World& world) {
    const auto memory = world.allocate(kBytes);
    const int peer = 1 - world.rank();
    const PeerMappingStatistics before = counts(world);
    world.barrier();
    const auto address = world.fabric()->export_to_peer(memory->data(), kBytes, peer);
    CHECK(address.has_value());
    CHECK(counts(world).misses == before.misses + 1 && counts(world).hits == before.hits);
    for (std::size_t offset = 0; offset < 10; ++offset) {
      CHECK(world.fabric()->export_to_peer(memory->data() + offset, 8, peer) == *address + offset);
    }
    CHECK(counts(world).hits == before.hits + 10 && counts(world).misses == before.misses + 1);
    CHECK(counts(world).exported == before.exported + 1);
    CHECK(counts(world).exported_bytes == before.exported_bytes + kBytes);
    world.barrier();  // the peer has exported its own
    CHECK(counts(world).imported == before.imported + 1 && counts(world).imported_bytes >= kBytes);
    world.barrier();
  });
}

CASE(what_a_peer_exported_is_kept_while_it_is_used_and_forgotten_when_it_is_freed) {
  on_all_devices(2, [](World& world) {
    auto memory = world.allocate(kBytes);
    const int peer = 1 - world.rank();
    CHECK(world.fabric()->export_to_peer(memory->data(), kBytes, peer).has_value());
    const std::uint64_t mine = world.device().inspect(memory->data()).id;
    const auto told = world.fabric()->all_gather("test", std::to_string(mine));
    const std::uint64_t theirs = std::stoull(told[static_cast<std::size_t>(peer)]);
    const std::shared_ptr<const void> kept = world.fabric()->imported(peer, theirs);
    CHECK(kept != nullptr && world.fabric()->imported(peer, ~theirs) == nullptr);
    world.barrier();
    memory.reset();
    const Deadline deadline(kSoonS);  // the owner looks for memory that it has freed about once a second
    while (world.fabric()->imported(peer, theirs) != nullptr && !deadline.passed()) HostGroup::pause(1 << 20, 0);
    CHECK(world.fabric()->imported(peer, theirs) == nullptr);
    world.barrier();
  });
}

// Two of the threads miss the cache, and one has its answer before the other looks for stale entries.
CASE(threads_that_export_one_new_allocation_at_once_do_not_take_it_from_each_other) {
  on_all_devices(2, [](World& world) {
    constexpr int kRounds = 300;
    constexpr int kThreads = 8;
    const int peer = 1 - world.rank();
    const PeerMappingStatistics before = counts(world);
    std::vector<std::shared_ptr<Memory>> kept;  // so that nothing else ever is stale
    for (int round = 0; round < kRounds; ++round) {
      kept.push_back(world.allocate(4096));
      std::byte* data = kept.back()->data();
      std::atomic<int> ready = 0;
      std::vector<std::thread> threads;
      for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([&] {
          for (ready += 1; ready < kThreads;) std::this_thread::yield();
          (void)world.fabric()->export_to_peer(data, 8, peer);
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
    CHECK(counts(world).stale == before.stale);
    CHECK(counts(world).exported == before.exported + kRounds);
    world.barrier();
  });
}

CASE(a_rank_needs_no_registration_with_itself) {
  on_all_devices(1, [](World& world) {
    const auto memory = world.allocate(kBytes);
    CHECK(world.fabric()->export_to_peer(memory->data(), 8, 0) == reinterpret_cast<std::uint64_t>(memory->data()));
    CHECK(counts(world).hits == 0 && counts(world).misses == 0);
  });
}

namespace {

constexpr int kRounds = 8;

// Addresses that memory of the ranks has had, and how many of them came again.
class Addresses {
 public:
  void add(const std::byte* address) {
    const std::lock_guard lock(mutex_);
    again_ += known_.insert(address).second ? 0 : 1;
  }
  int again() const { return again_; }

 private:
  std::mutex mutex_;
  std::set<const std::byte*> known_;
  int again_ = 0;
};

// Messages that leave from new memory and come into new memory, each time.
void exchange_new_memory(World& world, Addresses& addresses, unsigned seed) {
  const int peer = 1 - world.rank();
  const OwnStream stream(world);
  for (unsigned round = 0; round < kRounds; ++round) {
    TestBuffer out(world, kBytes);
    TestBuffer in(world, kBytes);
    addresses.add(out.data());
    addresses.add(in.data());
    out.write(pattern(kBytes, 100 * static_cast<unsigned>(world.rank()) + seed + round));
    const auto request = world.irecv(in.data(), kBytes, peer, {0, Path::automatic}, stream);
    world.send(out.data(), kBytes, peer, {0, Path::automatic}, stream);
    world.wait(request, stream);
    world.synchronize(stream);
    CHECK(in.read() == pattern(kBytes, 100 * static_cast<unsigned>(peer) + seed + round));
    world.barrier();
  }
}

// Waits until ranks have told each other of all freed memory except the newest: till then a peer may keep it.
void await_sweep(World& world, const PeerMappingStatistics& before, int rounds) {
  const Deadline deadline(kSoonS);
  const auto all_swept = [&] {
    const PeerMappingStatistics now = counts(world);
    return now.stale >= before.stale + static_cast<std::size_t>(rounds) && now.exported <= before.exported + 2 &&
           now.imported <= before.imported + 2;
  };
  while (!all_swept() && !deadline.passed()) std::this_thread::yield();
  CHECK(all_swept());
  world.barrier();
}

}  // namespace

CASE(memory_that_was_freed_and_allocated_again_is_registered_again) {
  for (const std::string& device : device_specs()) {
    Addresses addresses;
    run_ranks(2, quick(device), [&](World& world) {
      const PeerMappingStatistics before = counts(world);
      for (int turn = 1; turn <= 2; ++turn) {
        exchange_new_memory(world, addresses, static_cast<unsigned>(10 * turn));
        // Every round's memory was new to the peer, also where the address was not.
        CHECK(counts(world).misses >= before.misses + static_cast<std::size_t>(turn * kRounds));
        await_sweep(world, before, turn * kRounds);
      }
    });
    // The host's pages go where others were; which addresses come again on a GPU is the driver's choice.
    if (device == "host") CHECK(addresses.again() > 0);
  }
}

CASE(plain_memory_is_counted_and_not_complained_of) {
  const std::string said = standard_error_of([] {
    on_all_devices(2, [](World& world) {
      std::vector<std::byte> plain(kBytes);
      const PeerMappingStatistics before = counts(world);
      CHECK(!world.fabric()->export_to_peer(plain.data(), kBytes, 1 - world.rank()));
      CHECK(counts(world).unreachable == before.unreachable + 1);
      CHECK(world.fabric()->why_not(plain.data(), 1 - world.rank()).find("plain host memory") != std::string::npos);
      world.barrier();
    });
  });
  CHECK(said.empty());
}

CASE(managed_memory_of_a_gpu_stays_in_its_process_which_is_said_once) {
  const std::string said = standard_error_of([] {
    on_all_devices(2, [](World& world) {
      const auto memory = world.allocate(kBytes, MemoryKind::managed);
      const bool there = world.fabric()->export_to_peer(memory->data(), kBytes, 1 - world.rank()).has_value();
      CHECK(there == (world.device().kind() == DeviceKind::host));
      (void)world.fabric()->export_to_peer(memory->data(), kBytes, 1 - world.rank());
      world.barrier();
    });
  });
  const std::string wanted = "peers cannot map managed memory that is in use: managed memory belongs to one process";
  const bool has_gpu = device_specs().size() > 1;
  CHECK((said.find(wanted) != std::string::npos) == has_gpu);
  CHECK(said.find(wanted, said.find(wanted) + 1) == std::string::npos || !has_gpu);
}

CASE(a_world_tells_its_registrations) {
  on_all_devices(2, [](World& world) {
    const auto memory = world.allocate(kBytes);
    world.register_memory(memory->data(), kBytes);
    const std::string told = world.describe();
    CHECK(told.find("registrations: ") != std::string::npos && told.find(" exported (") != std::string::npos);
    CHECK(world.statistics().message_bytes > 0);
    CHECK(world.statistics().segment_bytes >= world.statistics().message_bytes / 2);
    world.barrier();
  });
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
