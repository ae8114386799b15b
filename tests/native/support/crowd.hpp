// A grid whose blocks run at once and have several threads each, on the host: kernel bodies run as on a GPU, but where
// the sanitizers look. The threads of a block meet at barriers, and those of all ranks share the cores as they can.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "onstream/device.hpp"
#include "onstream/device/host/group.hpp"

namespace onstream::test {

// Threads that meet.
class Gathering {
 public:
  explicit Gathering(int threads) : votes_had_(static_cast<std::size_t>(threads)) {
    pthread_barrier_init(&barrier_, nullptr, static_cast<unsigned>(threads));
  }
  ~Gathering() { pthread_barrier_destroy(&barrier_); }
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

  void sync() { pthread_barrier_wait(&barrier_); }

  // Three urns by turns: one is voted in, one has been counted by all, and one, emptied now, is the next but one.
  bool sync_or(int rank, bool mine) {
    const std::size_t vote = votes_had_[static_cast<std::size_t>(rank)]++;
    if (mine) urns_[vote % 3].store(true, std::memory_order_relaxed);
    sync();
    const bool any = urns_[vote % 3].load(std::memory_order_relaxed);
    if (rank == 0) urns_[(vote + 2) % 3].store(false, std::memory_order_relaxed);
    return any;
  }

 private:
  pthread_barrier_t barrier_;
  std::array<std::atomic<bool>, 3> urns_ = {};
  std::vector<std::size_t> votes_had_;  // each thread's own count
};

// State that the threads of one block share. A last few threads form no subgroup.
struct CrowdBlock {
  static constexpr int kSubgroup = 8;
  static constexpr int kWarp = 32;
  static constexpr std::size_t kRoom = 16384;

  explicit CrowdBlock(int threads) : all(threads) {
    for (int i = 0; i < threads / kSubgroup; ++i) subgroups.emplace_back(kSubgroup);
    for (int i = 0; i < threads; i += kWarp) warps.emplace_back(std::min(kWarp, threads - i));
  }

  Gathering all;
  std::deque<Gathering> subgroups;
  std::deque<Gathering> warps;
  alignas(64) std::array<std::byte, kRoom> room;
};

class CrowdGroup : public HostGroup {
 public:
  static constexpr bool kCrossMemory = false;
  static constexpr bool kStoresInOrder = false;

  CrowdGroup(CrowdBlock& together, int rank, Grid grid, int block)
      : HostGroup(block, grid.blocks), together_(&together), rank_(rank), size_(grid.threads) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  void sync() const { together_->all.sync(); }
  bool sync_or(bool mine) const { return together_->all.sync_or(rank_, mine); }
  template <class Make>
  auto of_first(const Make& make) const {
    auto& room = shared<decltype(make())>();
    sync();
    if (rank_ == 0) room = make();
    sync();
    return room;
  }

  bool any_of_warp(bool mine) const {
    constexpr int kWarp = CrowdBlock::kWarp;
    return together_->warps.at(static_cast<std::size_t>(rank_ / kWarp)).sync_or(rank_ % kWarp, mine);
  }
  // As if in one access: the last word of the 128 bytes is the last to be stored, and the first to be loaded.
  void store_subgroup(Line* lines, Line mine) const {
    if (lane() != kLast) store_line(lines + lane(), mine);
    subgroup().sync();
    if (lane() == kLast) {  // its last word last
      store_relaxed(&lines[kLast].low, mine.low);
      store_release(&lines[kLast].high, mine.high);
    }
  }
  Line load_subgroup(const Line* lines) const {
    Line mine{};
    if (lane() == kLast) {  // its last word first
      mine.high = load_acquire(&lines[kLast].high);
      mine.low = load_relaxed(&lines[kLast].low);
    }
    subgroup().sync();
    if (lane() != kLast) mine = load_line(lines + lane());
    return mine;
  }
  template <class T>
  T& shared() const {
    static_assert(sizeof(T) <= CrowdBlock::kRoom && alignof(T) <= 64);
    return *reinterpret_cast<T*>(together_->room.data());
  }

  // There are thousands of threads to a core: a waiting one yields at once, and then sleeps longer each round, or those
  // that wait leave no time to those that move the data.
  static bool pause(std::uint32_t round, std::uint32_t) {
    constexpr std::uint32_t kYields = 4;
    constexpr std::uint32_t kLongestUs = 20'000;
    if (round < kYields) return HostGroup::pause(0, 0);
    std::this_thread::sleep_for(std::chrono::microseconds(std::min(50 * (round - kYields + 1), kLongestUs)));
    return true;
  }

  // Words by turns, as threads of a GPU copy.
  void copy(void* destination, const void* source, std::size_t bytes, std::uint32_t part, std::uint32_t parts) const {
    constexpr std::size_t kWord = 16;
    const std::size_t step = std::size_t{parts} * static_cast<std::size_t>(size_) * kWord;
    std::size_t at = (std::size_t{part} * static_cast<std::size_t>(size_) + static_cast<std::size_t>(rank_)) * kWord;
    for (; at < bytes; at += step) {
      std::memcpy(static_cast<std::byte*>(destination) + at, static_cast<const std::byte*>(source) + at,
                  std::min(kWord, bytes - at));
    }
  }
  void copy(void* destination, const void* source, std::size_t bytes) const {
    copy(destination, source, bytes, static_cast<std::uint32_t>(block()), static_cast<std::uint32_t>(blocks()));
  }
  void copy(const Flight&, void* destination, const void* source, std::size_t bytes, std::uint32_t part,
            std::uint32_t parts) const {
    copy(destination, source, bytes, part, parts);
  }
  void copy_alone(void* destination, const void* source, std::size_t bytes) const {
    copy(destination, source, bytes, 0, 1);
  }
  void copy_twice(void* destination, void* other, const void* source, std::size_t bytes) const {
    copy_alone(destination, source, bytes);
    copy_alone(other, source, bytes);
  }

 private:
  static constexpr int kLast = CrowdBlock::kSubgroup - 1;
  int lane() const { return rank_ % CrowdBlock::kSubgroup; }
  Gathering& subgroup() const {
    return together_->subgroups.at(static_cast<std::size_t>(rank_ / CrowdBlock::kSubgroup));
  }

  CrowdBlock* together_;
  int rank_;
  int size_;
};

static_assert(Group<CrowdGroup>);

// The launcher of a body, beside host_entry. Ends when all threads have.
template <class Body>
void crowd_entry(const void* body, Grid grid) {
  std::vector<std::unique_ptr<CrowdBlock>> blocks;
  std::vector<std::thread> threads;
  for (int block = 0; block < grid.blocks; ++block) {
    CrowdBlock* const together = blocks.emplace_back(std::make_unique<CrowdBlock>(grid.threads)).get();
    for (int rank = 0; rank < grid.threads; ++rank) {
      threads.emplace_back([=] {
        Body copy;
        std::memcpy(&copy, body, sizeof(Body));
        copy(CrowdGroup(*together, rank, grid, block));
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace onstream::test
