// Memory that threads keep for the next object of its size.
#include "onstream/base/thread_cache.hpp"

#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "check.hpp"

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

CASE(what_a_thread_lets_go_it_takes_next) {
  void* const first = Blocks::take();
  void* const second = Blocks::take();
  CHECK(first != second);
  Blocks::give_back(first);
  CHECK(Blocks::take() == first);
  Blocks::give_back(second);
  Blocks::give_back(first);
  CHECK(Blocks::take() == first);
  CHECK(Blocks::take() == second);
  give_back({first, second});
}

// The address sanitizer sees what would be lost, or given back twice.
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

// Of a thread, and made before it keeps anything: it goes after what the thread keeps.
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
  const Thing* before = nullptr;
  for (int round = 0; round < 3; ++round) {
    const auto thing = std::allocate_shared<Thing>(ThreadCache<Thing>());
    CHECK(thing->words[2] == 3 && thing->words[39] == 0);
#ifndef __SANITIZE_ADDRESS__
    if (round > 0) CHECK(thing.get() == before);
#endif
    before = thing.get();
  }
  std::vector<int, ThreadCache<int>> many(5000, 7);  // not one object: plain memory
  CHECK(many.back() == 7);
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
