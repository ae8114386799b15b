#include "onstream/base/exit_status.hpp"

#include <cstdlib>

#include "onstream/base/log.hpp"

namespace onstream {

void end_with_failure() {
  // Behind the program's own end. exit() inside a function of on_exit() goes on with what is left to run, as Linux has
  // it.
  static const bool registered = ::on_exit(
                                     [](int status, void*) {
                                       if (status == EXIT_SUCCESS) std::exit(EXIT_FAILURE);
                                     },
                                     nullptr) == 0;
  if (!registered) log(LogLevel::error, "the exit status does not tell of this failure: on_exit() refused");
}

}  // namespace onstream
