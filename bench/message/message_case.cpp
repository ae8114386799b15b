#include "message_case.hpp"

#include <array>

#include "onstream/base/error.hpp"
#include "support/options.hpp"

namespace onstream::bench {

namespace {

constexpr std::array kModes = {Mode::ping_pong, Mode::pipelined, Mode::bidirectional, Mode::ring,
                               Mode::ring_plan, Mode::separate,  Mode::aggregated};
constexpr std::array kSubmissions = {Submission::host, Submission::eager, Submission::captured};
constexpr std::size_t kMaxCount = 1'000'000;
constexpr std::size_t kMaxBytes = std::size_t{1} << 40;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> fields(1);
  for (const char c : text) {
    if (c == ':') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

std::size_t number(const std::string& text, const char* field, const std::string& value, std::size_t least,
                   std::size_t most) {
  const auto result = number_in<std::size_t>(value);
  require(result && *result >= least && *result <= most, "case '", text, "': ", field, " is '", value,
          "', not a number from ", least, " to ", most);
  return *result;
}

template <class All>
auto named(const std::string& text, const char* field, const std::string& value, const All& all) {
  std::string known;
  for (const auto one : all) {
    if (value == name_of(one)) return one;
    known += (known.empty() ? "" : ", ") + std::string(name_of(one));
  }
  fail(ErrorCode::invalid_argument, "case '", text, "': ", field, " is '", value, "'; there are ", known);
}

}  // namespace

const char* name_of(Mode mode) {
  switch (mode) {
    case Mode::ping_pong: return "ping-pong";
    case Mode::pipelined: return "pipelined";
    case Mode::bidirectional: return "bidirectional";
    case Mode::ring: return "ring";
    case Mode::ring_plan: return "ring-plan";
    case Mode::separate: return "separate";
    case Mode::aggregated: return "aggregated";
  }
  return "?";
}

const char* name_of(Submission submission) {
  switch (submission) {
    case Submission::host: return "host";
    case Submission::eager: return "eager";
    case Submission::captured: return "captured";
  }
  return "?";
}

Case case_from(const std::string& text) {
  const std::vector<std::string> fields = split(text);
  require(fields.size() == 5, "case '", text, "' has ", fields.size(),
          " fields; it is MODE:SUBMISSION:BYTES:ITERATIONS:WINDOW");
  Case c;
  c.mode = named(text, "MODE", fields[0], kModes);
  c.submission = named(text, "SUBMISSION", fields[1], kSubmissions);
  c.bytes = number(text, "BYTES", fields[2], 0, kMaxBytes);
  c.iterations = static_cast<int>(number(text, "ITERATIONS", fields[3], 1, kMaxCount));
  c.window = static_cast<int>(number(text, "WINDOW", fields[4], 1, kMaxCount));
  const bool fits = !c.spread() || c.bytes <= kMaxBytes / static_cast<std::size_t>(c.window);
  require(fits, "case '", text, "': ", c.window, " messages of ", c.bytes, " B are more than ", kMaxBytes, " B");
  require(c.submission != Submission::host || !(c.rings() || c.spread()), "case '", text, "': the mode ", fields[0],
          " is ordered on a stream; its submissions are eager and captured");
  return c;
}

double messages_of(const Case& c) {
  const double steps = static_cast<double>(c.iterations) * c.window;
  if (c.mode == Mode::ping_pong) return 2 * steps;
  return c.spread() && c.submission == Submission::captured ? kWindowsPerGraph * steps : steps;
}

std::string json_of(const Case& c, const std::vector<double>& samples_s) {
  return concat("{\"mode\":\"", name_of(c.mode), "\",\"submission\":\"", name_of(c.submission),
                "\",\"bytes\":", c.bytes, ",\"iterations\":", c.iterations, ",\"window\":", c.window,
                ",\"samples_s\":", seconds_list(samples_s), "}");
}

}  // namespace onstream::bench
