// One-sided ops that the host issues through a Context, on places and words that are named by Elements.
//
// The places in other ranks' memory are Elements of this rank's own part. Values are the bits of a word, as many as its
// width. All throw invalid_argument for a value that does not fit; blocking is as Context says. Without the GIL.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arrays/elements.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/symmetric.hpp"

namespace onstream::python {

// later: done after quiet(), unless a side is not contiguous.
enum class Done { now, later };

// The word that a put changes behind its data.
struct Told {
  std::uintptr_t word = 0;
  std::uint64_t value = 1;
  SignalOp op = SignalOp::add;
};

Signal signal_of(const OneSided& core, const Told& told, int rank);
// Throws invalid_argument unless it is a word of rank's: before the data goes, which nothing takes back.
void require_told(OneSided& core, const Told& told, int rank);

bool is_contiguous(const Elements& elements);
// Throws unless both have as many bytes.
void require_equal(const char* what, const Elements& to, const Elements& source);

void put_by(Context& context, const Elements& to, const Elements& source, int rank, const std::optional<Told>& told,
            Done done);
void get_by(Context& context, const Elements& to, const Elements& source, int rank, Done done);
void signal_by(Context& context, const Elements& word, std::uint64_t value, SignalOp op, int rank);

struct Condition {
  Compare compare = Compare::ge;
  std::uint64_t value = 0;
};
// Words to look at; an int for each in left_out (not 0: left out), or none at all.
struct Words {
  const Elements& words;
  const std::vector<int>& left_out;
};
// Throws invalid_argument unless these are integers of 4 or 8 bytes, side by side.
void require_words(const char* what, const Elements& words);
// How stream ops wait for such a word.
Until until_of(const Elements& word, const Condition& condition);

Status wait_all_by(Context& context, const Words& words, const Condition& condition);
// *found: the index, words.count() if all are left out.
Status wait_any_by(Context& context, const Words& words, const Condition& condition, std::size_t* found);
Status wait_some_by(Context& context, const Words& words, const Condition& condition, std::vector<std::size_t>* found);
std::size_t test_any_by(Context& context, const Words& words, const Condition& condition);
std::vector<std::size_t> test_some_by(Context& context, const Words& words, const Condition& condition);

struct Change {
  AtomicOp op = AtomicOp::fetch;
  std::uint64_t value = 0;
  std::uint64_t expected = 0;
};
// The old value. Throws unless the op is one for words of this type.
std::uint64_t atomic_by(Context& context, const Elements& word, const Change& change, int rank);
void require_atomic(const Elements& word, AtomicOp op);

}  // namespace onstream::python
