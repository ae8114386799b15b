// Compiler: makes a call that has its algorithm into work that needs only to be enqueued.
#pragma once

#include <memory>
#include <vector>

#include "onstream/collective/channel/channels.hpp"
#include "onstream/collective/enqueue/compiled_call.hpp"
#include "onstream/collective/resource/scratch_pool.hpp"

namespace onstream::collective {

class Compiler {
 public:
  Compiler(std::shared_ptr<Fabric> fabric, Channels& channels, std::vector<int> ranks, int rank);

  // The call's algorithm on this machine, as select() gives it.
  CollectiveCall selected(const CollectiveCall& call) const;
  // Kernels of at most `most` blocks, as on every rank, for a call that has its algorithm; of a user reduction by a
  // function the move of its inputs has one. May ask peers to map the buffers, and block for their answer.
  CompiledCall compile(Channel& channel, const CollectiveCall& call, int most);
  std::size_t scratch_bytes() const { return spares_->bytes(); }

 private:
  CompiledCall by_algorithm(Channel& channel, const CollectiveCall& call, int most);
  std::vector<KernelLaunch> stages(Channel& channel, const CollectiveCall& call, int most);

  std::shared_ptr<Fabric> fabric_;
  Channels& channels_;
  std::vector<int> ranks_;
  int rank_;
  std::shared_ptr<ScratchPool> spares_;
};

}  // namespace onstream::collective
