// From Python arguments to what a message needs.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <optional>

#include "holds.hpp"
#include "onstream/device/device.hpp"

namespace onstream::python {

enum class Access { read, write };

struct MessageBuffer {
  void* address = nullptr;
  std::size_t bytes = 0;
  Hold hold;
  std::optional<Stream> natural;  // the current stream of a device array's own library
};

// The memory of a contiguous array. `world` is the Python World, for errors that name its device. Throws
// invalid_argument or TypeError with the reason.
MessageBuffer message_buffer(nanobind::handle array, Access access, nanobind::handle world);

// Throws a TypeError that names the argument of send(), recv(), isend() or irecv() that no form of the call takes. The
// last overload of each: reached only once the real one has refused the arguments, so that it costs a good call
// nothing. If it finds nothing wrong it steps back: the real one is then tried with conversions, such as that of a
// numpy integer.
[[noreturn]] void refuse_message_call(const char* call, const nanobind::args& arguments, const nanobind::kwargs& named);

}  // namespace onstream::python
