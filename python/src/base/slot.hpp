// Slot: a part of the C++ library that ends with its world, even while Python still holds it.
//
// Another thread may close the world at any time, without the GIL: a user of the value holds the lock meanwhile, or has
// a share of its own. A thread that may wait for the lock must not hold the GIL, unless with() never blocks in its
// function.
#pragma once

#include <mutex>
#include <optional>
#include <utility>

#include "onstream/base/error.hpp"
#include "op/requests.hpp"

namespace onstream::python {

template <class Value>
class Slot : public Closable {
 public:
  Slot(Value value, const char* name) : value_(std::move(value)), name_(name) {}
  void close() override {
    std::optional<Value> ending;
    const std::lock_guard lock(mutex_);
    ending.swap(value_);
  }
  template <class Function>
  auto with(const Function& function) {
    const std::lock_guard lock(mutex_);
    if (!value_) fail(ErrorCode::closed, "this ", name_, "'s world is closed");
    return function(*value_);
  }

 private:
  std::mutex mutex_;
  std::optional<Value> value_;
  const char* name_;  // of its kind, for errors
};

}  // namespace onstream::python
