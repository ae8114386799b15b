// Exceptions are Python classes (onstream/errors.py); here they are found by name and raised.
#include "errors.hpp"

#include <nanobind/nanobind.h>

#include <exception>
#include <string>

#include "bind.hpp"
#include "gil.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::python {
namespace {

const char* class_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return "InvalidArgumentError";
    case ErrorCode::unsupported: return "UnsupportedError";
    case ErrorCode::system: return "SystemError";
    case ErrorCode::timeout: return "TimeoutError";
    case ErrorCode::aborted: return "AbortedError";
    case ErrorCode::closed: return "ClosedError";
    case ErrorCode::truncated: return "TruncatedError";
    case ErrorCode::unmapped: return "UnmappedError";
  }
  return "Error";
}

const char* class_of(Status status) {
  switch (status) {
    case Status::truncated: return "TruncatedError";
    case Status::unmapped: return "UnmappedError";
    case Status::timeout: return "TimeoutError";
    case Status::aborted: return "AbortedError";
    case Status::misused: return "MisusedError";
    case Status::ok:
    case Status::pending: break;
  }
  return "Error";
}

// Leaves the exception set, or instead the one that a pending signal raises.
void set_error(const char* class_name, const std::string& text) {
  // A Ctrl-C that has come meanwhile goes first: left pending, it would interrupt the code that reports this error.
  if (PyErr_CheckSignals() != 0) return;
  const nb::object errors = nb::module_::import_("onstream.errors");
  // The text may quote bytes of a file or a variable that are no UTF-8.
  const nb::object words =
      nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
  if (words) PyErr_SetObject(nb::object(errors.attr(class_name)).ptr(), words.ptr());
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    python::set_error(error);
  }
}

}  // namespace

void set_error(const Error& error) { set_error(class_of(error.code()), error.what()); }

void raise_unless_ok(const World& world, const FaultReport& fault) {
  if (fault.status == Status::ok) return;
  FaultReport mine = fault;
  mine.timeout_s = world.fabric()->parameters().timeout_s;
  std::string text = describe(mine);
  if (fault.status == Status::aborted && world.fabric()->leaving()) {
    set_error(class_of(ErrorCode::closed), concat("rank ", mine.rank, ": ", what_of(mine),
                                                  " did not end: another thread of this rank closed the world"));
    throw nb::python_error();
  }
  if (fault.status == Status::aborted || fault.status == Status::timeout) {
    const GilRelease release;
    if (const auto failure = world.fabric()->settled_failure(text)) text += "\n" + failure->story;
  }
  set_error(class_of(fault.status), text);
  throw nb::python_error();
}

void raise_faults(const std::vector<FaultReport>& faults) {
  if (faults.empty()) return;
  std::string text;
  for (const FaultReport& fault : faults) text += concat(text.empty() ? "" : "\n", describe(fault));
  set_error(class_of(faults.front().status), text);
  throw nb::python_error();
}

void bind_errors(nb::module_&) { nb::register_exception_translator(translate, nullptr); }

}  // namespace onstream::python
