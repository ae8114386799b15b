// Reductions around a ring (ring.hpp): all_reduce and reduce_scatter. A part begins at one rank, each next one adds its
// own to it, and the last has the sum; all_reduce then passes the sums on round the ring.
//
// A part is added up in the order in which it comes round, and its partial sums are of its own type. So sums of floats
// have other bits than those that rules.hpp adds in the order of the ranks. They are the same on every rank, but depend
// on how the data is cut. all_reduce from buffer to buffer keeps the partial sums in its output; otherwise they lie in
// the stage.
#pragma once

#include "onstream/collective/ring.hpp"

namespace onstream::collective {

template <class Rule>
struct RingReduce : RingWork {
  ReduceOp op = ReduceOp::sum;
  Factor factor = 0;

  template <class Group>
  ONSTREAM_BODY void operator()(const Group& group) const {
    Session<Group> session(group, view, {kind, bytes});
    Meeting<Group> meeting(group, view, session);
    if (!session.failed() && meeting.open(Addresses{*this}, factor, signature, direct != 0)) {
      run(group, session, meeting);
    }
    session.end(Session<Group>::Hears::everyone);
  }

 private:
  enum class Sum { partial, whole };

  // One step of one piece: `from`, and `add` to it (null: nothing), to `keep`, and `also` (null: nowhere).
  struct Terms {
    const std::byte* from = nullptr;
    const std::byte* add = nullptr;
    std::byte* keep = nullptr;
    std::byte* also = nullptr;
    std::uint64_t bytes = 0;
    std::uint32_t owner = 0;  // of `from`, where that is somebody's own input
    bool is_input = false;
    Sum sum = Sum::partial;
  };

  template <class Group>
  ONSTREAM_BODY void run(const Group& group, Session<Group>& session, const Meeting<Group>& meeting) const {
    const bool scatters = kind == OpKind::reduce_scatter;
    const bool staged = scatters || !meeting.direct();
    const Cut cut = this->cut(group, staged);
    const std::uint32_t sums = view.size - 1;  // the step that has the whole sum
    const std::uint32_t last = scatters ? sums : 2 * sums;
    for (std::uint64_t window = group.block(); window < cut.windows; window += group.blocks()) {
      for (std::uint32_t step = staged || last == 0 ? 0 : 1; step <= last; ++step) {
        for (int i = 0; i < 2; ++i) {
          const auto way = static_cast<Way>(i);
          const Span span = this->span(cut, window, way, back(way, scatters ? step + 1 : step));
          if (span.bytes == 0) continue;
          std::byte* const result = output + (scatters ? span.within : span.offset);
          Terms terms;
          terms.bytes = span.bytes;
          terms.from = source(group, meeting, cut, span, way, step, staged);
          terms.owner = step == 0 ? view.rank : source_of(way);
          terms.is_input = step == 0 || (step == 1 && !staged);
          if (step > 0 && step <= sums) terms.add = input + span.offset;
          terms.sum = step == sums ? Sum::whole : Sum::partial;
          if (!staged || step >= sums) terms.keep = result;
          if (staged && step < last) terms.also = place(group, meeting, cut, view.rank, way, step);
          combine(group, meeting, terms);
        }
        if (!session.meet(neighbours())) return;
      }
    }
  }

  template <class Group>
  ONSTREAM_BODY const std::byte* source(const Group& group, const Meeting<Group>& meeting, const Cut& cut,
                                        const Span& span, Way way, std::uint32_t step, bool staged) const {
    if (step == 0) return input + span.offset;
    const std::uint32_t from = source_of(way);
    if (staged) return place(group, meeting, cut, from, way, step - 1);
    const PostLine which = step == 1 ? PostLine::input : PostLine::output;
    return reinterpret_cast<const std::byte*>(meeting.posted(from, which)) + span.offset;
  }

  template <class Group>
  ONSTREAM_CALL void combine(const Group& group, const Meeting<Group>& meeting, const Terms& terms) const {
    const bool scales = op == ReduceOp::premulsum;
    if (terms.add == nullptr && terms.sum == Sum::partial && !(scales && terms.is_input)) {
      if (terms.keep != nullptr) group.copy_alone(terms.keep, terms.from, terms.bytes);
      if (terms.also != nullptr) group.copy_alone(terms.also, terms.from, terms.bytes);
      return;
    }
    Factor theirs = factor;
    if (scales && terms.owner != view.rank) theirs = meeting.posted(terms.owner, PostLine::factor);
    constexpr int kBytes = kSerial<Group> ? 1024 : 16;
    constexpr int kPacks = kSerial<Group> ? 1 : 2;  // under way in a thread
    using Adding = Accumulator<Rule, kBytes>;
    const auto number = [](const void* address) { return reinterpret_cast<std::uint64_t>(address); };
    const std::uint32_t grain =
        grain_of(number(terms.from) | number(terms.add) | number(terms.keep) | number(terms.also));
    const std::uint64_t packs = (terms.bytes + kBytes - 1) / kBytes;
    const auto step = static_cast<std::uint64_t>(group.size());
    for (std::uint64_t index = group.rank(); index < packs; index += kPacks * step) {
      Pack<kBytes> from[kPacks];
      Pack<kBytes> add[kPacks];
      ONSTREAM_UNROLL
      for (int p = 0; p < kPacks; ++p) {
        const std::uint64_t place = (index + p * step) * kBytes;
        if (place >= terms.bytes) break;
        from[p] = load_pack<Group, kBytes>(terms.from + place, terms.bytes - place, grain);
        if (terms.add != nullptr) {
          add[p] = load_pack<Group, kBytes>(terms.add + place, terms.bytes - place, grain);
        }
      }
      ONSTREAM_UNROLL
      for (int p = 0; p < kPacks; ++p) {
        const std::uint64_t place = (index + p * step) * kBytes;
        if (place >= terms.bytes) break;
        if (scales && terms.is_input) from[p] = Adding::scaled(from[p], theirs);
        if (scales && terms.add != nullptr) add[p] = Adding::scaled(add[p], factor);
        Adding sum;
        sum.start(from[p]);
        if (terms.add != nullptr) sum.take(op, add[p]);
        const Pack<kBytes> result = sum.finish(terms.sum == Sum::whole ? op : ReduceOp::sum, view.size);
        if (terms.keep != nullptr) store_pack<Group, kBytes>(terms.keep + place, result, terms.bytes - place, grain);
        if (terms.also != nullptr) store_pack<Group, kBytes>(terms.also + place, result, terms.bytes - place, grain);
      }
    }
  }
};

}  // namespace onstream::collective
