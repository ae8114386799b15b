#include "host_ops.hpp"

#include "onstream/base/error.hpp"
#include "onstream/one_sided.hpp"

namespace onstream::python {

namespace {

bool is_integer(const Elements& words) { return words.dtype.starts_with("int") || words.dtype.starts_with("uint"); }

// Calls function(pointer to the words' own type, the value in that type).
template <class Function>
auto with_type(const Words& what, const Condition& condition, const Function& function) {
  const Elements& words = what.words;
  require_words("a wait", words);
  require(what.left_out.empty() || what.left_out.size() == words.count(), "a wait: ", what.left_out.size(),
          " entries of leave_out for ", words.count(), " words");
  const int* const left_out = what.left_out.empty() ? nullptr : what.left_out.data();
  const auto call = [&](auto type) {
    using T = decltype(type);
    return function(reinterpret_cast<const T*>(words.address), left_out, static_cast<T>(condition.value));
  };
  const bool is_signed = words.dtype.starts_with("int");
  if (words.item_bytes == 8) return is_signed ? call(std::int64_t{}) : call(std::uint64_t{});
  return is_signed ? call(std::int32_t{}) : call(std::uint32_t{});
}

}  // namespace

bool is_contiguous(const Elements& elements) {
  auto expected = static_cast<std::int64_t>(elements.item_bytes);
  for (std::size_t i = elements.shape.size(); i-- > 0;) {
    if (elements.shape[i] != 1 && elements.strides[i] != expected && elements.count() != 0) return false;
    expected *= elements.shape[i];
  }
  return true;
}

void require_equal(const char* what, const Elements& to, const Elements& source) {
  require(to.bytes() == source.bytes(), what, ": the source has ", source.bytes(), " B, but the destination ",
          to.bytes(), " B");
}

Signal signal_of(const OneSided& core, const Told& told, int rank) {
  return {core.symmetric(reinterpret_cast<const void*>(told.word), rank), told.op, told.value, sizeof(std::uint64_t)};
}

void require_told(OneSided& core, const Told& told, int rank) { Batch(core).signal(signal_of(core, told, rank)); }

void put_by(Context& context, const Elements& to, const Elements& source, int rank, const std::optional<Told>& told,
            Done done) {
  require_equal("put", to, source);
  auto* const word = told ? reinterpret_cast<std::uint64_t*>(told->word) : nullptr;
  if (!is_contiguous(to) || !is_contiguous(source)) {
    context.put_layout(to.pointer(), to.layout(), source.pointer(), source.layout(), rank);
    if (told) context.signal(word, told->value, told->op, rank);
  } else if (told && done == Done::later) {
    context.put_signal_later(to.pointer(), source.pointer(), to.bytes(), word, told->value, told->op, rank);
  } else if (told) {
    context.put_signal(to.pointer(), source.pointer(), to.bytes(), word, told->value, told->op, rank);
  } else if (done == Done::later) {
    context.put_later(to.pointer(), source.pointer(), to.bytes(), rank);
  } else {
    context.put(to.pointer(), source.pointer(), to.bytes(), rank);
  }
}

void get_by(Context& context, const Elements& to, const Elements& source, int rank, Done done) {
  require_equal("get", to, source);
  if (!is_contiguous(to) || !is_contiguous(source)) {
    context.get_layout(to.pointer(), to.layout(), source.pointer(), source.layout(), rank);
  } else if (done == Done::later) {
    context.get_later(to.pointer(), source.pointer(), to.bytes(), rank);
  } else {
    context.get(to.pointer(), source.pointer(), to.bytes(), rank);
  }
}

void signal_by(Context& context, const Elements& word, std::uint64_t value, SignalOp op, int rank) {
  context.signal(static_cast<std::uint64_t*>(word.pointer()), value, op, rank);
}

void require_words(const char* what, const Elements& words) {
  require(is_integer(words) && (words.item_bytes == 4 || words.item_bytes == 8), what,
          ": words are integers of 4 or 8 bytes, not ", words.dtype.empty() ? "of an unknown type" : words.dtype);
  require(is_contiguous(words), what, ": words lie side by side, without gaps");
}

Until until_of(const Elements& word, const Condition& condition) {
  return {condition.compare, condition.value, word.item_bytes,
          word.dtype.starts_with("int") ? Sign::signed_word : Sign::unsigned_word};
}

Status wait_all_by(Context& context, const Words& words, const Condition& condition) {
  return with_type(words, condition, [&](const auto* first, const int* left_out, auto value) {
    return context.wait_all(first, words.words.count(), left_out, condition.compare, value);
  });
}

Status wait_any_by(Context& context, const Words& words, const Condition& condition, std::size_t* found) {
  return with_type(words, condition, [&](const auto* first, const int* left_out, auto value) {
    return context.wait_any(first, words.words.count(), left_out, condition.compare, value, found);
  });
}

Status wait_some_by(Context& context, const Words& words, const Condition& condition, std::vector<std::size_t>* found) {
  return with_type(words, condition, [&](const auto* first, const int* left_out, auto value) {
    std::size_t count = 0;
    found->resize(words.words.count());
    const Status status =
        context.wait_some(first, words.words.count(), left_out, condition.compare, value, found->data(), &count);
    found->resize(count);
    return status;
  });
}

std::size_t test_any_by(Context& context, const Words& words, const Condition& condition) {
  return with_type(words, condition, [&](const auto* first, const int* left_out, auto value) {
    return context.test_any(first, words.words.count(), left_out, condition.compare, value);
  });
}

std::vector<std::size_t> test_some_by(Context& context, const Words& words, const Condition& condition) {
  return with_type(words, condition, [&](const auto* first, const int* left_out, auto value) {
    std::vector<std::size_t> found(words.words.count());
    found.resize(context.test_some(first, found.size(), left_out, condition.compare, value, found.data()));
    return found;
  });
}

void require_atomic(const Elements& word, AtomicOp op) {
  const bool fits = word.item_bytes == 4 || word.item_bytes == 8;
  require(word.count() == 1, "atomic: one word, not ", word.count());
  const bool plain = op == AtomicOp::fetch || op == AtomicOp::set || op == AtomicOp::swap;
  const bool is_float = word.dtype == "float32" || word.dtype == "float64";
  require(fits && (is_integer(word) || is_float), "atomic: words are integers or floats of 4 or 8 bytes, not ",
          word.dtype.empty() ? "of an unknown type" : word.dtype);
  require(is_integer(word) || plain, "atomic: of floating-point numbers there are fetch, set and swap, but not ",
          name_of(op));
}

std::uint64_t atomic_by(Context& context, const Elements& word, const Change& change, int rank) {
  require_atomic(word, change.op);
  if (word.item_bytes == 8) {
    return context.atomic(change.op, static_cast<std::uint64_t*>(word.pointer()), change.value, change.expected, rank);
  }
  return context.atomic(change.op, static_cast<std::uint32_t*>(word.pointer()),
                        static_cast<std::uint32_t>(change.value), static_cast<std::uint32_t>(change.expected), rank);
}

}  // namespace onstream::python
