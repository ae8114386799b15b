#include "onstream/transport/board.hpp"

#include <algorithm>
#include <utility>

#include "onstream/device/host/group.hpp"

namespace onstream {

namespace {

// The awake word and the abort words have cache lines of their own, before the faults.
constexpr std::size_t kLines = 128;
std::size_t faults_offset(int size) {
  const std::size_t words = static_cast<std::size_t>(kWordOfPeer + size) * sizeof(std::uint64_t);
  return kLines + (words + kLines - 1) / kLines * kLines;
}

void add_bits(std::uint64_t* word, std::uint64_t bits) {
  std::atomic_ref<std::uint64_t>(*word).fetch_or(bits, std::memory_order_acq_rel);  // pairs with look_up()'s fence
}

// Spinning helps only while every rank has a core; otherwise it keeps the core from the rank that is waited for, which
// the first look without success gives it.
std::uint32_t spins(const Launch& launch, const Parameters& parameters) {
  constexpr double kRoundUs = 0.02;
  return is_crowded(launch) ? 0 : static_cast<std::uint32_t>(std::min(parameters.host_spin_us / kRoundUs, 1e9));
}

}  // namespace

Board::Board(Device& device, OwnMemory& own, const Launch& launch, const Parameters& parameters)
    : pinned_(device.allocate(faults_offset(launch.size) + kFaultSlots * sizeof(Fault), MemoryKind::pinned)),
      counter_(own.take(sizeof(std::uint64_t))),
      rank_(launch.rank),
      size_(launch.size) {
  view_.timeout_ns = static_cast<std::uint64_t>(parameters.timeout_s * 1e9);
  view_.spins = spins(launch, parameters);
  view_.abort = reinterpret_cast<std::uint64_t*>(pinned_->data() + kLines);
  view_.awake = kLines / sizeof(std::uint64_t);
  awake_ = heart_->beat_in(view_.abort - view_.awake);
  view_.fault_count = reinterpret_cast<std::uint64_t*>(counter_.get());
  view_.faults = reinterpret_cast<Fault*>(pinned_->data() + faults_offset(launch.size));
}

const Fault& Board::slot(std::uint64_t index) const { return view_.faults[index % kFaultSlots]; }

WaitView Board::wait_view(int peer) const {
  WaitView view = view_;
  view.abort = word(peer);
  view.awake += static_cast<std::uint32_t>(view.abort - view_.abort);
  return view;
}

void Board::set_turn(const HostTurn* turn) {
  static_assert(kHostTurnWord * sizeof(std::uint64_t) < kLines);
  HostGroup::store_release(view_.abort - view_.awake + kHostTurnWord, reinterpret_cast<std::uint64_t>(turn));
}

// Sets the word of all peers together first, which aborted() looks at: a wait may end by any of them. Sets the world's
// own last: a thread that finds it set finds all of them set.
void Board::set_abort(Cause cause) {
  const std::uint64_t bits = kWorldFailed | (cause == Cause::deadline ? kDeadlinePassed : 0);
  for (int peer = -1; peer < size_; ++peer) add_bits(word(peer), bits);
  add_bits(view_.abort, bits);
}

bool Board::aborted() const { return (HostGroup::load_acquire(word(-1)) & kWorldFailed) != 0; }
bool Board::all_aborted() const { return (HostGroup::load_acquire(view_.abort) & kWorldFailed) != 0; }

void Board::set_left(int peer) {
  add_bits(word(peer), kPeerLeft);
  bool all = true;
  for (int other = 0; other < size_; ++other) all = all && (other == rank_ || has_left(other));
  if (all) add_bits(word(-1), kPeerLeft);
}

bool Board::has_left(int peer) const { return (HostGroup::load_acquire(word(peer)) & kPeerLeft) != 0; }
bool Board::all_left() const { return has_left(-1); }

bool Board::has_news() const {
  const std::uint64_t next = taken_.load(std::memory_order_acquire);
  return HostGroup::load_acquire(&slot(next).ready) > next;  // pairs with report()'s release
}

std::vector<Board::Collected> Board::collect() {
  std::vector<Collected> news;
  while (has_news()) {
    const std::uint64_t index = taken_.load(std::memory_order_relaxed);
    const Fault& fault = slot(index);
    const std::uint64_t number = HostGroup::load_acquire(&fault.ready) - 1;
    if (number != index) {
      // Written over before it was read. The ring still holds this one, the last, and those before it.
      taken_.store(number + 1 - kFaultSlots, std::memory_order_release);
      continue;
    }
    FaultReport report;
    report.rank = rank_;
    report.status = static_cast<Status>(HostGroup::load_relaxed(&fault.status));
    const std::uint64_t op = HostGroup::load_relaxed(&fault.op);
    report.op = static_cast<OpKind>(op & ~std::uint64_t{kInCheck | kInStage});
    report.part = static_cast<std::uint32_t>(op) & (kInCheck | kInStage);
    report.peer = static_cast<int>(HostGroup::load_relaxed(&fault.peer));
    report.tag = static_cast<int>(HostGroup::load_relaxed(&fault.tag));
    report.bytes = HostGroup::load_relaxed(&fault.bytes);
    report.extra = HostGroup::load_relaxed(&fault.extra);
    report.plan = HostGroup::load_relaxed(&fault.plan);
    report.word.at = HostGroup::load_relaxed(&fault.word);
    if (report.plan != 0) report.plan_op = std::exchange(report.tag, -1);
    if (report.op == OpKind::wait) report.comparison = std::exchange(report.tag, -1);
    news.push_back({report, HostGroup::load_relaxed(&fault.tell) != 0, HostGroup::load_relaxed(&fault.owed) != 0});
    taken_.store(index + 1, std::memory_order_release);
  }
  return news;
}

}  // namespace onstream
