// Parameters: values read from the environment and from calls, refused values, and the text of the rows.
#include "onstream/parameters.hpp"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <stdexcept>

#include "support/check.hpp"

using onstream::ParameterRow;
using onstream::Parameters;

namespace {

// Sets a variable for the length of a scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

ParameterRow row(const Parameters& parameters, const std::string& name) {
  for (const ParameterRow& each : parameters.rows())
    if (each.name == name) return each;
  throw std::runtime_error("no row " + name);
}

}  // namespace

CASE(defaults_are_valid_and_say_that_they_are_defaults) {
  const Parameters parameters;
  parameters.validate();
  CHECK(parameters.rows().size() > 10);
  for (const ParameterRow& each : parameters.rows()) {
    CHECK(each.set_by == "default");
    CHECK(each.value == each.default_value);
    CHECK(!each.doc.empty());
  }
}

CASE(environment_overrides_a_default_and_is_named_as_the_setter) {
  const Variable timeout("ONSTREAM_TIMEOUT_S", "2.5");
  const Variable bytes("ONSTREAM_TAG_BYTES", "64KiB");
  const Parameters parameters = Parameters::from_environment();
  CHECK(parameters.timeout_s == 2.5);
  CHECK(parameters.tag_bytes == 65536);
  CHECK(row(parameters, "timeout_s").set_by == "environment");
  CHECK(row(parameters, "timeout_s").value == "2.5");
  CHECK(row(parameters, "tags").set_by == "default");
}

CASE(a_call_overrides_the_environment) {
  const Variable lanes("ONSTREAM_TAGS", "8");
  Parameters parameters = Parameters::from_environment();
  parameters.set("tags", "16");
  CHECK(parameters.tags == 16);
  CHECK(row(parameters, "tags").set_by == "call");
}

CASE(a_field_assigned_directly_is_shown_as_set_by_a_call) {
  Parameters parameters;
  parameters.tags = 3;
  CHECK(row(parameters, "tags").set_by == "call");
}

CASE(a_misspelled_variable_is_refused_with_the_nearest_known_one) {
  const Variable typo("ONSTREAM_TIMEOUTS", "1");
  CHECK_THROWS(Parameters::from_environment(), "ONSTREAM_TIMEOUT_S");
}

CASE(what_is_nearly_a_known_name_is_a_misspelling) {
  for (const char* name :
       {"ONSTREAM_TAG", "ONSTREAM_TIMEOUT", "ONSTREAM_PAHT", "ONSTREAM_LOGS", "ONSTREAM_BOOTSTRAP_TIMEOUT",
        "ONSTREAM_COLECTIVE_ALGORITM", "ONSTREAM_RANKS", "ONSTREAM_LOCAL_RANKS", "ONSTREAM__DEVICE"}) {
    const Variable typo(name, "1");
    CHECK_THROWS(Parameters::from_environment(), name);
  }
}

CASE(variables_that_others_set_are_told_and_do_no_harm) {
  const std::vector<const char*> others = {"ONSTREAM_ROOT",
                                           "ONSTREAM_HOME",
                                           "ONSTREAM_DIR",
                                           "ONSTREAM_BASE",
                                           "ONSTREAM_PREFIX",
                                           "ONSTREAM_VERSION",
                                           "ONSTREAM_LIB",
                                           "ONSTREAM_LIBRARY",
                                           "ONSTREAM_BIN",
                                           "ONSTREAM_INC",
                                           "ONSTREAM_INCLUDE",
                                           "ONSTREAM_DATA",
                                           "ONSTREAM_DOC",
                                           "ONSTREAM_CONFIG",
                                           "ONSTREAM_SERVICE_HOST",
                                           "ONSTREAM_SERVICE_PORT",
                                           "ONSTREAM_SERVICE_PORT_HTTP",
                                           "ONSTREAM_PORT_8080_TCP",
                                           "ONSTREAM_PORT_8080_TCP_ADDR",
                                           "ONSTREAM_PORT_8080_TCP_PORT",
                                           "ONSTREAM_PORT_8080_TCP_PROTO"};
  for (const char* name : others) {
    const Variable other(name, "x");
    CHECK(Parameters::from_environment().unknown_variables() == std::vector<std::string>{name});
  }
  const Variable first("ONSTREAM_VERSION", "1");
  const Variable second("ONSTREAM_HOME", "/opt");
  const Variable known("ONSTREAM_TAGS", "8");
  const Parameters parameters = Parameters::from_environment();
  CHECK(parameters.unknown_variables() == (std::vector<std::string>{"ONSTREAM_HOME", "ONSTREAM_VERSION"}));
  CHECK(parameters.tags == 8);
}

CASE(launcher_variables_are_no_misspellings) {
  const Variable rank("ONSTREAM_RANK", "0");
  const Variable world("ONSTREAM_WORLD_ANYTHING", "1");
  CHECK(Parameters::from_environment().tags == 64);
}

CASE(an_unknown_name_is_refused_with_the_nearest_known_one) {
  Parameters parameters;
  CHECK_THROWS(parameters.set("tag", "4"), "did you mean tags");
}

CASE(an_unreadable_value_is_refused_with_its_text) {
  Parameters parameters;
  CHECK_THROWS(parameters.set("tags", "many"), "'many'");
  CHECK_THROWS(parameters.set("tags", "4.5"), "a whole number");
  CHECK_THROWS(parameters.set("tags", ""), "a whole number");
  CHECK_THROWS(parameters.set("tags", "99999999999999999999"), "a whole number");
  CHECK_THROWS(parameters.set("tag_bytes", "9223372036854775807GiB"), "a whole number");
  CHECK_THROWS(parameters.set("timeout_s", "nan"), "a finite number");
  CHECK_THROWS(parameters.set("timeout_s", "1 s"), "a finite number");
  const Variable bad("ONSTREAM_TIMEOUT_S", "soon");
  CHECK_THROWS(Parameters::from_environment(), "ONSTREAM_TIMEOUT_S is 'soon'");
}

CASE(a_value_out_of_range_is_refused_with_the_range) {
  Parameters parameters;
  CHECK_THROWS(parameters.set("timeout_s", "0"), "between");
  CHECK_THROWS(parameters.set("timeout_s", "-1"), "between");
  CHECK_THROWS(parameters.set("tags", "0"), "between 1 and 65536");
  CHECK_THROWS(parameters.set("tags", "65537"), "between 1 and 65536");
  CHECK_THROWS(parameters.set("tag_bytes", "3000"), "power of two");
  CHECK_THROWS(parameters.set("tag_receives", "48"), "power of two");
  CHECK(parameters.tags == 64);
}

CASE(a_word_that_is_no_choice_is_refused_with_the_choices) {
  Parameters parameters;
  CHECK_THROWS(parameters.set("path", "fast"), "auto ll store load copy stage memop");
  CHECK_THROWS(parameters.set("log", "loud"), "off error warn info debug");
  CHECK_THROWS(parameters.set("device", "cuda:"), "cuda:N");
  CHECK_THROWS(parameters.set("device", "cuda:x"), "cuda:N");
  parameters.set("device", "cuda:3");
  CHECK(parameters.device == "cuda:3");
  parameters.set("torus", "2x16x1");
  CHECK(parameters.torus == "2x16x1");
  for (const char* shape : {"2x2", "2x2x", "x2x2", "2x2x2x2", "-1x1x1", "12345x1x1", "NxNxN", ""}) {
    CHECK_THROWS(parameters.set("torus", shape), "auto NxNxN");
  }
}

CASE(validate_finds_what_was_assigned_directly) {
  Parameters parameters;
  parameters.timeout_s = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS(parameters.validate(), "timeout_s");
  parameters.timeout_s = 1;
  parameters.tag_bytes = 1000;
  CHECK_THROWS(parameters.validate(), "power of two");
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
