// Handles: the program's references to a link. A handle is never given back to the system, so that the use of one that
// is closed is an error and no accident.
#pragma once

#include <memory>
#include <mutex>

#include "runtime.hpp"

struct onstream_apelink {
  std::mutex mutex;
  std::shared_ptr<onstream::am::Link> link;  // null: closed. Guarded by the mutex.
};

namespace onstream::am {

// Throws Refusal: EINVAL for null, ECLOSED.
std::shared_ptr<Link> link_of(apelink_t handle);

}  // namespace onstream::am
