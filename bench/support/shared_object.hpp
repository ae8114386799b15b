// A shared library opened at run time: the peers are never linked, so that the bench runs where they are not.
#pragma once

#include <dlfcn.h>

#include <string>

#include "onstream/base/error.hpp"

namespace onstream::bench {

// Stays open until the process ends: such libraries have threads of their own.
class SharedObject {
 public:
  // Throws unsupported with the loader's own reason.
  explicit SharedObject(const std::string& file) : file_(file), handle_(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) fail(ErrorCode::unsupported, "cannot load ", file, ": ", ::dlerror());
  }

  // Throws unsupported naming the symbol.
  template <class Function>
  void find(Function& function, const char* name) const {
    function = optional<Function>(name);
    if (function == nullptr) fail(ErrorCode::unsupported, file_, " has no function ", name);
  }

  template <class Function>
  Function optional(const char* name) const {
    return reinterpret_cast<Function>(::dlsym(handle_, name));
  }

 private:
  std::string file_;
  void* handle_;
};

}  // namespace onstream::bench
