// The hierarchy of a channel, on which collectives in stages (stages.hpp) run: two channels of its own, of the rank's
// group and of its equals in the other groups, and memory for partial sums.
//
// The channel's first hierarchical collective makes it, on all ranks of the team and no others: their hosts tell each
// other where the memory is. Each stage takes the algorithm that is predicted to cost the least. Stages follow each
// other on the stream of the call, in the order of the channel that the call is on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "onstream/collective/call/stages.hpp"
#include "onstream/collective/channel/channel.hpp"
#include "onstream/collective/enqueue/launch.hpp"
#include "onstream/collective/select/algorithm.hpp"

namespace onstream::collective {

class Hierarchy {
 public:
  // Collective over the team of `channel`, which has its copies; `ranks` are of the world. Blocks until the hosts of
  // all have come. Throws invalid_argument, the same on every rank, if some rank's memory cannot be addressed by
  // another, or if they do not call the same.
  Hierarchy(Fabric& fabric, const std::vector<int>& ranks, const Groups& groups, Channel& channel,
            const CollectiveCall& first);

  // The kernels of a call, one after the other, of `most` blocks at most. May ask peers to map the buffers, and block
  // for their answer. The memory that they use lives as long as this object.
  std::vector<KernelLaunch> prepare(Fabric& fabric, const CollectiveCall& call, int most);
  std::size_t device_bytes() const;

 private:
  struct Level {
    std::vector<int> ranks;  // of the world
    std::unique_ptr<Channel> channel;
  };
  void make_levels(Fabric& fabric, const std::vector<int>& ranks, Channel& channel, const std::vector<Say>& says,
                   const std::vector<int> (&teams)[2], Channel::SubsetMemory (&shared)[2]);
  std::byte* scratch(Device& device, std::size_t bytes);

  Groups groups_;
  Level levels_[2];                                 // by Among
  std::vector<std::shared_ptr<Memory>> scratches_;  // the last one is the largest; graphs may use the others
};

}  // namespace onstream::collective
