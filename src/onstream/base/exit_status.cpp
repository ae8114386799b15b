#include "onstream/base/exit_status.hpp"

#include <cstdlib>

#include "onstream/base/log.hpp"

namespace onstream {

void end_with_failure() {
  // Runs behind the program's own end. On Linux, exit() inside a function of on_exit() goes on with the functions left
  // to run.
  static const bool registered = ::on_exit(
                                     [](int status, void*) {
                                       if (status == EXIT_SUCCESS) std::exit(EXIT_FAILURE);
                                     },
                                     nullptr) == 0;
  if (!registered) log(LogLevel::error, "the exit status does not tell of this failure: on_exit() refused");
}

}  // namespace onstream
