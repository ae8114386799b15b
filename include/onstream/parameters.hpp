// Parameters: values, their origin, and their documentation, all from parameter_table.inc.
//
// Parameters::from_environment() is the only reader of the environment for settings. A World keeps its own copy, so
// worlds of one process may differ.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace onstream {

struct ParameterRow {
  std::string name;      // as in C++ and Python: ll_max_bytes
  std::string variable;  // ONSTREAM_LL_MAX_BYTES
  std::string value;
  std::string default_value;
  std::string unit;
  std::string doc;
  std::string set_by;  // "default", "environment" or "call"
};

struct Parameters {
#define ONSTREAM_PARAMETER(name, type, default_value, unit, doc) type name = default_value;
#include "onstream/parameter_table.inc"
#undef ONSTREAM_PARAMETER

  // Defaults overridden by ONSTREAM_* variables. Throws invalid_argument naming the variable whose value cannot be
  // read, and one that is nearly the name of a parameter or of a launcher's variable (a misspelling).
  static Parameters from_environment();

  // Sets one by name, as a call would. Throws invalid_argument for an unknown name (with the nearest known one) or an
  // unreadable value.
  void set(std::string_view name, std::string_view value);

  // Throws invalid_argument for a value out of its range, also one that was assigned to a field directly. World::create
  // calls it.
  void validate() const;

  // The variables that start with ONSTREAM_ and name nothing that onstream knows, sorted. Rank 0 logs them once.
  const std::vector<std::string>& unknown_variables() const { return unknown_variables_; }

  // One row a parameter, in table order.
  std::vector<ParameterRow> rows() const;

 private:
  std::vector<std::string> set_by_;  // in table order; empty means "default"
  std::vector<std::string> unknown_variables_;
};

}  // namespace onstream
