// Heaps for onstream/heap.py: pieces of symmetric memory, by this rank's own addresses.
//
// Calls that wait for other ranks run without the GIL and may be interrupted; the heap's lock then stays with the call
// that was left behind, until its deadline at the latest.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <utility>

#include "base/bind.hpp"
#include "base/slot.hpp"
#include "base/waiting.hpp"
#include "onstream/base/error.hpp"
#include "onstream/symmetric.hpp"
#include "onstream/transport/fabric.hpp"
#include "segments.hpp"

namespace onstream::python {

namespace {

using HeapSlot = Slot<std::unique_ptr<Heap>>;
using WorldHandle = nb::handle_t<PyWorld>;

struct PyHeap {
  nb::object owner;  // a weak reference to the Python World
  std::shared_ptr<WorldState> state;
  std::shared_ptr<HeapSlot> slot;
  MemoryKind kind;

  // function(heap) owns the data it touches. A call that only reads may wait too, for one left behind by an interrupt.
  template <class Function>
  auto run(Function function) const {
    const BlockingCall blocking(state);
    const auto call = [world = state->open(), slot = slot, function] {
      return slot->with([&](std::unique_ptr<Heap>& heap) { return function(*heap); });
    };
    return run_interruptible(call, [] {});  // one that was broken off goes on, and later ones wait for it
  }
};

PyHeap make_heap(WorldHandle handle, std::size_t bytes, std::size_t grow_bytes, const std::string& kind_name) {
  auto& self = nb::cast<PyWorld&>(handle);
  const HeapOptions options{bytes, grow_bytes, kind_from(kind_name),
                            "give the heap more bytes, or let it grow (grow_nbytes)"};
  const auto world = self.open();
  auto slot = run_together(self.state(), "heap", [world, options] {
    return std::make_shared<HeapSlot>(std::make_unique<Heap>(world->one_sided(), options), "heap");
  });
  self.state()->add(slot);
  return {nb::weakref(handle), self.state(), std::move(slot), options.kind};
}

// Where this rank's address lies.
std::pair<PySegment, std::size_t> place(const PyHeap& self, std::uintptr_t address) {
  const auto world = self.state->open();
  const auto found = self.run([=](Heap& heap) { return heap.place(reinterpret_cast<const void*>(address)); });
  require(found.has_value(), "heap: ", reinterpret_cast<const void*>(address), " is not in this heap");
  return {PySegment::over(self.owner, self.state, world->fabric()->device(), found->segment, self.kind), found->offset};
}

std::uintptr_t allocate(const PyHeap& self, std::size_t bytes, std::size_t alignment) {
  return self.run([=](Heap& heap) { return reinterpret_cast<std::uintptr_t>(heap.allocate(bytes, alignment)); });
}

std::uintptr_t allocate_zeroed(const PyHeap& self, std::size_t bytes, std::size_t alignment) {
  return self.run([=](Heap& heap) { return reinterpret_cast<std::uintptr_t>(heap.allocate_zeroed(bytes, alignment)); });
}

std::uintptr_t reallocate(const PyHeap& self, std::uintptr_t address, std::size_t bytes) {
  return self.run([=](Heap& heap) {
    return reinterpret_cast<std::uintptr_t>(heap.reallocate(reinterpret_cast<void*>(address), bytes));
  });
}

void free_piece(const PyHeap& self, std::uintptr_t address) {
  self.run([=](Heap& heap) { heap.free(reinterpret_cast<void*>(address)); });
}

}  // namespace

void bind_heaps(nb::module_& m) {
  nb::class_<PyHeap>(m, "HeapBlocks", "Pieces of symmetric memory, by this rank's addresses. Use World.heap().")
      .def("allocate", &allocate, nb::arg("nbytes"), nb::arg("alignment"))
      .def("allocate_zeroed", &allocate_zeroed, nb::arg("nbytes"), nb::arg("alignment"))
      .def("reallocate", &reallocate, nb::arg("address"), nb::arg("nbytes"))
      .def("free", &free_piece, nb::arg("address"))
      .def("close", [](const PyHeap& self) { self.run([](Heap& heap) { heap.close(); }); })
      .def("place", &place, nb::arg("address"), "The segment that an address lies in, and where.")
      .def(
          "full_for",
          [](const PyHeap& self, std::size_t bytes, std::size_t alignment) {
            return self.run([=](Heap& heap) { return heap.full_for(bytes, alignment); });
          },
          nb::arg("nbytes"), nb::arg("alignment"))
      .def_prop_ro("nbytes", [](const PyHeap& self) { return self.run([](Heap& heap) { return heap.bytes(); }); })
      .def_prop_ro("used", [](const PyHeap& self) { return self.run([](Heap& heap) { return heap.used(); }); })
      .def_prop_ro("pieces", [](const PyHeap& self) { return self.run([](Heap& heap) { return heap.pieces(); }); });
  m.def("make_heap", &make_heap, nb::arg("world"), nb::arg("nbytes"), nb::arg("grow_nbytes"), nb::arg("kind"),
        "Collective.");
}

}  // namespace onstream::python
