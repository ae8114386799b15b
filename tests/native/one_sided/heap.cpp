// The symmetric heap: pieces of a range by first fit, the same on every rank, with clear errors for ranks that differ.
#include "onstream/one_sided.hpp"
#include "onstream/one_sided/host/first_fit.hpp"
#include "onstream/symmetric.hpp"

#include <cstring>
#include <random>

#include "support/check.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

std::vector<unsigned char> read(World& world, const void* from, std::size_t bytes) {
  std::vector<unsigned char> values(bytes);
  world.one_sided().copy(values.data(), from, bytes);
  return values;
}

}  // namespace

CASE(the_lowest_piece_that_fits_is_taken_and_free_neighbours_become_one) {
  FirstFit room(1024);
  CHECK(room.allocate(100) == 0u && room.allocate(16) == 112u && room.allocate(200) == 128u);
  CHECK(room.pieces() == 3 && room.used() == 112 + 16 + 208);
  CHECK(room.free(0) && room.free(112));
  CHECK(room.allocate(128) == 0u);  // both at once
  CHECK(room.free(0) && room.free(128));
  CHECK(room.largest_free() == 1024 && room.used() == 0);
}

CASE(pieces_are_aligned_and_what_is_skipped_stays_free) {
  FirstFit room(1024);
  CHECK(room.allocate(1) == 0u);
  CHECK(room.allocate(8, 256) == 256u);
  CHECK(room.allocate(200) == 16u);
  CHECK(room.allocate(1024) == std::nullopt && room.allocate(~std::size_t{0}) == std::nullopt);
  CHECK(room.allocate(0) == 224u && room.allocate(0) == 240u);  // every piece has an offset of its own
}

CASE(a_piece_grows_into_free_room_behind_it_and_shrinks_in_place) {
  FirstFit room(256);
  CHECK(room.allocate(64) == 0u && room.allocate(64) == 64u);
  CHECK(!room.resize(0, 65) && room.bytes_at(0) == 64u);
  CHECK(room.resize(64, 192) && room.largest_free() == 0);
  CHECK(room.resize(64, 10) && room.bytes_at(64) == 10u && room.largest_free() == 176);
  CHECK(!room.resize(1, 8) && !room.free(1) && room.bytes_at(1) == std::nullopt);
}

CASE(random_calls_never_give_two_pieces_one_byte_and_lose_none) {
  constexpr std::size_t kBytes = 1 << 14;
  FirstFit room(kBytes);
  std::vector<int> owner(kBytes, -1);
  std::vector<std::pair<std::size_t, std::size_t>> pieces;
  std::mt19937 random(7);
  for (int step = 0; step < 5000; ++step) {
    if (pieces.empty() || random() % 2 == 0) {
      const std::size_t bytes = random() % 700;
      const std::size_t alignment = std::size_t{16} << random() % 5;
      const auto offset = room.allocate(bytes, alignment);
      if (!offset) continue;
      CHECK(*offset % alignment == 0 && *offset + bytes <= kBytes);
      for (std::size_t i = 0; i < bytes; ++i) {
        CHECK(owner[*offset + i] == -1);
        owner[*offset + i] = step;
      }
      pieces.emplace_back(*offset, bytes);
    } else {
      const std::size_t k = random() % pieces.size();
      const auto [offset, bytes] = pieces[k];
      for (std::size_t i = 0; i < bytes; ++i) owner[offset + i] = -1;
      CHECK(room.free(offset));
      pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }
  for (const auto& [offset, bytes] : pieces) CHECK(room.free(offset));
  CHECK(room.used() == 0 && room.largest_free() == kBytes);
}

CASE(pieces_lie_at_the_same_place_on_every_rank) {
  for (int size = 1; size <= 5; ++size) {
    on_all_devices(size, [](World& world) {
      Heap heap(world.one_sided(), {1 << 16, 0, MemoryKind::device});
      const int next = (world.rank() + 1) % world.size();
      void* const first = heap.allocate(1000);
      void* const second = heap.allocate(8, 4096);
      CHECK(reinterpret_cast<std::uintptr_t>(second) % 4096 == 0);
      for (void* const mine : {first, second}) {
        const auto word = static_cast<std::uint64_t>(world.rank() + 1);
        world.one_sided().copy(heap.peer(mine, next), &word, sizeof word);
        world.barrier();
        std::uint64_t got = 0;
        world.one_sided().copy(&got, mine, sizeof got);
        CHECK(got == static_cast<std::uint64_t>((world.rank() + world.size() - 1) % world.size() + 1));
      }
      const auto place = heap.place(static_cast<std::byte*>(second) + 3);
      CHECK(place && place->offset == 4096 + 3 && place->left == (1 << 16) - 4096 - 3);
      CHECK(!heap.place(&heap) && heap.bytes_at(first) == 1000u);
      heap.free(first);
      heap.free(nullptr);
      CHECK(heap.pieces() == 1);
      heap.close();
    });
  }
}

CASE(pieces_have_any_alignment_that_the_parts_of_all_ranks_have) {
  on_all_devices(3, [](World& world) {
    constexpr std::size_t kMiB = std::size_t{1} << 20;
    const auto is_at = [](const void* piece, std::size_t alignment) {
      return reinterpret_cast<std::uintptr_t>(piece) % alignment == 0;
    };
    for (const MemoryKind kind : {MemoryKind::device, MemoryKind::pinned}) {
      Heap heap(world.one_sided(), {8 * kMiB, 0, kind});
      (void)heap.allocate(100);
      for (std::size_t alignment = 64; alignment <= 4 * kMiB; alignment *= 2) {
        void* const piece = heap.allocate(64, alignment);
        CHECK(is_at(piece, alignment));
        heap.free(piece);
      }
      CHECK(heap.full_for(64, 8 * kMiB));
      CHECK_THROWS((void)heap.allocate(64, 8 * kMiB), "no room for 64 B aligned to 8388608");
      CHECK_THROWS((void)heap.allocate(64, std::size_t{1} << 62), "B, because the parts of all ranks begin there");
      heap.close();
    }
    Heap growing(world.one_sided(), {2 * kMiB, 4096, MemoryKind::pinned});
    (void)growing.allocate(100);
    CHECK(is_at(growing.allocate(64, 2 * kMiB), 2 * kMiB) && growing.bytes() == 4 * kMiB);
    CHECK(!growing.full_for(64, 4 * kMiB) && is_at(growing.allocate(64, 4 * kMiB), 4 * kMiB));
    CHECK(growing.bytes() == 8 * kMiB && growing.full_for(64, std::size_t{1} << 40));
    CHECK_THROWS((void)growing.allocate(64, std::size_t{1} << 40), "the largest is 4194304 B");
    CHECK(growing.bytes() == 8 * kMiB);
    world.barrier();
    growing.close();
    CHECK(growing.full_for(1));
    CHECK_THROWS((void)growing.allocate(1), "it was closed");
  });
}

CASE(zeroed_pieces_are_zero_though_used_before_and_moved_pieces_keep_what_they_hold) {
  on_all_devices(2, [](World& world) {
    Heap heap(world.one_sided(), {1 << 16, 0, MemoryKind::device});
    const std::vector<unsigned char> values = pattern(500, 3);
    void* const first = heap.allocate(500);
    world.one_sided().copy(first, values.data(), 500);
    CHECK(read(world, first, 500) == values);
    void* const behind = heap.allocate(16);
    void* const moved = heap.reallocate(first, 5000);  // `behind` is in the way
    CHECK(moved != first && heap.bytes_at(moved) == 5000u && heap.bytes_at(first) == std::nullopt);
    std::vector<unsigned char> got = read(world, moved, 500);
    CHECK(got == values);
    CHECK(heap.allocate_zeroed(500) == first);
    CHECK(read(world, first, 500) == std::vector<unsigned char>(500));
    CHECK(heap.reallocate(moved, 40) == moved && heap.reallocate(nullptr, 8) != nullptr);
    heap.free(behind);
    world.barrier();
  });
}

CASE(a_heap_grows_by_segments_or_says_how_full_it_is) {
  on_all_devices(2, [](World& world) {
    Heap fixed(world.one_sided(), {8192, 0, MemoryKind::pinned});
    CHECK(fixed.full_for(8193) && !fixed.full_for(8192));
    (void)fixed.allocate(4096);
    CHECK_THROWS((void)fixed.allocate(5000), "no room for 5000 B aligned to 64: 4096 of 8192 B are used");
    CHECK_THROWS((void)fixed.allocate(1, 3), "power of two, not 3");
    CHECK_THROWS((void)fixed.allocate(1, std::size_t{1} << 40), "an alignment of 1099511627776 B; the largest is ");
    Heap growing(world.one_sided(), {8192, 16384, MemoryKind::pinned});
    void* const small = growing.allocate(8000);
    void* const large = growing.allocate(100'000);
    void* const further = growing.allocate(8000);
    CHECK(growing.segments().size() == 3 && growing.bytes() == 8192 + 102'400 + 16384);
    std::memset(large, 1, 100'000);
    CHECK(growing.place(large)->segment == growing.segments()[1]);
    for (void* const piece : {small, large, further}) growing.free(piece);
    CHECK(growing.used() == 0 && growing.pieces() == 0);
    world.barrier();
  });
}

// Within a page of the largest number, where whole pages have no number any more.
CASE(a_heap_that_may_grow_has_no_room_for_more_than_any_memory_has) {
  on_all_devices(2, [](World& world) {
    Heap heap(world.one_sided(), {8192, 8192, MemoryKind::pinned});
    void* const piece = heap.allocate(100);
    for (const std::size_t less : {std::size_t{0}, std::size_t{1}, Heap::kPageBytes - 2}) {
      const std::size_t huge = ~std::size_t{0} - less;
      const std::string says = concat("heap: no room for ", huge, " B aligned to 64: 112 of 8192 B are used");
      CHECK(heap.full_for(huge));
      CHECK_THROWS((void)heap.allocate(huge), says);
      CHECK_THROWS((void)heap.allocate_zeroed(huge), says);
      CHECK_THROWS((void)heap.reallocate(piece, huge), says);
      CHECK_THROWS(Heap(world.one_sided(), {huge, 0, MemoryKind::pinned}), concat("no memory has ", huge, " B"));
    }
    CHECK(!heap.full_for(8193) && heap.segments().size() == 1 && heap.pieces() == 1);
    (void)heap.allocate(8193);
    CHECK(heap.segments().size() == 2);
    world.barrier();
  });
}

CASE(a_rank_that_asks_for_something_else_is_named_by_all) {
  on_all_devices(3, [](World& world) {
    Heap heap(world.one_sided(), {1 << 16, 0, MemoryKind::pinned});
    const bool odd = world.rank() == 1;
    CHECK_THROWS((void)heap.allocate(odd ? 65 : 64), "rank 0 calls allocate(64, 64) and rank 1 calls allocate(65, 64)");
    void* const a = heap.allocate(64);
    void* const b = heap.allocate(64);
    CHECK_THROWS(heap.free(odd ? b : a), "rank 1 calls free(offset 64 of its segment 0)");
    CHECK(heap.pieces() == 2);
    CHECK_THROWS(heap.free(&heap), "no piece of this heap");
    heap.free(a);
    CHECK_THROWS(heap.free(a), "was freed before");
    world.barrier();
  });
}

CASE(zeroed_pieces_that_ranks_ask_for_differently_are_claimed_by_none) {
  on_all_devices(3, [](World& world) {
    const bool odd = world.rank() == 1;
    Heap heap(world.one_sided(), {4096, 4096, MemoryKind::pinned});
    CHECK_THROWS((void)heap.allocate_zeroed(odd ? 1000 : 100),
                 "rank 0 calls allocate_zeroed(100, 64) and rank 1 calls allocate_zeroed(1000, 64)");
    // One rank alone would have to grow, or have no room.
    for (const std::size_t large : {std::size_t{8192}, std::size_t{1} << 62}) {
      CHECK_THROWS((void)heap.allocate_zeroed(odd ? large : 100), "rank 1 calls allocate_zeroed(");
    }
    CHECK(heap.pieces() == 0 && heap.segments().size() == 1);
    const auto place = heap.place(heap.allocate_zeroed(8));
    CHECK(place && place->offset == 0);
    void* const grown = heap.allocate_zeroed(8192);
    CHECK(heap.segments().size() == 2 && grown == heap.segments()[1]->local());
    world.barrier();
  });
}

CASE(without_the_check_calls_are_local_and_agree_all_the_same) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.heap_check = "off";
    run_ranks(2, parameters, [](World& world) {
      Heap heap(world.one_sided(), {1 << 16, 0, MemoryKind::pinned});
      auto* const word = static_cast<std::uint64_t*>(heap.allocate_zeroed(8));
      world.barrier();
      if (world.rank() == 0) *reinterpret_cast<std::uint64_t*>(heap.peer(word, 1)) = 5;
      world.barrier();
      CHECK(*word == (world.rank() == 0 ? 0u : 5u));
      heap.free(word);
    });
  }
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
