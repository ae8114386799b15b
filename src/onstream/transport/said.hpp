// What the ranks say to each other where some may fail alone: each gives a value, or the error that it met instead.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "onstream/base/error.hpp"

namespace onstream {

// This rank's word: what `mine` gives, or throws. An error of code timeout passes through: the others' deadline has
// come as well.
std::string word_of(const std::function<std::string()>& mine);

// What all said, by rank; or throws what some met, naming them, with the code of the first.
std::vector<std::string> agreed(const std::vector<std::string>& words);

// Throws invalid_argument naming who does what unless every rank said the same: "a segment is the same on every rank,
// but rank 0 asks for ... and rank 2 asks for ...", where `rule` ends with "but" and the verb is "asks for".
void require_said_alike(const std::vector<std::string>& said, std::string_view rule, std::string_view verb);

}  // namespace onstream
