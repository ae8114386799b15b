// The checks that one rank can make while ops are added. All others are in build.cpp.
#include "onstream/base/error.hpp"
#include "onstream/bootstrap/launch_hint.hpp"
#include "onstream/plan/build.hpp"
#include "onstream/plan/op/planned_call.hpp"
#include "onstream/transport/buffer.hpp"

namespace onstream {

PlanBuilder::PlanBuilder(std::shared_ptr<Fabric> fabric, std::string name, std::shared_ptr<lane::NetworkLanes> lanes)
    : fabric_(std::move(fabric)), name_(std::move(name)), lanes_(std::move(lanes)) {
  require(fabric_ != nullptr, "plan '", name_, "' was given no world");
}

// Sends and receives go to ranks of any host, all else to this host's.
void PlanBuilder::check_peer(const char* what, int peer, Reach reach) const {
  require(peer >= 0 && peer < fabric_->size(), what, " op ", ops_.size(), " of plan '", name_, "': rank ", peer,
          " is not one of the world's 0 to ", fabric_->size() - 1, hint_without_launcher(fabric_->launch()));
  if (!fabric_->is_remote(peer) || (reach == Reach::all_hosts && lanes_ != nullptr)) return;
  fail(ErrorCode::unsupported, what, " op ", ops_.size(), " of plan '", name_, "': rank ", peer,
       " is on another host, which ", what, " does not reach in this version; sends, receives and halos do");
}

void PlanBuilder::check_lane(const char* what, int tag) const {
  require(tag >= 0 && tag < fabric_->parameters().tags, what, " op ", ops_.size(), " of plan '", name_, "': tag ", tag,
          " is not one of 0 to ", fabric_->parameters().tags - 1, " (parameter tags)");
}

void PlanBuilder::check_buffer(const char* what, const void* address, const Layout& layout) const {
  require(address != nullptr || layout.bytes() == 0, what, " op ", ops_.size(), " of plan '", name_,
          "': ", layout.bytes(), " B at a null address");
  if (layout.bytes() == 0) return;
  try {
    (void)look_at_buffer(*fabric_->device(), static_cast<const std::byte*>(address) + layout.lowest(),
                         static_cast<std::size_t>(layout.highest() - layout.lowest()));
  } catch (const Error& error) {
    throw Error(error.code(), concat(what, " op ", ops_.size(), " of plan '", name_, "': ", error.what()));
  }
}

void PlanBuilder::check_destination(const char* what, const Layout& layout) const {
  require(!layout.overlaps_itself(), what, " op ", ops_.size(), " of plan '", name_, "': its destination (",
          layout.describe(), ") overlaps itself");
}

PlanBuilder& PlanBuilder::send(const void* source, const Layout& layout, int peer, int tag, std::string note) {
  check_peer("send", peer, Reach::all_hosts);
  check_lane("send", tag);
  check_buffer("send", source, layout);
  Op op;
  op.kind = OpKind::send;
  op.peer = peer;
  op.tag = tag;
  op.address = const_cast<void*>(source);
  op.layout = layout;
  op.note = std::move(note);
  ops_.push_back(std::move(op));
  return *this;
}

PlanBuilder& PlanBuilder::recv(void* destination, const Layout& layout, int peer, int tag, std::string note) {
  check_peer("recv", peer, Reach::all_hosts);
  check_lane("recv", tag);
  check_buffer("recv", destination, layout);
  check_destination("recv", layout);
  Op op;
  op.kind = OpKind::recv;
  op.peer = peer;
  op.tag = tag;
  op.address = destination;
  op.layout = layout;
  op.note = std::move(note);
  ops_.push_back(std::move(op));
  return *this;
}

std::shared_ptr<Segment> PlanBuilder::segment_of(const char* what, const void* address, std::size_t bytes,
                                                 int peer) const {
  auto segment = fabric_->segment_of(peer, address, bytes);
  require(segment != nullptr, what, " op ", ops_.size(), " of plan '", name_, "': the ", bytes, " B at ", address,
          " do not lie in rank ", peer, "'s part of a segment; take what segment.peer(", peer,
          ") gives, or a part of it");
  return segment;
}

void PlanBuilder::check_word(const char* what, const char* name, const void* word, std::size_t width) const {
  require(width == 4 || width == 8, what, " op ", ops_.size(), " of plan '", name_, "': a word has 4 or 8 bytes, not ",
          width);
  require(word != nullptr, what, " op ", ops_.size(), " of plan '", name_, "': the ", name, " is null");
  require(reinterpret_cast<std::uintptr_t>(word) % width == 0, what, " op ", ops_.size(), " of plan '", name_,
          "': the ", name, " at ", word, " is not aligned to ", width, " bytes");
}

PlanBuilder& PlanBuilder::put(void* remote, const Layout& remote_layout, const void* source, const Layout& layout,
                              int peer, std::string note) {
  check_peer("put", peer);
  check_buffer("put", source, layout);
  check_destination("put", remote_layout);
  Op op;
  op.kind = OpKind::put;
  op.peer = peer;
  op.address = const_cast<void*>(source);
  op.layout = layout;
  op.note = std::move(note);
  add_copy(std::move(op), remote, remote_layout);
  return *this;
}

PlanBuilder& PlanBuilder::get(void* destination, const Layout& layout, const void* remote, const Layout& remote_layout,
                              int peer, std::string note) {
  check_peer("get", peer);
  check_buffer("get", destination, layout);
  check_destination("get", layout);
  Op op;
  op.kind = OpKind::get;
  op.peer = peer;
  op.address = destination;
  op.layout = layout;
  op.note = std::move(note);
  add_copy(std::move(op), const_cast<void*>(remote), remote_layout);
  return *this;
}

// A put or get, once the peer's end is checked too.
void PlanBuilder::add_copy(Op op, void* remote, const Layout& remote_layout) {
  const bool puts = op.kind == OpKind::put;
  const char* const what = name_of(op.kind);
  require(remote != nullptr || remote_layout.bytes() == 0, what, " op ", ops_.size(), " of plan '", name_, "': the ",
          puts ? "destination" : "source", " is null");
  const std::uint64_t there = remote_layout.bytes();
  const std::uint64_t here = op.layout.bytes();
  require(there == here, what, " op ", ops_.size(), " of plan '", name_, "': the source has ", puts ? here : there,
          " B and the destination ", puts ? there : here);
  op.segment = segment_of(what, static_cast<std::byte*>(remote) + remote_layout.lowest(),
                          static_cast<std::size_t>(remote_layout.highest() - remote_layout.lowest()), op.peer);
  op.remote = remote;
  op.remote_layout = remote_layout;
  ops_.push_back(std::move(op));
}

PlanBuilder& PlanBuilder::signal(std::uint64_t* remote_counter, std::uint64_t value, int peer, std::string note) {
  return signal(SignalOp::add, remote_counter, sizeof *remote_counter, value, peer, std::move(note));
}

PlanBuilder& PlanBuilder::signal(SignalOp kind, void* remote, std::size_t width, std::uint64_t value, int peer,
                                 std::string note) {
  require(kind == SignalOp::add || kind == SignalOp::set, "signal op ", ops_.size(), " of plan '", name_,
          "': it adds or sets, and ", static_cast<int>(kind), " is neither");
  check_peer("signal", peer);
  check_word("signal", "word", remote, width);
  Op op;
  op.segment = segment_of("signal", remote, width, peer);
  op.kind = OpKind::signal;
  op.atomic = kind == SignalOp::set ? AtomicOp::set : AtomicOp::add;
  op.peer = peer;
  op.remote = remote;
  op.layout = Layout::contiguous(width);
  op.value = value;
  op.note = std::move(note);
  ops_.push_back(std::move(op));
  return *this;
}

PlanBuilder& PlanBuilder::atomic(AtomicOp kind, void* remote, std::size_t width, std::uint64_t value, int peer,
                                 void* old, std::uint64_t expected, std::string note) {
  check_peer("atomic", peer);
  check_word("atomic", "word", remote, width);
  Op op;
  op.segment = segment_of("atomic", remote, width, peer);
  op.kind = OpKind::atomic;
  op.atomic = kind;
  op.peer = peer;
  op.remote = remote;
  op.layout = Layout::contiguous(width);
  op.value = value;
  op.expected = expected;
  if (old != nullptr) {
    check_word("atomic", "word for the old value", old, width);
    check_buffer("atomic", old, op.layout);
    require(fabric_->device()->inspect(old).kernel_access, "atomic op ", ops_.size(), " of plan '", name_,
            "': kernels cannot store the old value at ", old, "; give it device, pinned or managed memory");
    op.address = old;
  }
  op.note = std::move(note);
  ops_.push_back(std::move(op));
  return *this;
}

PlanBuilder& PlanBuilder::wait(std::uint64_t* counter, std::uint64_t value, std::string note) {
  Op op;
  op.address = counter;
  op.value = value;
  return add_wait(std::move(op), sizeof *counter, std::move(note));
}

PlanBuilder& PlanBuilder::wait(const void* word, const Until& until, std::string note) {
  require(until.compare <= Compare::any_bit, "wait op ", ops_.size(), " of plan '", name_,
          "': ", static_cast<int>(until.compare), " is no comparison");
  Op op;
  op.address = const_cast<void*>(word);
  op.until = until;
  return add_wait(std::move(op), until.width, std::move(note));
}

PlanBuilder& PlanBuilder::add_wait(Op op, std::size_t width, std::string note) {
  check_word("wait", "word", op.address, width);
  check_buffer("wait", op.address, Layout::contiguous(width));
  require(fabric_->device()->inspect(op.address).kernel_access, "wait op ", ops_.size(), " of plan '", name_,
          "': kernels cannot look at ", op.address, "; give it device, pinned or managed memory");
  op.segment = fabric_->segment_of(fabric_->rank(), op.address, width);  // null for other memory
  op.kind = OpKind::wait;
  op.note = std::move(note);
  ops_.push_back(std::move(op));
  return *this;
}

PlanBuilder& PlanBuilder::add(std::shared_ptr<const plan::PlannedCall> call) {
  require(call != nullptr, "plan '", name_, "' was given no collective to add");
  require(call->fabric() == fabric_.get(), "plan '", name_, "': a collective of another world cannot be added");
  calls_.push_back(std::move(call));
  return *this;
}

PlanBuilder& PlanBuilder::of(std::string element) {
  require(!ops_.empty(), "of('", element, "') in plan '", name_, "' comes before any op");
  ops_.back().element = std::move(element);
  return *this;
}

PlanBuilder& PlanBuilder::use_path(Path path) {
  path_ = path;
  return *this;
}

PlanBuilder& PlanBuilder::refuse(const std::string& problem) {
  problems_ += concat(problems_.empty() ? "" : "\n  ", "rank ", fabric_->rank(), ": ", problem);
  return *this;
}

std::shared_ptr<Plan> PlanBuilder::build() {
  try {
    return std::shared_ptr<Plan>(new Plan(build_plan(fabric_, {name_, path_, ops_, calls_, problems_, lanes_})));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::timeout) throw;
    throw Error(ErrorCode::timeout,
                concat("plan '", name_, "': ", error.what(), "; every rank builds the same plans in the same order"));
  }
}

}  // namespace onstream
