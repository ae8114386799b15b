#include "onstream/base/error.hpp"

#include <cerrno>

namespace onstream {

const char* name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::system: return "system";
    case ErrorCode::timeout: return "timeout";
    case ErrorCode::aborted: return "aborted";
    case ErrorCode::closed: return "closed";
    case ErrorCode::truncated: return "truncated";
    case ErrorCode::unmapped: return "unmapped";
  }
  return "unknown";
}

void fail_errno(const std::string& what) {
  const int saved = errno;
  fail(ErrorCode::system, what, ": ", error_text(saved), " (errno ", saved, ")");
}

}  // namespace onstream
