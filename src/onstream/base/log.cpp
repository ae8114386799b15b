// The process's log: a level and a rank that are read without a lock, and a set of keys behind one.
#include "onstream/base/log.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <unordered_set>

#include "onstream/base/error.hpp"

namespace onstream {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"off", "error", "warn", "info", "debug"};

// Relaxed everywhere: they guard no other data.
std::atomic<int> current_level{static_cast<int>(LogLevel::warn)};
std::atomic<int> current_rank{-1};

void write_whole(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nowhere left to report it
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

LogLevel log_level_of(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames.at(i) == name) return static_cast<LogLevel>(i);
  fail(ErrorCode::invalid_argument, "the log level is '", name, "', but must be off, error, warn, info or debug");
}

void set_log(LogLevel level, int rank) {
  current_level.store(static_cast<int>(level), std::memory_order_relaxed);
  current_rank.store(rank, std::memory_order_relaxed);
}

bool logs(LogLevel level) {
  return level != LogLevel::off && static_cast<int>(level) <= current_level.load(std::memory_order_relaxed);
}

void log_line(LogLevel level, const std::string& text) {
  if (!logs(level)) return;
  const int rank = current_rank.load(std::memory_order_relaxed);
  std::string line = rank < 0 ? "onstream " : concat("onstream[", rank, "] ");
  line += concat(kNames.at(static_cast<std::size_t>(level)), ": ");
  for (const char c : text) {
    line += c;
    if (c == '\n') line += "  ";
  }
  line += '\n';
  write_whole(line);  // one call for the line, so that lines of several ranks do not mix
}

bool first_time(LogLevel level, const std::string& key) {
  if (!logs(level)) return false;
  static std::mutex guard;
  static auto* const seen = new std::unordered_set<std::string>;  // never destroyed: threads log while the process ends
  const std::lock_guard lock(guard);
  return seen->insert(key).second;
}

}  // namespace onstream
