#include "onstream/collective/neighbour/edge_parts.hpp"

#include <algorithm>

#include "onstream/base/error.hpp"

namespace onstream::collective {

namespace {

void check_counts(const CollectiveCall& call, const char* what, const std::vector<std::size_t>& counts,
                  const std::vector<std::size_t>& offsets, std::size_t edges) {
  require(counts.size() == edges && offsets.size() == edges, name_of(call.kind), ": ", what, "_counts has ",
          counts.size(), " entries and ", what, "_offsets ", offsets.size(), "; this rank has ", edges,
          " such neighbours");
}

std::vector<EdgePart> counted(const CollectiveCall& call, const std::vector<std::size_t>& counts,
                              const std::vector<std::size_t>& offsets) {
  const std::size_t item = size_of(call.type);
  std::vector<EdgePart> parts(counts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (counts[i] == 0) continue;
    (void)bytes_of(call.kind, collective::end_of(call.kind, offsets[i], counts[i]), item);
    parts[i] = {offsets[i] * item, counts[i] * item};
  }
  return parts;
}

enum class Of { all, each };  // the same bytes for all edges, or some for each

std::vector<EdgePart> alike(const CollectiveCall& call, std::size_t edges, Of of) {
  std::vector<EdgePart> parts(edges);
  if (edges == 0) return parts;
  const std::size_t one = bytes_of(call.kind, call.count, size_of(call.type), edges) / edges;
  for (std::size_t i = 0; i < edges; ++i) parts[i] = {of == Of::each ? i * one : 0, one};
  return parts;
}

std::size_t end_of(const std::vector<EdgePart>& parts) {
  std::size_t end = 0;
  for (const EdgePart& part : parts) {
    if (part.bytes > 0) end = std::max(end, part.offset + part.bytes);
  }
  return end;
}

std::size_t most_of(const std::vector<EdgeEnd>& ends, const std::vector<EdgePart>& parts) {
  std::size_t most = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i].rank >= 0) most = std::max(most, parts[i].bytes);
  }
  return most;
}

// If two edges led to one place, the last data to arrive would win. Where a grid ends nothing comes.
void check_apart(const CollectiveCall& call, const std::vector<EdgeEnd>& ends) {
  std::vector<std::size_t> counts = call.receive_counts;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (ends[i].rank < 0) counts[i] = 0;
  }
  const auto both = overlapping(call.receive_offsets, counts);
  if (!both) return;
  fail(ErrorCode::invalid_argument, name_of(call.kind), ": what comes from source ", both->first, " (rank ",
       ends[both->first].rank, ") and from source ", both->second, " (rank ", ends[both->second].rank,
       ") overlaps in the output");
}

}  // namespace

Parts parts_of(const CollectiveCall& call, const EdgeList& edges) {
  Parts parts;
  if (call.kind == OpKind::neighbour_all_to_all_v) {
    check_counts(call, "send", call.send_counts, call.send_offsets, edges.out.size());
    check_counts(call, "receive", call.receive_counts, call.receive_offsets, edges.in.size());
    parts.out = counted(call, call.send_counts, call.send_offsets);
    parts.in = counted(call, call.receive_counts, call.receive_offsets);
    check_apart(call, edges.in);
  } else {
    parts.out = alike(call, edges.out.size(), call.kind == OpKind::neighbour_all_gather ? Of::all : Of::each);
    parts.in = alike(call, edges.in.size(), Of::each);
  }
  parts.input_bytes = end_of(parts.out);
  parts.output_bytes = end_of(parts.in);
  parts.most = std::max(most_of(edges.out, parts.out), most_of(edges.in, parts.in));
  return parts;
}

}  // namespace onstream::collective
