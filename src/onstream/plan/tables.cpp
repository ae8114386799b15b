#include "onstream/plan/tables.hpp"

#include <cstring>

#include "onstream/device/export.hpp"

namespace onstream::plan {

namespace {

// Lays arrays one after the other, each aligned, first to count and then to fill.
class Layer {
 public:
  explicit Layer(std::byte* staging) : staging_(staging) {}

  template <class T>
  std::size_t add(const std::vector<T>& values) {
    constexpr std::size_t kAlignment = 64;
    const std::size_t offset = (end_ + kAlignment - 1) / kAlignment * kAlignment;
    if (staging_ != nullptr && !values.empty())
      std::memcpy(staging_ + offset, values.data(), values.size() * sizeof(T));
    end_ = offset + values.size() * sizeof(T);
    return offset;
  }
  std::size_t end() const { return end_; }

 private:
  std::byte* staging_;
  std::size_t end_ = 0;
};

struct Offsets {
  std::size_t state, epochs, ops, counters, tasks, items, blocks, chains, signals, announce, packs, unpacks, end;
};

Offsets lay(std::byte* staging, const Program& program, const std::vector<PutChain>& chains, std::size_t op_count) {
  Layer layer(staging);
  Offsets at{};
  at.state = layer.add(std::vector<PlanState>(1));
  at.epochs = layer.add(std::vector<Epoch>(program.blocks.size()));
  at.ops = layer.add(std::vector<OpState>(op_count));
  at.counters = layer.add(std::vector<std::uint64_t>(chains.size()));
  at.tasks = layer.add(program.tasks);
  at.items = layer.add(program.items);
  at.blocks = layer.add(program.blocks);
  at.chains = layer.add(chains);
  at.signals = layer.add(program.signals);
  at.announce = layer.add(program.announce);
  at.packs = layer.add(program.pack_rows);
  at.unpacks = layer.add(program.unpack_rows);
  at.end = layer.end();
  return at;
}

}  // namespace

PlanTables::PlanTables(Device& device, std::shared_ptr<StreamPool> streams, const Program& program,
                       std::size_t op_count)
    : streams_(std::move(streams)), op_count_(op_count) {
  std::vector<PutChain> chains = program.chains;
  const Offsets sizes = lay(nullptr, program, chains, op_count);
  memory_ = device.allocate(sizes.end, MemoryKind::device);
  staging_ = device.allocate(sizes.end, MemoryKind::pinned);
  std::byte* base = memory_->data();
  for (std::size_t i = 0; i < chains.size(); ++i) {
    chains[i].done = reinterpret_cast<std::uint64_t*>(base + sizes.counters) + i;
  }
  const Offsets at = lay(staging_->data(), program, chains, op_count);
  streams_->copy_now(base, staging_->data(), at.end);

  view_.state = reinterpret_cast<PlanState*>(base + at.state);
  view_.epochs = reinterpret_cast<Epoch*>(base + at.epochs);
  view_.ops = reinterpret_cast<OpState*>(base + at.ops);
  view_.tasks = reinterpret_cast<const Task*>(base + at.tasks);
  view_.items = reinterpret_cast<const WorkItem*>(base + at.items);
  view_.blocks = reinterpret_cast<const Block*>(base + at.blocks);
  view_.chains = reinterpret_cast<const PutChain*>(base + at.chains);
  view_.signals = reinterpret_cast<const SignalView*>(base + at.signals);
  view_.announce = reinterpret_cast<std::uint64_t* const*>(base + at.announce);
  view_.announce_count = static_cast<std::uint32_t>(program.announce.size());
  view_.lone_signals = program.lone_signals;

  brief_.state = view_.state;
  brief_.epochs = view_.epochs;
  brief_.packs = reinterpret_cast<const Row*>(base + at.packs);
  brief_.unpacks = reinterpret_cast<const Row*>(base + at.unpacks);
  brief_.pack_count = static_cast<std::uint32_t>(program.pack_rows.size());
  brief_.unpack_count = static_cast<std::uint32_t>(program.unpack_rows.size());
  brief_.pack_blocks = static_cast<std::uint32_t>(program.pack_blocks);
  brief_.announce_count = view_.announce_count;
  brief_.announce = view_.announce;
  brief_.tasks = view_.tasks;
  brief_.ops = view_.ops;
}

void PlanTables::read(void* to, const void* from, std::size_t bytes) const {
  streams_->copy_now(staging_->data(), from, bytes);
  std::memcpy(to, staging_->data(), bytes);
}

std::vector<OpState> PlanTables::read_ops() const {
  std::vector<OpState> states(op_count_);
  if (!states.empty()) read(states.data(), view_.ops, states.size() * sizeof(OpState));
  return states;
}

std::uint64_t PlanTables::read_epoch() const {
  Epoch epoch;
  read(&epoch, view_.epochs, sizeof epoch);
  return epoch;
}

void PlanTables::reset_times() {
  std::vector<OpState> states = read_ops();
  if (states.empty()) return;
  for (OpState& state : states) state.wait_ns = state.move_ns = 0;
  std::memcpy(staging_->data(), states.data(), states.size() * sizeof(OpState));
  streams_->copy_now(view_.ops, staging_->data(), states.size() * sizeof(OpState));
}

}  // namespace onstream::plan
