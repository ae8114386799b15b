// Messages: am_put, am_get and am_send.
//
// Each checks its arguments, visits the peer's buffer, reserves the slots of its events, moves the payload, and
// publishes the slots behind it. Where a queue is full it ends the visit while it waits, so that the owner may
// unregister.
#include "handles.hpp"
#include "refusal.hpp"

using namespace onstream;
using namespace onstream::am;

namespace {

constexpr std::size_t kUnit = 16;

struct Message {
  Link& link;
  Direction direction;
  ape_net_address_t node;
  Addressee to;  // rank and, of a put or send, port
  int data;
  int flags;
  am_context_t context;
  void* local;
  std::size_t bytes;
  std::uint64_t entered_ns;
};

Runtime& runtime_of(const Message& message) { return message.link.runtime(); }

int rank_of(const Runtime& runtime, ape_net_address_t node) {
  const std::optional<int> rank = runtime.torus().rank_of(node);
  if (rank) [[likely]]
    return *rank;
  refuse(APELINK_EADDRESS, "there is no node ", text_of(node), " in the torus ", runtime.torus().text());
}

void check_port(am_portid_t port) {
  accept_if(port < AM_NPORTS, APELINK_EPORT, "there is no port ", port, "; ports are 0 to ", AM_NPORTS - 1);
}

void check(const Message& message) {
  accept_if(message.flags == AM_BLOCKING || message.flags == AM_NONBLOCKING, APELINK_EINVAL, "there are no flags ",
            message.flags, "; they are AM_BLOCKING or AM_NONBLOCKING");
  accept_if(message.bytes <= AM_MAX_MSG_SIZE, APELINK_ETOOLARGE, message.bytes, " B are more than the ",
            AM_MAX_MSG_SIZE, " B (AM_MAX_MSG_SIZE) of one message");
  accept_if(message.local != nullptr || message.bytes == 0, APELINK_EINVAL, "the buffer of ", message.bytes,
            " B is a null pointer");
}

void check_units(std::size_t bytes, am_vaddr_t remote) {
  accept_if(bytes % kUnit == 0, APELINK_EALIGN, "the length of ", bytes, " B is not a multiple of ", kUnit);
  accept_if(remote % kUnit == 0, APELINK_EALIGN, "the remote address ", reinterpret_cast<const void*>(remote),
            " is not a multiple of ", kUnit);
}

// Whether the peer can still be reached at all. Texts are made only where they are told: they cost more than a put.
void check_peer(const Message& message) {
  Runtime& runtime = runtime_of(message);
  const int rank = message.to.rank;
  runtime.fabric().check();
  if (rank != runtime.rank() && runtime.fabric().has_left(rank)) {
    refuse(APELINK_ECLOSED, "rank ", rank, ", node ", text_of(message.node), ", has closed its links");
  }
}

// The generation of the port that hears of the message.
std::uint64_t open_generation(const Message& message) {
  const Port& port = runtime_of(message).mailbox().port(message.to.rank, message.to.port);
  const std::uint64_t generation = HostGroup::load_acquire(&port.generation);
  if (generation % 2 == 1) [[likely]]
    return generation;
  refuse(APELINK_EPORT, "port ", message.to.port, " of rank ", message.to.rank, ", node ", text_of(message.node),
         ", is not open");
}

// Waits for the peer until ready(). Throws Refusal when the deadline passes.
template <class Ready>
void wait_for_room(const Message& message, const char* what, const Ready& ready) {
  Fabric& fabric = runtime_of(message).fabric();
  WaitView view = fabric.wait_view();
  view.faults = nullptr;
  const Status status = wait_for_peer(HostGroup(0, 1), view, message.to.rank, ready);
  if (status == Status::ok) return;
  check_peer(message);
  refuse(APELINK_ETIMEOUT, "rank ", message.to.rank, ", node ", text_of(message.node), ", had ", what, " on port ",
         message.to.port, " within ", fabric.parameters().timeout_s, " s (parameter timeout_s)");
}

enum class Outcome { reserved, would_block, try_again };

// try_again: it has waited for room, and given the visit up for that.
Outcome reserve(const Message& message, Visit& visit, Slots* slots) {
  Events& events = runtime_of(message).events();
  const Addressee* const to = message.direction == Direction::put ? &message.to : nullptr;
  switch (events.reserve(message.link.port(), to, slots)) {
    case Events::Room::reserved: return Outcome::reserved;
    case Events::Room::own_full:
      refuse(APELINK_EQUEUE, "this link's queue is full of its own ", runtime_of(message).mailbox().events(),
             " completions (parameter am_events); take them by am_wait_event first");
    case Events::Room::their_full: break;
  }
  if (message.flags == AM_NONBLOCKING) return Outcome::would_block;
  visit = Visit();
  wait_for_room(message, "no room for an event", [&] { return events.has_room(message.to); });
  return Outcome::try_again;
}

// Fills all fields except those of the receiver's slot about its buffer.
void fill(const Message& message, const Target& target, std::uint64_t offset, const Slots& slots) {
  Told& own = slots.own.slot->told;
  own.type = message.direction == Direction::put ? AM_TYPE_SENT : AM_TYPE_GET;
  own.generation = message.link.generation();
  own.data = static_cast<std::uint32_t>(message.data);
  own.rank = static_cast<std::uint64_t>(message.to.rank);
  own.port = message.to.port;
  own.address = target.begin + offset;
  own.buffer = reinterpret_cast<std::uint64_t>(message.local);
  own.buffer_bytes = message.bytes;
  own.bytes = message.bytes;
  own.context = message.context;
  own.row = 0;
  own.registration = 0;
  own.entered_ns = message.entered_ns;
  own.copied_ns = 0;
  own.posted_ns = 0;
  if (slots.theirs.slot == nullptr) return;
  Told& theirs = slots.theirs.slot->told;
  theirs = own;
  theirs.type = AM_TYPE_RECV;
  theirs.rank = static_cast<std::uint64_t>(runtime_of(message).rank());
  theirs.port = message.link.port();
  theirs.buffer = target.begin;
  theirs.buffer_bytes = target.bytes;
  theirs.context = target.context;
}

// The payload, and then the events; or only the latter, where a GPU does both.
void deliver_now(const Message& message, Way way, const Payload& payload, const Target& target, const Slots& slots) {
  Runtime& runtime = runtime_of(message);
  runtime.mover().finish();  // the copies that a GPU still makes came before
  runtime.mover().move_now(way, payload, target);
  const std::uint64_t copied_ns = runtime.stamp();
  for (const Reserved& one : {slots.theirs, slots.own}) {
    if (one.slot == nullptr) continue;
    one.slot->told.copied_ns = copied_ns;
    one.slot->told.posted_ns = runtime.stamp();
    runtime.events().publish(one);
  }
}

void deliver(const Message& message, Visit visit, std::uint64_t offset, const Slots& slots) {
  Runtime& runtime = runtime_of(message);
  const Payload payload{message.direction, message.to.rank, message.local, offset, message.bytes};
  Way way = Way::cpu;
  try {
    if (message.bytes > 0) way = runtime.mover().way_of(payload, visit.target());
    if (way != Way::stream) return deliver_now(message, way, payload, visit.target(), slots);
    runtime.mover().enqueue(payload, std::move(visit), slots);
  } catch (...) {
    runtime.events().drop(slots);
    throw;
  }
  if (message.flags == AM_BLOCKING) runtime.mover().finish();
}

// To or from a persistent buffer.
int transfer(const Message& message, am_vaddr_t remote) {
  check(message);
  check_units(message.bytes, remote);
  for (;;) {
    check_peer(message);
    const std::uint64_t generation = message.direction == Direction::put ? open_generation(message) : 0;
    Visit visit = runtime_of(message).buffers().visit(message.to.rank, remote, message.bytes);
    Slots slots;
    const Outcome outcome = reserve(message, visit, &slots);
    if (outcome == Outcome::would_block) return APELINK_WOULDBLOCK;
    if (outcome == Outcome::try_again) continue;
    const std::uint64_t offset = remote - visit.target().begin;
    fill(message, visit.target(), offset, slots);
    if (slots.theirs.slot != nullptr) slots.theirs.slot->told.generation = generation;
    deliver(message, std::move(visit), offset, slots);
    return APELINK_SUCCESS;
  }
}

// Sends to the next streaming buffer. The message's slots come first: a sender that takes a buffer uses it.
int stream(const Message& message) {
  check(message);
  Runtime& runtime = runtime_of(message);
  const auto posted = [&] { return runtime.buffers().has_streaming(message.to.rank, message.to.port); };
  for (;;) {
    check_peer(message);
    const std::uint64_t generation = open_generation(message);
    if (!posted()) {
      if (message.flags == AM_NONBLOCKING) return APELINK_WOULDBLOCK;
      wait_for_room(message, "no streaming buffer posted", posted);
      continue;
    }
    Visit visit;
    Slots slots;
    const Outcome outcome = reserve(message, visit, &slots);
    if (outcome == Outcome::would_block) return APELINK_WOULDBLOCK;
    if (outcome == Outcome::try_again) continue;
    std::optional<Visit> taken;
    try {
      taken = runtime.buffers().take_streaming(message.to.rank, message.to.port, message.bytes);
    } catch (...) {
      runtime.events().give_back(slots);
      throw;
    }
    if (!taken) {  // another sender was faster
      runtime.events().give_back(slots);
      continue;
    }
    fill(message, taken->target(), 0, slots);
    slots.theirs.slot->told.generation = generation;
    slots.theirs.slot->told.row = taken->target().row + 1;
    slots.theirs.slot->told.registration = taken->target().state >> kStateBits;
    deliver(message, std::move(*taken), 0, slots);
    return APELINK_SUCCESS;
  }
}

}  // namespace

int am_put(apelink_t handle, ape_net_address_t dst, am_portid_t port, int data, int flags, am_context_t context,
           const void* buf, size_t len, am_vaddr_t remote) {
  return guarded("am_put", [&] {
    const std::shared_ptr<Link> link = link_of(handle);
    const std::uint64_t entered_ns = link->runtime().stamp();
    check_port(port);
    const Addressee to{rank_of(link->runtime(), dst), port};
    return transfer({*link, Direction::put, dst, to, data, flags, context, const_cast<void*>(buf), len, entered_ns},
                    remote);
  });
}

int am_get(apelink_t handle, ape_net_address_t src, int flags, am_context_t context, void* buf, size_t len,
           am_vaddr_t remote) {
  return guarded("am_get", [&] {
    const std::shared_ptr<Link> link = link_of(handle);
    const std::uint64_t entered_ns = link->runtime().stamp();
    const Addressee from{rank_of(link->runtime(), src), 0};
    return transfer({*link, Direction::get, src, from, 0, flags, context, buf, len, entered_ns}, remote);
  });
}

int am_send(apelink_t handle, ape_net_address_t dst, am_portid_t port, int data, int flags, am_context_t context,
            const void* buf, size_t len) {
  return guarded("am_send", [&] {
    const std::shared_ptr<Link> link = link_of(handle);
    const std::uint64_t entered_ns = link->runtime().stamp();
    check_port(port);
    const Addressee to{rank_of(link->runtime(), dst), port};
    return stream({*link, Direction::put, dst, to, data, flags, context, const_cast<void*>(buf), len, entered_ns});
  });
}
