// From Python arguments to what a message needs.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <optional>
#include <string>

#include "holds.hpp"
#include "onstream/device/device.hpp"
#include "onstream/message/message.hpp"
#include "streams.hpp"

namespace onstream::python {

enum class Access { read, write };

struct MessageBuffer {
  void* address = nullptr;
  std::size_t bytes = 0;
  Hold hold;
  std::optional<Natural> natural;  // of a device array
};

// The memory of a contiguous array. `world` is the Python World, for errors that name its device. Throws
// invalid_argument or TypeError with the reason.
MessageBuffer message_buffer(nanobind::handle array, Access access, nanobind::handle world);

// What a call of World takes, for errors: each throws a TypeError that names the argument and shows the form.
struct CallForm {
  const char* name;
  const char* positional;  // as they are listed: "array, peer"

  // Arguments that the call does not have.
  void refuse_more(std::size_t positional_count, const nanobind::args& more, const nanobind::kwargs& unknown) const;
  nanobind::handle array(const char* argument, nanobind::handle value) const;
  int integer(const char* argument, nanobind::handle value, const char* what) const;
  MessageOptions options(nanobind::handle lane, nanobind::handle path) const;

 private:
  [[noreturn]] void refuse(const std::string& why) const;
};

}  // namespace onstream::python
