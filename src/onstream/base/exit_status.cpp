#include "onstream/base/exit_status.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "onstream/base/log.hpp"

namespace onstream {

void end_with_failure() {
  // Registered late, so it runs before what the program registered with atexit(); Python's own functions have run.
  static const bool registered = std::atexit([] {
                                   std::fflush(nullptr);
                                   ::_exit(EXIT_FAILURE);
                                 }) == 0;
  if (!registered) log(LogLevel::error, "the exit status does not tell of this failure: atexit() refused");
}

}  // namespace onstream
