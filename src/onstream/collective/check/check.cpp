#include "onstream/collective/check/check.hpp"

#include "onstream/base/error.hpp"
#include "onstream/collective/call/portions.hpp"
#include "onstream/collective/kernel/user_kernels.hpp"
#include "onstream/collective/protocol/view.hpp"

namespace onstream::collective {

namespace {

void check_functor(const CollectiveCall& call) {
  require(has_op(call.kind), name_of(call.kind), " reduces nothing, so it takes no reduction of your own");
  require(call.type == ElementType::uint8 && call.count % call.user_kernels->element_bytes == 0, name_of(call.kind),
          ": ", call.count, " ", name_of(call.type), " are no whole elements of ", call.user_kernels->element_bytes,
          " B; the call was changed behind reduced_with");
}

// If two ranks sent to one place, the last to arrive would win.
void check_apart(const CollectiveCall& call, const Place& place) {
  const auto both = overlapping(call.receive_offsets, call.receive_counts);
  if (!both) return;
  fail(ErrorCode::invalid_argument, name_of(call.kind), ": what comes from rank ", place.ranks[both->first],
       " and from rank ", place.ranks[both->second], " overlaps in the output");
}

void check_counts(const CollectiveCall& call, const Place& place) {
  const auto one_each = [&](const char* what, const std::vector<std::size_t>& list) {
    require(list.size() == place.ranks.size(), name_of(call.kind), ": ", what, " has ", list.size(),
            " entries; this team has ", place.ranks.size(), " ranks");
  };
  if (call.kind == OpKind::all_to_all_v) {
    one_each("send_counts", call.send_counts);
    one_each("send_offsets", call.send_offsets);
  }
  if (is_v(call.kind)) {
    one_each("receive_counts", call.receive_counts);
    one_each("receive_offsets", call.receive_offsets);
    check_apart(call, place);
  }
  if (call.kind == OpKind::all_gather_v) {
    const std::size_t mine = call.receive_counts[static_cast<std::size_t>(place.rank)];
    require(call.count == mine, "all_gather_v: this rank gives ", call.count, " elements, but receive_counts[",
            place.rank, "] is ", mine);
  }
}

bool is_in_place(const CollectiveCall& call, std::size_t rank) {
  const auto* const input = static_cast<const std::byte*>(call.input);
  const auto* const output = static_cast<const std::byte*>(call.output);
  const std::size_t element = size_of(call.type);
  const std::size_t part = call.count * element * rank;
  switch (call.kind) {
    case OpKind::all_gather:
    case OpKind::gather: return input == output + part;
    case OpKind::reduce_scatter:
    case OpKind::scatter: return output == input + part;
    case OpKind::all_gather_v: return input == output + call.receive_offsets[rank] * element;
    case OpKind::all_to_all_v:
      return input == output && call.send_counts == call.receive_counts && call.send_offsets == call.receive_offsets;
    default: return input == output;
  }
}

}  // namespace

void check_meaning(const CollectiveCall& call, const Place& place) {
  require(place.rank >= 0, name_of(call.kind), ": rank ", place.world_rank, " is not in this team");
  require(is_collective(call.kind), "a collective call is of no collective kind, but ", name_of(call.kind));
  require(!is_of_neighbours(call.kind), name_of(call.kind), ": neighbourhood(...) gives an object that does it");
  require(place.size() <= kMostRanks, name_of(call.kind), " on ", place.size(), " ranks: a team has at most ",
          kMostRanks);
  require(call.root >= 0 && call.root < place.size(), name_of(call.kind), ": root ", call.root,
          " does not exist; this team has ranks 0 to ", place.size() - 1);
  check_counts(call, place);
  if (call.user_kernels != nullptr) check_functor(call);
  if (has_op(call.kind)) {
    require(supports(call.type, call.op), name_of(call.kind), ": ", name_of(call.op), " has no meaning for ",
            name_of(call.type));
  }
}

void check_own_part(const CollectiveCall& call, const Place& place) {
  if (call.kind != OpKind::all_to_all_v) return;
  const std::size_t sent = call.send_counts[static_cast<std::size_t>(place.rank)];
  const std::size_t expected = call.receive_counts[static_cast<std::size_t>(place.rank)];
  require(sent == expected, name_of(call.kind), ": this rank sends itself ", sent, " elements and expects ", expected);
}

void check_overlap(const CollectiveCall& call, const Place& place, std::size_t in, std::size_t out) {
  const auto* const input = static_cast<const std::byte*>(call.input);
  const auto* const output = static_cast<const std::byte*>(call.output);
  if (in == 0 || out == 0 || input + in <= output || output + out <= input) return;
  require(is_in_place(call, static_cast<std::size_t>(place.rank)), name_of(call.kind), ": the input of ", in, " B at ",
          call.input, " and the output of ", out, " B at ", call.output, " overlap, and not as a collective in place");
}

}  // namespace onstream::collective
