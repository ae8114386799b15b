#include "onstream/collective/enqueue/call_cache.hpp"

#include <bit>
#include <tuple>
#include <utility>

#include "onstream/collective/enqueue/compiled_call.hpp"

namespace onstream::collective {

namespace {

// A call that a few words and its counts say all of.
bool is_plain(const CollectiveCall& call) { return !call.combine && call.user_kernels == nullptr; }

auto counts_of(const CollectiveCall& call) {
  return std::tie(call.send_counts, call.send_offsets, call.receive_counts, call.receive_offsets);
}

}  // namespace

// The words of a plain call. Every member has its name here: a new one does not compile until somebody has thought of
// this.
CallCache::Words CallCache::words_of(const CollectiveCall& call) {
  const auto& [kind, input, output, count, type, op, factor, int_factor, root, combine, element_bytes, user_kernels,
               user_state, user_digest, stage_of, named, send_counts, send_offsets, receive_counts, receive_offsets,
               channel, algorithm, deterministic] = call;
  const auto word = [](auto value) { return static_cast<std::uint64_t>(value); };
  return {word(kind),
          reinterpret_cast<std::uint64_t>(input),
          reinterpret_cast<std::uint64_t>(output),
          word(count),
          word(type),
          word(op),
          std::bit_cast<std::uint64_t>(factor),
          word(int_factor),
          word(root),
          stage_of,
          word(named),
          word(channel),
          word(algorithm),
          word(deterministic)};
}

std::size_t CallCache::place_of(const Words& words, const Numbers& counts) {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // Fibonacci hashing: Knuth, TAOCP volume 3, 6.4
  std::uint64_t mixed = 0;
  for (const std::uint64_t word : words) mixed = std::rotl(mixed, 9) ^ word;
  for (const std::size_t count : counts) mixed = std::rotl(mixed, 9) ^ count;
  return mixed * kGolden >> (64 - std::bit_width(kEntries - 1));
}

const CompiledCall* CallCache::find(const CollectiveCall& call, const Device& device) {
  if (!is_plain(call)) return nullptr;
  const Words words = words_of(call);
  CacheEntry& entry = entries_[place_of(words, call.receive_counts)];
  if (entry.work == nullptr || entry.words != words || entry.counts != counts_of(call)) return nullptr;
  const std::uint64_t frees = device.frees();
  for (Looked& buffer : entry.buffers) {
    if (buffer.address == nullptr || (buffer.frees == frees && device.counts_frees_of(buffer.info))) continue;
    if (device.inspect(buffer.address) != buffer.info) return nullptr;
    buffer.frees = frees;
  }
  return entry.work.get();
}

void CallCache::keep(const CollectiveCall& call, const Buffers& buffers, std::shared_ptr<const CompiledCall> work) {
  if (!is_plain(call) || !work->reusable) return;
  const Words words = words_of(call);
  entries_[place_of(words, call.receive_counts)] = {words, counts_of(call), buffers, std::move(work)};
}

void CallCache::forget() noexcept { entries_ = {}; }

}  // namespace onstream::collective
