#include "events.hpp"

namespace onstream::am {

Events::Events(const Mailbox& mailbox, int rank, int ranks)
    : mailbox_(mailbox), rank_(rank), ranks_(ranks), heads_(static_cast<std::size_t>(ranks)) {}

// Looks at the receiver's word only when the value last seen leaves no room: it lies in another core's cache.
bool Events::room_for(const Addressee& to, std::uint64_t wanted) {
  Head& known = head(to);
  const auto fits = [&] { return known.reserved + wanted - known.taken <= mailbox_.events(); };
  if (fits()) return true;
  known.taken = HostGroup::load_acquire(&mailbox_.ring(to.rank, to.port, rank_).taken);  // pairs with take_from()
  return fits();
}

Reserved Events::claim(const Addressee& to) {
  const std::uint64_t number = head(to).reserved++;
  return {to.rank, to.port, number, &mailbox_.slot(to.rank, to.port, rank_, number)};
}

Events::Room Events::reserve(am_portid_t own_port, const Addressee* to, Slots* slots) {
  const Addressee own{rank_, own_port};
  const std::lock_guard lock(put_mutex_);
  const bool one_ring = to != nullptr && to->rank == rank_ && to->port == own_port;
  if (!room_for(own, one_ring ? 2 : 1)) return Room::own_full;
  if (to != nullptr && !room_for(*to, 1)) return Room::their_full;
  if (to != nullptr) slots->theirs = claim(*to);
  slots->own = claim(own);
  return Room::reserved;
}

bool Events::has_room(const Addressee& to) {
  const std::lock_guard lock(put_mutex_);
  return room_for(to, 1);
}

void Events::publish(const Reserved& reserved) const {
  HostGroup::store_release(&reserved.slot->ready, reserved.number + 1);  // pairs with take_from()
}

void Events::drop(const Slots& slots) const {
  for (const Reserved& one : {slots.theirs, slots.own}) {
    if (one.slot == nullptr) continue;
    one.slot->told.type = AM_TYPE_NONE;
    publish(one);
  }
}

void Events::give_back(const Slots& slots) {
  const std::lock_guard lock(put_mutex_);
  for (const Reserved& one : {slots.own, slots.theirs}) {  // reserve() has it the other way round
    if (one.slot == nullptr) continue;
    std::uint64_t& reserved = head({one.rank, one.port}).reserved;
    if (reserved == one.number + 1) {
      --reserved;
      continue;
    }
    one.slot->told = {};
    publish(one);
  }
}

bool Events::expects_own(am_portid_t port) {
  const std::lock_guard lock(put_mutex_);
  return head({rank_, port}).reserved != HostGroup::load_acquire(&mailbox_.ring(rank_, port, rank_).taken);
}

bool Events::take(am_portid_t port, std::uint64_t generation, Told* out) {
  const std::lock_guard lock(take_mutexes_[port]);
  // The caller may still wait at a link that was closed: nothing is its own any more. The port is not opened again
  // before drop_all() has had the mutex, so the answer here holds until the end.
  const Port& its = mailbox_.port(rank_, port);
  if (HostGroup::load_acquire(&its.generation) != generation) return false;  // pairs with close_port()
  for (int k = 0; k < ranks_; ++k) {
    const int source = (turn_[port] + k) % ranks_;
    if (!take_from(port, source, generation, out)) continue;
    turn_[port] = (source + 1) % ranks_;
    return true;
  }
  return false;
}

void Events::drop_all(am_portid_t port) {
  const std::lock_guard lock(take_mutexes_[port]);
  Told none;
  for (int source = 0; source < ranks_; ++source) {
    (void)take_from(port, source, 0, &none);  // no event has generation 0
  }
}

bool Events::take_from(am_portid_t port, int source, std::uint64_t generation, Told* out) {
  Ring& ring = mailbox_.ring(rank_, port, source);
  for (;;) {
    const std::uint64_t number = HostGroup::load_relaxed(&ring.taken);
    const Slot& slot = mailbox_.slot(rank_, port, source, number);
    if (HostGroup::load_acquire(&slot.ready) != number + 1) return false;  // pairs with publish()
    *out = slot.told;
    HostGroup::store_release(&ring.taken, number + 1);  // the slot may be written again: pairs with room_for()
    const bool tells = out->type != AM_TYPE_NONE || out->row != 0;
    if (tells && out->generation == generation) return true;
  }
}

}  // namespace onstream::am
