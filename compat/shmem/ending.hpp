// How a PE ends: by shmem_finalize, by itself, by shmem_global_exit of any PE, or by the failure of the job.
//
// The standard asks for the end of the process (shmem_global_exit), and a call without a return value has no other way
// to say that it cannot be done. A thread watches for other PEs' requests (compat/common/lookout.hpp).
#pragma once

#include <string>

#include "runtime.hpp"

namespace onstream::shmem {

// From here on a PE that ends without shmem_finalize is finalised (status 0) or fails the job, and this process ends
// when another PE says so.
void watch_the_end();
// Collective: the work of shmem_finalize.
void finish(Runtime& shmem);
bool was_finalized();  // by this PE, at some time
// Ends all PEs with `status`, this one by std::exit.
[[noreturn]] void end_all(Runtime& shmem, int status);
// Writes to standard output.
void say(const std::string& text);

}  // namespace onstream::shmem
