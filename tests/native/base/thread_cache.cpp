// Memory that threads keep for the next object of its size.
#include "onstream/base/thread_cache.hpp"

#include <cstddef>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "support/check.hpp"

using namespace onstream;

namespace {

constexpr std::size_t kBytes = 424;
using Blocks = KeptBlocks<kBytes>;

std::vector<void*> take(std::size_t count) {
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < count; ++i) blocks.push_back(Blocks::take());
  return blocks;
}

void give_back(const std::vector<void*>& blocks) {
  for (void* block : blocks) Blocks::give_back(block);
}

}  // namespace

// Plain memory of the same size is taken between, which must be other memory.
CASE(what_a_thread_lets_go_it_takes_next) {
  const std::vector<void*> blocks = take(100);
  give_back(blocks);
  std::vector<std::unique_ptr<std::byte[]>> plain;
  for (int i = 0; i < 300; ++i) plain.push_back(std::make_unique<std::byte[]>(kBytes));
  const std::vector<void*> again = take(100);
  CHECK(std::vector<void*>(again.rbegin(), again.rend()) == blocks);  // the newest first
  give_back(again);
}

// The address sanitizer sees a block that is lost, or given back twice.
CASE(more_than_a_thread_keeps_goes_back_at_once) {
  for (int round = 0; round < 3; ++round) {
    const std::vector<void*> blocks = take(1000);
    CHECK(std::set<void*>(blocks.begin(), blocks.end()).size() == 1000);
    give_back(blocks);
  }
}

CASE(what_another_thread_lets_go_stays_with_that_one) {
  const std::vector<void*> blocks = take(100);
  std::vector<void*> there;
  std::thread([&] {
    give_back(blocks);
    there = take(100);
  }).join();
  CHECK(std::set<void*>(there.begin(), there.end()) == std::set<void*>(blocks.begin(), blocks.end()));
  give_back(there);
}

namespace {

// An object of a thread, made before the thread's cache: it goes after the cached blocks.
struct Late {
  std::vector<void*> blocks;
  ~Late() {
    give_back(blocks);
    give_back(take(3));
  }
};

}  // namespace

CASE(objects_of_a_thread_may_go_after_what_it_keeps) {
  std::thread([] {
    thread_local Late late;
    late.blocks = {};
    late.blocks = take(10);
    give_back(take(10));
  }).join();
}

CASE(shared_objects_are_made_there) {
  struct Thing {
    std::size_t words[40] = {1, 2, 3};
  };
  const auto make = [](auto make_one) {
    std::vector<std::shared_ptr<Thing>> things;
    for (int i = 0; i < 100; ++i) things.push_back(make_one());
    return things;
  };
  const auto kept = [] { return std::allocate_shared<Thing>(ThreadCache<Thing>()); };
  const auto addresses = [](const auto& things) {
    std::set<const Thing*> all;
    for (const auto& thing : things) all.insert(thing.get());
    return all;
  };
  const std::set<const Thing*> before = addresses(make(kept));
  const auto plain = make([] { return std::make_shared<Thing>(); });
  const auto again = make(kept);
  CHECK(again.back()->words[2] == 3 && again.back()->words[39] == 0);
  if (ThreadCache<Thing>::kKeeps) CHECK(addresses(again) == before);
  std::vector<int, ThreadCache<int>> many(5000, 7);  // not one object: plain memory
  CHECK(many.back() == 7);
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
