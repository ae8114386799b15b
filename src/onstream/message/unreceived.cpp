// Looks for messages that no receive took: when a receive has passed its deadline, on the other tags of its rank, and
// when the world ends, on all. The latter warns of messages that came in a lane's ring and that no receive has taken.
// They are a program's mistake that nothing else shows, as their sends have ended. Only the host device looks, where a
// rank's CPU can read its rings; on others the look would be one more kernel at every end.
#include "onstream/base/log.hpp"
#include "onstream/lane/probe.hpp"
#include "onstream/message/engine.hpp"
#include "onstream/transport/failure.hpp"

namespace onstream {

namespace {

struct Unreceived {
  std::uint64_t messages = 0;
  std::uint64_t first_bytes = 0;
};

// Nothing of this rank runs on the lane any more. The first messages are those of receives that were posted and never
// waited for. The number of steps of a large one that follow is not known before it is received: there the look ends.
Unreceived unreceived_on(const lane::LaneView& lane) {
  Unreceived found;
  lane::Seen seen;
  std::uint64_t promised = lane.receiving->posted - lane.receiving->drained;
  for (std::uint64_t head = lane.receiving->head; lane::look(kCaller, lane, head, seen);
       head += lane::ring_units<HostGroup>(seen.bytes())) {
    if (promised > 0) {
      --promised;
    } else if (found.messages++ == 0) {
      found.first_bytes = seen.bytes();
    }
    if (seen.kind() != lane::Header::data) break;
  }
  return found;
}

}  // namespace

// Of a receive that came too late, or was never sent to: the next message of the same rank on another tag, unless a
// call or a match is at it. By the thread that takes the fault, while others may receive.
void MessageEngine::look_aside(FaultReport& late) const {
  for (int tag = 0; late.peer >= 0 && tag < ground_->lanes.count(); ++tag) {
    lane::Seen seen;
    const lane::LaneView& lane = views_[queue_of(late.peer, tag)];
    if (tag == late.tag || HostGroup::load_relaxed(&lane.receiving->busy) != 0) continue;
    if (lane::next_message(kCaller, lane, seen) != lane::NextMessage::there) continue;
    late.waiting_tag = tag;
    late.waiting_bytes = seen.bytes();
    return;
  }
}

void MessageEngine::tell_unreceived() const {
  if (!on_host_ || !logs(LogLevel::warn) || fabric_->failure()) return;
  constexpr int kTurns = 64;  // what has come over the network is put in its ring
  for (int turn = 0; fabric_->network() != nullptr && turn < kTurns; ++turn) fabric_->network()->turn();
  for (const lane::LaneView& lane : views_) {
    const auto [messages, bytes] = unreceived_on(lane);
    if (messages == 0) continue;
    log(LogLevel::warn, "rank ", fabric_->rank(), " leaves the world with ", messages,
        messages == 1 ? " message" : " messages", " of rank ", lane.peer, " with tag ", lane.lane,
        " that no receive took", messages == 1 ? ", of " : ", the first of ", bytes, " B");
  }
}

}  // namespace onstream
