#include "onstream/collective/edge_parts.hpp"

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

std::vector<Part> counted(const std::vector<std::size_t>& counts, const std::vector<std::size_t>& offsets,
                          std::size_t item) {
  std::vector<Part> parts(counts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = {offsets[i] * item, counts[i] * item};
  return parts;
}

std::vector<Part> alike(std::size_t edges, std::size_t step, std::size_t bytes) {
  std::vector<Part> parts(edges);
  for (std::size_t i = 0; i < edges; ++i) parts[i] = {i * step, bytes};
  return parts;
}

std::size_t end_of(const std::vector<Part>& parts) {
  std::size_t end = 0;
  for (const Part& part : parts) {
    if (part.bytes > 0) end = std::max(end, part.offset + part.bytes);
  }
  return end;
}

std::size_t most_of(const std::vector<EdgeEnd>& ends, const std::vector<Part>& parts) {
  std::size_t most = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i].rank >= 0) most = std::max(most, parts[i].bytes);
  }
  return most;
}

}  // namespace

Parts parts_of(const CollectiveCall& call, const EdgeList& edges) {
  const std::size_t item = size_of(call.type);
  const std::size_t one = call.count * item;
  Parts parts;
  if (call.kind == OpKind::neighbour_all_to_all_v) {
    check_counts(call, "send", call.send_counts, call.send_offsets, edges.out.size());
    check_counts(call, "receive", call.receive_counts, call.receive_offsets, edges.in.size());
    parts.out = counted(call.send_counts, call.send_offsets, item);
    parts.in = counted(call.receive_counts, call.receive_offsets, item);
  } else {
    parts.out = alike(edges.out.size(), call.kind == OpKind::neighbour_all_gather ? 0 : one, one);
    parts.in = alike(edges.in.size(), one, one);
  }
  parts.input_bytes = end_of(parts.out);
  parts.output_bytes = end_of(parts.in);
  parts.most = std::max(most_of(edges.out, parts.out), most_of(edges.in, parts.in));
  return parts;
}

}  // namespace onstream::collective
