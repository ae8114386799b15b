#include "onstream/collective/network/reduce.hpp"

#include <bit>
#include <cstring>

#include "onstream/collective/element/per_type.hpp"
#include "onstream/collective/protocol/packs.hpp"
#include "onstream/device/host/group.hpp"

namespace onstream::collective {

namespace {

constexpr int kPack = 1024;

template <class Rule>
using Adding = Accumulator<Rule, kPack>;

template <class Rule>
Pack<kPack> load(const std::byte* from, std::size_t left) {
  return load_pack<HostGroup, kPack>(from, left, 1);
}

// Elements fill all of a pack but a last few bytes, which hold none.
template <class Rule, class Each>
void for_packs(std::size_t bytes, const Each& each) {
  constexpr std::size_t kStep = Adding<Rule>::kData;
  for (std::size_t at = 0; at < bytes; at += kStep) each(at, std::min(kStep, bytes - at));
}

// Whole packs are read where they lie.
template <class Rule>
void reduce_as(const CollectiveCall& call, std::byte* out, std::span<const std::byte* const> inputs, std::size_t bytes,
               int ranks) {
  for_packs<Rule>(bytes, [&](std::size_t at, std::size_t now) {
    Adding<Rule> sums;
    const auto each = [&](const auto& of) {
      sums.start(of(inputs[0] + at));
      for (std::size_t i = 1; i < inputs.size(); ++i) sums.take(call.op, of(inputs[i] + at));
    };
    if (now == Adding<Rule>::kData) {
      each([](const std::byte* in) { return in; });
    } else {
      each([&](const std::byte* in) { return load<Rule>(in, now); });
    }
    const Pack<kPack> result = sums.finish(call.op, static_cast<std::uint32_t>(ranks));
    std::memcpy(out + at, &result, now);
  });
}

template <class Rule>
void scale_as(std::byte* out, const std::byte* input, std::size_t bytes, Factor factor) {
  for_packs<Rule>(bytes, [&](std::size_t at, std::size_t now) {
    const Pack<kPack> result = Adding<Rule>::scaled(load<Rule>(input + at, now), factor);
    std::memcpy(out + at, &result, now);
  });
}

Factor factor_of(const CollectiveCall& call) {
  const bool whole = call.type <= ElementType::uint64;
  return whole ? static_cast<Factor>(call.int_factor) : std::bit_cast<Factor>(call.factor);
}

}  // namespace

void reduce_in_order(const CollectiveCall& call, std::byte* out, std::span<const std::byte* const> inputs,
                     std::size_t elements, int ranks) {
  using Reduce = void (*)(const CollectiveCall&, std::byte*, std::span<const std::byte* const>, std::size_t, int);
  static const auto kByType =
      per_type([](auto type) -> Reduce { return reduce_as<RuleNumber<decltype(type)::value>>; });
  kByType[static_cast<std::size_t>(call.type)](call, out, inputs, elements * size_of(call.type), ranks);
}

void scale(const CollectiveCall& call, std::byte* out, const std::byte* input, std::size_t elements) {
  using Scale = void (*)(std::byte*, const std::byte*, std::size_t, Factor);
  static const auto kByType = per_type([](auto type) -> Scale { return scale_as<RuleNumber<decltype(type)::value>>; });
  kByType[static_cast<std::size_t>(call.type)](out, input, elements * size_of(call.type), factor_of(call));
}

}  // namespace onstream::collective
