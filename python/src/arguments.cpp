// Plain host buffers are read here, in a fraction of a microsecond; everything else, and every refusal, goes through
// onstream/_arrays.py, which knows the libraries and words the errors.
#include "arguments.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "onstream/base/text.hpp"

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

// Whether an array may have more to it than its buffer, such as numpy's masked arrays. Classes made in Python are;
// built in ones, such as numpy's plain array, are not and need no look.
bool may_have_mask(nb::handle array) {
  return PyType_HasFeature(Py_TYPE(array.ptr()), Py_TPFLAGS_HEAPTYPE) != 0 && nb::hasattr(array, "mask");
}

bool try_plain_buffer(nb::handle array, Access access, MessageBuffer& out) {
  if (PyObject_CheckBuffer(array.ptr()) == 0 || may_have_mask(array)) return false;
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

void refuse_message_call(const char* call, const nb::args& arguments, const nb::kwargs& named) {
  const auto refuse = [call](const auto&... parts) {
    throw nb::type_error(
        concat(call, "(): ", parts..., "; call ", call, "(array, peer, *, lane=0, path='auto', stream=None)").c_str());
  };
  const char* const kNames[] = {"array", "peer", "lane", "path", "stream"};
  constexpr std::size_t kPositional = 2;
  const std::size_t given = arguments.size();
  if (given > kPositional) refuse(given, " arguments without a name, but only array and peer may come without");
  std::map<std::string, nb::object> values;
  for (std::size_t i = 0; i < given; ++i) values[kNames[i]] = nb::borrow(arguments[i]);
  for (const auto& [key, value] : named) {
    const auto name = nb::cast<std::string>(key);
    if (std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames)) {
      refuse("there is no argument called '", name, "'", name == "tag" ? "; a tag is a lane here: lane=" : "",
             name == "tag" ? nb::cast<std::string>(nb::repr(value)) : "");
    }
    if (values.contains(name)) refuse("'", name, "' is given twice");
    values[name] = nb::borrow(value);
  }
  for (std::size_t i = 0; i < kPositional; ++i) {
    if (!values.contains(kNames[i])) refuse("there is no ", kNames[i]);
  }
  const auto told = [](nb::handle value) {
    return concat(nb::cast<std::string>(nb::repr(value)), " of type ", nb::type_name(value.type()).c_str());
  };
  if (values["array"].is_none()) refuse("the array is None");
  for (const auto& [name, what] :
       {std::pair("peer", "a rank, an integer"), std::pair("lane", "an integer from 0 on")}) {
    int number = 0;
    if (!values.contains(name) || nb::try_cast(values[name], number)) continue;
    if (PyIndex_Check(values[name].ptr()) != 0)
      refuse(name, " is ", nb::cast<std::string>(nb::repr(values[name])), ": too large");
    refuse(name, " is ", told(values[name]), ", but must be ", what);
  }
  if (values.contains("path") && !nb::isinstance<nb::str>(values["path"])) {
    refuse("path is ", told(values["path"]), ", but must be a string such as 'store'");
  }
  throw nb::next_overload();
}

}  // namespace onstream::python
