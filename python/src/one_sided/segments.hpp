// Segments for Python: symmetric memory and the one-sided ops on it.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>

#include "arrays/blocks.hpp"
#include "onstream/one_sided.hpp"
#include "world/worlds.hpp"

namespace onstream::python {

// One piece of symmetric memory: a part on every rank.
struct PySegment {
  nb::object owner;  // a weak reference to the Python World, for errors that name its device
  std::shared_ptr<WorldState> state;
  std::shared_ptr<Device> device;
  std::shared_ptr<Segment> segment;
  MemoryKind kind;

  static PySegment over(nb::object owner, std::shared_ptr<WorldState> state, std::shared_ptr<Device> device,
                        const std::shared_ptr<Segment>& segment, MemoryKind kind) {
    std::shared_ptr<Segment> held(owner_in_order(segment, kind, device, state), segment.get());
    return {std::move(owner), std::move(state), std::move(device), std::move(held), kind};
  }

  Block part(std::byte* address) const {
    return {segment, address, segment->bytes(), cpu_can_touch(*device, kind), device->index()};
  }
  Block local() const { return part(segment->local()); }
  Block peer(int rank) const { return part(segment->peer(rank)); }
  std::shared_ptr<World> open() const { return state->open(); }
  // This rank's own address of [offset, offset + bytes). Throws invalid_argument unless that lies within a part.
  std::byte* at(std::size_t offset, std::size_t bytes) const;
  Remote remote(std::size_t offset, std::size_t bytes, int rank) const {
    return open()->one_sided().symmetric(at(offset, bytes), rank);
  }
};

// "eq", "ne", "gt", "ge", "lt", "le"; "add" or "set". Throw invalid_argument for other words.
Compare compare_from(const std::string& name);
SignalOp signal_op_from(const std::string& name);

// The class SegmentBlocks, and World._segment.
void bind_segments(nb::module_& m, nb::class_<PyWorld>& world);

}  // namespace onstream::python
