#include "onstream/collective/call/call.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "onstream/base/error.hpp"

namespace onstream {

using collective::Vector;

namespace {

CollectiveCall of(OpKind kind, const Vector& vector) {
  CollectiveCall call;
  call.kind = kind;
  call.input = vector.input;
  call.output = vector.output;
  call.count = vector.count;
  call.type = vector.type;
  return call;
}

CollectiveCall of(OpKind kind, const Vector& vector, ReduceOp op) {
  CollectiveCall call = of(kind, vector);
  call.op = op;
  return call;
}

CollectiveCall of(OpKind kind, const Vector& vector, int root) {
  CollectiveCall call = of(kind, vector);
  call.root = root;
  return call;
}

// The end of the last element of any rank, in bytes.
std::size_t extent(const CollectiveCall& call, const std::vector<std::size_t>& counts,
                   const std::vector<std::size_t>& offsets) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < counts.size() && i < offsets.size(); ++i) {
    if (counts[i] > 0) end = std::max(end, collective::end_of(call.kind, offsets[i], counts[i]));
  }
  return collective::bytes_of(call.kind, end, size_of(call.type));
}

}  // namespace

std::size_t CollectiveCall::input_bytes(int rank, int size) const {
  const std::size_t one = collective::bytes_of(kind, count, size_of(type));
  const auto all = [&] { return collective::bytes_of(kind, count, size_of(type), static_cast<std::size_t>(size)); };
  switch (kind) {
    case OpKind::barrier: return 0;
    case OpKind::broadcast: return rank == root ? one : 0;
    case OpKind::scatter: return all() * (rank == root ? 1 : 0);
    case OpKind::reduce_scatter:
    case OpKind::all_to_all: return all();
    case OpKind::all_to_all_v: return extent(*this, send_counts, send_offsets);
    default: return one;
  }
}

std::size_t CollectiveCall::output_bytes(int rank, int size) const {
  const std::size_t one = collective::bytes_of(kind, count, size_of(type));
  const auto all = [&] { return collective::bytes_of(kind, count, size_of(type), static_cast<std::size_t>(size)); };
  switch (kind) {
    case OpKind::barrier: return 0;
    case OpKind::reduce: return rank == root ? one : 0;
    case OpKind::gather: return all() * (rank == root ? 1 : 0);
    case OpKind::all_gather:
    case OpKind::all_to_all: return all();
    case OpKind::all_gather_v:
    case OpKind::all_to_all_v: return extent(*this, receive_counts, receive_offsets);
    default: return one;
  }
}

namespace collective {

namespace {
constexpr auto kMostBytes = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
}

std::size_t bytes_of(OpKind kind, std::size_t elements, std::size_t element_bytes, std::size_t ranks) {
  require(elements == 0 || (element_bytes <= kMostBytes / elements && elements * element_bytes <= kMostBytes / ranks),
          name_of(kind), ": ", elements, " elements of ", element_bytes, " B",
          ranks > 1 ? concat(" for each of ", ranks) : "", " are more than there are addresses");
  return elements * element_bytes * ranks;
}

std::size_t end_of(OpKind kind, std::size_t offset, std::size_t elements) {
  require(elements <= kMostBytes && offset <= kMostBytes - elements, name_of(kind), ": ", elements,
          " elements at offset ", offset, " are more than there are addresses");
  return offset + elements;
}

std::optional<std::pair<std::size_t, std::size_t>> overlapping(const std::vector<std::size_t>& offsets,
                                                               const std::vector<std::size_t>& counts) {
  std::vector<std::size_t> parts;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != 0) parts.push_back(i);
  }
  std::ranges::sort(parts, {}, [&](std::size_t i) { return offsets[i]; });
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t one = parts[i - 1];
    const std::size_t next = parts[i];
    if (offsets[next] - offsets[one] < counts[one]) return {{one, next}};
  }
  return std::nullopt;
}

OpKind part_of(OpKind kind, std::uint32_t part) { return static_cast<OpKind>(static_cast<std::uint32_t>(kind) | part); }

bool has_root(OpKind kind) {
  return kind == OpKind::reduce || kind == OpKind::gather || kind == OpKind::scatter || kind == OpKind::broadcast;
}

bool is_of_neighbours(OpKind kind) {
  return kind >= OpKind::neighbour_all_gather && kind <= OpKind::neighbour_all_to_all_v;
}

bool is_v(OpKind kind) { return kind == OpKind::all_to_all_v || kind == OpKind::all_gather_v; }

bool has_op(OpKind kind) {
  return kind == OpKind::all_reduce || kind == OpKind::reduce || kind == OpKind::reduce_scatter ||
         kind == OpKind::scan || kind == OpKind::exclusive_scan;
}

namespace {

// MurmurHash3's last step (Appleby): every bit depends on every bit; 0 stays 0.
std::uint64_t mixed(std::uint64_t word) {
  word = (word ^ word >> 33) * 0xff51afd7ed558ccd;
  word = (word ^ word >> 33) * 0xc4ceb9fe1a85ec53;
  return word ^ word >> 33;
}

}  // namespace

// FNV-1a (Fowler, Noll, Vo), by words: its steps permute the low bits, which stay; the others are mixed.
std::uint64_t signature_of(const CollectiveCall& call, Algorithm algorithm, int blocks) {
  constexpr int kKept = 11;
  constexpr std::uint64_t kLow = (std::uint64_t{1} << kKept) - 1;
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto take = [&](std::uint64_t word) { hash = (hash ^ word ^ mixed(word >> kKept)) * 0x100000001b3; };
  // The counts and the type, on which only each pair of ranks agrees, are not part of it; a rank without elements may
  // not know the type.
  const bool in_pairs = call.kind == OpKind::all_to_all_v || call.kind == OpKind::neighbour_all_to_all_v;
  take(static_cast<std::uint64_t>(call.kind));
  if (!in_pairs) take(static_cast<std::uint64_t>(call.type));
  take(static_cast<std::uint64_t>(algorithm));
  if (has_op(call.kind)) take(static_cast<std::uint64_t>(call.op));
  if (call.user_kernels != nullptr) take(call.user_digest);
  if (call.stage_of != 0) take(call.stage_of);
  if (has_root(call.kind)) take(static_cast<std::uint64_t>(call.root));
  if (call.kind == OpKind::all_gather_v) {
    for (const std::size_t count : call.receive_counts) take(count);
  } else if (call.kind != OpKind::all_to_all_v && !is_of_neighbours(call.kind)) {
    take(call.count);
  }
  const std::uint64_t high = mixed(hash) ^ static_cast<std::uint64_t>(blocks) << (kKept + 1);
  return ((high & ~kLow) | (hash & kLow)) << 1;
}

CollectiveCall all_reduce(const Vector& vector, ReduceOp op) { return of(OpKind::all_reduce, vector, op); }
CollectiveCall reduce(const Vector& vector, ReduceOp op, int root) {
  CollectiveCall call = of(OpKind::reduce, vector, op);
  call.root = root;
  return call;
}
CollectiveCall scan(const Vector& vector, ReduceOp op) { return of(OpKind::scan, vector, op); }
CollectiveCall exclusive_scan(const Vector& vector, ReduceOp op) { return of(OpKind::exclusive_scan, vector, op); }
CollectiveCall reduce_scatter(const Vector& vector, ReduceOp op) { return of(OpKind::reduce_scatter, vector, op); }
CollectiveCall broadcast(const Vector& vector, int root) { return of(OpKind::broadcast, vector, root); }
CollectiveCall all_gather(const Vector& vector) { return of(OpKind::all_gather, vector); }
CollectiveCall gather(const Vector& vector, int root) { return of(OpKind::gather, vector, root); }
CollectiveCall scatter(const Vector& vector, int root) { return of(OpKind::scatter, vector, root); }
CollectiveCall all_to_all(const Vector& vector) { return of(OpKind::all_to_all, vector); }
CollectiveCall barrier() { return of(OpKind::barrier, Vector{}); }
CollectiveCall reduced_by(CollectiveCall call, std::size_t element_bytes, Combine combine) {
  require(call.user_kernels == nullptr, name_of(call.kind), " has a reduction of your own already");
  call.element_bytes = element_bytes;
  call.combine = std::move(combine);
  return call;
}
CollectiveCall neighbour_all_gather(const Vector& vector) { return of(OpKind::neighbour_all_gather, vector); }
CollectiveCall neighbour_all_to_all(const Vector& vector) { return of(OpKind::neighbour_all_to_all, vector); }
CollectiveCall neighbour_all_to_all_v(const Vector& vector) { return of(OpKind::neighbour_all_to_all_v, vector); }

}  // namespace collective
}  // namespace onstream
