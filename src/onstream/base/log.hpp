// Log lines on standard error, for people: "onstream[2] warn: ...".
//
// One log per process, from any thread; each line is written whole. Level and rank are set when a world is created
// (the last one wins). The first caller that knows of a failure logs it, once: log_once drops a line whose key was
// logged before. Nothing here is on a data path.
#pragma once

#include <string>
#include <string_view>

#include "onstream/base/text.hpp"

namespace onstream {

enum class LogLevel { off, error, warn, info, debug };

// Reads a value of the parameter `log`. Throws invalid_argument for anything else.
LogLevel log_level_of(std::string_view name);

// Sets the level of the lines written from now on, and the rank in front of them; a rank below 0 is not shown.
void set_log(LogLevel level, int rank);

bool logs(LogLevel level);

// Writes the text if the level is on. Its later lines, if any, are indented.
void log_line(LogLevel level, const std::string& text);

// True for the first call with this key in the life of the process, if the level is on.
bool first_time(LogLevel level, const std::string& key);

template <class... Parts>
void log(LogLevel level, const Parts&... parts) {
  if (logs(level)) log_line(level, concat(parts...));
}

template <class... Parts>
void log_once(LogLevel level, const std::string& key, const Parts&... parts) {
  if (first_time(level, key)) log_line(level, concat(parts...));
}

}  // namespace onstream
