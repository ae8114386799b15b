#include "mover.hpp"

#include <algorithm>
#include <cstring>

#include "onstream/device/kernel/remote_process.hpp"
#include "refusal.hpp"

namespace onstream::am {

Mover::Mover(World& world, const Mailbox& mailbox)
    : world_(world),
      mailbox_(mailbox),
      rank_(world.rank()),
      on_host_(world.device().kind() == DeviceKind::host),
      stream_(world.device().create_stream()) {}

Mover::~Mover() { let_go_of(world_.device(), stream_); }

Way Mover::way_of(const Payload& payload, const Target& target) const {
  if (target.here == 0) return Way::proxy;
  if (is_remote_process(target.here)) return Way::remote_process;
  if (on_host_) return Way::cpu;
  const bool near = world_.device().inspect(payload.local).kind != MemoryKind::device;
  return near && target.cpu ? Way::cpu : Way::stream;
}

Window Mover::window_of(const Payload& payload, const Target& target) const {
  return {*world_.fabric(), {payload.rank, target.begin, target.here, target.bytes}};
}

void Mover::move_now(Way way, const Payload& payload, const Target& target) {
  if (payload.bytes == 0) return;
  if (way == Way::proxy) {
    const Window window = window_of(payload, target);
    const Remote there{window, payload.rank, payload.offset};
    if (payload.direction == Direction::put) return world_.one_sided().put(there, payload.local, payload.bytes);
    return world_.one_sided().get(payload.local, there, payload.bytes);
  }
  auto* const there = reinterpret_cast<std::byte*>(target.here + payload.offset);
  const bool puts = payload.direction == Direction::put;
  void* const to = puts ? there : payload.local;
  const void* const from = puts ? payload.local : there;
  if (way == Way::cpu) {
    std::memmove(to, from, payload.bytes);  // a rank may put within its own memory
    return;
  }
  const Status status = copy_cross_memory(to, from, payload.bytes);
  if (status == Status::aborted) refuse_the_gone(payload.rank);
  accept_if(status != Status::timeout, APELINK_ETIMEOUT, "rank ", payload.rank, " did not copy ", payload.bytes,
            " B, which the system lets nobody else copy, within ", world_.fabric()->parameters().timeout_s,
            " s (parameter timeout_s)");
  accept_if(status == Status::ok, APELINK_EFAULT, payload.bytes, " B could not be copied ", puts ? "to" : "from",
            " rank ", payload.rank, "'s buffer at ", reinterpret_cast<const void*>(target.begin + payload.offset),
            ": its memory, or that at ", payload.local, " here, is not mapped any more");
}

// The system says that a process is gone a moment before the ranks do.
void Mover::refuse_the_gone(int rank) const {
  constexpr std::uint64_t kMomentNs = 2000000000;
  Fabric& fabric = *world_.fabric();
  WaitView view = fabric.wait_view();
  view.faults = nullptr;
  view.timeout_ns = std::min(view.timeout_ns, kMomentNs);
  (void)wait_for_self(HostGroup(0, 1), view, [&] { return fabric.has_left(rank); });
  fabric.check();
  accept_if(!fabric.has_left(rank), APELINK_ECLOSED, "rank ", rank, " has closed its links");
  refuse(APELINK_EDEAD, "the process of rank ", rank, " is gone");
}

void Mover::enqueue(const Payload& payload, Visit visit, const Slots& slots) {
  const std::lock_guard lock(mutex_);
  let_go_of_done();
  const Window window = window_of(payload, visit.target());
  const Remote there{window, payload.rank, payload.offset};
  Traffic& traffic = mailbox_.traffic(payload.rank, rank_);
  const std::uint64_t number = HostGroup::load_relaxed(&traffic.issued) + 1;
  OneSided& one_sided = world_.one_sided();
  Batch batch(one_sided);
  if (payload.direction == Direction::put) {
    batch.put(there, payload.local, payload.bytes);
  } else {
    batch.get(payload.local, there, payload.bytes);
  }
  for (const Reserved& one : {slots.theirs, slots.own}) {
    if (one.slot == nullptr) continue;
    batch.signal({mailbox_.remote(one.rank, &one.slot->ready), SignalOp::set, one.number + 1, 8});
  }
  batch.signal({mailbox_.remote(payload.rank, &traffic.done), SignalOp::set, number, 8});
  one_sided.run(batch, stream_);
  used_ = true;
  pending_.push_back({&traffic, number, visit.mapping()});
  HostGroup::store_release(&traffic.issued, number);  // before the visit ends: pairs with Buffers::settle()
}

void Mover::let_go_of_done() {
  while (!pending_.empty() && HostGroup::load_acquire(&pending_.front().traffic->done) >= pending_.front().number) {
    pending_.pop_front();
  }
}

void Mover::finish() {
  const std::lock_guard lock(mutex_);
  if (!used_) return;
  world_.device().synchronize(stream_);
  used_ = false;
  let_go_of_done();
  world_.fabric()->check();
}

}  // namespace onstream::am
