// Handles, which programs hold instead of pointers.
//
// A handle is a number that is never used again, so one that outlived its object, or never was one, is noticed.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

namespace onstream::mp {

template <class Object, class Handle>
class Handles {
 public:
  Handle add(std::shared_ptr<Object> object) {
    const std::uintptr_t number = next_number();
    objects_.emplace(number, std::move(object));
    return reinterpret_cast<Handle>(number);
  }
  // Null for a handle that is none.
  std::shared_ptr<Object> find(Handle handle) const {
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    return found == objects_.end() ? nullptr : found->second;
  }
  void remove(Handle handle) { objects_.erase(reinterpret_cast<std::uintptr_t>(handle)); }

 private:
  // One count for all kinds, over the life of the process. From 16 on in steps of 16: like no small number, and even
  // as a pointer aligned.
  static std::uintptr_t next_number() {
    static std::uintptr_t last = 0;
    return last += 16;
  }

  std::unordered_map<std::uintptr_t, std::shared_ptr<Object>> objects_;
};

}  // namespace onstream::mp
