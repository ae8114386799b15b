// The frame of every call: finds the runtime, and turns an error into a line that says why, and the job's end.
//
// OpenSHMEM's calls have no way to return an error, and a PE that went on after one would leave the others waiting. So
// this ends the job, on every PE, by the world's failure. Calls that can return something say it by attempt().
#pragma once

#include <exception>
#include <limits>

#include "lookout.hpp"
#include "onstream/base/error.hpp"
#include "onstream/base/log.hpp"
#include "runtime.hpp"

namespace onstream::shmem {

// Fails the world, says why, and ends the process with status 1; or with that of shmem_global_exit if a PE called it.
[[noreturn]] void end_job(const char* call, const std::exception& error);

inline Runtime& runtime() {
  Runtime* const found = running();
  if (found == nullptr) [[unlikely]] {
    fail(ErrorCode::invalid_argument, "OpenSHMEM is not initialised: shmem_init was not called, or shmem_finalize was");
  }
  found->world().check_process();
  return *found;
}

// A failed world has ended this wait.
inline void demand_ok(Runtime& shmem, Status status) {
  if (status == Status::ok) [[likely]]
    return;
  shmem.world().check();
  fail(ErrorCode::aborted, "the wait was interrupted");
}

template <class Function>
auto guarded(const char* call, const Function& function) {
  try {
    return function(runtime());
  } catch (const std::exception& error) {
    end_job(call, error);
  }
}

// For calls that can be refused with `refusal` as the answer; the job goes on. The world's failure ends it all the
// same.
template <class Result, class Function>
Result attempt(const char* call, Result refusal, const Function& function) {
  try {
    return function(runtime());
  } catch (const Error& error) {
    const Runtime* const mine = of_this_process(running());
    if (error.of_failure() || mine == nullptr || mine->world().failure()) end_job(call, error);
    log(LogLevel::error, call, ": ", error.what());
    return refusal;
  } catch (const std::exception& error) {
    end_job(call, error);
  }
}

inline std::size_t bytes_of(std::size_t count, std::size_t element) {
  require(count <= std::numeric_limits<std::size_t>::max() / 2 / element, count, " elements of ", element,
          " B are more than any memory has");
  return count * element;
}

// The runtime and the context of one op.
template <class Function>
auto with_context(const char* call, shmem_ctx_t handle, const Function& function) {
  return guarded(call, [&](Runtime& shmem) {
    ContextHandle& context = shmem.context(handle);
    const auto held = context.lock();
    return function(shmem, context, *context.context);
  });
}

}  // namespace onstream::shmem
