#include "onstream/device/host/worker.hpp"

#include <system_error>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/base/quiet_thread.hpp"

namespace onstream::host {

std::thread start_worker(const char* what, std::function<void()> body) {
  try {
    std::thread worker = quiet_thread(std::move(body));
    pthread_setname_np(worker.native_handle(), "onstream");
    return worker;
  } catch (const std::system_error& error) {
    fail(ErrorCode::system, "cannot start the thread of ", what, ": ", error.what(),
         ". Fewer streams, or a higher limit on threads (ulimit -u), would help.");
  }
}

}  // namespace onstream::host
