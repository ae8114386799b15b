// The threads of the host device.
#pragma once

#include <functional>
#include <thread>

namespace onstream::host {

// A thread that takes no signals: they belong to the program's own. Throws system, naming what it was for.
std::thread start_worker(const char* what, std::function<void()> body);

}  // namespace onstream::host
