// Block becomes a numpy array or a DLPack producer; any DLPack producer becomes numbers for onstream/_arrays.py.
#include "blocks.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "bind.hpp"
#include "onstream/base/error.hpp"

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

}  // namespace

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
  nb::class_<Import>(m, "Import", "What DLPack says of a foreign array, which stays alive as long as this object.")
      .def_prop_ro("address",
                   [](const Import& import) { return reinterpret_cast<std::uintptr_t>(import.array.data()); })
      .def_prop_ro("shape", &Import::shape)
      .def_prop_ro("strides", &Import::strides, "In bytes.")
      .def_prop_ro("item_bytes", &Import::item_bytes)
      .def_ro("read_only", &Import::read_only)
      .def_prop_ro("device", [](const Import& i) { return std::pair(i.array.device_type(), i.array.device_id()); });
  m.def("import_dlpack", &import_dlpack, nb::arg("array"), "Describes any object with __dlpack__.");
}

}  // namespace onstream::python
