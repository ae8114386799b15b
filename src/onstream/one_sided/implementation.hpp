// What OneSided and Batch share: the device, the helper, and how a list of steps is cut into launches.
#pragma once

#include <memory>
#include <span>

#include "onstream/device/streams.hpp"
#include "onstream/device/uses.hpp"
#include "onstream/one_sided/helper.hpp"
#include "onstream/one_sided/one_sided.hpp"

namespace onstream {

namespace one_sided {
// Throws invalid_argument for a word that is not aligned or has another width.
Step wait_step(const void* word, const Until& until);
}  // namespace one_sided

class OneSidedImplementation {
 public:
  explicit OneSidedImplementation(std::shared_ptr<Fabric> fabric);
  ~OneSidedImplementation();

  std::shared_ptr<Window> window(void* address, std::size_t bytes);
  std::shared_ptr<Window> window(std::shared_ptr<Segment> segment);
  void run(std::span<const one_sided::Step> steps, Stream stream);
  void run(std::span<const one_sided::Step> steps);
  Status wait(const one_sided::Step& step);
  Status wait_here(const one_sided::Step& step);

  // --- for Batch ---
  one_sided::Helper& helper();
  int rank() const { return fabric_->rank(); }
  // How to copy from or to this buffer: by kernel or by copy engine.
  one_sided::StepKind copy_kind(const void* local, std::size_t bytes) const;
  void check_kernel_access(const char* what, const void* address) const;

 private:
  // Calls emit(part) with the lists that one launch each may take.
  template <class Emit>
  void cut(std::span<const one_sided::Step> steps, const Emit& emit) const;
  Grid grid_for(std::span<const one_sided::Step> steps) const;
  void enqueue(std::span<const one_sided::Step> steps, Stream stream);
  void run_inline(std::span<const one_sided::Step> steps) const;

  std::shared_ptr<Fabric> fabric_;
  std::shared_ptr<Device> device_;
  bool on_host_;
  std::size_t block_bytes_;
  std::size_t engine_min_;
  int max_blocks_;
  StreamPool streams_;
  Uses uses_;
  std::unique_ptr<one_sided::Helper> helper_;  // from the first window that needs it
};

}  // namespace onstream
