// Looks ahead: at the next message of a lane, or of all lanes of a tag, without taking it. A match also keeps the
// lane's lock, in the name of the message, until that is received. On a GPU a kernel looks, behind the receives that
// the host has posted, and the locks are words of the host.
#include <algorithm>

#include "onstream/base/error.hpp"
#include "onstream/device/kernel/thread_lock.hpp"
#include "onstream/lane/kernels.hpp"
#include "onstream/lane/probe.hpp"
#include "onstream/message/engine.hpp"
#include "onstream/message/matched.hpp"
#include "onstream/transport/failure.hpp"

namespace onstream {

namespace {

// As faults name it, for matches too.
std::string text_of_probe(int peer, int tag) {
  const std::string from = peer == kAnySource ? "any rank" : concat("rank ", peer);
  return concat("probe from ", from, " with tag ", tag);
}

// As abort words and faults number it.
int word_peer(int peer) { return peer == kAnySource ? -1 : peer; }

Fault probe_fault(int peer, int tag) {
  lane::LaneView lane;
  lane.peer = word_peer(peer);
  lane.lane = tag;
  return lane::fault_of(OpKind::probe, lane, 0, 0);
}

}  // namespace

std::uint64_t& MessageEngine::receiving_lock(int peer, int tag) {
  return on_host_ ? view(peer, tag).receiving->busy : keepers_->at(queue_of(peer, tag));
}

void MessageEngine::check_probe(int peer, int tag) {
  check_arguments("probe", nullptr, 0, peer == kAnySource ? fabric_->rank() : peer, {.tag = tag});
  start_as([&] { return text_of_probe(peer, tag); }, [] {});
}

// Of each of these lanes the next message's bytes and 1, or 0: none has come. Whether there is one at all.
bool MessageEngine::next_message(std::span<const lane::LaneView> lanes, std::span<std::uint64_t> found) {
  if (on_host_) {
    std::ranges::transform(lanes, found.begin(), [](const lane::LaneView& lane) {
      lane::Seen seen;
      return lane::next_message(kCaller, lane, seen) ? seen.bytes() + 1 : 0;
    });
  } else {
    const std::lock_guard lock(probing_);
    if (probed_ == nullptr) {
      const std::size_t most = static_cast<std::size_t>(fabric_->size());
      probed_ = device_->allocate(most * sizeof(std::uint64_t), MemoryKind::pinned);
    }
    auto* const answers = reinterpret_cast<std::uint64_t*>(probed_->data());
    const Stream stream = receives_.get();
    for (std::size_t first = 0; first < lanes.size(); first += lane::kMostProbed) {
      lane::Probe body;
      body.found = answers + first;
      for (const lane::LaneView& lane :
           lanes.subspan(first, std::min<std::size_t>(lanes.size() - first, lane::kMostProbed))) {
        body.places[body.count++] = {lane.receiving, lane.ring, lane.ring_shift};
      }
      launch(*device_, lane::probe_kernel(), body, kOneWarp, stream);
    }
    device_->synchronize(stream);
    std::ranges::copy_n(answers, static_cast<std::ptrdiff_t>(lanes.size()), found.begin());
  }
  return std::ranges::any_of(found, [](std::uint64_t one) { return one != 0; });
}

// A lane that another call receives on has nothing for this one. Mostly there is nothing, which is seen without the
// lock on the host.
bool MessageEngine::look_at(int peer, int tag, Keep keep, Found& found) {
  const lane::LaneView& lane = view(peer, tag);
  std::uint64_t bytes_and_1 = 0;
  if (on_host_ && !next_message({&lane, 1}, {&bytes_and_1, 1})) return false;
  ThreadLock lock(receiving_lock(peer, tag));
  if (!lock.held() || !next_message({&lane, 1}, {&bytes_and_1, 1})) return false;
  found.message = {peer, tag, bytes_and_1 - 1};
  if (keep == Keep::yes) found.kept = lock.keep();
  return true;
}

// One look. Of any rank: begins behind the rank whose message was found last, so that none starves.
bool MessageEngine::find(int peer, int tag, Keep keep, Found& found) {
  if (peer != kAnySource) return look_at(peer, tag, keep, found);
  const int size = fabric_->size();
  std::vector<std::uint64_t> there;
  if (!on_host_) {
    std::vector<lane::LaneView> lanes;
    for (int from = 0; from < size; ++from) lanes.push_back(view(from, tag));
    there.resize(lanes.size());
    if (!next_message(lanes, there)) return false;
  }
  const int start = next_source_.load(std::memory_order_relaxed);
  for (int turn = 0; turn < size; ++turn) {
    const int from = (start + turn) % size;
    if (!on_host_ && there[static_cast<std::size_t>(from)] == 0) continue;
    if (!look_at(from, tag, keep, found)) continue;
    next_source_.store((from + 1) % size, std::memory_order_relaxed);
    return true;
  }
  return false;
}

// Whether no call and no match holds the lock of a lane that this probe looks at.
bool MessageEngine::are_free(int peer, int tag) {
  const int first = peer == kAnySource ? 0 : peer;
  const int last = peer == kAnySource ? fabric_->size() - 1 : peer;
  for (int from = first; from <= last; ++from) {
    if (HostGroup::load_acquire(&receiving_lock(from, tag)) != 0) return false;
  }
  return true;
}

// The abort word for a wait for a message. A peer that has left may have sent one more than another call is about to
// receive: the wait goes on while that call, or a match, holds the lane.
std::uint64_t MessageEngine::word_of_source(int peer, int tag) {
  const std::uint64_t word = word_of_peer(kCaller, fabric_->wait_view(), word_peer(peer));
  return (word & kPeerLeft) != 0 && !are_free(peer, tag) ? word & ~kPeerLeft : word;
}

// Throws closed where nothing more can come.
bool MessageEngine::find_once(int peer, int tag, Keep keep, Found& found) {
  check_probe(peer, tag);
  const bool left = fabric_->has_left(word_peer(peer));  // before the look: all that it sent has come then
  if (fabric_->network() != nullptr) fabric_->network()->turn();
  if (find(peer, tag, keep, found)) return true;
  if (!left || peer == fabric_->rank() || !are_free(peer, tag)) return false;
  if (find(peer, tag, keep, found)) return true;  // one may have been given back since
  fabric_->check();                               // a peer that leaves a failed world leaves for that reason
  fail(ErrorCode::closed, text_of_probe(peer, tag), ": ",
       peer == kAnySource ? "every other rank" : concat("rank ", peer), " has left the world; no more messages come");
}

Status MessageEngine::await_message(int peer, int tag, Keep keep, Found& found) {
  check_probe(peer, tag);
  if (peer != kAnySource && ThreadLock::is_mine(receiving_lock(peer, tag))) {
    refuse_nested(text_of_probe(peer, tag), receiving_lock(peer, tag));
  }
  const WaitView wait = fabric_->wait_view();
  const auto word = [&] { return word_of_source(peer, tag); };
  const Status status = wait_on(kCaller, wait, word, [&] { return find(peer, tag, keep, found); });
  if (status != Status::ok) tell_in_vain(status, wait, probe_fault(peer, tag));
  return reported(static_cast<std::uint64_t>(status));
}

// A wait of the host for this op has ended in vain. On a GPU the host cannot count faults: it tells by itself.
void MessageEngine::tell_in_vain(Status status, const WaitView& wait, const Fault& fault) {
  if (on_host_) return report(kCaller, wait, status, fault);
  FaultReport named;
  named.op = static_cast<OpKind>(fault.op);
  named.peer = static_cast<int>(fault.peer);
  named.tag = static_cast<int>(fault.tag);
  named.bytes = fault.bytes;
  if (status == Status::timeout) return fabric_->report_timeout(what_of(named));
  if (fabric_->has_left(named.peer)) {
    fabric_->abort(concat("the ranks that it waited for left the world, and rank ", fabric_->rank(),
                          " still waited: ", what_of(named)));
  }
}

std::optional<Probed> MessageEngine::iprobe(int peer, int tag) {
  Found found;
  if (!find_once(peer, tag, Keep::no, found)) return std::nullopt;
  return found.message;
}

Status MessageEngine::probe(int peer, int tag, Probed& message) {
  Found found;
  const Status status = await_message(peer, tag, Keep::no, found);
  message = found.message;
  return status;
}

std::shared_ptr<Matched> MessageEngine::imatch(int peer, int tag) {
  Found found;
  return find_once(peer, tag, Keep::yes, found) ? matched(found) : nullptr;
}

Status MessageEngine::match(int peer, int tag, std::shared_ptr<Matched>& message) {
  Found found;
  const Status status = await_message(peer, tag, Keep::yes, found);
  message = status == Status::ok ? matched(found) : nullptr;
  return status;
}

std::shared_ptr<Matched> MessageEngine::matched(const Found& found) {
  const std::shared_ptr<const void> memory = on_host_ ? std::shared_ptr<const void>(ground_) : keepers_;
  std::uint64_t& holder = receiving_lock(found.message.peer, found.message.tag);
  return std::make_shared<KeptMessage>(found.message, KeptMessage::Lock{&holder, found.kept, memory}, serial_);
}

std::shared_ptr<Request> MessageEngine::irecv(const std::shared_ptr<Matched>& matched, void* destination,
                                              std::size_t bytes, const MessageOptions& options) {
  fabric_->check_process();
  require(matched != nullptr, "irecv: the matched message is null");
  auto& kept = static_cast<KeptMessage&>(*matched);
  require(kept.owner == serial_, "irecv: the matched message belongs to another world");
  const Probed& found = kept.message();
  Incoming message{destination, bytes, found.peer, options};
  message.options.tag = found.tag;
  require(kept.kept() != 0, onstream::text_of(message), ": this matched message was received already");
  require(bytes >= found.bytes, onstream::text_of(message), ": the matched message has ", found.bytes,
          " B; it stays, to be received into a larger buffer");
  const RecvRoute route = route_recv(message, lane::Completion::posted);
  outstanding_.check("irecv", queue_of(found.peer, found.tag), found.peer, found.tag, 1);
  auto request = request_for(message);
  post_kept(route, request, destination, kept.kept());
  kept.let_go();
  return request;
}

void MessageEngine::post_kept(const RecvRoute& route, const std::shared_ptr<Request>& request, void* destination,
                              std::uint64_t kept) {
  const ThreadLock lock(receiving_lock(request->lane.peer, request->lane.lane), kept);
  require(lock.held(), "irecv: the matched message from rank ", request->lane.peer, " with tag ", request->lane.lane,
          " is not kept any more");
  post_receive(route, request, destination);
}

}  // namespace onstream
