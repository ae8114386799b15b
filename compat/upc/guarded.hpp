// The frame of every call: joins the other threads if it is the first, and turns an error into a line that says why,
// and the job's end.
//
// UPC's calls have no way to return an error, and a thread that went on after one would leave the others waiting.
#pragma once

#include <exception>

#include "ending.hpp"
#include "onstream/base/error.hpp"

namespace onstream::upc {

template <class Function>
auto guarded(const char* call, const Function& function) {
  try {
    Runtime* const found = running();
    if (found != nullptr) found->world().check_process();
    return function(found != nullptr ? *found : start());
  } catch (const std::exception& error) {
    end_job(call, error);
  }
}

}  // namespace onstream::upc
