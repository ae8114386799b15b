// Converts floating point of 16 and 8 bits to floats, and sums of floats back: before and behind collectives of several
// kernels (stages.hpp), so that sums are rounded once.
//
// Waits for nobody; ordered by its stream alone.
#pragma once

#include "onstream/collective/protocol/packs.hpp"

namespace onstream::collective {

enum class Conversion : std::uint32_t { to_floats, to_results };

struct Convert {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t count = 0;
  ElementType type = ElementType::float16;  // the narrow one
  Conversion conversion = Conversion::to_floats;
  ReduceOp op = ReduceOp::sum;
  std::uint32_t ranks = 1;  // of an average
  Factor factor = 0;

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    switch (type) {
      case ElementType::float16: return run<RuleOf<ElementType::float16>::Rule>(group);
      case ElementType::bfloat16: return run<RuleOf<ElementType::bfloat16>::Rule>(group);
      case ElementType::float8_e4m3: return run<RuleOf<ElementType::float8_e4m3>::Rule>(group);
      case ElementType::float8_e5m2: return run<RuleOf<ElementType::float8_e5m2>::Rule>(group);
      default: return;
    }
  }

 private:
  template <class Rule, Group G>
  ONSTREAM_CALL void run(const G& group) const {
    constexpr int kBytes = kSerial<G> ? 1024 : 8;
    using Adding = Accumulator<Rule, kBytes>;
    using Floats = typename Adding::Unrounded;
    constexpr std::uint64_t kNarrow = sizeof(typename Rule::Element);
    constexpr std::uint64_t kTimes = sizeof(float) / kNarrow;
    const std::uint64_t bytes = count * kNarrow;
    const std::uint32_t access_width =
        access_width_of(reinterpret_cast<std::uint64_t>(conversion == Conversion::to_floats ? input : output));
    for (std::uint64_t at = first_of(group) * kBytes; at < bytes; at += step_of(group) * kBytes) {
      Adding values;
      if (conversion == Conversion::to_floats) {
        const Pack<kBytes> pack = load_pack<G, kBytes>(input + at, bytes - at, access_width);
        values.start(op == ReduceOp::premulsum ? Adding::scaled(pack, factor) : pack);
        store_pack<G, sizeof(Floats)>(output + kTimes * at, values.unrounded(), kTimes * (bytes - at), 16);
      } else {
        values.start_unrounded(load_pack<G, sizeof(Floats)>(input + kTimes * at, kTimes * (bytes - at), 16));
        store_pack<G, kBytes>(output + at, values.finish(op, ranks), bytes - at, access_width);
      }
    }
  }
};

}  // namespace onstream::collective
