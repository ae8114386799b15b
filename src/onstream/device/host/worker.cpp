#include "onstream/device/host/worker.hpp"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

#include "onstream/base/error.hpp"

namespace onstream::host {
namespace {

class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

std::thread start_worker(const char* what, std::function<void()> body) {
  const SignalsBlocked blocked;
  try {
    std::thread worker(std::move(body));
    pthread_setname_np(worker.native_handle(), "onstream");
    return worker;
  } catch (const std::system_error& error) {
    fail(ErrorCode::system, "cannot start the thread of ", what, ": ", error.what(),
         ". Fewer streams, or a higher limit on threads (ulimit -u), would help.");
  }
}

}  // namespace onstream::host
