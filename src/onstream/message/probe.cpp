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

// `word`: lane::word_of() a look.
MessageEngine::Sight MessageEngine::sight_of(std::uint64_t word) {
  if (word == lane::kBusy) return Sight::busy;
  return word == 0 ? Sight::none : Sight::found;
}

std::uint64_t& MessageEngine::receiving_lock(int peer, int tag) {
  return on_host_ ? view(peer, tag).receiving->busy : keepers_->at(queue_of(peer, tag));
}

void MessageEngine::check_probe(int peer, int tag) {
  check_arguments("probe", nullptr, 0, peer == kAnySource ? fabric_->rank() : peer, {.tag = tag});
  start_as([&] { return text_of_probe(peer, tag); }, [] {});
}

// Looks at each of these lanes; `found` gets lane::word_of() it.
void MessageEngine::next_message(std::span<const lane::LaneView> lanes, std::span<std::uint64_t> found) {
  if (on_host_) {
    std::ranges::transform(lanes, found.begin(), [](const lane::LaneView& lane) {
      lane::Seen seen;
      const lane::NextMessage next = lane::next_message(kCaller, lane, seen);
      return lane::word_of(next, seen);
    });
    return;
  }
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

// Mostly there is nothing, which a brief look on the host sees without the lock. It may take for nothing a message
// behind one that another call is taking out of the ring.
MessageEngine::Sight MessageEngine::look_at(int peer, int tag, Care care, Keep keep, Found& found) {
  const lane::LaneView& lane = view(peer, tag);
  std::uint64_t word = 0;
  const auto look = [&] {
    next_message({&lane, 1}, {&word, 1});
    return sight_of(word);
  };
  if (on_host_ && care == Care::brief) {
    if (const Sight sight = look(); sight != Sight::found) return sight;
  }
  ThreadLock lock(receiving_lock(peer, tag));
  if (!lock.held()) return Sight::busy;
  if (const Sight sight = look(); sight != Sight::found) return sight;
  found.message = {peer, tag, word - 1};
  if (keep == Keep::yes) found.kept = lock.keep();
  return Sight::found;
}

// One look. Of any rank: begins behind the rank whose message was found last, so that none starves.
MessageEngine::Sight MessageEngine::find(int peer, int tag, Care care, Keep keep, Found& found) {
  if (peer != kAnySource) return look_at(peer, tag, care, keep, found);
  const int size = fabric_->size();
  std::vector<std::uint64_t> there;  // by one kernel for all lanes, where that will do
  if (!on_host_ && care == Care::brief) {
    std::vector<lane::LaneView> lanes;
    for (int from = 0; from < size; ++from) lanes.push_back(view(from, tag));
    there.resize(lanes.size());
    next_message(lanes, there);
  }
  Sight all = Sight::none;
  const int start = next_source_.load(std::memory_order_relaxed);
  for (int turn = 0; turn < size; ++turn) {
    const int from = (start + turn) % size;
    Sight one = there.empty() ? Sight::found : sight_of(there[static_cast<std::size_t>(from)]);
    if (one == Sight::found) one = look_at(from, tag, care, keep, found);
    if (one == Sight::found) {
      next_source_.store((from + 1) % size, std::memory_order_relaxed);
      return one;
    }
    if (one == Sight::busy) all = one;
  }
  return all;
}

// Throws closed where nothing more can come.
bool MessageEngine::find_once(int peer, int tag, Keep keep, Found& found) {
  check_probe(peer, tag);
  // Before the look: all that it sent has come then.
  const bool left = peer != fabric_->rank() && fabric_->has_left(word_peer(peer));
  if (fabric_->network() != nullptr) fabric_->network()->turn();
  const Sight sight = find(peer, tag, left ? Care::sure : Care::brief, keep, found);
  if (sight != Sight::none || !left) return sight == Sight::found;
  fabric_->check();  // a peer that leaves a failed world leaves for that reason
  fail(ErrorCode::closed, text_of_probe(peer, tag), ": ",
       peer == kAnySource ? "every other rank" : concat("rank ", peer), " has left the world; no more messages come");
}

// Waits until a look finds a message. That the ranks which may send one have left ends it only when a sure look behind
// that found nothing: while another call, or a match, is at a lane, a message may come back, or lie behind another one.
Status MessageEngine::wait_for_message(int peer, const std::function<Sight(Care)>& look) const {
  const WaitView wait = fabric_->wait_view();
  bool left = false;
  Sight last = Sight::busy;
  const auto word = [&] {
    const std::uint64_t now = word_of_peer(kCaller, wait, word_peer(peer));
    const bool in_vain = left && last == Sight::none;
    left = (now & kPeerLeft) != 0;
    if (left) kCaller.fence();  // the looks from now on see all that they sent
    return in_vain ? now : now & ~kPeerLeft;
  };
  return wait_on(kCaller, wait, word, [&] {
    last = look(left ? Care::sure : Care::brief);
    return last == Sight::found;
  });
}

Status MessageEngine::await_message(int peer, int tag, Keep keep, Found& found) {
  check_probe(peer, tag);
  if (peer != kAnySource && ThreadLock::is_mine(receiving_lock(peer, tag))) {
    refuse_nested(text_of_probe(peer, tag), receiving_lock(peer, tag));
  }
  const Status status = wait_for_message(peer, [&](Care care) { return find(peer, tag, care, keep, found); });
  if (status != Status::ok) tell_in_vain(status, fabric_->wait_view(), probe_fault(peer, tag));
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
  std::uint64_t word = kept.take();
  require(word != 0, onstream::text_of(message), ": this matched message was received already");
  try {
    require(bytes >= found.bytes, onstream::text_of(message), ": the matched message has ", found.bytes,
            " B; it stays, to be received into a larger buffer");
    const RecvRoute route = route_recv(message, lane::Completion::posted);
    outstanding_.check("irecv", queue_of(found.peer, found.tag), found.peer, found.tag, 1);
    auto request = request_for(message);
    post_kept(route, request, destination, word);
    return request;
  } catch (...) {
    kept.put_back(word);
    throw;
  }
}

// Takes over the lane's lock, which is kept under that word. Where that fails it is kept again, under a new one.
void MessageEngine::post_kept(const RecvRoute& route, const std::shared_ptr<Request>& request, void* destination,
                              std::uint64_t& kept) {
  ThreadLock lock(receiving_lock(request->lane.peer, request->lane.lane), kept);
  require(lock.held(), "irecv: the matched message from rank ", request->lane.peer, " with tag ", request->lane.lane,
          " is not kept any more");
  try {
    post_receive(route, request, destination);
  } catch (...) {
    kept = lock.keep();
    throw;
  }
  kept = 0;
}

}  // namespace onstream
