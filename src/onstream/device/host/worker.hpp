// The threads of the host device.
#pragma once

#include <functional>
#include <thread>

namespace onstream::host {

// A quiet thread (base/quiet_thread.hpp) with a name. Throws system, with `what` in its text.
std::thread start_worker(const char* what, std::function<void()> body);

}  // namespace onstream::host
