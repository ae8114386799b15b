// Plain host buffers are read here, in a fraction of a microsecond; everything else, and every refusal, goes through
// onstream/_arrays.py, which knows the libraries and words the errors.
#include "arguments.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "layouts.hpp"
#include "onstream/base/text.hpp"
#include "onstream/path.hpp"

namespace onstream::python {

namespace nb = nanobind;

namespace {

// Whether a buffer's format has references to Python objects ('O'), which must not leave the process. Field names stand
// between colons and may contain any letter.
bool holds_references(const char* format) {
  bool in_name = false;
  for (; format != nullptr && *format != '\0'; ++format) {
    if (*format == ':') in_name = !in_name;
    if (*format == 'O' && !in_name) return true;
  }
  return false;
}

// Whether an array may have more to it than its buffer, such as numpy's masked arrays, and arrays of numba's that a GPU
// works on. Classes made in Python may; built in ones, such as numpy's plain array, do not and need no look.
bool may_have_more(nb::handle array) {
  if (PyType_HasFeature(Py_TYPE(array.ptr()), Py_TPFLAGS_HEAPTYPE) == 0) return false;
  return nb::hasattr(array, "mask") || nb::hasattr(array.type(), "__cuda_array_interface__") ||
         nb::hasattr(array.type(), "local_span");
}

// A contiguous buffer that is all there is to the array.
bool export_buffer(nb::handle array, Access access, Py_buffer& view, int shape = PyBUF_C_CONTIGUOUS) {
  if (PyObject_CheckBuffer(array.ptr()) == 0 || may_have_more(array)) return false;
  const int flags = shape | PyBUF_FORMAT | (access == Access::write ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(array.ptr(), &view, flags) == 0) return true;
  PyErr_Clear();
  return false;
}

bool try_plain_buffer(nb::handle array, Access access, MessageBuffer& out) {
  Py_buffer view;
  if (!export_buffer(array, access, view)) return false;
  out.hold = Hold(view);
  if (holds_references(view.format)) return false;
  out.address = view.buf;
  out.bytes = static_cast<std::size_t>(view.len);
  return true;
}

// A buffer of any strides, whose address is that of its first element.
bool try_strided_buffer(nb::handle array, Access access, MessageBuffer& out, std::unique_ptr<const Layout>& layout) {
  Py_buffer view;
  if (!export_buffer(array, access, view, PyBUF_STRIDES)) return false;
  out.hold = Hold(view);
  if (holds_references(view.format) || view.strides == nullptr) return false;
  const std::vector<std::int64_t> shape(view.shape, view.shape + view.ndim);
  layout = std::make_unique<const Layout>(
      layout_of(view.itemsize, shape, std::vector<std::int64_t>(view.strides, view.strides + view.ndim)));
  out.address = view.buf;
  out.bytes = layout->bytes();
  return true;
}

// The elements of a format without a byte order, which is the machine's; nothing for those that are no numbers.
std::optional<ElementType> element_of(const Py_buffer& view) {
  const std::string_view format = view.format == nullptr ? "B" : view.format;
  if (format == "e") return ElementType::float16;
  if (format == "f") return ElementType::float32;
  if (format == "d") return ElementType::float64;
  if (format == "Zf") return ElementType::complex64;
  if (format == "Zd") return ElementType::complex128;
  constexpr std::string_view kIntegers = "bBhHiIlLqQ";
  if (format.size() != 1 || kIntegers.find(format) == std::string_view::npos) return std::nullopt;
  const bool has_sign = format[0] >= 'a';
  switch (view.itemsize) {
    case 1: return has_sign ? ElementType::int8 : ElementType::uint8;
    case 2: return has_sign ? ElementType::int16 : ElementType::uint16;
    case 4: return has_sign ? ElementType::int32 : ElementType::uint32;
    default: return has_sign ? ElementType::int64 : ElementType::uint64;
  }
}

// The default of arguments that a call cannot do without.
bool is_missing(nb::handle value) { return value.ptr() == Py_Ellipsis; }

// A value in an error: as it is written if that is short by nature, else only its type.
std::string told(nb::handle value) {
  const auto name_part = [&](const char* part) { return nb::cast<std::string>(value.type().attr(part)); };
  const std::string module = name_part("__module__");
  const std::string type = (module == "builtins" ? "" : module + ".") + name_part("__qualname__");
  const bool plain = value.is_none() || PyLong_Check(value.ptr()) != 0 || PyFloat_Check(value.ptr()) != 0 ||
                     (nb::isinstance<nb::str>(value) && nb::len(value) < 40);
  return plain ? concat(nb::cast<std::string>(nb::repr(value)), " of type ", type) : "a " + type;
}

}  // namespace

namespace {

// As message_span() of _arrays.py describes it.
MessageBuffer buffer_of(const nb::object& span) {
  MessageBuffer out;
  out.address = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(span[0]));
  out.bytes = nb::cast<std::size_t>(span[1]);
  out.hold = Hold(nb::object(span[2]));
  out.natural = natural_from(nb::cast<NaturalArgument>(span[3]));
  return out;
}

}  // namespace

MessageBuffer message_buffer(nb::handle array, Access access, nb::handle world) {
  MessageBuffer out;
  if (try_plain_buffer(array, access, out)) return out;
  const nb::object describe = nb::module_::import_("onstream._arrays").attr("message_span");
  return buffer_of(describe(array, access == Access::write, world));
}

MessageBuffer message_buffer(nb::handle array, Access access, nb::handle world, std::unique_ptr<const Layout>& layout) {
  MessageBuffer out;
  if (try_plain_buffer(array, access, out) || try_strided_buffer(array, access, out, layout)) return out;
  const nb::object describe = nb::module_::import_("onstream._arrays").attr("message_elements");
  const nb::object span = describe(array, access == Access::write, world);
  const nb::object strides = span[6];
  if (!strides.is_none()) {
    layout = std::make_unique<const Layout>(layout_of(nb::cast<std::int64_t>(span[4]),
                                                      nb::cast<std::vector<std::int64_t>>(span[5]),
                                                      nb::cast<std::vector<std::int64_t>>(strides)));
  }
  return buffer_of(span);
}

std::optional<PlainElements> plain_elements(nb::handle array, Access access) {
  if (PyBytes_Check(array.ptr()) != 0 || PyByteArray_Check(array.ptr()) != 0) return std::nullopt;
  Py_buffer view;
  if (!export_buffer(array, access, view)) return std::nullopt;
  Hold hold(view);
  const std::optional<ElementType> type = element_of(view);
  if (!type) return std::nullopt;
  return PlainElements{std::move(hold), view.buf, static_cast<std::size_t>(view.len),
                       static_cast<std::size_t>(view.itemsize), *type};
}

nb::object null() { return nb::module_::import_("onstream._null").attr("null"); }

bool is_null(nb::handle peer) {
  return PyLong_Check(peer.ptr()) != 0 && PyLong_CheckExact(peer.ptr()) == 0 && peer.is(null());
}

void CallForm::refuse(const std::string& why) const {
  throw nb::type_error(
      concat(name, "(): ", why, "; call ", name, "(", positional, ", *, tag=0, path='auto', stream=None)").c_str());
}

void CallForm::refuse_more(std::size_t positional_count, const nb::args& more, const nb::kwargs& unknown,
                           std::initializer_list<std::string_view> but) const {
  if (more.size() != 0) {
    refuse(concat(positional_count + more.size(), " arguments without a name, but only ", positional,
                  " may come without"));
  }
  for (const auto& [key, _] : unknown) {
    const auto text = nb::cast<std::string>(key);
    if (std::ranges::find(but, text) == but.end()) refuse(concat("there is no argument called '", text, "'"));
  }
}

nb::handle CallForm::array(const char* argument, nb::handle value) const {
  if (is_missing(value)) refuse(concat("there is no ", argument));
  if (value.is_none()) refuse(concat("the ", argument, " is None"));
  return value;
}

bool integer_from(nb::handle value, int& number) {
  return PyBool_Check(value.ptr()) == 0 && nb::try_cast(value, number);
}

int CallForm::integer(const char* argument, nb::handle value, const char* what) const {
  int number = 0;
  if (integer_from(value, number)) return number;
  if (is_missing(value)) refuse(concat("there is no ", argument));
  if (PyLong_Check(value.ptr()) != 0 && PyBool_Check(value.ptr()) == 0) {
    refuse(concat(argument, " is ", nb::cast<std::string>(nb::repr(value)), ": too large"));
  }
  refuse(concat(argument, " is ", told(value), ", but must be ", what));
}

MessageOptions CallForm::options(nb::handle tag, nb::handle path) const {
  MessageOptions options;
  options.tag = integer("tag", tag, "an integer from 0 on");
  if (!nb::isinstance<nb::str>(path)) {
    refuse(concat("path is ", told(path), ", but must be a string such as 'store'"));
  }
  std::string text;
  if (!nb::try_cast(path, text)) refuse("path is no text");
  if (text != "auto") options.path = path_from(text);
  return options;
}

}  // namespace onstream::python
