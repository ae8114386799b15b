// ThreadScope, WarpScope and BlockScope: the threads that do one thing together in a kernel, on the device that this is
// compiled for. On the host each is the calling thread.
//
// NativeGroup is the group of the device that the code runs on, for the work of a single thread.
#pragma once

#include "onstream/device/host/group.hpp"

#ifdef __CUDACC__
#include "onstream/device/cuda/scopes.cuh"
#endif

namespace onstream {

#ifdef __CUDACC__
using NativeGroup = CudaGroup;
#else
class HostScope : public HostGroup {
 public:
  HostScope() : HostGroup(0, 1) {}
};
static_assert(Group<HostScope>);
using ThreadScope = HostScope;
using WarpScope = HostScope;
using BlockScope = HostScope;
using NativeGroup = HostGroup;
inline HostScope thread_scope(const HostGroup&) { return {}; }
inline HostScope warp_scope(const HostGroup&) { return {}; }
inline HostScope block_scope(const HostGroup&) { return {}; }
#endif

}  // namespace onstream
