#include "onstream/device/memory/gdr.hpp"

#include <dlfcn.h>

#include <algorithm>

#include "onstream/base/error.hpp"
#include "onstream/base/log.hpp"
#include "onstream/device/memory/small.hpp"

namespace onstream {

namespace {

constexpr const char* kLibrary = "libgdrapi.so.2";  // the number of its binary interface

constexpr std::size_t kSlabBytes = std::size_t{2} << 20;               // a page of the GPU's
constexpr std::size_t kPiece = 256;                                    // pieces begin at its multiples
constexpr std::size_t kMostBytes = ~std::size_t{0} - Gdr::kPageBytes;  // more would wrap when rounded up

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

// The functions of version 2 that are used here, as libgdrapi exports them.
struct Gdr::GdrFunctions {
  struct Handle {  // by value in the calls
    unsigned long number;
  };
  void* (*open)() = nullptr;
  int (*close)(void* driver) = nullptr;
  int (*pin)(void* driver, unsigned long address, std::size_t bytes, std::uint64_t token, std::uint32_t space,
             Handle* handle) = nullptr;
  int (*unpin)(void* driver, Handle handle) = nullptr;
  int (*map)(void* driver, Handle handle, void** mapped, std::size_t bytes) = nullptr;
  int (*unmap)(void* driver, Handle handle, void* mapped, std::size_t bytes) = nullptr;
  int (*copy_to)(Handle handle, void* mapped, const void* source, std::size_t bytes) = nullptr;
  int (*copy_from)(Handle handle, void* destination, const void* mapped, std::size_t bytes) = nullptr;
};

Gdr::Gdr(const std::string& library) {
  void* loaded = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    const char* why = ::dlerror();
    fail(ErrorCode::unsupported, "no gdrcopy library: ", why != nullptr ? why : library.c_str());
  }
  auto functions = std::make_unique<GdrFunctions>();
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(loaded, name));
    if (function == nullptr) fail(ErrorCode::unsupported, "the gdrcopy library ", library, " has no ", name);
  };
  find(functions->open, "gdr_open");
  find(functions->close, "gdr_close");
  find(functions->pin, "gdr_pin_buffer");
  find(functions->unpin, "gdr_unpin_buffer");
  find(functions->map, "gdr_map");
  find(functions->unmap, "gdr_unmap");
  find(functions->copy_to, "gdr_copy_to_mapping");
  find(functions->copy_from, "gdr_copy_from_mapping");
  driver_ = functions->open();
  if (driver_ == nullptr) fail(ErrorCode::unsupported, "gdrcopy's library is here, but not its driver (gdrdrv)");
  functions_ = std::move(functions);
}

Gdr::~Gdr() { functions_->close(driver_); }

const Gdr* Gdr::of_process(std::string& why_none) {
  struct FoundGdr {
    const Gdr* gdr = nullptr;
    std::string why_none;
  };
  static const FoundGdr* const found = [] {
    auto* out = new FoundGdr;  // never destroyed: windows may end with the process
    try {
      out->gdr = new Gdr(kLibrary);
    } catch (const Error& error) {
      out->why_none = error.what();
    }
    return out;
  }();
  why_none = found->why_none;
  return found->gdr;
}

Gdr::GdrWindow::GdrWindow(const Gdr& gdr, std::uintptr_t gpu_address, std::size_t bytes) : gdr_(gdr), bytes_(bytes) {
  require(bytes > 0 && gpu_address % kPageBytes == 0 && bytes % kPageBytes == 0, "gdrcopy: ", bytes, " B at ",
          reinterpret_cast<const void*>(gpu_address), " are no whole pages of ", kPageBytes, " B");
  GdrFunctions::Handle handle{};
  int result = gdr.functions_->pin(gdr.driver_, gpu_address, bytes, 0, 0, &handle);
  if (result != 0) fail(ErrorCode::system, "gdr_pin_buffer of ", bytes, " B failed with ", result);
  void* mapped = nullptr;
  result = gdr.functions_->map(gdr.driver_, handle, &mapped, bytes);
  if (result != 0) {
    gdr.functions_->unpin(gdr.driver_, handle);
    fail(ErrorCode::system, "gdr_map of ", bytes, " B failed with ", result);
  }
  handle_ = handle.number;
  mapped_ = static_cast<std::byte*>(mapped);
}

Gdr::GdrWindow::~GdrWindow() {
  gdr_.functions_->unmap(gdr_.driver_, GdrFunctions::Handle{handle_}, mapped_, bytes_);
  gdr_.functions_->unpin(gdr_.driver_, GdrFunctions::Handle{handle_});
}

void Gdr::GdrWindow::write(std::size_t offset, const void* source, std::size_t bytes) const {
  const int result = gdr_.functions_->copy_to(GdrFunctions::Handle{handle_}, mapped_ + offset, source, bytes);
  if (result != 0) fail(ErrorCode::system, "gdr_copy_to_mapping of ", bytes, " B failed with ", result);
}

void Gdr::GdrWindow::read(void* destination, std::size_t offset, std::size_t bytes) const {
  const int result = gdr_.functions_->copy_from(GdrFunctions::Handle{handle_}, destination, mapped_ + offset, bytes);
  if (result != 0) fail(ErrorCode::system, "gdr_copy_from_mapping of ", bytes, " B failed with ", result);
}

// GPU memory and the window to it.
class GdrMemories::Slab {
 public:
  Slab(const Gdr& gdr, std::shared_ptr<Memory> memory)
      : memory_(std::move(memory)), window_(gdr, reinterpret_cast<std::uintptr_t>(memory_->data()), memory_->bytes()) {}

  const Memory& memory() const { return *memory_; }
  const Gdr::GdrWindow& window() const { return window_; }

 private:
  std::shared_ptr<Memory> memory_;
  Gdr::GdrWindow window_;  // goes first
};

class GdrMemories::GdrPiece final : public SmallMemory {
 public:
  GdrPiece(std::shared_ptr<Slab> slab, std::size_t offset, std::size_t bytes)
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
  std::shared_ptr<Slab> slab_;
  std::size_t offset_;
  std::size_t bytes_;
};

std::shared_ptr<SmallMemory> GdrMemories::allocate(std::size_t bytes) {
  require(bytes > 0, "allocate_small: 0 B");
  if (auto piece = cut(bytes)) return piece;
  return std::make_shared<AddressedSmallMemory>(source_.pinned_memory(bytes));
}

// Null where gdrcopy does not work, and for sizes that no memory can hold, which pinned memory refuses by name.
std::shared_ptr<SmallMemory> GdrMemories::cut(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!why_not_gdr_.empty() || bytes > kMostBytes) return nullptr;
  const Gdr* gdr = source_.find(why_not_gdr_);
  if (gdr == nullptr) return nullptr;
  try {
    if (slab_ == nullptr || round_up(bytes, kPiece) > slab_->memory().bytes() - cut_) {
      const std::size_t wanted = round_up(std::max(bytes, kSlabBytes), Gdr::kPageBytes);
      slab_ = std::make_shared<Slab>(*gdr, source_.device_memory(wanted));
      cut_ = 0;
    }
  } catch (const Error& error) {
    why_not_gdr_ = error.what();
    log_once(LogLevel::warn, "small.gdr", "gdrcopy is here but does not work on ", source_.gpu, ": ", why_not_gdr_,
             "; small copies go through pinned memory");
    return nullptr;
  }
  auto piece = std::make_shared<GdrPiece>(slab_, cut_, bytes);
  cut_ += round_up(bytes, kPiece);
  return piece;
}

SmallCopies GdrMemories::how() const {
  const std::lock_guard lock(mutex_);
  return why_not_gdr_.empty() ? expected(source_.find) : SmallCopies{"mapped host memory", why_not_gdr_};
}

SmallCopies GdrMemories::expected(Find find) {
  std::string why_none;
  if (find(why_none) != nullptr) return {"gdrcopy", "its library and its driver are here"};
  return {"mapped host memory", why_none};
}

}  // namespace onstream
