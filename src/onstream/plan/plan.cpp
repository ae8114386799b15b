#include "onstream/plan.hpp"

#include <algorithm>
#include <cstring>

#include "onstream/base/error.hpp"
#include "onstream/base/text.hpp"
#include "onstream/device/kernel/thread_lock.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"
#include "onstream/layout/runs.hpp"
#include "onstream/plan/implementation.hpp"
#include "onstream/plan/kernel/kernels.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream {

namespace {

std::string title(const Op& op) {
  std::string text = name_of(op.kind);
  if (op.kind == OpKind::atomic) text += concat(" ", name_of(op.atomic));
  if (op.kind == OpKind::signal && op.atomic == AtomicOp::set) text += " set";
  if (op.until) text += concat(" ", name_of(op.until->compare));
  const bool comes = op.kind == OpKind::recv || op.kind == OpKind::get;
  if (op.peer >= 0) text += concat(comes ? " from " : " to ", op.peer);
  if (!op.note.empty()) text += ", " + op.note;
  return text;
}

bool ended_event(const std::shared_ptr<Event>& event) { return ended(*event); }

bool moves_bytes(OpKind kind) { return kind != OpKind::signal && kind != OpKind::atomic && kind != OpKind::wait; }

std::string padded(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : text + std::string(width - text.size(), ' ');
}

// A host function of a stream, for plain memory. The commands live with the launch.
void copy_by_host(void* commands) {
  for (const plan::CopyCommand& copy : *static_cast<const std::vector<plan::CopyCommand>*>(commands)) {
    std::memcpy(copy.to, copy.from, copy.bytes);
  }
}

}  // namespace

Plan::Plan(std::unique_ptr<Implementation> implementation)
    : implementation_(implementation.release(), LeftToParent()) {}
Plan::~Plan() = default;

void Plan::Implementation::check_memory() {
  const Device& device = *fabric->device();
  const std::uint64_t now = device.frees();
  if (now == frees.load(std::memory_order_relaxed)) return;
  for (const OpMemory& one : known) {
    if (device.inspect(one.address).id == one.id) continue;
    fail(ErrorCode::invalid_argument, "plan '", name, "' op ", one.op, ", ", title(ops[one.op].op), ": its memory at ",
         one.address, " was freed since the plan was built; keep it as long as the plan, or build a new plan");
  }
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Segment* const segment = ops[i].op.segment.get();
    if (segment == nullptr || segment->direct(fabric->rank())) continue;  // this rank's own, until it was freed
    fail(ErrorCode::invalid_argument, "plan '", name, "' op ", i, ", ", title(ops[i].op), ": segment ",
         segment->number(), " was freed since the plan was built; free it when the plan is of no more use");
  }
  frees.store(now, std::memory_order_relaxed);
}

// Launches that are under way keep their tables, and nobody waits here: a peer may be late, or wait for this rank.
Plan::Implementation::~Implementation() {
  // The next plan may need the channel between hosts: all ranks have as few of them.
  if (resources.use_count() == 1 && std::ranges::all_of(launches.points(), ended_event)) resources->network.reset();
  DeferredRelease::of_process().hand_over(std::move(resources), launches.points());
}

// This order keeps launches that mix paths from waiting for each other in a circle (words.hpp).
void Plan::Implementation::enqueue(Stream stream, const plan::PlanSlot* slot) {
  Device& device = *fabric->device();
  const auto copy_all = [&](const std::vector<plan::CopyCommand>& copies) {
    for (const plan::CopyCommand& copy : copies) device.copy(copy.to, copy.from, copy.bytes, stream);
  };
  const auto let_host_copy = [&](std::vector<plan::CopyCommand>& copies) {
    if (!copies.empty()) device.call(&copy_by_host, &copies, stream);
  };
  const auto operate = [&](std::vector<WordOp> plan::PlanSlot::* part) {
    if (slot != nullptr && !(slot->*part).empty()) device.operate(slot->*part, stream);
  };
  for (const auto& range : prefetches) device.prefetch(range.address, range.bytes, device.kind(), stream);
  let_host_copy(resources->host_before);
  copy_all(before);
  if (resources->network != nullptr) plan::launch_network_ops(device, *resources->network, stream);
  operate(&plan::PlanSlot::opening);
  plan::PlanView first = view;
  if (brief) {
    onstream::launch(device, plan::brief_kernel(), *brief, {blocks, threads}, stream);
  } else if (kernels == 1) {
    onstream::launch(device, plan::kernel(), first, {blocks, threads}, stream);
  } else if (kernels == 2) {
    first.ends = 0;
    onstream::launch(device, plan::kernel(), first, {mover_blocks, threads}, stream);
  }
  operate(&plan::PlanSlot::gate);
  copy_all(middle);
  operate(&plan::PlanSlot::telling);
  if (kernels == 2) {
    plan::PlanView second = view;
    second.begins = 0;
    second.first_block = static_cast<std::uint32_t>(mover_blocks);
    onstream::launch(device, plan::kernel(), second, {blocks - mover_blocks, threads}, stream);
  }
  operate(&plan::PlanSlot::closing);
  copy_all(after);
  let_host_copy(resources->host_after);
  for (const auto& call : calls) call.enqueue(stream);
}

void Plan::launch(Stream stream) {
  Implementation& it = *implementation_;
  it.fabric->check([&] { return concat("a launch of plan '", name(), "'"); });
  it.check_memory();
  const auto slot = it.resources->slots != nullptr ? it.resources->slots->of(stream) : nullptr;
  // Enqueued work uses the plan's resources: keep them, also if a later part fails.
  const auto keep = [&] {
    if (it.fabric->uses().note(stream, it.launches) != nullptr) return;
    using Kept = std::pair<std::shared_ptr<plan::Resources>, std::shared_ptr<const plan::PlanSlot>>;
    it.fabric->device()->retain(stream, std::make_shared<const Kept>(it.resources, slot));  // the slot goes first
    for (const auto& segment : it.resources->of_user) it.fabric->device()->guard(stream, segment);
    for (const auto& memory : it.known) it.fabric->guard(stream, memory.address);
  };
  try {
    it.enqueue(stream, slot.get());
  } catch (...) {
    keep();
    throw;
  }
  keep();
}

// Whether the calling thread can run the ops itself: the host device's, of one kernel, with no launch under way.
bool Plan::runs_here() const { return implementation_->runs_here(); }
bool Plan::Implementation::runs_here() const {
  if (fabric->device()->kind() != DeviceKind::host || resources->slots != nullptr || kernels > 1) return false;
  const bool copies = !(before.empty() && middle.empty() && after.empty() && resources->host_before.empty() &&
                        resources->host_after.empty() && prefetches.empty());
  const auto can_run = [](const plan::PreparedCall& call) { return call.run != nullptr; };
  return !copies && std::ranges::all_of(calls, can_run) && std::ranges::all_of(launches.points(), ended_event);
}

void Plan::run() {
  Implementation& it = *implementation_;
  it.fabric->check([&] { return concat("a run of plan '", name(), "'"); });
  it.check_memory();
  if (!it.runs_here()) {
    const StreamPool::StreamLease stream = it.fabric->streams()->lease();
    for (const auto& launched : it.launches.points()) it.fabric->device()->wait(stream.get(), launched);
    launch(stream.get());
    it.fabric->device()->synchronize(stream.get());
    return it.fabric->check_waited();
  }
  {
    const WaitView wait = it.fabric->wait_view();
    const ThreadLock lock(wait, it.running, it.runs);
    require(lock.status() != Status::misused, "a run of plan '", name(),
            "': called while this thread is inside another one, as from a signal handler; call it after the handler");
    if (lock.status() == Status::timeout) {
      it.fabric->abort(concat("a run of plan '", name(), "' waited for another thread's, which did not end in time"));
    }
    if (!lock.held()) {
      it.fabric->check_waited(lock.status());
      fail(ErrorCode::aborted, "a run of plan '", name(), "' was interrupted");
    }
    if (it.resources->network != nullptr) it.resources->network->run();
    if (it.brief) {
      plan::brief_kernel().host(&*it.brief, it.blocks);
    } else if (it.kernels == 1) {
      plan::kernel().host(&it.view, it.blocks);
    }
    HostGroup::store_relaxed(&it.runs, it.runs + 1);
  }
  it.fabric->check_waited();
  for (const auto& call : it.calls) call.run();
}

const std::string& Plan::name() const { return implementation_->name; }
const std::vector<PlanOp>& Plan::ops() const { return implementation_->ops; }
int Plan::kernels_per_launch() const {
  int kernels = implementation_->kernels;
  for (const auto& call : implementation_->calls) kernels += call.kernels;
  return kernels;
}

std::string Plan::explain() const {
  const Implementation& it = *implementation_;
  const std::size_t by_host = it.resources->host_before.size() + it.resources->host_after.size();
  const std::size_t copies = it.before.size() + it.middle.size() + it.after.size();
  const std::size_t words = it.resources->slots != nullptr ? it.resources->slots->operations() : 0;
  std::string text = concat("plan '", it.name, "' (number ", it.view.number, ") on rank ", it.fabric->rank(), ": ",
                            it.ops.size() - it.calls.size(), " ops");
  if (!it.calls.empty()) text += concat(", ", it.calls.size(), it.calls.size() == 1 ? " collective" : " collectives");
  text += concat("; a launch is ", it.kernels, it.kernels == 1 ? " kernel" : " kernels");
  if (it.kernels > 0) text += concat(" of ", it.blocks, it.blocks == 1 ? " block" : " blocks");
  if (it.kernels > 0 && it.fabric->device()->kind() == DeviceKind::cuda) text += concat(" of ", it.threads, " threads");
  if (copies > 0) text += concat(" and ", copies, copies == 1 ? " copy" : " copies");
  if (by_host > 0) text += concat(" and ", by_host, by_host == 1 ? " copy" : " copies", " by the host");
  if (words > 0) text += concat(" and ", words, " stream memory operations");
  if (const auto& network = it.resources->network; network != nullptr) {
    text += concat(" and one exchange with ", network->peers(), network->peers() == 1 ? " rank" : " ranks",
                   " of other hosts");
  }
  if (const int of_calls = kernels_per_launch() - it.kernels; of_calls > 0) {
    text += concat(" and ", of_calls, of_calls == 1 ? " kernel" : " kernels", " of collectives");
  }
  std::vector<std::vector<std::string>> rows{{"op", "what", "bytes", "layout", "path", "why"}};
  for (std::size_t i = 0; i < it.ops.size(); ++i) {
    const PlanOp& row = it.ops[i];
    const bool moves = moves_bytes(row.op.kind);
    const bool has_bytes = row.op.layout.bytes() > 0 || moves;
    rows.push_back({concat(i), title(row.op), has_bytes ? concat(row.op.layout.bytes()) : "-",
                    moves ? row.op.layout.describe() : "-", moves ? name_of(row.path) : "-", row.why});
  }
  std::vector<std::size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  for (const auto& row : rows) {
    std::string line = "\n ";
    for (std::size_t c = 0; c < row.size(); ++c)
      line += " " + (c + 1 == row.size() ? row[c] : padded(row[c], widths[c] + 1));
    text += line;
  }
  if (it.unlisted_runs > 0) {
    text += concat("\n  not looked at: whether destinations of ", it.unlisted_runs, " runs on rank ", it.fabric->rank(),
                   " overlap; that is done up to ", kMaxListedRuns);
  }
  return text;
}

std::vector<OpTime> Plan::times() const {
  const Implementation& it = *implementation_;
  const std::vector<plan::OpState> states = it.resources->tables->read_ops();
  const std::uint64_t launches = it.resources->tables->read_epoch() - it.epoch_at_reset;
  std::vector<OpTime> times;
  for (std::size_t i = 0; i < states.size(); ++i) {
    times.push_back({title(it.ops[i].op), states[i].wait_ns, states[i].move_ns, launches});
  }
  return times;
}

void Plan::reset_times() {
  implementation_->resources->tables->reset_times();
  implementation_->epoch_at_reset = implementation_->resources->tables->read_epoch();
}

}  // namespace onstream
