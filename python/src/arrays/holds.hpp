// Hold: keeps the memory of one Python array in place. Movable; made and destroyed with the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

namespace onstream::python {

class Hold {
 public:
  Hold() = default;
  explicit Hold(nanobind::object owner) : owner_(std::move(owner)) {}
  explicit Hold(const Py_buffer& view) : view_(view) {}  // takes the export over
  Hold(Hold&& other) noexcept : view_(std::exchange(other.view_, Py_buffer{})), owner_(std::move(other.owner_)) {}
  Hold& operator=(Hold&& other) noexcept {
    std::swap(view_, other.view_);
    std::swap(owner_, other.owner_);
    return *this;
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  explicit operator bool() const { return view_.obj != nullptr || owner_.is_valid(); }
  ~Hold() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
  }

 private:
  Py_buffer view_{};  // an exported buffer cannot be resized or freed: view_.obj is its owner
  nanobind::object owner_;
};

}  // namespace onstream::python
