#include "refusal.hpp"

#include <array>
#include <cstdio>
#include <new>

#include "runtime.hpp"

namespace onstream::am {

namespace {

// This thread's story. No allocation: it also tells that there is no memory.
std::array<char, 4096>& story() {
  thread_local std::array<char, 4096> text{};
  return text;
}

int keep(const char* call, const char* text, int code) noexcept {
  (void)std::snprintf(story().data(), story().size(), "%s: %s", call, text);
  return code;
}

int code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return APELINK_EINVAL;
    case ErrorCode::unsupported:
    case ErrorCode::system: return APELINK_ESYSTEM;
    case ErrorCode::timeout: return APELINK_ETIMEOUT;
    case ErrorCode::aborted: return APELINK_EDEAD;
    case ErrorCode::closed: return APELINK_ECLOSED;
    case ErrorCode::truncated:
    case ErrorCode::unmapped: return APELINK_EFAULT;
  }
  return APELINK_ESYSTEM;
}

// Keeps the world's own story for a failed world: the error's text tells how to go on in other words than this
// interface's.
int keep_error(const char* call, const Error& error) noexcept {
  try {
    const auto story = error.of_failure() ? story_of_failure() : std::nullopt;
    if (story) return keep(call, story->c_str(), code_of(error.code()));
  } catch (const std::exception&) {
    // There is no memory for more than the error itself.
  }
  return keep(call, error.what(), code_of(error.code()));
}

}  // namespace

int told(const char* call) noexcept {
  try {
    throw;
  } catch (const Refusal& refusal) {
    return keep(call, refusal.what(), refusal.code());
  } catch (const Error& error) {
    return keep_error(call, error);
  } catch (const std::bad_alloc&) {
    return keep(call, "there is no memory", APELINK_ENOSPACE);
  } catch (const std::exception& error) {
    return keep(call, error.what(), APELINK_ESYSTEM);
  } catch (...) {
    return keep(call, "an exception of another library", APELINK_ESYSTEM);
  }
}

}  // namespace onstream::am

const char* ape_last_error(void) { return onstream::am::story().data(); }

const char* ape_error_string(int code) {
  switch (code) {
    case APELINK_SUCCESS: return "success";
    case APELINK_WOULDBLOCK: return "nothing was done, try again";
    case APELINK_EINVAL: return "arguments that cannot work";
    case APELINK_ECLOSED: return "the link is closed, or the peer has closed its links";
    case APELINK_EADDRESS: return "no such node in the torus";
    case APELINK_EPORT: return "no such port, or nobody has opened it";
    case APELINK_EFAULT: return "the address is not registered, or its memory was freed";
    case APELINK_ERANGE: return "the message ends past the registered buffer";
    case APELINK_EALIGN: return "an address or a length is not a multiple of 16";
    case APELINK_ETOOLARGE: return "the message is too large";
    case APELINK_EDEAD: return "a rank has died or failed";
    case APELINK_ETIMEOUT: return "the deadline passed";
    case APELINK_EQUEUE: return "events of this link must be taken first";
    case APELINK_EBUSY: return "a message is using the buffer";
    case APELINK_ENOSPACE: return "no port, no memory, or no row for one more buffer";
    case APELINK_ESYSTEM: return "the system or the device refused";
    default: return "no code of this interface";
  }
}
