// Symmetric memory of OneSided: making segments and views of them, and finding places by address.
#include <algorithm>

#include "onstream/base/error.hpp"
#include "onstream/layout/walk.hpp"
#include "onstream/one_sided/kernel/bodies.hpp"
#include "onstream/one_sided/kernel/kernels.hpp"
#include "onstream/one_sided/stream/implementation.hpp"

namespace onstream {

using one_sided::SegmentRow;
using one_sided::SegmentRows;

std::shared_ptr<Segment> OneSidedImplementation::segment(std::size_t bytes, MemoryKind kind) {
  std::shared_ptr<Segment> made = fabric_->segment(bytes, kind, Mapped::by_path);
  auto row = std::make_shared<SegmentRow>();
  row->begin = reinterpret_cast<std::uintptr_t>(made->local());
  row->bytes = bytes;
  row->cpu = cpu_reaches(kind);
  row->segment = made.get();
  for (int rank = 0; rank < fabric_->size(); ++rank) {
    row->parts.push_back(made->direct(rank) ? reinterpret_cast<std::uintptr_t>(made->peer(rank)) : 0);
  }
  row->window = std::make_shared<Window>(*fabric_, std::shared_ptr<Segment>(std::shared_ptr<void>(), made.get()));
  segments_->add(*made, row);
  // The handle that programs hold: with the last of them go the row, the proxy's entry for peers, the table of views,
  // and then the memory.
  const auto let_go = [made, rows = std::weak_ptr(segments_), lent = std::weak_ptr(lent_),
                       tables = std::weak_ptr(tables_)](Segment* gone) mutable {
    if (const auto living = rows.lock()) living->remove(*gone);
    if (const auto living = lent.lock()) living->remove(*gone);
    if (const auto living = tables.lock()) living->remove(gone->number());
    made.reset();
  };
  std::shared_ptr<Segment> handle(made.get(), let_go);
  if (made->direct_everywhere()) return handle;
  lent_->add(*made);
  // No rank uses a part before its owner has lent it.
  proxy_ == nullptr ? start_proxy() : fabric_->barrier("segment.proxy");
  return handle;
}

void OneSidedImplementation::free(const std::shared_ptr<Segment>& segment) {
  if (!uses_.done(Deadline(fabric_->parameters().timeout_s))) {
    fail(ErrorCode::timeout, "free: one-sided ops of rank ", rank(), " were under way for ",
         fabric_->parameters().timeout_s, " s (timeout_s)");
  }
  fabric_->free(segment, [&] {
    segments_->remove(*segment);
    lent_->remove(*segment);
  });
  tables_->remove(segment->number());
}

Remote OneSidedImplementation::symmetric(const void* address, int rank) const {
  const SegmentRow* row = segments_->find(address);
  require(row != nullptr, address,
          " is in no segment of this world: it must be this rank's own address of symmetric "
          "memory that was not freed");
  return {*row->window, rank, reinterpret_cast<std::uintptr_t>(address) - row->begin};
}

std::shared_ptr<Memory> OneSidedImplementation::table_of(const void* values, std::size_t bytes, MemoryKind kind) {
  std::shared_ptr<Memory> table = device_->allocate(bytes, kind);
  fabric_->streams()->copy_now(table->data(), values, bytes);
  return table;
}

SegmentView OneSidedImplementation::view(const Segment& segment) {
  SegmentView view;
  view.waits = fabric_->wait_view();
  view.rank = rank();
  view.size = fabric_->size();
  view.bytes = segment.bytes();
  std::vector<std::byte*> parts;
  for (int rank = 0; rank < view.size; ++rank) parts.push_back(segment.peer(rank));  // throws where it does not reach
  view.own = parts[static_cast<std::size_t>(view.rank)];
  if (view.size <= SegmentView::kInline) {
    std::ranges::copy(parts, view.parts);
    return view;
  }
  const std::lock_guard lock(tables_->mutex);
  std::shared_ptr<Memory>& table = tables_->of[segment.number()];
  if (table == nullptr) table = table_of(parts.data(), parts.size() * sizeof(parts[0]), MemoryKind::device);
  view.further = reinterpret_cast<std::byte* const*>(table->data());
  return view;
}

void OneSidedImplementation::walk(void* to, const Layout& to_layout, const void* from, const Layout& from_layout,
                                  Stream stream) {
  fabric_->check([&] { return concat("copy of ", to_layout.bytes(), " B by layouts"); });
  require(to_layout.bytes() == from_layout.bytes(), "layouts of equal bytes, but the destination is ",
          to_layout.describe(), " and the source ", from_layout.describe());
  require(!to_layout.overlaps_itself(), "the destination's layout, ", to_layout.describe(), ", overlaps itself");
  if (to_layout.bytes() == 0) return;
  one_sided::Walk body{};
  body.to_layout = to_layout.view();
  body.from_layout = from_layout.view();
  body.to = static_cast<std::byte*>(to);
  body.from = static_cast<std::byte*>(const_cast<void*>(from));
  body.bytes = to_layout.bytes();
  const bool plain = body.to_layout.dims == 0 && body.from_layout.dims == 0;
  constexpr std::uint32_t kWidest = 16;
  // Runs of a plain copy need not be whole words: its tail is copied alone.
  LayoutView ends = body.to_layout;
  if (plain) ends.run_bytes = kWidest;
  body.access_width = access_width_of(from, plain ? ends : body.from_layout, access_width_of(to, ends, kWidest));
  constexpr int kThreads = 512;
  const std::size_t blocks = (body.bytes + block_bytes_ - 1) / block_bytes_;
  const int most = on_host_ ? 1 : max_blocks_;
  const Grid grid{static_cast<int>(std::clamp<std::size_t>(blocks, 1, static_cast<std::size_t>(most))), kThreads};
  launch(*device_, one_sided::walk_kernel(), body, grid, stream);
  if (note(stream) == Noted::enqueued) return;
  for (const void* used : {static_cast<const void*>(to), from}) fabric_->guard(stream, used);
}

WaitView OneSidedImplementation::host_waits() const {
  WaitView view = fabric_->wait_view();
  view.faults = nullptr;
  return view;
}

// A wait of the CPU that did not end with ok: the world fails with it, as it does with a kernel's.
Status OneSidedImplementation::finish_wait(Status status, const std::string& what) {
  if (status == Status::timeout) {
    fabric_->report_timeout(what);
  } else if (status == Status::aborted && !fabric_->failure() && fabric_->has_left(one_sided::kAnyRank)) {
    fabric_->abort(concat("every other rank left the world, and ", what, " of rank ", rank(), " still waited"));
  }
  return status;
}

}  // namespace onstream
