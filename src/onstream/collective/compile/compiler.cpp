#include "onstream/collective/compile/compiler.hpp"

#include <utility>

#include "onstream/collective/compile/compile.hpp"
#include "onstream/collective/compile/hierarchy.hpp"
#include "onstream/collective/compile/user_reduction.hpp"
#include "onstream/collective/select/algorithm.hpp"
#include "onstream/collective/select/select.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"

namespace onstream::collective {

Compiler::Compiler(std::shared_ptr<Fabric> fabric, Channels& channels, std::vector<int> ranks, int rank)
    : fabric_(std::move(fabric)),
      channels_(channels),
      ranks_(std::move(ranks)),
      rank_(rank),
      spares_(std::make_shared<ScratchPool>(fabric_->device())) {}

CollectiveCall Compiler::selected(const CollectiveCall& call) const {
  return select(call, fabric_->parameters().collective_algorithm, machine_of(*fabric_, rank_, ranks_.size()));
}

CompiledCall Compiler::compile(Channel& channel, const CollectiveCall& call, int most) {
  CompiledCall work;
  if (call.combine) {
    const auto size = static_cast<int>(ranks_.size());
    const auto reduction = std::make_shared<const UserReduction>(fabric_, *spares_, call, rank_, size);
    work = by_algorithm(channel, selected(reduction->move()), most);
    work.add(reduction->reduction(channel.view()));
    work.keep(reduction);
  } else {
    work = by_algorithm(channel, call, most);
  }
  work.buffers = {call.input, call.output};
  work.most = most;
  return work;
}

CompiledCall Compiler::by_algorithm(Channel& channel, const CollectiveCall& call, int most) {
  CompiledCall work;
  if (call.algorithm == Algorithm::copy) {
    const std::lock_guard lock(channel.order.mutex);
    Copies& copies = channels_.copies_of(channel, call);
    work.copies = {&copies, copies.prepare(*fabric_, call)};
  } else if (call.algorithm == Algorithm::hierarchical) {
    const std::lock_guard lock(channel.order.mutex);
    for (KernelLaunch& stage : stages(channel, call, most)) work.add(std::move(stage));
  } else {
    work.add(prepare(*fabric_, channel, ranks_, call, most));
    work.reusable = is_by_lines(call.algorithm);
  }
  return work;
}

// The kernels of a hierarchical call. The caller holds the order's mutex.
std::vector<KernelLaunch> Compiler::stages(Channel& channel, const CollectiveCall& call, int most) {
  if (channel.hierarchy == nullptr) {
    const auto size = static_cast<int>(ranks_.size());
    const Groups groups(size, static_cast<int>(fabric_->parameters().collective_group), rank_);
    (void)channels_.copies_of(channel, call);
    channel.take(release_later(std::make_unique<Hierarchy>(*fabric_, ranks_, groups, channel, call)));
  }
  std::vector<KernelLaunch> work = channel.hierarchy->prepare(*fabric_, call, most);
  channel.hierarchy_bytes = channel.hierarchy->device_bytes();
  return work;
}

}  // namespace onstream::collective
