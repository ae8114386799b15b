// The frame of every call: finds the runtime, and turns an error into a return code and a line that says why.
#pragma once

#include <exception>

#include "onstream/base/log.hpp"
#include "runtime.hpp"

namespace onstream::mp {

// The runtime between mp_init and mp_finalize; null otherwise.
std::unique_ptr<Runtime>& running();

template <class Function>
int guarded(const char* call, const Function& function) {
  try {
    demand(running() != nullptr, MP_FAILURE, "libmp is not initialised: mp_init was not called, or mp_finalize was");
    running()->world().check_process();
    return function(*running());
  } catch (const Refusal& refusal) {
    log(LogLevel::error, call, ": ", refusal.what());
    return refusal.code();
  } catch (const std::exception& error) {
    log(LogLevel::error, call, ": ", running() == nullptr ? error.what() : running()->told(error));
    return MP_FAILURE;
  }
}

}  // namespace onstream::mp
