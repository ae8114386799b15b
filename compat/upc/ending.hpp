// How a thread begins and ends: at its first call; by the end of main, by upc_global_exit of any thread, or by the
// failure of the job.
//
// UPC asks for the end of the process (upc_global_exit), and a call without a return value has no other way to say that
// it cannot be done. Reasons begin with "rank N", by which `onstream run` finds where a failure began; a rank is a UPC
// thread. A thread of the library watches for other threads' requests (compat/common/lookout.hpp).
#pragma once

#include "runtime.hpp"

namespace onstream::upc {

// Collective: joins the others. Throws when they do not come, and once this thread has ended.
Runtime& start();
// Fails the world, says why, and ends the process with status 1; or with that of upc_global_exit if a thread called it.
[[noreturn]] void end_job(const char* call, const std::exception& error);
// Ends all threads with `status`, this one by std::exit.
[[noreturn]] void end_all(Runtime& upc, int status);

}  // namespace onstream::upc
