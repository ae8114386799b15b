// How the library tells a failure (onstream/failure.hpp): faults as they travel, and the story that they make together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onstream/failure.hpp"

namespace onstream {

std::string text_of(const WordPlace& place);  // " (at byte 8 of a segment of 64 B)", " (at 0x7f0012)", ""

// How it travels. unpack_fault() throws system for bytes that no pack_fault() of a world of `ranks` made.
std::string pack_fault(const FaultReport& fault);
FaultReport unpack_fault(std::string_view bytes, int ranks);

// The same sentence for a wait that is no op; `timeout_s` 0: not known.
std::string described_late(const std::string& what, double timeout_s);
// "recv of 32 B from rank 0 with tag 3", "put of 8 B to rank 1 (op 2 of plan 'halo')".
std::string what_of(const FaultReport& fault);

// Where the world's failure is logged as an error: by each rank that finds it out by itself, once.
enum class Logged { now, by_caller, by_another };

// The story. `told` is the text that the reader has just read (a fault's description, the reason), which is not told
// again. `onstream run` finds in it the rank where the failure began (CAUSE in launcher/rank.py).
std::string story_of(const Failure& failure, const std::string& reported = "");
// The story without how to go on, which an interface with other words than this one's says itself; may be empty.
std::string facts_of(const Failure& failure, const std::string& reported = "");
// Those of facts_of() that this rank's log does not say.
std::string unlogged_facts_of(const Failure& failure);

// Throws `error` again, in the name of the op that it kept from starting, or from ending: "rank 1: a barrier did not
// start: ...".
enum class DidNot { start, end };
[[noreturn]] void fail_named(DidNot what_happened, int rank, std::string_view what, const Error& error);

// Follows the waits from `rank` to the first rank whose fault has not come yet, though it may be part of a cycle.
std::optional<int> unheard(const Failure& failure, int rank);

// The ranks and ops of a cycle of waits among timed-out or aborted faults, "rank 0 send to 1 -> rank 1 send to 0", or
// "".
std::string find_cycle(const std::vector<FaultReport>& faults);

}  // namespace onstream
