#include "onstream/collective/compile/user_reduction.hpp"

#include <cstring>
#include <exception>
#include <string>

#include "onstream/base/error.hpp"

namespace onstream::collective {

namespace {

struct ReduceUser {
  const ChannelState* state = nullptr;
  const UserReduction* reduction = nullptr;

  void operator()(const HostGroup& group) const {
    // After a move that failed there is nothing whole to reduce.
    if (group.load_relaxed(&state->epochs[0].failed) == 0) reduction->reduce();
  }
};

const Kernel& reduce_user_kernel() {
  static const Kernel kernel{"collective_reduce_own", host_entry<ReduceUser>, nullptr};
  return kernel;
}

}  // namespace

CollectiveCall UserReduction::in_bytes(const CollectiveCall& call) {
  CollectiveCall bytes = call;
  bytes.combine = nullptr;
  bytes.count = bytes_of(call.kind, call.count, call.element_bytes);
  bytes.type = ElementType::uint8;
  bytes.op = ReduceOp::sum;
  return bytes;
}

CollectiveCall UserReduction::move_of(const CollectiveCall& call) {
  CollectiveCall move = in_bytes(call);
  move.kind = OpKind::all_gather;
  if (call.kind == OpKind::reduce) move.kind = OpKind::gather;
  if (call.kind == OpKind::reduce_scatter) move.kind = OpKind::all_to_all;
  move.named = call.kind;
  move.output = nullptr;
  return move;
}

void UserReduction::check(const CollectiveCall& call, DeviceKind device) {
  require(device == DeviceKind::host, name_of(call.kind),
          ": a reduction by a function works on the host device; on cuda there are functors (reduced_with), and sum, "
          "prod, min, max and the others");
  require(has_op(call.kind), name_of(call.kind), " reduces nothing, so it takes no reduction of your own");
  require(call.element_bytes > 0, name_of(call.kind), ": elements of 0 bytes cannot be reduced");
  require(call.algorithm != Algorithm::two_shot, name_of(call.kind),
          ": algorithm two_shot cannot: it has no reduction of your own");
}

UserReduction::UserReduction(const std::shared_ptr<Fabric>& fabric, ScratchPool& spares, const CollectiveCall& call,
                             int rank, int size)
    : fabric_(fabric),
      combine_(call.combine),
      rank_(rank),
      count_(call.count),
      bytes_(call.count * call.element_bytes),
      output_(static_cast<std::byte*>(call.output)),
      move_(move_of(call)) {
  const bool gets = call.kind != OpKind::reduce || rank == call.root;
  ranks_ = static_cast<std::size_t>(size);
  if (call.kind == OpKind::scan) ranks_ = static_cast<std::size_t>(rank) + 1;
  if (call.kind == OpKind::exclusive_scan) ranks_ = static_cast<std::size_t>(rank);
  if (!gets) ranks_ = 0;
  // Each call has its own memory: a collective that is still under way uses another's.
  if (gets) gathered_ = spares.lease(bytes_ * static_cast<std::size_t>(size));
  move_.output = gathered_.get();
}

KernelLaunch UserReduction::reduction(const ChannelView& view) const {
  KernelLaunch out;
  if (ranks_ > 0) out.set(reduce_user_kernel(), ReduceUser{view.state, this}, {1, 1});
  return out;
}

void UserReduction::reduce() const {
  std::string what;
  try {
    const std::byte* const in = gathered_.get();
    std::memcpy(output_, in + (ranks_ - 1) * bytes_, bytes_);
    for (std::size_t rank = ranks_ - 1; rank-- > 0;) combine_(in + rank * bytes_, output_, count_);
    return;
  } catch (const std::exception& error) {
    what = error.what();
  } catch (...) {
    what = "something that is no std::exception";
  }
  if (const auto fabric = fabric_.lock()) {
    fabric->abort_untold(concat("the program's own reduction threw on rank ", rank_, ": ", what));
  }
}

}  // namespace onstream::collective
