// Reads Python arguments into the buffer and options of a message.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "holds.hpp"
#include "onstream/collective.hpp"
#include "onstream/device.hpp"
#include "onstream/layout.hpp"
#include "onstream/message/message.hpp"
#include "world/streams.hpp"

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

// The same of an array with gaps, too: `layout` then gets its own, from the address of its first element.
MessageBuffer message_buffer(nanobind::handle array, Access access, nanobind::handle world,
                             std::unique_ptr<const Layout>& layout);

// A contiguous host buffer of elements that collectives know, whose numbers are in this machine's order.
struct PlainElements {
  Hold hold;
  void* address = nullptr;
  std::size_t bytes = 0;
  std::size_t item_bytes = 0;
  ElementType type = ElementType::uint8;

  std::size_t count() const { return bytes / item_bytes; }
};

// Empty for any other array, and for bytes, which have no element type.
std::optional<PlainElements> plain_elements(nanobind::handle array, Access access);

// onstream.null, and whether that is what a call was given as a peer.
nanobind::object null();
bool is_null(nanobind::handle peer);

// An integer of any type; a bool is none. False, and nothing is written, for anything else.
bool integer_from(nanobind::handle value, int& number);

// The arguments of a call of World, for errors: each throws a TypeError that names the argument and shows the form.
struct CallForm {
  const char* name;
  const char* positional;  // as they are listed: "array, peer"

  // Arguments that the call does not have.
  void refuse_more(std::size_t positional_count, const nanobind::args& more, const nanobind::kwargs& unknown,
                   std::initializer_list<std::string_view> but = {}) const;
  nanobind::handle array(const char* argument, nanobind::handle value) const;
  int integer(const char* argument, nanobind::handle value, const char* what) const;
  MessageOptions options(nanobind::handle tag, nanobind::handle path) const;

 private:
  [[noreturn]] void refuse(const std::string& why) const;
};

}  // namespace onstream::python
