// CompiledCall: a call's work on this rank, ready to be enqueued once, or by every launch of a plan: it asks nobody any
// more, and kernels find their epoch in the memory of their channel.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "onstream/collective/enqueue/copies.hpp"
#include "onstream/collective/enqueue/launch.hpp"

namespace onstream::collective {

struct CompiledCall {
  struct ByCopy {
    Copies* engine;  // of the channel
    Copies::CopyList work;
  };
  std::optional<ByCopy> copies;          // first
  KernelLaunch kernel;                   // then this, if it is one
  std::vector<KernelLaunch> others;      // and behind it those of stages, or of a reduction of one's own
  std::shared_ptr<const void> kept;      // until all that is done
  std::array<const void*, 2> buffers{};  // of the call
  int most = 0;                          // blocks that it might have had (BlockBudget)
  bool reusable = false;                 // for equal calls: no peer's address is in it, and it keeps little memory

  // Adds a kernel behind the ones before; does nothing if `next` is none.
  void add(KernelLaunch next) {
    if (next.kernel == nullptr) return;
    keep(next.kept);
    if (kernel.kernel == nullptr) {
      kernel = std::move(next);
    } else {
      others.push_back(std::move(next));
    }
  }
  void keep(std::shared_ptr<const void> more) {
    using Both = std::array<std::shared_ptr<const void>, 2>;
    if (more != nullptr && kept != nullptr) more = std::make_shared<const Both>(Both{std::move(kept), std::move(more)});
    if (more != nullptr) kept = std::move(more);
  }
  int kernels() const { return (kernel.kernel == nullptr ? 0 : 1) + static_cast<int>(others.size()); }
  // The blocks of its largest kernel.
  int blocks() const {
    int largest = 0;
    for_each_kernel([&](const KernelLaunch& one) { largest = std::max(largest, one.grid.blocks); });
    return largest;
  }
  bool empty() const { return !copies && kernel.kernel == nullptr; }
  template <class Function>
  void for_each_kernel(const Function& function) const {
    if (kernel.kernel != nullptr) function(kernel);
    for (const KernelLaunch& other : others) function(other);
  }
};

}  // namespace onstream::collective
