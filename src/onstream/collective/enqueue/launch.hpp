// A kernel with its arguments and its grid, ready to be enqueued.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "onstream/collective/protocol/view.hpp"
#include "onstream/device.hpp"

namespace onstream::collective {

// A kernel, its arguments and its grid, for the length of a call.
struct KernelLaunch {
  template <class Body>
  void set(const Kernel& which, const Body& body, Grid how_many) {
    static_assert(std::is_trivially_copyable_v<Body>);
    kernel = &which;
    bytes.resize(sizeof(Body));
    std::memcpy(bytes.data(), &body, sizeof(Body));
    grid = how_many;
    see_view(body);
  }
  // The body has a view that its kernel takes its epoch by.
  template <class Body>
  void see_view(const Body& body) {
    if constexpr (requires { body.view; }) {
      view_at = reinterpret_cast<const std::byte*>(&body.view) - reinterpret_cast<const std::byte*>(&body);
    }
  }
  bool takes_epoch() const { return view_at >= 0; }
  // The arguments of a kernel that takes it late (view.hpp).
  std::vector<std::byte> late() const {
    std::vector<std::byte> out = bytes;
    ChannelView view;
    std::memcpy(&view, out.data() + view_at, sizeof view);
    view.late = 1;
    std::memcpy(out.data() + view_at, &view, sizeof view);
    return out;
  }
  const Kernel* kernel = nullptr;
  std::vector<std::byte> bytes;
  Grid grid;
  std::ptrdiff_t view_at = -1;       // of a ChannelView among the bytes; -1: there is none
  std::shared_ptr<const void> kept;  // until it is done
};

}  // namespace onstream::collective
