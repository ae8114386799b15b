// The log: which lines are written, their prefix, and that a repeated fault is told once.
#include "onstream/base/log.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "onstream/base/error.hpp"
#include "support/check.hpp"
#include "support/standard_error.hpp"

using onstream::LogLevel;
using onstream::test::standard_error_of;

CASE(a_line_names_rank_and_level) {
  onstream::set_log(LogLevel::warn, 2);
  const std::string text = standard_error_of([] { onstream::log(LogLevel::warn, "rank ", 3, " is gone"); });
  CHECK(text == "onstream[2] warn: rank 3 is gone\n");
}

CASE(no_rank_is_shown_before_it_is_known) {
  onstream::set_log(LogLevel::info, -1);
  const std::string text = standard_error_of([] { onstream::log(LogLevel::info, "hello"); });
  CHECK(text == "onstream info: hello\n");
}

CASE(later_lines_of_a_text_are_indented) {
  onstream::set_log(LogLevel::warn, 0);
  const std::string text = standard_error_of([] { onstream::log(LogLevel::error, "one\ntwo"); });
  CHECK(text == "onstream[0] error: one\n  two\n");
}

CASE(a_level_below_the_threshold_is_silent) {
  onstream::set_log(LogLevel::warn, 0);
  CHECK(standard_error_of([] { onstream::log(LogLevel::info, "x"); }).empty());
  onstream::set_log(LogLevel::off, 0);
  CHECK(standard_error_of([] { onstream::log(LogLevel::error, "x"); }).empty());
}

CASE(a_key_is_logged_once) {
  onstream::set_log(LogLevel::warn, 0);
  const std::string text = standard_error_of([] {
    for (int i = 0; i < 3; ++i) onstream::log_once(LogLevel::warn, "fault of rank 1", "attempt ", i);
    onstream::log_once(LogLevel::warn, "fault of rank 2", "other");
  });
  CHECK(text == "onstream[0] warn: attempt 0\nonstream[0] warn: other\n");
}

CASE(a_key_dropped_by_its_level_may_be_logged_later) {
  onstream::set_log(LogLevel::warn, 0);
  CHECK(standard_error_of([] { onstream::log_once(LogLevel::info, "later", "now"); }).empty());
  onstream::set_log(LogLevel::info, 0);
  CHECK(!standard_error_of([] { onstream::log_once(LogLevel::info, "later", "now"); }).empty());
}

CASE(an_unknown_level_is_refused_with_the_known_ones) {
  CHECK(onstream::log_level_of("debug") == LogLevel::debug);
  CHECK_THROWS(onstream::log_level_of("loud"), "off, error, warn, info or debug");
}

namespace {

// Made before any function's static, so gone after them all.
struct Latecomer {
  ~Latecomer() {
    if (armed) ::_exit(onstream::first_time(LogLevel::warn, "said before") ? 3 : 0);
  }
  bool armed = false;
} latecomer;

}  // namespace

CASE(what_was_logged_is_still_known_while_the_process_ends) {
  onstream::set_log(LogLevel::warn, 0);
  const pid_t child = ::fork();
  if (child == 0) {
    latecomer.armed = true;
    for (int i = 0; i < 1000; ++i) (void)onstream::first_time(LogLevel::warn, std::to_string(i));
    (void)onstream::first_time(LogLevel::warn, "said before");
    std::exit(0);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
