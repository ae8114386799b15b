// How a Statement travels.
#include <algorithm>
#include <set>

#include "onstream/base/error.hpp"
#include "onstream/plan/build/match.hpp"
#include "onstream/plan/build/packing.hpp"

namespace onstream::plan {

namespace {

// Whether all that is touched from `address` on has an address.
bool is_somewhere(const LayoutView& view, std::int64_t address) {
  std::int64_t begin = address;
  std::int64_t end = address;
  bool overflows = __builtin_add_overflow(end, view.run_bytes, &end);
  for (int d = 0; d < view.dims; ++d) {
    std::int64_t reach = 0;
    overflows |= __builtin_mul_overflow(view.strides[d], view.counts[d] - 1, &reach);
    std::int64_t& side = reach < 0 ? begin : end;
    overflows |= __builtin_add_overflow(side, reach, &side);
  }
  return !overflows;
}

LayoutView checked(const LayoutView& view, std::uint64_t bytes, std::int64_t address = 0) {
  bool good = view.dims >= 0 && view.dims <= LayoutView::kMaxDims;
  std::uint64_t total = view.run_bytes;
  for (int d = 0; good && d < view.dims; ++d) {
    good = view.counts[d] > 0 && !__builtin_mul_overflow(total, static_cast<std::uint64_t>(view.counts[d]), &total);
  }
  if (!good || total != bytes || !is_somewhere(view, 0) || !is_somewhere(view, address))
    fail(ErrorCode::system, "a rank's list of ops holds a layout that is none");
  return view;
}

}  // namespace

std::string pack(const Statement& statement) {
  PackWriter writer;
  writer.text(statement.name);
  writer.number(statement.number);
  writer.text(statement.device);
  writer.text(statement.problems);
  writer.number(static_cast<std::uint64_t>(statement.ops.size()));
  for (const StatedOp& op : statement.ops) {
    writer.number(op.kind);
    writer.number(op.peer);
    writer.number(op.tag);
    writer.number(op.kernel_access);
    writer.number(op.path);
    writer.number(op.layout);
    writer.number(op.bytes);
    writer.number(op.landing);
    writer.text(op.wanted_by);
    writer.text(op.element);
    writer.text(op.note);
  }
  writer.number(static_cast<std::uint64_t>(statement.calls.size()));
  for (const StatedCall& call : statement.calls) {
    writer.text(call.words);
    writer.number(call.team);
    writer.numbers(call.ranks);
    writer.numbers(call.gives);
    writer.numbers(call.takes);
  }
  return writer.take();
}

Statement unpack(std::string_view bytes) {
  PackReader reader(bytes);
  Statement statement;
  statement.name = reader.text();
  statement.number = reader.number<std::uint64_t>();
  statement.device = reader.text();
  statement.problems = reader.text();
  const std::uint64_t count = reader.number<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) {
    StatedOp op;
    op.kind = reader.number<OpKind>();
    op.peer = reader.number<std::int32_t>();
    op.tag = reader.number<std::int32_t>();
    op.kernel_access = reader.number<std::int32_t>();
    op.path = reader.number<Path>();
    op.layout = reader.number<LayoutView>();
    op.bytes = reader.number<std::uint64_t>();
    op.layout = checked(op.layout, op.bytes);
    op.landing = reader.number<Landing>();
    if (op.landing.rank >= 0) op.landing.layout = checked(op.landing.layout, op.bytes, op.landing.address);
    op.wanted_by = reader.text();
    op.element = reader.text();
    op.note = reader.text();
    statement.ops.push_back(std::move(op));
  }
  const std::uint64_t calls = reader.number<std::uint64_t>();
  for (std::uint64_t i = 0; i < calls; ++i) {
    StatedCall call;
    call.words = reader.text();
    call.team = reader.number<std::uint64_t>();
    call.ranks = reader.numbers<std::int32_t>();
    call.gives = reader.numbers<StatedPart>();
    call.takes = reader.numbers<StatedPart>();
    const std::set<std::int64_t> ranks(call.ranks.begin(), call.ranks.end());
    const auto is_of_them = [&](const StatedPart& part) { return ranks.contains(part.rank); };
    if (!std::ranges::all_of(call.gives, is_of_them) || !std::ranges::all_of(call.takes, is_of_them)) {
      fail(ErrorCode::system, "a rank's collective has counts for other ranks than its own");
    }
    statement.calls.push_back(std::move(call));
  }
  if (!reader.empty()) fail(ErrorCode::system, "a rank's list of ops has bytes after its end");
  return statement;
}

}  // namespace onstream::plan
