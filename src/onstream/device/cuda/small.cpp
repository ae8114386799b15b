#include "onstream/device/cuda/small.hpp"

#include <algorithm>

#include "onstream/base/log.hpp"
#include "onstream/device/cuda/check.hpp"
#include "onstream/device/cuda/memory.hpp"
#include "onstream/device/gdr.hpp"
#include "onstream/device/small.hpp"

namespace onstream::cuda {

namespace {

constexpr std::size_t kSlabBytes = std::size_t{2} << 20;  // a page of the GPU's
constexpr std::size_t kPiece = 256;                       // pieces begin at its multiples

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

// GPU memory and the window to it.
class GdrSlab {
 public:
  GdrSlab(Gpu& gpu, const Gdr& gdr, std::size_t bytes)
      : memory_(cuda::allocate(gpu, bytes, MemoryKind::device)), window_(gdr, prepared(gpu, memory_->data()), bytes) {}

  const Memory& memory() const { return *memory_; }
  const Gdr::Window& window() const { return window_; }

 private:
  // Copies of the driver's own finish before they return, so that they do not meet what comes through the window.
  static std::uintptr_t prepared(Gpu& gpu, const std::byte* address) {
    const ControlPath path(gpu);
    const int yes = 1;
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    // Not every kind of memory has this attribute; nothing but kernels reads small memory anyway.
    static_cast<void>(driver().pointer_set_attribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
    return at;
  }

  std::shared_ptr<Memory> memory_;
  Gdr::Window window_;
};

namespace {

class GdrPiece final : public SmallMemory {
 public:
  GdrPiece(std::shared_ptr<GdrSlab> slab, std::size_t offset, std::size_t bytes)
      : slab_(std::move(slab)), offset_(offset), bytes_(bytes) {}
  std::byte* data() const override { return slab_->memory().data() + offset_; }
  std::size_t bytes() const override { return bytes_; }
  MemoryKind kind() const override { return MemoryKind::device; }

  void put(std::size_t offset, const void* source, std::size_t bytes) override {
    check_small("put", offset, bytes, bytes_);
    slab_->window().write(offset_ + offset, source, bytes);
  }
  void get(void* destination, std::size_t offset, std::size_t bytes) const override {
    check_small("get", offset, bytes, bytes_);
    slab_->window().read(destination, offset_ + offset, bytes);
  }

 private:
  std::shared_ptr<GdrSlab> slab_;
  std::size_t offset_;
  std::size_t bytes_;
};

}  // namespace

std::shared_ptr<SmallMemory> SmallMemories::allocate(std::size_t bytes) {
  require(bytes > 0, "allocate_small: 0 B");
  if (auto piece = cut(bytes)) return piece;
  return std::make_shared<AddressedSmallMemory>(cuda::allocate(gpu_, bytes, MemoryKind::pinned));
}

// Null where gdrcopy does not work.
std::shared_ptr<SmallMemory> SmallMemories::cut(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!why_not_gdr_.empty()) return nullptr;
  const Gdr* gdr = Gdr::of_process(why_not_gdr_);
  if (gdr == nullptr) return nullptr;
  try {
    if (slab_ == nullptr || round_up(bytes, kPiece) > slab_->memory().bytes() - cut_) {
      slab_ = std::make_shared<GdrSlab>(gpu_, *gdr, round_up(std::max(bytes, kSlabBytes), Gdr::kPageBytes));
      cut_ = 0;
    }
  } catch (const Error& error) {
    why_not_gdr_ = error.what();
    log_once(LogLevel::warn, "small.gdr", "gdrcopy is here but does not work on GPU ", gpu_.ordinal(), ": ",
             why_not_gdr_, "; small copies go through pinned memory");
    return nullptr;
  }
  auto piece = std::make_shared<GdrPiece>(slab_, cut_, bytes);
  cut_ += round_up(bytes, kPiece);
  return piece;
}

SmallCopies SmallMemories::how() const {
  const std::lock_guard lock(mutex_);
  return why_not_gdr_.empty() ? wanted() : SmallCopies{"mapped host memory", why_not_gdr_};
}

SmallCopies SmallMemories::wanted() {
  std::string why_none;
  if (Gdr::of_process(why_none) != nullptr) return {"gdrcopy", "its library and its driver are here"};
  return {"mapped host memory", why_none};
}

}  // namespace onstream::cuda
