// Block becomes a numpy array or a DLPack producer; any DLPack producer becomes numbers for onstream/_arrays.py.
#include "blocks.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/bind.hpp"
#include "base/gil.hpp"
#include "onstream/base/clock.hpp"
#include "onstream/base/error.hpp"
#include "onstream/base/fork_guard.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"
#include "op/requests.hpp"

namespace onstream::python {
namespace {

using ReadOnlyArray = nb::ndarray<nb::ro>;
using WritableArray = nb::ndarray<>;

constexpr int kDlpackCuda = 2;

// A DLPack import, described. Keeps the producer's memory alive.
struct Import {
  ReadOnlyArray array;
  bool read_only = true;

  std::vector<std::int64_t> shape() const { return {array.shape_ptr(), array.shape_ptr() + array.ndim()}; }
  std::int64_t item_bytes() const { return static_cast<std::int64_t>(array.itemsize()); }
  std::vector<std::int64_t> strides() const {
    std::vector<std::int64_t> bytes(array.ndim());
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = array.stride(i) * item_bytes();
    return bytes;
  }
};

Import import_dlpack(nb::handle array) {
  WritableArray writable;
  if (nb::try_cast(array, writable)) return {ReadOnlyArray(writable), false};
  ReadOnlyArray read_only;
  if (nb::try_cast(array, read_only)) return {read_only, true};
  throw nb::type_error("the object's __dlpack__ gave nothing that onstream can read");
}

std::optional<std::uintptr_t> address_of(nb::handle array) {
  Py_buffer view;
  if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_STRIDES) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(view.buf);
  PyBuffer_Release(&view);
  return address;
}

nb::ndarray<nb::numpy, std::uint8_t> bytes_view(nb::handle_t<Block> self) {
  const Block& block = nb::cast<const Block&>(self);
  return {block.address, {block.bytes}, self};
}

nb::ndarray<nb::array_api> exchange(nb::handle_t<Block> self, const std::vector<std::size_t>& shape, int code,
                                    int bits) {
  const Block& block = nb::cast<const Block&>(self);
  const nb::dlpack::dtype dtype{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1};
  return {block.address, shape.size(), shape.data(), self, nullptr, dtype, kDlpackCuda, block.device_index};
}

Block part(const Block& all, std::size_t offset, std::size_t bytes) {
  require(offset <= all.bytes && bytes <= all.bytes - offset, bytes, " B at offset ", offset, " are not within the ",
          all.bytes, " B of the block");
  return {all.owner, all.address + offset, bytes, all.on_host, all.device_index};
}

// --- memory that is given back ---

// The end of the work enqueued on CUDA's default stream until now, or a little later. An event recorded there holds
// other streams of the process back, and breaks the capture of one that waits for it, so the stream is only watched for
// a while, in which it mostly becomes idle.
class LaterPoint final : public Event {
 public:
  LaterPoint(std::shared_ptr<Device> device, Stream stream) : device_(std::move(device)), stream_(stream) {}
  bool done() const override {
    try {
      if (point_ != nullptr) return point_->done();
      if (device_->idle(stream_)) return true;
      if (watched_.passed()) point_ = device_->record(stream_);
      return false;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) throw;
      point_.reset();
      return false;
    }
  }

 private:
  std::shared_ptr<Device> device_;
  Stream stream_;
  static constexpr double kWatchedS = 0.2;
  Deadline watched_{kWatchedS};
  mutable std::shared_ptr<Event> point_;
};

// CUDA's, also by its other name: cudaStreamLegacy is 1.
bool is_default(Stream stream) { return reinterpret_cast<std::uintptr_t>(stream.handle) <= 1; }

// Adds the point behind the stream's work. While the stream is captured, its graph keeps the memory.
void add_point(DeferredRelease::Events& after, const std::shared_ptr<Device>& device, Stream stream,
               const std::shared_ptr<const void>& memory) {
  try {
    if (device->capturing(stream)) return device->retain(stream, memory);
    if (device->idle(stream)) return;
    after.push_back(is_default(stream) ? std::make_shared<LaterPoint>(device, stream) : device->record(stream));
  } catch (const Error& error) {
    // For any other reason the device has failed, and its work is over.
    if (error.code() == ErrorCode::invalid_argument) after.push_back(std::make_shared<LaterPoint>(device, stream));
  }
}

// The streams that array libraries use now in this thread: objects by handle.
nb::dict streams_in_use(const Device& device) {
  return nb::cast<nb::dict>(
      nb::module_::import_("onstream._libraries").attr("streams_in_use")(concat("cuda:", device.index())));
}

// streams_in_use() from a destructor. A Ctrl-C that comes in here is raised again for a call that can be interrupted.
nb::dict streams_at_the_end(const Device& device) {
  const nb::error_scope pending;  // arrays also go while an exception is on its way
  try {
    return streams_in_use(device);
  } catch (const nb::python_error& error) {
    if (!error.matches(PyExc_KeyboardInterrupt)) throw;
  }
  nb::dict streams = streams_in_use(device);
  PyErr_SetInterrupt();
  return streams;
}

// If so, nothing of Python may be called any more, and the process's end frees the rest.
bool python_ends() {
#if PY_VERSION_HEX >= 0x030D0000
  return !nb::is_alive() || Py_IsFinalizing() != 0;
#else
  return !nb::is_alive() || _Py_IsFinalizing() != 0;
#endif
}

// Gives the memory of an owner_in_order() back at the owner's end.
class GiveBack {
 public:
  GiveBack(std::shared_ptr<void> memory, MemoryKind kind, std::shared_ptr<Device> device,
           std::weak_ptr<WorldState> state)
      : memory_(std::move(memory)),
        frees_at_once_(kind == MemoryKind::device),
        device_(std::move(device)),
        state_(std::move(state)),
        streams_(streams_in_use(*device_)) {}

  void operator()(void* /*address*/) noexcept {
    try {
      if (guard_.in_child() || python_ends()) {
        static_cast<void>(streams_.release());
        return lose();
      }
      const GilAcquire acquire;
      nb::dict streams = std::move(streams_);
      release(streams);
    } catch (const std::exception&) {
      lose();  // better than too early
    }
  }

 private:
  // Others may own it still, such as a heap its segments: then it does not go before the work that is known here.
  void release(nb::dict& streams) {
    streams.update(streams_at_the_end(*device_));
    std::vector<Stream> all;
    for (const auto [handle, stream] : streams) {
      all.push_back(Stream{reinterpret_cast<void*>(nb::cast<std::uintptr_t>(handle))});
    }
    const auto state = state_.lock();
    DeferredRelease::Events after = state == nullptr ? DeferredRelease::Events() : state->points();
    const GilRelease without_gil;
    std::erase_if(after, [](const auto& event) { return ended(*event); });
    for (const Stream stream : all) add_point(after, device_, stream, memory_);
    if (!after.empty() || !frees_at_once_)
      DeferredRelease::of_process().hand_over(std::move(memory_), std::move(after));
    memory_.reset();
  }
  void lose() noexcept { static_cast<void>(new (std::nothrow) std::shared_ptr<void>(std::move(memory_))); }

  std::shared_ptr<void> memory_;
  bool frees_at_once_;  // the driver waits for nothing
  std::shared_ptr<Device> device_;
  std::weak_ptr<WorldState> state_;
  nb::dict streams_;  // that were in use when it was made
  ForkGuard guard_;
};

}  // namespace

std::shared_ptr<void> owner_in_order(std::shared_ptr<void> memory, MemoryKind kind, std::shared_ptr<Device> device,
                                     std::weak_ptr<WorldState> state) {
  if (device->kind() == DeviceKind::host) return memory;  // each enqueuing call keeps its arrays
  void* address = memory.get();
  return {address, GiveBack(std::move(memory), kind, std::move(device), std::move(state))};
}

void bind_blocks(nb::module_& m) {
  nb::class_<Block>(m, "Block", "A piece of onstream's memory; it lives as long as this object or an array over it.")
      .def_prop_ro("address", [](const Block& block) { return reinterpret_cast<std::uintptr_t>(block.address); })
      .def_ro("nbytes", &Block::bytes)
      .def_ro("on_host", &Block::on_host, "Whether the CPU may load and store it.")
      .def_ro("device_index", &Block::device_index)
      .def("part", &part, nb::arg("offset"), nb::arg("nbytes"), "A piece of it, which keeps all of it alive.")
      .def("bytes_view", &bytes_view, "The block as a numpy array of bytes. Only if on_host.")
      .def("exchange", &exchange, nb::arg("shape"), nb::arg("dtype_code"), nb::arg("dtype_bits"),
           "The block as a DLPack producer on cuda.");
  nb::class_<Import>(m, "Import", "A foreign array, as DLPack describes it; it stays alive as long as this object.")
      .def_prop_ro("address",
                   [](const Import& import) { return reinterpret_cast<std::uintptr_t>(import.array.data()); })
      .def_prop_ro("shape", &Import::shape)
      .def_prop_ro("strides", &Import::strides, "In bytes.")
      .def_prop_ro("item_bytes", &Import::item_bytes)
      .def_ro("read_only", &Import::read_only)
      .def_prop_ro("device", [](const Import& i) { return std::pair(i.array.device_type(), i.array.device_id()); });
  m.def("address_of", &address_of, nb::arg("array"),
        "Where an array's elements begin; None if it exports no buffer, as numpy's of some types do not.");
  m.def("import_dlpack", &import_dlpack, nb::arg("array"), "Describes any object with __dlpack__.");
}

}  // namespace onstream::python
