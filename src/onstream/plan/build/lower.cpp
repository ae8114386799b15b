#include "onstream/plan/build/lower.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "onstream/base/error.hpp"
#include "onstream/layout/runs.hpp"
#include "onstream/layout/walk.hpp"
#include "onstream/plan/build/rows.hpp"
#include "onstream/plan/build/spread.hpp"

namespace onstream::plan {

namespace {

std::byte* at_address(std::uint64_t address) { return reinterpret_cast<std::byte*>(address); }

// The widest access that both ends allow. Two contiguous ends may leave a tail, which copy_part() takes byte by byte.
std::uint32_t access_width_of_copy(const Task& task) {
  if (task.to_layout.dims == 0 && task.from_layout.dims == 0) {
    const LayoutView any{16, 0, {}, {}};
    return std::min(access_width_of(task.to, any, 16), access_width_of(task.from, any, 16));
  }
  return std::min(access_width_of(task.to, task.to_layout, 16), access_width_of(task.from, task.from_layout, 16));
}

class Lowerer {
 public:
  explicit Lowerer(const Lowering& in) : in_(in) {}

  Program run() {
    for (const Route& route : *in_.routes) {
      if (route.edge.source_rank == in_.rank) lower_source(route);
      if (route.edge.destination_rank == in_.rank && !route.local()) lower_destination(route);
      note_announcement(route);
    }
    lower_signals();
    for (std::size_t i = 0; i < in_.ops->size(); ++i) {
      const Op& op = (*in_.ops)[i];
      if (op.kind == OpKind::put || op.kind == OpKind::get) lower_alone(static_cast<int>(i), op);
      if (op.kind == OpKind::wait) lower_wait(static_cast<int>(i), op);
    }
    for (std::uint64_t* word : announce_) program_.announce.push_back(word);
    const bool brief = in_.device == DeviceKind::cuda && make_rows(program_, lists_, in_.most_blocks);
    if (!brief) spread(program_, lists_, in_);
    const bool by_stream = !program_.words.empty() || !program_.middle.empty();
    program_.no_kernel = by_stream && program_.tasks.empty() && program_.announce.empty() && program_.signals.empty();
    return std::move(program_);
  }

 private:
  const Op& op(int index) const { return (*in_.ops)[static_cast<std::size_t>(index)]; }

  Task task_for(int index) const {
    Task task;
    task.op = static_cast<std::uint32_t>(index);
    task.kind = op(index).kind;
    task.peer = op(index).peer;
    task.bytes = op(index).layout.bytes();
    return task;
  }
  std::uint64_t* word(int owner, std::uint64_t offset) const {
    return reinterpret_cast<std::uint64_t*>(in_.segment->peer(owner) + offset);
  }
  const std::uint64_t* announcement_of(int peer) const { return word(in_.rank, announcement_offset(peer)); }

  const StandIn& stand_in(int index) const { return (*in_.stand_ins)[static_cast<std::size_t>(index)]; }

  // Memory and how an op's bytes lie in it.
  struct OpBuffer {
    std::byte* data;
    LayoutView layout;
  };
  OpBuffer buffer_of(int index) const { return {static_cast<std::byte*>(op(index).address), op(index).layout.view()}; }
  // The memory that is moved in its place: the buffer itself, or its stand-in.
  OpBuffer place_of(int index) const {
    std::byte* const other = stand_in(index).data;
    if (other == nullptr) return buffer_of(index);
    return {other, Layout::contiguous(op(index).layout.bytes()).view()};
  }

  void set_source(Task& task, int index) {
    const OpBuffer place = place_of(index);
    task.from = place.data;
    task.from_layout = place.layout;
    const StandIn& other = stand_in(index);
    if (other.data == nullptr) return;
    add_copies(other.plain ? program_.host_before : program_.before, place, buffer_of(index),
               other.plain ? kAnyPieces : path::kMaxPieces);
  }

  // Sets the place a task writes; the host copies out of a stand-in when the launch is through.
  void set_destination(Task& task, int index) {
    const OpBuffer place = place_of(index);
    task.to = place.data;
    task.to_layout = place.layout;
    if (stand_in(index).data != nullptr) add_copies(program_.host_after, buffer_of(index), place, kAnyPieces);
  }

  static constexpr std::uint64_t kAnyPieces = std::uint64_t{1} << 40;  // the host's copies have no commands to save

  static void add_copies(std::vector<CopyCommand>& list, const OpBuffer& to, const OpBuffer& from,
                         std::uint64_t most_pieces = path::kMaxPieces) {
    const auto pieces = pieces_of(to.layout, from.layout, most_pieces);
    for (const LayoutPiece& piece : pieces.value())
      list.push_back({to.data + piece.to, from.data + piece.from, piece.bytes});
  }
  // Adds the copies of a task's move, for an engine in the kernel's place.
  void add_middle_copies(const Task& task) {
    if (task.bytes > 0) add_copies(program_.middle, {task.to, task.to_layout}, {task.from, task.from_layout});
  }

  void add(std::vector<std::uint32_t>& list, const Task& task) {
    list.push_back(static_cast<std::uint32_t>(program_.tasks.size()));
    program_.tasks.push_back(task);
  }

  // A move without bytes to move keeps its waits and flags.
  void add_move(Task task) {
    if (task.bytes == 0) task.to = task.from = nullptr;
    if (task.to != nullptr) task.access_width = access_width_of_copy(task);
    add(lists_.moves, task);
  }

  void lower_source(const Route& route) {
    const int peer = route.edge.destination_rank;
    Task task = task_for(route.edge.source_op);
    if (!route.local() && (route.choice.path != Path::ll || route.asks)) task.started = announcement_of(peer);
    switch (route.choice.path) {
      case Path::ll:
        set_source(task, route.edge.source_op);
        task.access_width = task.bytes == 0 ? 1 : access_width_of(task.from, task.from_layout, 8);
        task.slots = reinterpret_cast<Line*>(in_.segment->peer(peer) + route.slots_offset);
        task.slot_lines = route.slot_lines;
        return add(lists_.packs, task);
      case Path::store:
        set_source(task, route.edge.source_op);
        set_store_destination(task, route);
        return add_move(task);
      case Path::stage:
        set_source(task, route.edge.source_op);
        task.to = in_.segment->peer(peer) + route.bounce_offset;
        task.to_layout = Layout::contiguous(task.bytes).view();
        task.flag = word(peer, route.flag_offset);
        return add_move(task);
      case Path::copy: return lower_copy(route, task);
      case Path::memop: return lower_memop_source(route, task);
      case Path::load: {
        task.flag = word(in_.rank, route.flag_offset);
        task.started = nullptr;
        return add(lists_.awaits, task);
      }
      default: fail(ErrorCode::unsupported, "path ", name_of(route.choice.path), " of a plan is not in this build");
    }
  }

  void set_store_destination(Task& task, const Route& route) {
    if (route.local()) return set_destination(task, route.edge.destination_op);
    task.to = at_address(route.destination_address);
    task.to_layout = route.destination_layout;
    task.flag = word(route.edge.destination_rank, route.flag_offset);
  }

  // The first kernel waits for the peer, the copy engine moves, the second kernel tells.
  void lower_copy(const Route& route, Task task) {
    Task placed = task;
    set_source(placed, route.edge.source_op);
    set_store_destination(placed, route);
    add_middle_copies(placed);
    if (route.local()) return;
    add(lists_.moves, task);
    task.started = nullptr;
    task.flag = placed.flag;
    add(lists_.raises, task);
  }

  // The stream waits, the copy engine moves, the stream tells.
  void lower_memop_source(const Route& route, Task task) {
    set_source(task, route.edge.source_op);
    set_store_destination(task, route);
    add_middle_copies(task);
    if (route.local()) return;
    program_.words.send(stream_word(in_.rank, route.ready_offset),
                        stream_word(route.edge.destination_rank, route.done_offset), fault_of(task));
  }

  std::uint32_t* stream_word(int owner, std::uint64_t offset) const {
    return reinterpret_cast<std::uint32_t*>(in_.words->peer(owner) + offset);
  }

  FaultReport fault_of(const Task& task) const {
    FaultReport fault;
    fault.op = task.kind;
    fault.peer = task.peer;
    fault.plan_op = static_cast<int>(task.op);
    fault.bytes = task.bytes;
    fault.plan = in_.number;
    return fault;
  }

  void lower_destination(const Route& route) {
    const int peer = route.edge.source_rank;
    const int index = route.edge.destination_op;
    Task task = task_for(index);
    if (route.choice.path == Path::memop) {
      return program_.words.receive(stream_word(peer, route.ready_offset), stream_word(in_.rank, route.done_offset),
                                    fault_of(task));
    }
    if (route.choice.path == Path::ll) {
      set_destination(task, index);
      task.access_width = task.bytes == 0 ? 1 : access_width_of(task.to, task.to_layout, 8);
      task.slots = reinterpret_cast<Line*>(in_.segment->local() + route.slots_offset);
      task.slot_lines = route.slot_lines;
      return add(lists_.unpacks, task);
    }
    if (route.choice.path == Path::load) {
      task.started = announcement_of(peer);
      task.flag = word(peer, route.flag_offset);
      set_destination(task, index);
      task.pulls = 1;
      task.from = at_address(route.source_address);
      task.from_layout = route.source_layout;
      return add_move(task);
    }
    task.flag = word(in_.rank, route.flag_offset);
    if (route.choice.path == Path::stage && task.bytes > 0) {
      std::byte* bounce = in_.segment->local() + route.bounce_offset;
      const Layout plain = Layout::contiguous(task.bytes);
      if (route.transfer.destination.kernel_access) {
        set_destination(task, index);
        task.from = bounce;
        task.from_layout = plain.view();
        task.access_width = access_width_of_copy(task);
      } else {
        add_copies(program_.after, buffer_of(index), {bounce, plain.view()});
      }
    }
    add(lists_.awaits, task);
  }

  // Notes the peer that has to hear that this rank's launch has started.
  void note_announcement(const Route& route) {
    if (route.local() || route.choice.path == Path::memop) return;
    const int source = route.edge.source_rank, destination = route.edge.destination_rank;
    const bool pulls = route.choice.path == Path::load;
    const int speaker = pulls ? source : destination;
    const int listener = pulls ? destination : source;
    if (speaker != in_.rank || (route.choice.path == Path::ll && !route.asks)) return;
    announce_.insert(word(listener, announcement_offset(in_.rank)));
    if (pulls) program_.announce_release = 1;
  }

  static SignalView signal_of(const Op& op) {
    SignalView signal;
    signal.counter = static_cast<std::uint64_t*>(op.remote);
    signal.value = op.value;
    if (op.kind == OpKind::signal && op.atomic == AtomicOp::add && op.layout.bytes() == sizeof op.value) return signal;
    signal.width = static_cast<std::uint32_t>(op.layout.bytes());
    signal.op = op.atomic;
    signal.expected = op.expected;
    signal.old = reinterpret_cast<std::uint64_t>(op.address);
    return signal;
  }

  // Signals and atomics of a peer follow all puts to it that this plan makes, which come before them or wait for
  // nothing anyway.
  void lower_signals() {
    std::map<int, std::vector<SignalView>> by_peer;
    std::set<int> put_to;
    for (const Op& one : *in_.ops) {
      if (one.kind == OpKind::put) put_to.insert(one.peer);
      if (one.kind == OpKind::signal || one.kind == OpKind::atomic) by_peer[one.peer].push_back(signal_of(one));
    }
    for (const auto& [peer, signals] : by_peer) {
      if (put_to.contains(peer)) continue;
      program_.signals.insert(program_.signals.end(), signals.begin(), signals.end());
    }
    program_.lone_signals = static_cast<std::uint32_t>(program_.signals.size());
    for (const auto& [peer, signals] : by_peer) {
      if (!put_to.contains(peer)) continue;
      PutChain chain;
      chain.signals.first = static_cast<std::uint32_t>(program_.signals.size());
      program_.signals.insert(program_.signals.end(), signals.begin(), signals.end());
      chain.signals.last = static_cast<std::uint32_t>(program_.signals.size());
      chain_of_[peer] = static_cast<std::uint32_t>(program_.chains.size());
      program_.chains.push_back(chain);
    }
  }

  // Puts and gets, which no peer takes part in.
  void lower_alone(int index, const Op& one) {
    Task task = task_for(index);
    const bool puts = one.kind == OpKind::put;
    if (puts) {
      task.to = static_cast<std::byte*>(one.remote);
      task.to_layout = one.remote_layout.view();
      set_source(task, index);
    } else {
      set_destination(task, index);
      task.from = static_cast<std::byte*>(one.remote);
      task.from_layout = one.remote_layout.view();
    }
    const auto chain = chain_of_.find(one.peer);
    if (puts && chain != chain_of_.end()) task.chain = chain->second;
    const Path path = (*in_.planned)[static_cast<std::size_t>(index)].path;
    if (path != Path::copy && path != Path::memop) return add_move(task);
    add_middle_copies(task);
    task.to = task.from = nullptr;
    if (path == Path::copy || task.chain != kNone) add(lists_.raises, task);
  }

  void lower_wait(int index, const Op& wait) {
    Task task = task_for(index);
    task.flag = static_cast<std::uint64_t*>(wait.address);
    if (wait.until) {
      task.bytes = wait.until->width;
      task.width = static_cast<std::uint32_t>(wait.until->width);
      task.compare = wait.until->compare;
      task.sign = wait.until->sign;
      task.value = wait.until->value;
    } else {
      task.bytes = sizeof wait.value;
      task.base = (*in_.counter_bases)[static_cast<std::size_t>(index)];
      task.value = wait.value;
    }
    add(lists_.awaits, task);
  }

  const Lowering& in_;
  Program program_;
  TaskLists lists_;
  std::set<std::uint64_t*> announce_;
  std::map<int, std::uint32_t> chain_of_;
};

}  // namespace

Program lower(const Lowering& lowering) { return Lowerer(lowering).run(); }

}  // namespace onstream::plan
