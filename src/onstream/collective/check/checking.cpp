#include "onstream/collective/check/checking.hpp"

#include <algorithm>
#include <cstring>

#include "onstream/base/error.hpp"
#include "onstream/collective/kernel/user_kernels.hpp"
#include "onstream/device/kernel/wait.hpp"

namespace onstream::collective {

namespace {

constexpr std::size_t kWordsBytes = 256;  // of one rank

// The part that one rank sends another in an all_to_all_v.
struct Sent {
  std::uint64_t count;
  std::uint64_t type;
};
constexpr std::size_t kPartWords = sizeof(Sent) / sizeof(std::uint64_t);

constexpr char kWhich[] = ", which ";  // before the fault of a call

std::string with_algorithm(std::string what, Algorithm algorithm) {
  return algorithm == Algorithm::automatic ? what : concat(what, ", by ", name_of(algorithm));
}

}  // namespace

std::string what_of(const CollectiveCall& call) {
  std::string words = name_of(call.kind);
  if (call.kind == OpKind::barrier) return words;
  if (call.kind == OpKind::all_gather_v) {
    return words + concat(" of ", name_of(call.type), ", counts", listed(call.receive_counts));
  }
  if (call.kind == OpKind::all_to_all_v || is_of_neighbours(call.kind)) {
    return words + concat(" of ", name_of(call.type));
  }
  if (call.combine) {
    words += concat(" of ", call.count, " elements of ", call.element_bytes, " B by a function");
    return has_root(call.kind) ? words + concat(", root ", call.root) : words;
  }
  words += " of " + elements_of(call);
  if (has_op(call.kind) && call.user_kernels == nullptr) words += concat(" ", name_of(call.op));
  if (!call.user_state.empty()) words += concat(" (members' digest ", call.user_digest, ")");
  if (has_root(call.kind)) words += concat(", root ", call.root);
  if (call.deterministic) words += ", deterministic";
  return words;
}

std::string words_of(const CollectiveCall& call) { return with_algorithm(what_of(call), call.algorithm); }

Checking::Checking(Device& device, std::vector<int> ranks)
    : ranks_(std::move(ranks)),
      mine_(device.allocate(kWordsBytes + ranks_.size() * sizeof(Sent), MemoryKind::pinned)),
      all_(device.allocate(kWordsBytes * std::max(ranks_.size(), std::size_t{1}), MemoryKind::pinned)) {}

// The first part that this rank does not get as it expects it, or "". A part without elements has no type.
std::string Checking::wrong_parts(const CollectiveCall& call, const Run& run) {
  auto* const sends = reinterpret_cast<Sent*>(mine_->data());
  const auto type = static_cast<std::uint64_t>(call.type);
  for (std::size_t i = 0; i < ranks_.size(); ++i) sends[i] = {call.send_counts[i], type};
  CollectiveCall exchange = all_to_all({sends, all_->data(), kPartWords, ElementType::uint64});
  exchange.channel = call.channel;
  exchange.algorithm = Algorithm::ll;
  exchange.named = part_of(call.name(), kInCheck);
  run(exchange);
  const auto* const comes = reinterpret_cast<const Sent*>(all_->data());
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const auto& [count, theirs] = comes[i];
    if (count != call.receive_counts[i]) {
      return concat("gets ", count, " elements of rank ", ranks_[i], " and expects ", call.receive_counts[i]);
    }
    if (count == 0 || theirs == type) continue;
    return concat("gets ", name_of(static_cast<ElementType>(theirs)), " of rank ", ranks_[i]);
  }
  return "";
}

// Throws unless all ranks say the same, if they have to, and none reports a fault.
void Checking::compare(std::string words, Alike alike, const CollectiveCall& call, const Run& run) {
  if (words.size() >= kWordsBytes) {  // the part that is cut off still counts
    constexpr std::size_t kRoom = 32;
    const std::size_t digest = std::hash<std::string>{}(words);
    words = concat(words.substr(0, kWordsBytes - kRoom), "... #", digest);
  }
  std::memset(mine_->data(), 0, kWordsBytes);
  std::memcpy(mine_->data(), words.data(), words.size());
  CollectiveCall gathers = all_gather({mine_->data(), all_->data(), kWordsBytes, ElementType::uint8});
  gathers.channel = call.channel;
  gathers.algorithm = Algorithm::ll;
  gathers.named = part_of(call.name(), kInCheck);
  run(gathers);
  std::string told;
  const auto* const all = reinterpret_cast<const char*>(all_->data());
  bool differ = false;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const char* const theirs = all + i * kWordsBytes;
    differ = differ || (alike == Alike::all && std::strcmp(theirs, all) != 0) || std::strstr(theirs, kWhich) != nullptr;
    told += concat("\n  rank ", ranks_[i], ": ", theirs);
  }
  require(!differ, "the ranks do not call the same collective on channel ", call.channel, ":", told);
}

void Checking::check(const CollectiveCall& call, const Run& run) {
  const std::lock_guard lock(mutex_);
  if (call.kind != OpKind::all_to_all_v) return compare(words_of(call), Alike::all, call, run);
  compare(with_algorithm(name_of(call.kind), call.algorithm), Alike::all, call, run);
  // Only where all ranks call it do they tell each other how many elements they send, and of which type.
  const std::string wrong = wrong_parts(call, run);
  compare(wrong.empty() ? words_of(call) : concat(words_of(call), kWhich, wrong), Alike::as_told, call, run);
}

}  // namespace onstream::collective
