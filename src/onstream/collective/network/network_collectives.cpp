#include "onstream/collective/network/network_collectives.hpp"

#include <algorithm>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/collective/network/program.hpp"

namespace onstream::collective {

namespace {

struct RunProgram {
  const NetworkProgram* program = nullptr;

  void operator()(const HostGroup&) const { program->run(); }
};

const Kernel& program_kernel() {
  static const Kernel kernel{"collective_network", host_entry<RunProgram>, nullptr};
  return kernel;
}

constexpr std::size_t kMostKept = std::size_t{64} << 10;  // bytes of scratch that a call keeps for equal ones

}  // namespace

CompiledCall work_of(std::shared_ptr<const NetworkProgram> program, const CollectiveCall& call) {
  CompiledCall work;
  KernelLaunch launch;
  launch.set(program_kernel(), RunProgram{program.get()}, {1, 1});
  work.add(std::move(launch));
  work.reusable = program->scratch_bytes() <= kMostKept;
  work.keep(std::move(program));
  work.buffers = {call.input, call.output};
  return work;
}

NetworkCollectives::NetworkCollectives(std::shared_ptr<Fabric> fabric, const std::shared_ptr<lane::NetworkLanes>& lanes,
                                       std::vector<int> ranks, int rank, int channels)
    : fabric_(std::move(fabric)),
      lease_(lanes->take(*fabric_, channels)),
      ranks_(std::move(ranks)),
      rank_(rank),
      spares_(std::make_shared<ScratchPool>(fabric_->device())) {
  const bool checks = fabric_->parameters().collective_check == "on";
  for (int channel = 0; channel < channels; ++channel) {
    auto made = std::make_unique<NetworkChannel>();
    made->order.ground = lease_;
    if (checks) made->checking = std::make_unique<Checking>(*fabric_->device(), ranks_);
    channels_.push_back(std::move(made));
  }
}

bool NetworkCollectives::spans_hosts(const Fabric& fabric, const std::vector<int>& ranks) {
  return std::ranges::any_of(ranks, [&](int rank) { return fabric.host_of(rank) != fabric.host_of(ranks.front()); });
}

void NetworkCollectives::check(const CollectiveCall& call) {
  if (call.user_kernels != nullptr) {
    fail(ErrorCode::unsupported, name_of(call.kind),
         ": ranks on several hosts reduce by the built-in reductions, or by a function (reduced_by), not by a functor");
  }
  if (call.algorithm != Algorithm::automatic) {
    fail(ErrorCode::unsupported, name_of(call.kind), ": algorithm ", name_of(call.algorithm),
         " needs all ranks on one host; leave the algorithm out");
  }
}

CompiledCall NetworkCollectives::compile(const CollectiveCall& call) const {
  const ProgramPlace place{fabric_, fabric_->wait_view(), lease_, lease_->first() + call.channel, &ranks_, rank_};
  return work_of(std::make_shared<const NetworkProgram>(place, *spares_, call), call);
}

std::string NetworkCollectives::explain(const CollectiveCall& call) const {
  const bool large = call.kind == OpKind::all_reduce &&
                     !NetworkProgram::is_one_exchange(call.count * size_of(call.type), ranks_.size());
  return concat(words_of(call), " on ", ranks_.size(), " ranks of several hosts: messages of every rank to every other",
                large ? ", parts to their owners and sums to all" : "", " (path net)");
}

}  // namespace onstream::collective
