// Every CUDA call of this back end goes through check(): a failure becomes an Error with the call, the values and
// CUDA's own words. Nothing of it stays behind for the caller's own cudaGetLastError().
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

#include "onstream/base/error.hpp"

namespace onstream::cuda {

// "cudaErrorInvalidValue: invalid argument".
std::string text_of(cudaError_t result);
std::string text_of(CUresult result);

// Throws a system Error "<parts joined>: <CUDA's words>" unless the call succeeded. The parts name the call and its
// values: check(cudaGraphLaunch(...), "launching a graph on GPU ", ordinal).
template <class... Parts>
void check(cudaError_t result, const Parts&... parts) {
  if (result == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  fail(ErrorCode::system, parts..., ": ", text_of(result));
}

template <class... Parts>
void check(CUresult result, const Parts&... parts) {
  if (result == CUDA_SUCCESS) return;
  fail(ErrorCode::system, parts..., ": ", text_of(result));
}

// For calls that answer with an error which the caller understands (not ready, already enabled): forgets it.
inline void forget_error() { static_cast<void>(cudaGetLastError()); }

// check() of a query: false while the work it asks about is not ready.
template <class... Parts>
bool is_ready(cudaError_t result, const Parts&... parts) {
  if (result == cudaErrorNotReady) {
    forget_error();
    return false;
  }
  check(result, parts...);
  return true;
}

}  // namespace onstream::cuda
