// CallCache: the compiled calls of the newest calls of a channel or a neighbourhood. A solver asks for the same
// reductions and exchanges again and again; the cache skips their checks, choice and preparation. It looks again only
// at the memory at their addresses, as memory comes and goes.
//
// It serves calls by LL lines, which ask no peer for its addresses. Plain host memory that a call has had is not looked
// at again: that would take a call of the system. Not thread-safe: the caller holds the channel's order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "onstream/collective/call/call.hpp"
#include "onstream/device.hpp"

namespace onstream::collective {

struct CompiledCall;

// A call's input and output, as its check found them.
struct Looked {
  const void* address = nullptr;  // null: it does not matter on this rank
  MemoryInfo info;
  std::uint64_t frees = 0;  // Device::frees() before that
};
using Buffers = std::array<Looked, 2>;

class CallCache {
 public:
  // Null: the call is not among them, or memory of the library's or of a GPU's that it had was freed. Until the next
  // keep() or forget().
  const CompiledCall* find(const CollectiveCall& call, const Device& device);
  // Keeps `work` in place of an older entry, or does nothing if such work is not kept.
  void keep(const CollectiveCall& call, const Buffers& buffers, std::shared_ptr<const CompiledCall> work);
  // Forgets all entries: their work is out of date, as the channel's view or its blocks have changed.
  void forget() noexcept;

 private:
  static constexpr std::size_t kWords = 14;
  using Words = std::array<std::uint64_t, kWords>;  // all that tells calls apart, beside their counts
  using Numbers = std::vector<std::size_t>;
  using Counts = std::tuple<Numbers, Numbers, Numbers, Numbers>;  // to send, from where, to receive, and to where
  struct CacheEntry {
    Words words{};
    Counts counts;
    Buffers buffers;
    std::shared_ptr<const CompiledCall> work;
  };
  static constexpr std::size_t kEntries = 16;

  static Words words_of(const CollectiveCall& call);
  static std::size_t place_of(const Words& words, const Numbers& counts);

  std::array<CacheEntry, kEntries> entries_;  // each call has one place
};

}  // namespace onstream::collective
