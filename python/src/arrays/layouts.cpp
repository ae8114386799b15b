// Layout: the algebra of include/onstream/layout.hpp over sizes, dtypes, arrays and JSON.
#include "layouts.hpp"

#include <nanobind/operators.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <string>
#include <utility>

#include "arguments.hpp"
#include "base/bind.hpp"
#include "base/gil.hpp"
#include "onstream/base/error.hpp"
#include "onstream/layout/move.hpp"
#include "onstream/layout/runs.hpp"

namespace onstream::python {

namespace {

using Numbers = std::vector<std::int64_t>;

// Integers of a sequence or an array.
Numbers numbers_from(const char* call, const char* argument, nb::handle values) {
  const nb::object numpy = nb::module_::import_("numpy");
  nb::object array = numpy.attr("asarray")(values);
  const bool is_empty = nb::cast<std::size_t>(array.attr("size")) == 0;
  const auto kind = nb::cast<std::string>(array.attr("dtype").attr("kind"));
  if (nb::cast<int>(array.attr("ndim")) != 1 || (!is_empty && kind != "i" && kind != "u")) {
    const nb::object shape = array.attr("shape");
    const nb::object type = array.attr("dtype");
    throw nb::type_error(concat("Layout.", call, "(): ", argument, " must be a sequence of integers, but has shape ",
                                nb::repr(shape).c_str(), " and dtype ", nb::str(type).c_str())
                             .c_str());
  }
  array = numpy.attr("ascontiguousarray")(array, numpy.attr("int64"));
  Numbers numbers(nb::cast<std::size_t>(array.attr("size")));
  const auto address = nb::cast<std::uintptr_t>(array.attr("ctypes").attr("data"));
  if (!numbers.empty()) std::memcpy(numbers.data(), reinterpret_cast<const void*>(address), numbers.size() * 8);
  return numbers;
}

// A numpy dtype; of a record its fields alone, without the bytes between them.
Layout layout_of_type(nb::handle type) {
  const auto bytes = nb::cast<std::int64_t>(type.attr("itemsize"));
  if (nb::object inner = type.attr("subdtype"); !inner.is_none()) {
    std::int64_t count = 1;
    for (const nb::handle extent : inner[1]) count *= nb::cast<std::int64_t>(extent);
    return Layout::contiguous(count, layout_of_type(inner[0]));
  }
  if (type.attr("names").is_none()) return Layout::contiguous(static_cast<std::size_t>(bytes));
  std::vector<LayoutField> fields;
  for (const nb::handle name : type.attr("names")) {
    const nb::object field = type.attr("fields")[name];
    fields.push_back({nb::cast<std::int64_t>(field[1]), layout_of_type(field[0])});
  }
  return Layout::structured(fields).resized(0, bytes);
}

// The elements of a constructor: bytes, a layout, or a dtype.
Layout elements_from(const char* call, nb::handle of) {
  if (nb::isinstance<Layout>(of)) return nb::cast<const Layout&>(of);
  if (PyLong_Check(of.ptr()) != 0 && PyBool_Check(of.ptr()) == 0) {
    const auto bytes = nb::cast<std::int64_t>(of);
    require(bytes >= 0, "Layout.", call, "(): elements of ", bytes, " bytes; give bytes, a dtype or a Layout");
    return Layout::contiguous(static_cast<std::size_t>(bytes));
  }
  const nb::object types = nb::module_::import_("onstream._types");
  const auto bytes = nb::cast<std::size_t>(types.attr("item_bytes_of")(of));
  if (nb::cast<bool>(types.attr("is_torch_type")(of))) return Layout::contiguous(bytes);
  return layout_of_type(types.attr("numpy_type")(of));
}

ArrayOrder order_from(const std::string& order) {
  require(order == "C" || order == "F", "Layout.subarray(): order is '", order,
          "', but must be 'C' (last index fastest) or 'F' (first index fastest)");
  return order == "C" ? ArrayOrder::c : ArrayOrder::fortran;
}

nb::object span_of(nb::handle array) { return nb::module_::import_("onstream._arrays").attr("span_of")(array); }

Layout of_array(nb::handle array, nb::handle within) {
  const nb::object span = span_of(array);
  const Layout layout = layout_of(nb::cast<std::int64_t>(span.attr("item_bytes")),
                                  nb::cast<Numbers>(span.attr("shape")), nb::cast<Numbers>(span.attr("strides")));
  if (within.is_none()) return layout;
  const nb::object whole = span_of(within);
  const auto address = [](const nb::object& one) {
    return static_cast<std::int64_t>(nb::cast<std::uintptr_t>(one.attr("address")));
  };
  const auto bytes = nb::cast<std::int64_t>(whole.attr("nbytes"));
  const Layout moved = layout.moved(address(span) - address(whole));
  check_inside("Layout.of", moved, static_cast<std::size_t>(bytes));
  return moved.resized(0, bytes);
}

// --- JSON ---

nb::dict nest_to(std::int64_t offset, const LayoutView& view) {
  nb::dict out;
  out["offset"] = offset;
  out["run_bytes"] = view.run_bytes;
  out["counts"] = Numbers(view.counts.begin(), view.counts.begin() + view.dims);
  out["strides"] = Numbers(view.strides.begin(), view.strides.begin() + view.dims);
  return out;
}

std::string to_json(const Layout& layout) {
  nb::dict out = nest_to(layout.origin(), layout.nest());
  out["lower_bound"] = layout.lower_bound();
  out["extent"] = layout.extent();
  if (const LayoutTable* table = layout.table()) {
    nb::list parts;
    for (std::size_t i = 0; i < table->count(); ++i) {
      parts.append(nest_to(table->parts[i].offset, table->nest_of(i)));
    }
    out["parts"] = parts;
  }
  return nb::cast<std::string>(nb::module_::import_("json").attr("dumps")(out));
}

// `inner` within the strides that an object names.
Layout nest_from(const nb::object& in, Layout inner) {
  const auto counts = nb::cast<Numbers>(in["counts"]);
  const auto strides = nb::cast<Numbers>(in["strides"]);
  require(counts.size() == strides.size(), "it has ", counts.size(), " counts and ", strides.size(), " strides");
  for (std::size_t d = counts.size(); d-- > 0;) inner = Layout::repeated(counts[d], strides[d], inner);
  return inner.moved(nb::cast<std::int64_t>(in["offset"]));
}

Layout from_json(const std::string& text) {
  try {
    const nb::object in = nb::module_::import_("json").attr("loads")(text);
    Layout inner = Layout::contiguous(nb::cast<std::uint64_t>(in["run_bytes"]));
    if (nb::cast<bool>(in.attr("__contains__")("parts"))) {
      std::vector<LayoutField> parts;
      for (const nb::handle one : in["parts"]) {
        const auto part = nb::borrow(one);
        parts.push_back({0, nest_from(part, Layout::contiguous(nb::cast<std::uint64_t>(part["run_bytes"])))});
      }
      const std::size_t stated = inner.bytes();
      inner = Layout::structured(parts);
      require(inner.bytes() == stated, "its parts have ", inner.bytes(), " bytes, and not ", stated);
    }
    return nest_from(in, inner).resized(nb::cast<std::int64_t>(in["lower_bound"]),
                                        nb::cast<std::int64_t>(in["extent"]));
  } catch (nb::python_error& error) {
    fail(ErrorCode::invalid_argument, "Layout.from_json(): the text is no layout: ", error.what());
  } catch (const nb::cast_error&) {
    fail(ErrorCode::invalid_argument,
         "Layout.from_json(): the text is no layout: a number or a list is of another type");
  } catch (const Error& error) {
    fail(ErrorCode::invalid_argument, "Layout.from_json(): the text is no layout: ", error.what());
  }
}

std::string repr(const Layout& layout) {
  return concat("Layout(", layout.describe(), ": ", layout.bytes(), " bytes from ", layout.lowest(), " to ",
                layout.highest(), ", extent ", layout.extent(), ")");
}

// --- pack and unpack ---

// A contiguous array of the host.
struct HostBytes {
  std::byte* address;
  std::size_t bytes;
  nb::object owner;
};

HostBytes host_bytes(const char* call, nb::handle array, Access access) {
  const nb::object describe = nb::module_::import_("onstream._arrays").attr("host_span");
  const nb::object span = describe(array, access == Access::write, call);
  return {reinterpret_cast<std::byte*>(nb::cast<std::uintptr_t>(span[0])), nb::cast<std::size_t>(span[1]),
          nb::object(span[2])};
}

nb::object pack(const Layout& self, nb::handle array) {
  const HostBytes buffer = host_bytes("Layout.pack", array, Access::read);
  check_inside("Layout.pack", self, buffer.bytes);
  nb::object out = nb::module_::import_("numpy").attr("empty")(self.bytes(), "uint8");
  gather(host_bytes("Layout.pack", out, Access::write).address, buffer.address, self);
  return out;
}

void unpack(const Layout& self, nb::handle data, nb::handle array) {
  const HostBytes flat = host_bytes("Layout.unpack", data, Access::read);
  const HostBytes buffer = host_bytes("Layout.unpack", array, Access::write);
  check_inside("Layout.unpack", self, buffer.bytes);
  require_destination("Layout.unpack()", self);
  require(flat.bytes == self.bytes(), "Layout.unpack(): the data has ", flat.bytes, " bytes, and the layout ",
          self.bytes());
  scatter(buffer.address, flat.address, self);
}

}  // namespace

Layout layout_of(std::int64_t item_bytes, const Numbers& shape, const Numbers& strides) {
  Layout layout = Layout::contiguous(static_cast<std::size_t>(item_bytes));
  for (std::size_t d = shape.size(); d-- > 0;) layout = Layout::repeated(shape[d], strides[d], layout);
  return layout;
}

void check_inside(const char* call, const Layout& layout, std::size_t buffer_bytes) {
  if (layout.bytes() == 0) return;
  const bool is_inside = layout.lowest() >= 0 && static_cast<std::size_t>(layout.highest()) <= buffer_bytes;
  require(is_inside, call, "(): the layout (", layout.describe(), ") takes the bytes ", layout.lowest(), " to ",
          layout.highest(), ", but the array has ", buffer_bytes);
}

void bind_layouts(nb::module_& m) {
  nb::class_<Layout> layout(
      m, "Layout",
      "How the elements of a message lie in a buffer: offsets in bytes, in the order of the data.\n\n"
      "Elements (`of`) are a number of bytes, a dtype (of a record its fields, without the bytes between them), or a\n"
      "Layout; those that follow each other are an extent apart. Layouts are values and nest to any depth. Two are\n"
      "equal if they have the same bytes in the same order, however they were made; bounds are not compared.\n"
      "Wrong sizes raise InvalidArgumentError.");
  layout.def_static(
      "contiguous",
      [](std::int64_t count, nb::handle of) { return Layout::contiguous(count, elements_from("contiguous", of)); },
      nb::arg("count"), nb::arg("of"), "`count` elements, one behind the other.");
  layout.def_static(
      "vector",
      [](std::int64_t count, std::int64_t blocklength, std::int64_t stride, nb::handle of) {
        return Layout::vector(count, blocklength, stride, elements_from("vector", of));
      },
      nb::arg("count"), nb::arg("blocklength"), nb::arg("stride"), nb::arg("of"),
      "`count` blocks of `blocklength` elements, which begin `stride` elements apart.");
  layout.def_static(
      "hvector",
      [](std::int64_t count, std::int64_t blocklength, std::int64_t stride_bytes, nb::handle of) {
        return Layout::hvector(count, blocklength, stride_bytes, elements_from("hvector", of));
      },
      nb::arg("count"), nb::arg("blocklength"), nb::arg("stride_bytes"), nb::arg("of"),
      "As vector(), of blocks that begin `stride_bytes` apart.");
  layout.def_static(
      "subarray",
      [](nb::handle shape, nb::handle subshape, nb::handle start, nb::handle of, const std::string& order) {
        return Layout::subarray(
            numbers_from("subarray", "shape", shape), numbers_from("subarray", "subshape", subshape),
            numbers_from("subarray", "start", start), order_from(order), elements_from("subarray", of));
      },
      nb::arg("shape"), nb::arg("subshape"), nb::arg("start"), nb::arg("of"), nb::kw_only(), nb::arg("order") = "C",
      "The box of `subshape` elements that begins at index `start` of an array of `shape`. Its extent is the array's.\n"
      "In order 'C' the last index is fastest, in memory and in the data; in order 'F' the first.");
  layout.def_static(
      "indexed",
      [](nb::handle blocklengths, nb::handle offsets, nb::handle of) {
        return Layout::indexed(numbers_from("indexed", "blocklengths", blocklengths),
                               numbers_from("indexed", "offsets", offsets), elements_from("indexed", of));
      },
      nb::arg("blocklengths"), nb::arg("offsets"), nb::arg("of"),
      "Blocks of so many elements each, at `offsets` in elements.");
  layout.def_static(
      "indexed_block",
      [](std::int64_t blocklength, nb::handle offsets, nb::handle of) {
        return Layout::indexed_block(blocklength, numbers_from("indexed_block", "offsets", offsets),
                                     elements_from("indexed_block", of));
      },
      nb::arg("blocklength"), nb::arg("offsets"), nb::arg("of"),
      "Blocks of `blocklength` elements, at `offsets` in elements.");
  layout.def_static(
      "struct",
      [](const std::vector<std::pair<std::int64_t, nb::object>>& fields) {
        std::vector<LayoutField> all;
        for (const auto& [offset, of] : fields) all.push_back({offset, elements_from("struct", of)});
        return Layout::structured(all);
      },
      nb::arg("fields"), "Fields of different elements: pairs of an offset in bytes and elements, in their order.");
  layout.def_static(
      "of", &of_array, nb::arg("array"), nb::kw_only(), nb::arg("within").none() = nb::none(),
      "Of an array's elements, such as a slice's: of any strides, relative to its first element; or, with\n"
      "`within`, to the begin of the array that it is a view of.");
  layout.def("resized", &Layout::resized, nb::arg("lower_bound"), nb::arg("extent"),
             "The same data with other bounds, in bytes: the next element begins `extent` further.");
  layout.def("moved", &Layout::moved, nb::arg("nbytes"), "The same data and bounds, so many bytes further.");
  layout.def("canonical", &Layout::canonical,
             "The form that equal layouts have alike: of runs as long as possible, and with no bounds but the data's.");
  layout.def_prop_ro("nbytes", &Layout::bytes, "Bytes of data, without gaps.");
  layout.def_prop_ro("lower_bound", &Layout::lower_bound, "Where the element begins, as its neighbours count.");
  layout.def_prop_ro("extent", &Layout::extent, "Bytes from one element to the next.");
  layout.def_prop_ro("true_lower_bound", &Layout::lowest, "The first byte of the data.");
  layout.def_prop_ro(
      "true_extent", [](const Layout& self) { return self.highest() - self.lowest(); },
      "Bytes from the first byte of the data to the last.");
  layout.def_prop_ro("is_contiguous", &Layout::is_contiguous, "Whether the data has no gaps.");
  layout.def_prop_ro("overlaps_itself", &Layout::overlaps_itself,
                     "Whether two of its blocks share a byte: then it is no destination.");
  layout.def("pack", &pack, nb::arg("array"),
             "The data out of a contiguous array of the host, as a new array of bytes.");
  layout.def("unpack", &unpack, nb::arg("data"), nb::arg("array"),
             "Writes such bytes into a contiguous array of the host, at their places.");
  layout.def("to_json", &to_json, "The layout as a JSON text, for from_json().");
  layout.def_static("from_json", &from_json, nb::arg("text"),
                    "The layout of such a text. Raises InvalidArgumentError for any other.");
  layout.def(
      "__eq__",
      [](const Layout& self, nb::handle other) {
        return nb::isinstance<Layout>(other) && self == nb::cast<const Layout&>(other);
      },
      nb::arg("other").none(), nb::sig("def __eq__(self, other: object) -> bool"));
  layout.def("__hash__", [](const Layout& self) {
    const std::string text = to_json(self.canonical());
    return static_cast<Py_hash_t>(std::hash<std::string>()(text) >> 1);
  });
  layout.def("__getstate__", &to_json);
  layout.def("__setstate__", [](Layout& self, const std::string& text) { new (&self) Layout(from_json(text)); });
  layout.def("__repr__", &repr);
}

}  // namespace onstream::python
