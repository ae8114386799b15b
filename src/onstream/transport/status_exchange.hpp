// The ranks' exchange where some may fail alone: each gives a value, or the error that it met instead.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "onstream/base/error.hpp"

namespace onstream {

// This rank's word: the value of mine(), or the error that it throws. An error of code timeout passes through: the
// others' deadline has come as well.
std::string word_of(const std::function<std::string()>& mine);

// All values, by rank; or throws the errors that some ranks met, naming those ranks, with the code of the first.
std::vector<std::string> agreed(const std::vector<std::string>& words);

// Throws invalid_argument naming each rank's value unless every rank gave the same: "a segment is the same on every
// rank, but rank 0 asks for ... and rank 2 asks for ...", where `rule` ends with "but" and the verb is "asks for".
void require_alike(const std::vector<std::string>& values, std::string_view rule, std::string_view verb);

}  // namespace onstream
