// Behind an error about a rank that does not exist: the launcher that the user forgot.
#pragma once

#include "onstream/launch.hpp"

namespace onstream {

inline const char* hint_without_launcher(const Launch& launch) {
  const bool alone = launch.size == 1 && launch.launcher == "none";
  return alone ? " (no launcher was found: `onstream run -n 4 python prog.py`)" : "";
}

}  // namespace onstream
