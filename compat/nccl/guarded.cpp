// Error texts for ncclGetLastError: each thread's newest, and the process's for threads that have none (a watchdog asks
// about another thread's error).
#include "guarded.hpp"

#include <mutex>
#include <new>
#include <optional>

#include "comm.hpp"
#include "group.hpp"
#include "onstream/base/error.hpp"
#include "onstream/base/log.hpp"

namespace onstream::nccl {

namespace {

struct Newest {
  std::mutex mutex;
  std::string text;
};

Newest& newest() {
  static auto* const of_process = new Newest;  // never destroyed: threads may outlive main
  return *of_process;
}

thread_local std::string own;
thread_local std::string shown;

ncclResult_t code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return ncclInvalidArgument;
    case ErrorCode::unsupported:
    case ErrorCode::truncated:
    case ErrorCode::unmapped: return ncclInvalidUsage;
    case ErrorCode::system:
    case ErrorCode::timeout: return ncclSystemError;
    case ErrorCode::aborted:
    case ErrorCode::closed: return ncclRemoteError;
  }
  return ncclInternalError;
}

}  // namespace

Refusal refusal_of(const std::exception_ptr& error, ncclComm_t comm) {
  try {
    std::rethrow_exception(error);
  } catch (const Refusal& refusal) {
    return refusal;
  } catch (const Error& wrong) {
    const bool late = wrong.code() == ErrorCode::timeout;
    if (const auto failed = wrong.of_failure() && comm != nullptr ? refusal_of_failure(*comm, late) : std::nullopt) {
      return *failed;
    }
    return {code_of(wrong.code()), wrong.what()};
  } catch (const std::bad_alloc&) {
    return {ncclSystemError, "there is no memory left"};
  } catch (const std::exception& other) {
    return {ncclInternalError, other.what()};
  }
}

ncclResult_t told(const char* call, ncclComm_t comm) noexcept {
  try {
    const Refusal refusal = refusal_of(std::current_exception(), comm);
    return told(call, refusal);
  } catch (const std::exception&) {
    return told(call, Refusal(ncclSystemError, ""));  // not even memory for a text
  }
}

void keep(const char* text) {
  own = text;
  const std::lock_guard lock(newest().mutex);
  newest().text = own;
}

ncclResult_t told(const char* call, const Refusal& refusal) noexcept {
  try {
    const Refusal named = refusal.under(concat(call, ": "));
    keep(named.what());
    if (!refusal.of_failure() && refusal.code() != ncclRemoteError) log(LogLevel::error, own);
    note_in_group(named);
  } catch (const std::exception&) {
    // The text is lost for want of memory; the code is not.
  }
  return refusal.code();
}

const char* last_error() {
  if (!own.empty()) return own.c_str();
  const std::lock_guard lock(newest().mutex);
  shown = newest().text;
  return shown.c_str();
}

}  // namespace onstream::nccl
