#include "onstream/collective/call/stages.hpp"

#include "onstream/base/error.hpp"

namespace onstream::collective {

std::vector<int> Groups::within() const {
  std::vector<int> ranks;
  for (int i = 0; i < size_of_group(group); ++i) ranks.push_back(group * each + i);
  return ranks;
}

std::vector<int> Groups::across() const {
  if (!even() && index != 0) return {rank};
  std::vector<int> ranks;
  for (int number = 0; number < count(); ++number) ranks.push_back(number * each + index);
  return ranks;
}

namespace {

// Writes down the stages of one call.
class Staging {
 public:
  Staging(const CollectiveCall& call, const Groups& groups, std::byte* scratch)
      : call_(call), groups_(groups), scratch_(scratch), item_(size_of(call.type)), count_(call.count) {
    first_op_ = call.op;
    then_op_ = call.op == ReduceOp::premulsum ? ReduceOp::sum : call.op;  // inputs are multiplied once
  }

  std::vector<Stage> take() { return std::move(stages_); }

  void all_reduce() {
    if (!groups_.even()) {
      within(of(OpKind::reduce, call_.input, call_.output, count_, first_op_));
      if (leads()) across(of(OpKind::all_reduce, call_.output, call_.output, count_, then_op_));
      return within(of(OpKind::broadcast, call_.output, call_.output, count_));
    }
    const std::size_t ranks = static_cast<std::size_t>(groups_.each);
    const std::size_t part = count_ / ranks;
    const std::size_t dealt = part * ranks;
    if (part > 0) {
      void* const mine = out(part * index());
      within(of(OpKind::reduce_scatter, call_.input, mine, part, first_op_));
      across(of(OpKind::all_reduce, mine, mine, part, then_op_));
      within(of(OpKind::all_gather, mine, call_.output, part));
    }
    if (dealt == count_) return;
    within(of(OpKind::all_reduce, in(dealt), out(dealt), count_ - dealt, first_op_));
    across(of(OpKind::all_reduce, out(dealt), out(dealt), count_ - dealt, then_op_));
  }

  // The root sends to its equals, then each group broadcasts; with uneven groups the root sends to its leader first.
  void broadcast() {
    const bool is_root = groups_.rank == call_.root;
    if (groups_.even()) {
      const void* const from = is_root ? call_.input : call_.output;
      if (groups_.index == index_of_root()) {
        across(rooted(of(OpKind::broadcast, from, call_.output, count_), group_of_root()));
      }
      return within(rooted(of(OpKind::broadcast, call_.output, call_.output, count_), index_of_root()));
    }
    const bool with_root = groups_.group == group_of_root();
    if (with_root) within(rooted(of(OpKind::broadcast, call_.input, call_.output, count_), index_of_root()));
    if (leads()) across(rooted(of(OpKind::broadcast, call_.output, call_.output, count_), group_of_root()));
    if (!with_root) within(of(OpKind::broadcast, call_.output, call_.output, count_));
  }

  // Back the same way.
  void reduce() {
    void* const sums = groups_.rank == call_.root ? call_.output : scratch_;
    if (groups_.even()) {
      within(rooted(of(OpKind::reduce, call_.input, sums, count_, first_op_), index_of_root()));
      if (groups_.index != index_of_root()) return;
      return across(rooted(of(OpKind::reduce, sums, sums, count_, then_op_), group_of_root()));
    }
    within(of(OpKind::reduce, call_.input, sums, count_, first_op_));
    if (leads()) across(rooted(of(OpKind::reduce, sums, sums, count_, then_op_), group_of_root()));
    if (groups_.group != group_of_root() || index_of_root() == 0) return;
    within(of(OpKind::broadcast, sums, sums, count_));
  }

  void all_gather() {
    if (!groups_.even()) {
      void* const group = out(count_ * static_cast<std::size_t>(groups_.group * groups_.each));
      within(of(OpKind::all_gather, call_.input, group, count_));
      if (leads()) {
        across(every(group, count_ * static_cast<std::size_t>(groups_.size_of_group(groups_.group)), 0));
      }
      return within(of(OpKind::broadcast, call_.output, call_.output, count_ * static_cast<std::size_t>(groups_.size)));
    }
    across(every(call_.input, count_, count_ * index()));
    for (int number = 0; number < groups_.count(); ++number) {
      const std::size_t begin = count_ * static_cast<std::size_t>(number * groups_.each);
      within(of(OpKind::all_gather, out(begin + count_ * index()), out(begin), count_));
    }
  }

  void reduce_scatter() {
    const std::size_t all = count_ * static_cast<std::size_t>(groups_.size);
    if (!groups_.even()) {
      within(of(OpKind::reduce, call_.input, scratch_, all, first_op_));
      if (leads()) across(of(OpKind::all_reduce, scratch_, scratch_, all, then_op_));
      const std::size_t begin = count_ * static_cast<std::size_t>(groups_.group * groups_.each);
      return within(of(OpKind::scatter, at(scratch_, begin), call_.output, count_));
    }
    for (int number = 0; number < groups_.count(); ++number) {
      const std::size_t begin = count_ * static_cast<std::size_t>(number * groups_.each);
      void* const sums = at(scratch_, count_ * static_cast<std::size_t>(number));
      within(of(OpKind::reduce_scatter, in(begin), sums, count_, first_op_));
    }
    across(of(OpKind::reduce_scatter, scratch_, call_.output, count_, then_op_));
  }

  void barrier() {
    within(of(OpKind::barrier, nullptr, nullptr, 0));
    if (groups_.even() || leads()) across(of(OpKind::barrier, nullptr, nullptr, 0));
    if (!groups_.even()) within(of(OpKind::barrier, nullptr, nullptr, 0));
  }

 private:
  bool leads() const { return groups_.index == 0; }
  std::size_t index() const { return static_cast<std::size_t>(groups_.index); }
  int group_of_root() const { return call_.root / groups_.each; }
  int index_of_root() const { return call_.root % groups_.each; }

  // So many elements on; nowhere where there is no buffer.
  template <class Pointer>
  Pointer* at(Pointer* begin, std::size_t elements) const {
    using Byte = std::conditional_t<std::is_const_v<Pointer>, const std::byte, std::byte>;
    return begin == nullptr ? nullptr : static_cast<Byte*>(begin) + elements * item_;
  }
  const void* in(std::size_t elements) const { return at(call_.input, elements); }
  void* out(std::size_t elements) const { return at(call_.output, elements); }

  CollectiveCall of(OpKind kind, const void* input, void* output, std::size_t count,
                    ReduceOp op = ReduceOp::sum) const {
    CollectiveCall call;
    call.kind = kind;
    call.input = input;
    call.output = output;
    call.count = count;
    call.type = call_.type;
    call.op = op;
    call.factor = call_.factor;
    call.int_factor = call_.int_factor;
    call.channel = call_.channel;
    return call;
  }
  static CollectiveCall rooted(CollectiveCall call, int root) {
    call.root = root;
    return call;
  }
  // One rank of each group gives its data to all of them: this rank `count` elements; those of group g lie `skip`
  // elements behind the place of its first rank.
  CollectiveCall every(const void* input, std::size_t count, std::size_t skip) const {
    CollectiveCall call = of(OpKind::all_gather_v, input, call_.output, count);
    for (int number = 0; number < groups_.count(); ++number) {
      const bool whole = !groups_.even();
      const int ranks = whole ? groups_.size_of_group(number) : 1;
      call.receive_counts.push_back(count_ * static_cast<std::size_t>(ranks));
      call.receive_offsets.push_back(skip + count_ * static_cast<std::size_t>(number * groups_.each));
    }
    return call;
  }
  void within(CollectiveCall call) { stages_.push_back({Among::group, std::move(call)}); }
  void across(CollectiveCall call) { stages_.push_back({Among::across, std::move(call)}); }

  const CollectiveCall& call_;
  const Groups& groups_;
  std::byte* scratch_;
  std::size_t item_;
  std::size_t count_;
  ReduceOp first_op_;
  ReduceOp then_op_;
  std::vector<Stage> stages_;
};

bool is_whole(ElementType type) { return type <= ElementType::uint64; }

}  // namespace

std::vector<Stage> stages_of(const CollectiveCall& call, const Groups& groups, std::byte* scratch) {
  Staging staging(call, groups, scratch);
  switch (call.kind) {
    case OpKind::all_reduce: staging.all_reduce(); break;
    case OpKind::broadcast: staging.broadcast(); break;
    case OpKind::reduce: staging.reduce(); break;
    case OpKind::all_gather: staging.all_gather(); break;
    case OpKind::reduce_scatter: staging.reduce_scatter(); break;
    case OpKind::barrier: staging.barrier(); break;
    default: fail(ErrorCode::invalid_argument, name_of(call.kind), " has no stages");
  }
  return staging.take();
}

CollectiveCall in_sums(const CollectiveCall& call, std::byte* sums) {
  if (!has_op(call.kind) || type_of_sums(call.type, call.op) == call.type) return call;
  CollectiveCall out = call;
  out.type = type_of_sums(call.type, call.op);
  out.input = out.output = sums;
  if (call.op != ReduceOp::prod) out.op = ReduceOp::sum;  // multiplied before, divided behind
  return out;
}

std::size_t sums_bytes(const CollectiveCall& call, const Groups& groups) {
  const CollectiveCall sums = in_sums(call, nullptr);
  constexpr std::size_t kGrain = 256;
  if (sums.type == call.type) return 0;
  return (sums.input_bytes(groups.rank, groups.size) + kGrain - 1) / kGrain * kGrain;
}

std::size_t scratch_bytes(const CollectiveCall& call, const Groups& groups) {
  const std::size_t one = call.count * size_of(call.type);
  if (call.kind == OpKind::reduce) return one;
  if (call.kind != OpKind::reduce_scatter) return 0;
  return one * static_cast<std::size_t>(groups.even() ? groups.count() : groups.size);
}

std::string stages_why_not(const CollectiveCall& call, int size, int each) {
  switch (call.kind) {
    case OpKind::all_reduce:
    case OpKind::broadcast:
    case OpKind::reduce:
    case OpKind::all_gather:
    case OpKind::reduce_scatter:
    case OpKind::barrier: break;
    default: return "it is for all_reduce, reduce, broadcast, all_gather, reduce_scatter and barrier";
  }
  if (each == 0) return "all ranks are of one host, which is one group; collective_group makes groups of so many ranks";
  if (each == 1 || each >= size) {
    return concat("groups of ", each, " (collective_group) divide no team of ", size, " ranks");
  }
  if (!has_op(call.kind) || call.op != ReduceOp::avg) return "";
  if (is_whole(call.type)) return "an average of whole numbers would be rounded twice";
  return size % each == 0 ? "" : "in an average of averages groups of different sizes would count alike";
}

}  // namespace onstream::collective
