#include "collectives.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>
#include "onstream/collective.hpp"

#include "onstream/device/kernel/floats.hpp"

namespace onstream::shmem {

namespace {

// Where CPUs reach the memory, measured on 2 cores: a collect of few bytes is fetched in half of the library's time, as
// the PEs have met already to tell their lengths; and so is a broadcast of many.
constexpr std::size_t kSmallBytes = std::size_t{16} << 10;
constexpr std::size_t kLargeBytes = std::size_t{256} << 10;

std::byte* at(void* address, std::size_t offset) { return static_cast<std::byte*>(address) + offset; }
const std::byte* at(const void* address, std::size_t offset) { return static_cast<const std::byte*>(address) + offset; }

// From a member's memory into this PE's own. Sources are named as this PE names its own.
void fetch(Group& group, void* dest, const void* source, std::size_t bytes, int member) {
  if (bytes == 0) return;
  group.context().get_later(group.shmem().place(dest), group.shmem().place(source), bytes, group.world_rank(member));
}

// Members from this one on, so that not all ask the same one at once.
int epoch(const Group& group, int i) { return (group.rank() + i) % group.size(); }

void check_root(const Group& group, int root) {
  require(root >= 0 && root < group.size(), "root PE ", root, " does not exist; there are PEs 0 to ", group.size() - 1);
}

}  // namespace

void broadcast(Group& group, void* dest, const void* source, std::size_t bytes, int root, AtRoot at_root) {
  check_root(group, root);
  const bool is_root = group.rank() == root;
  void* const output = is_root && at_root == AtRoot::kept ? const_cast<void*>(source) : dest;
  const bool fetched = bytes >= kLargeBytes && group.shmem().cpu_reaches(dest, source);
  if (bytes > 0 && !fetched && group.in_library({dest, bytes}, {source, bytes})) {
    return group.run(collective::broadcast({source, output, bytes}, root));
  }
  group.meet();
  if (!is_root || (at_root == AtRoot::copied && dest != source)) fetch(group, dest, source, bytes, root);
  group.meet();
}

void collect(Group& group, void* dest, const void* source, std::size_t bytes) {
  const std::vector<std::uint64_t> lengths = group.exchange(bytes);
  std::vector<std::size_t> offsets(lengths.size());
  for (std::size_t i = 1; i < lengths.size(); ++i) offsets[i] = offsets[i - 1] + lengths[i - 1];
  const std::size_t total = offsets.back() + lengths.back();
  const std::size_t longest = *std::ranges::max_element(lengths);
  const bool fetched = total < kSmallBytes && group.shmem().cpu_reaches(dest, source);
  if (total > 0 && !fetched && group.in_library({dest, total}, {source, longest})) {
    CollectiveCall call = collective::all_gather({source, dest, bytes});
    call.kind = OpKind::all_gather_v;
    call.receive_counts.assign(lengths.begin(), lengths.end());
    call.receive_offsets = offsets;
    return group.run(call);
  }
  for (int i = 0; i < group.size(); ++i) {
    const int member = epoch(group, i);
    const auto index = static_cast<std::size_t>(member);
    fetch(group, at(dest, offsets[index]), source, lengths[index], member);
  }
  group.meet();
}

void fcollect(Group& group, void* dest, const void* source, std::size_t bytes) {
  const std::size_t all = bytes_of(bytes, static_cast<std::size_t>(group.size()));
  if (bytes > 0 && group.in_library({dest, all}, {source, bytes})) {
    return group.run(collective::all_gather({source, dest, bytes}));
  }
  group.meet();
  for (int i = 0; i < group.size(); ++i) {
    const int member = epoch(group, i);
    fetch(group, at(dest, static_cast<std::size_t>(member) * bytes), source, bytes, member);
  }
  group.meet();
}

void alltoall(Group& group, void* dest, const void* source, std::size_t bytes) {
  const std::size_t all = bytes_of(bytes, static_cast<std::size_t>(group.size()));
  if (bytes > 0 && group.in_library({dest, all}, {source, all})) {
    return group.run(collective::all_to_all({source, dest, bytes}));
  }
  group.meet();
  const std::size_t mine = static_cast<std::size_t>(group.rank()) * bytes;
  for (int i = 0; i < group.size(); ++i) {
    const int member = epoch(group, i);
    fetch(group, at(dest, static_cast<std::size_t>(member) * bytes), at(source, mine), bytes, member);
  }
  group.meet();
}

void alltoalls(Group& group, void* dest, const void* source, const Strided& how) {
  require(how.dest >= 1 && how.source >= 1, "elements ", how.dest, " and ", how.source, " apart; at least 1");
  if (how.dest == 1 && how.source == 1) return alltoall(group, dest, source, bytes_of(how.count, how.element));
  group.meet();
  const auto apart_to = how.dest * static_cast<std::ptrdiff_t>(how.element);
  const auto apart_from = how.source * static_cast<std::ptrdiff_t>(how.element);
  const auto part_to = static_cast<std::size_t>(apart_to) * how.count;
  const auto part_from = static_cast<std::size_t>(apart_from) * how.count;
  for (int i = 0; i < group.size() && how.count > 0; ++i) {
    const int member = epoch(group, i);
    void* const to = at(dest, static_cast<std::size_t>(member) * part_to);
    const void* const from = at(source, static_cast<std::size_t>(group.rank()) * part_from);
    group.context().get_strided(group.shmem().place(to), group.shmem().place(from), {apart_to, apart_from}, how.element,
                                how.count, group.world_rank(member));
  }
  group.meet();
}

namespace {

// Everybody's elements [first, first + count), combined.
void combine_all(Group& group, std::byte* result, const void* source, std::size_t first, std::size_t count,
                 const Reduction& reduction) {
  constexpr std::size_t kPieceBytes = 4096;
  const PlainFloats plain;
  alignas(std::max_align_t) std::byte theirs[kPieceBytes];
  const std::size_t piece = kPieceBytes / reduction.element;
  const std::byte* const from = group.shmem().place(at(source, first * reduction.element));
  group.context().get(result, from, count * reduction.element, group.world_rank(0));
  for (std::size_t done = 0; done < count; done += piece) {
    const std::size_t now = std::min(piece, count - done);
    const std::size_t offset = done * reduction.element;
    for (int member = 1; member < group.size(); ++member) {
      group.context().get(theirs, from + offset, now * reduction.element, group.world_rank(member));
      reduction.combine(result + offset, theirs, now);
    }
    reduction.settle(result + offset, now);
  }
}

}  // namespace

// Small: everybody combines everything. Else each member combines its share and gives it to all. The results are kept
// aside until all have read: destination and source may be the same.
void reduce(Group& group, void* dest, const void* source, std::size_t count, const Reduction& reduction) {
  constexpr std::size_t kCombinedByAll = 2048;
  const auto size = static_cast<std::size_t>(group.size());
  const std::size_t bytes = count * reduction.element;
  if (count > 0 && reduction.type && group.in_library({dest, bytes}, {source, bytes})) {
    CollectiveCall call = collective::all_reduce({source, dest, count, *reduction.type}, reduction.op);
    call.deterministic = true;  // passes by an algorithm of another order that a parameter asks for
    return group.run(call);
  }
  group.meet();
  if (count == 0) return;
  if (bytes <= kCombinedByAll) {
    alignas(std::max_align_t) std::byte result[kCombinedByAll];
    combine_all(group, result, source, 0, count, reduction);
    group.meet();
    group.context().put(group.shmem().place(dest), result, bytes, group.world_rank(group.rank()));
    return;
  }
  const std::size_t share = (count + size - 1) / size;
  const std::size_t first = std::min(count, share * static_cast<std::size_t>(group.rank()));
  const std::size_t mine = std::min(share, count - first);
  std::vector<std::byte> result(mine * reduction.element);
  if (mine > 0) combine_all(group, result.data(), source, first, mine, reduction);
  group.meet();
  for (int i = 0; i < group.size() && mine > 0; ++i) {
    group.context().put_later(group.shmem().place(at(dest, first * reduction.element)), result.data(),
                              mine * reduction.element, group.world_rank(epoch(group, i)));
  }
  group.meet();
}

}  // namespace onstream::shmem
