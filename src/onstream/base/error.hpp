// How the library throws an Error (onstream/error.hpp), with a text of joined parts.
#pragma once

#include <string>

#include "onstream/base/text.hpp"
#include "onstream/error.hpp"

namespace onstream {

// Throws Error(code, parts joined). Usage: fail(ErrorCode::timeout, "rank ", r, " did not come within ", s, " s").
template <class... Parts>
[[noreturn]] void fail(ErrorCode code, const Parts&... parts) {
  throw Error(code, concat(parts...));
}

// Throws an invalid_argument Error with the joined parts unless `holds`.
template <class... Parts>
void require(bool holds, const Parts&... parts) {
  if (!holds) fail(ErrorCode::invalid_argument, parts...);
}

// Throws a system Error that ends with errno's own text.
[[noreturn]] void fail_errno(const std::string& what);

}  // namespace onstream
