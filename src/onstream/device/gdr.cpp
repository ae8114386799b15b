#include "onstream/device/gdr.hpp"

#include <dlfcn.h>

#include "onstream/base/error.hpp"

namespace onstream {

namespace {

constexpr const char* kLibrary = "libgdrapi.so.2";  // the number of its binary interface

}  // namespace

// The functions of version 2 that are used here, as libgdrapi exports them.
struct Gdr::Functions {
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
  auto functions = std::make_unique<Functions>();
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
  struct Found {
    const Gdr* gdr = nullptr;
    std::string why_none;
  };
  static const Found* const found = [] {
    auto* out = new Found;  // never destroyed: windows may end with the process
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

Gdr::Window::Window(const Gdr& gdr, std::uintptr_t gpu_address, std::size_t bytes) : gdr_(gdr), bytes_(bytes) {
  require(bytes > 0 && gpu_address % kPageBytes == 0 && bytes % kPageBytes == 0, "gdrcopy: ", bytes, " B at ",
          reinterpret_cast<const void*>(gpu_address), " are no whole pages of ", kPageBytes, " B");
  Functions::Handle handle{};
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

Gdr::Window::~Window() {
  gdr_.functions_->unmap(gdr_.driver_, Functions::Handle{handle_}, mapped_, bytes_);
  gdr_.functions_->unpin(gdr_.driver_, Functions::Handle{handle_});
}

void Gdr::Window::write(std::size_t offset, const void* source, std::size_t bytes) const {
  const int result = gdr_.functions_->copy_to(Functions::Handle{handle_}, mapped_ + offset, source, bytes);
  if (result != 0) fail(ErrorCode::system, "gdr_copy_to_mapping of ", bytes, " B failed with ", result);
}

void Gdr::Window::read(void* destination, std::size_t offset, std::size_t bytes) const {
  const int result = gdr_.functions_->copy_from(Functions::Handle{handle_}, destination, mapped_ + offset, bytes);
  if (result != 0) fail(ErrorCode::system, "gdr_copy_from_mapping of ", bytes, " B failed with ", result);
}

}  // namespace onstream
