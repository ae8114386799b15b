#include "onstream/collective/enqueue/agreement.hpp"

#include <algorithm>
#include <cstring>

#include "onstream/base/error.hpp"
#include "onstream/device/kernel/wait.hpp"

namespace onstream::collective {

namespace {

[[noreturn]] void fail_for(Fabric& fabric, const Named& name, int peer, Status status) {
  FaultReport fault;
  fault.rank = fabric.rank();
  fault.status = status;
  fault.op = name.kind;
  fault.peer = peer;
  fault.tag = name.channel;
  fault.bytes = name.bytes;
  fault.extra = name.number;
  fault.timeout_s = fabric.parameters().timeout_s;
  fabric.check([&] { return what_of(fault); });  // the world has failed already
  if (status == Status::timeout) {
    fabric.abort(concat(describe(fault), ": its host has not called it"));
  } else if (fabric.has_left(peer)) {
    fabric.abort(concat("rank ", peer, " left the world, and rank ", fabric.rank(),
                        " still waited for its host: ", what_of(fault)));
  }
  fabric.check_waited(status);
  fail(ErrorCode::aborted, what_of(fault), " was interrupted");  // the interrupting thread aborts the world
}

}  // namespace

void Say::set_trouble(const std::string& text) {
  trouble = {};
  std::copy_n(text.begin(), std::min(text.size(), trouble.size() - 1), trouble.begin());
}

std::size_t Agreement::bytes(int world_size) { return 2 * static_cast<std::size_t>(world_size) * sizeof(Say); }

Say* Agreement::place(int owner, int speaker) const {
  const std::size_t epoch = number_ & 1;
  const std::size_t index = epoch * static_cast<std::size_t>(size_) + static_cast<std::size_t>(speaker);
  return reinterpret_cast<Say*>(segment_->peer(owner)) + index;
}

std::vector<Say> Agreement::exchange(Fabric& fabric, const std::vector<int>& ranks, std::vector<Say> mine,
                                     const Named& name) {
  number_ += 1;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == rank_) continue;
    Say* const there = place(ranks[i], rank_);
    constexpr std::size_t kBehind = sizeof(there->number);
    std::memcpy(reinterpret_cast<std::byte*>(there) + kBehind, reinterpret_cast<const std::byte*>(&mine[i]) + kBehind,
                sizeof(Say) - kBehind);
    HostGroup::store_release(&there->number, number_);  // pairs with the acquire below
  }
  const HostGroup group(0, 1);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == rank_) continue;
    const Say* const here = place(rank_, ranks[i]);
    const Status status = wait_for_peer(group, fabric.wait_view(), ranks[i],
                                        [&] { return HostGroup::load_acquire(&here->number) == number_; });
    if (status != Status::ok) fail_for(fabric, name, ranks[i], status);
    mine[i] = *here;
  }
  return mine;
}

}  // namespace onstream::collective
