// The log: which lines are written, what stands before them, and that a repeated fault is told once.
#include "onstream/base/log.hpp"

#include "check.hpp"
#include "onstream/base/error.hpp"
#include "standard_error.hpp"

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

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
