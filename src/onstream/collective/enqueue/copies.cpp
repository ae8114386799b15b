#include "onstream/collective/enqueue/copies.hpp"

#include <algorithm>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"

namespace onstream::collective {

namespace {

// Which of the two words of a pair; see plan/op/words.hpp.
constexpr std::size_t kReady = 0;  // at the sender, written by the receiver
constexpr std::size_t kDone = 1;   // at the receiver, written by the sender

std::size_t segment_bytes(int world_size) {
  return Agreement::bytes(world_size) + 2 * static_cast<std::size_t>(world_size) * sizeof(std::uint32_t);
}

void operate(Device& device, const std::vector<WordOp>& ops, Stream stream) {
  if (!ops.empty()) device.operate(ops, stream);
}

}  // namespace

// Lives until its launch, or the graph of its capture, is through.
struct Copies::OfLaunch {
  OfLaunch(std::shared_ptr<CopyResources> all, std::uint32_t* its_pulse) : held(std::move(all)), pulse(its_pulse) {}
  ~OfLaunch() {
    watched.reset();
    held->pulses->give_back(pulse);
  }
  OfLaunch(const OfLaunch&) = delete;
  OfLaunch& operator=(const OfLaunch&) = delete;

  std::shared_ptr<CopyResources> held;
  std::uint32_t* pulse;
  std::shared_ptr<void> watched;
};

Copies::Copies(Fabric& fabric, std::vector<int> ranks, int channel)
    : ranks_(std::move(ranks)),
      world_size_(fabric.size()),
      channel_(channel),
      held_(release_later(std::make_unique<CopyResources>())),
      agreement_(held_->segment = fabric.segment(segment_bytes(world_size_), MemoryKind::pinned), fabric.rank(),
                 world_size_) {
  const auto found = std::ranges::find(ranks_, fabric.rank());
  rank_ = found == ranks_.end() ? -1 : static_cast<int>(found - ranks_.begin());
  held_->wait_memory = fabric.wait_memory();
  held_->pulses = std::make_unique<plan::Pulses>(fabric.device());
  held_->watch = fabric.watch();
}

std::uint32_t* Copies::word(int owner, std::size_t which, int writer) const {
  auto* const words = reinterpret_cast<std::uint32_t*>(held_->segment->peer(owner) + Agreement::bytes(world_size_));
  return words + which * static_cast<std::size_t>(world_size_) + static_cast<std::size_t>(writer);
}

// This rank's messages about a call; each carries the same trouble.
std::vector<Say> Copies::says_of(Fabric& fabric, const CollectiveCall& call,
                                 const std::vector<Portion>& portions) const {
  std::vector<Say> mine(ranks_.size());
  std::string trouble;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    mine[i].signature = signature_of(call, Algorithm::copy);
    mine[i].send_bytes = portions[i].send_bytes;
    if (static_cast<int>(i) == rank_ || portions[i].receive_bytes == 0) continue;
    const std::byte* const address = static_cast<const std::byte*>(call.output) + portions[i].receive_offset;
    try {
      const auto there = fabric.export_to_peer(address, portions[i].receive_bytes, ranks_[i]);
      if (there) mine[i].output = *there;
      if (!there && trouble.empty()) {
        trouble = concat("rank ", ranks_[i], " cannot address its output: ", fabric.why_not(address, ranks_[i]));
      }
    } catch (const Error& error) {  // the others wait for this rank's message
      if (error.of_failure()) throw;
      if (trouble.empty()) trouble = error.what();
    }
  }
  for (Say& say : mine) say.set_trouble(trouble);
  return mine;
}

// Tells the others, and throws if anybody, this rank too, has trouble.
std::vector<Say> Copies::exchange(Fabric& fabric, const std::vector<Say>& mine, const Named& name) {
  const std::vector<Say> says = agreement_.exchange(fabric, ranks_, mine, name);
  for (std::size_t i = 0; i < says.size(); ++i) {
    require(says[i].signature == mine[i].signature, name_of(name.kind), " of ", name.bytes, " B, by copy: rank ",
            ranks_[i], " calls another collective, or the same with another count; nothing was moved");
  }
  for (std::size_t i = 0; i < says.size(); ++i) {  // this rank's own say comes back as it is
    require(says[i].trouble[0] == 0, name_of(name.kind), " of ", name.bytes, " B: algorithm copy cannot, as of rank ",
            ranks_[i], ": ", says[i].trouble.data());
  }
  return says;
}

std::vector<Say> Copies::agree(Fabric& fabric, const CollectiveCall& call, const std::vector<Portion>& portions,
                               const Named& name) {
  std::vector<Say> mine = says_of(fabric, call, portions);
  const std::vector<Say> says = exchange(fabric, mine, name);
  if (call.kind != OpKind::all_to_all_v) return says;
  // Only two ranks know how much one sends to the other: they tell all ranks of a mismatch.
  for (std::size_t i = 0; i < says.size(); ++i) {
    if (static_cast<int>(i) == rank_ || says[i].send_bytes == portions[i].receive_bytes) continue;
    for (Say& say : mine) {
      say.set_trouble(
          concat("it gets ", says[i].send_bytes, " B of rank ", ranks_[i], " and expects ", portions[i].receive_bytes));
    }
  }
  exchange(fabric, mine, name);
  return says;
}

Copies::CopyList Copies::work_of(const CollectiveCall& call, const std::vector<Portion>& portions,
                                 const std::vector<Say>& says, const Named& name) const {
  const auto* const input = static_cast<const std::byte*>(call.input);
  auto* const output = static_cast<std::byte*>(call.output);
  FaultReport fault;
  fault.op = name.kind;
  fault.tag = name.channel;
  fault.bytes = name.bytes;
  fault.extra = name.number;
  CopyList work;
  const int me = ranks_[static_cast<std::size_t>(rank_)];
  for (std::size_t k = 0; k < ranks_.size(); ++k) {
    // Everybody begins with another peer.
    const std::size_t i = (static_cast<std::size_t>(rank_) + k) % ranks_.size();
    const Portion& portion = portions[i];
    const std::byte* const from = portion.send_bytes > 0 ? input + portion.send_offset : nullptr;
    if (k == 0) {
      if (from == nullptr) continue;
      std::byte* const to = output + portion.receive_offset;
      if (from != to) work.own.push_back({to, from, portion.send_bytes});
      continue;
    }
    fault.peer = ranks_[i];
    if (portion.receive_bytes > 0) {
      work.words.receive(word(ranks_[i], kReady, me), word(me, kDone, ranks_[i]), fault);
    }
    if (portion.send_bytes > 0) {
      work.words.send(word(me, kReady, ranks_[i]), word(ranks_[i], kDone, me), fault);
      work.out.push_back({reinterpret_cast<void*>(says[i].output), from, portion.send_bytes});
    }
  }
  return work;
}

Copies::CopyList Copies::prepare(Fabric& fabric, const CollectiveCall& call) {
  std::vector<Portion> portions;
  for (std::size_t i = 0; i < ranks_.size(); ++i) portions.push_back(portion_of(call, rank_, static_cast<int>(i)));
  const Named name{call.kind, call.count * size_of(call.type), channel_, ++number_};
  return work_of(call, portions, agree(fabric, call, portions, name), name);
}

void Copies::enqueue(Device& device, const CopyList& work, Stream stream) {
  while (!launches_.empty() && ended(*launches_.front().behind)) launches_.pop_front();
  const auto launch = std::make_shared<OfLaunch>(held_, held_->pulses->take());
  launch->watched = held_->watch->stand_by({launch->pulse, work.words.phases()});
  const auto keep = [&] {
    if (auto behind = device.point(stream)) {
      launches_.push_back({launch, std::move(behind)});
    } else {
      device.retain(stream, launch);
    }
  };
  try {
    enqueue_parts(device, work, launch->pulse, stream);
  } catch (...) {
    // Waits that are on the stream are stood by; behind them the words go on to mean the next collective's.
    try {
      operate(device, {plan::PlanWords::quiet(launch->pulse)}, stream);
    } catch (const Error&) {  // of a device that has failed; the first error goes on
    }
    keep();
    throw;
  }
  keep();
}

void Copies::enqueue_parts(Device& device, const CopyList& work, std::uint32_t* pulse, Stream stream) {
  const auto copy_all = [&](const std::vector<Copy>& copies) {
    for (const Copy& copy : copies) device.copy(copy.to, copy.from, copy.bytes, stream);
  };
  // The rank's copies to itself fit between the opening and the gate, where no pulse says that it waits.
  operate(device, work.words.opening(pulse), stream);
  copy_all(work.own);
  operate(device, work.words.gate(pulse), stream);
  copy_all(work.out);
  std::vector<WordOp> rest = work.words.telling();
  const std::vector<WordOp> closing = work.words.closing(pulse);
  rest.insert(rest.end(), closing.begin(), closing.end());
  if (!rest.empty()) rest.push_back(plan::PlanWords::quiet(pulse));  // the words go on to mean the next collective's
  operate(device, rest, stream);
}

}  // namespace onstream::collective
