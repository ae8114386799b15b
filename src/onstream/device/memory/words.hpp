// Every device's check of an operation on a word before it enqueues it.
#pragma once

#include "onstream/base/error.hpp"
#include "onstream/device.hpp"

namespace onstream {

inline void check_word(const WordOp& op) {
  require(op.bytes == 4 || op.bytes == 8, "operate: a word of ", op.bytes, " B; streams write and await 4 or 8");
  require(op.word != nullptr, "operate: the word is null");
  require(reinterpret_cast<std::uintptr_t>(op.word) % op.bytes == 0, "operate: the word at ", op.word,
          " is not aligned to its ", op.bytes, " bytes");
  require(op.bytes == 8 || op.value <= UINT32_MAX, "operate: the value ", op.value, " does not fit a word of 4 B");
}

}  // namespace onstream
