// Plain host buffers are read here, in a fraction of a microsecond; everything else, and every refusal, goes through
// onstream/_arrays.py, which knows the libraries and words the errors.
#include "arguments.hpp"

#include <cstdint>
#include <cstring>

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

bool try_plain_buffer(nb::handle array, Access access, MessageBuffer& out) {
  if (PyObject_CheckBuffer(array.ptr()) == 0) return false;
  Py_buffer view;
  const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (access == Access::write ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(array.ptr(), &view, flags) != 0) {
    PyErr_Clear();
    return false;
  }
  out.hold = Hold(view);
  if (holds_references(view.format)) return false;
  out.address = view.buf;
  out.bytes = static_cast<std::size_t>(view.len);
  return true;
}

}  // namespace

MessageBuffer message_buffer(nb::handle array, Access access, nb::handle world) {
  MessageBuffer out;
  if (try_plain_buffer(array, access, out)) return out;
  const nb::object describe = nb::module_::import_("onstream._arrays").attr("message_span");
  const nb::object span = describe(array, access == Access::write, world);
  out.address = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(span[0]));
  out.bytes = nb::cast<std::size_t>(span[1]);
  out.hold = Hold(nb::object(span[2]));
  const nb::object stream = span[3];
  if (!stream.is_none()) out.natural = Stream{reinterpret_cast<void*>(nb::cast<std::uintptr_t>(stream))};
  return out;
}

}  // namespace onstream::python
