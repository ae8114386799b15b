// From a call to a kernel's arguments.
#pragma once

#include <vector>

#include "onstream/collective/call/call.hpp"
#include "onstream/collective/channel/channel.hpp"
#include "onstream/collective/enqueue/launch.hpp"

namespace onstream::collective {

// The call names an algorithm that can do it (algorithm.hpp); its kernel has `most` blocks at most, as on every rank.
// May ask peers to map the buffers, and block for their answer.
KernelLaunch prepare(Fabric& fabric, const Channel& channel, const std::vector<int>& ranks, const CollectiveCall& call,
                     int most);

}  // namespace onstream::collective
