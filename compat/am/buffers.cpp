#include "buffers.hpp"

#include "onstream/device/kernel/remote_process.hpp"
#include "onstream/transport/buffer.hpp"
#include "refusal.hpp"

namespace onstream::am {

namespace {

const void* pointer(std::uint64_t address) { return reinterpret_cast<const void*>(address); }
std::uint64_t number_of(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

std::uint64_t load(const std::uint64_t& word) { return HostGroup::load_relaxed(&word); }

}  // namespace

Buffers::Buffers(World& world, const Mailbox& mailbox)
    : world_(world),
      fabric_(*world.fabric()),
      mailbox_(mailbox),
      rank_(world.rank()),
      stage_(fabric_.parameters().path == "stage"),
      loans_(mailbox.buffers()),
      last_found_(static_cast<std::size_t>(world.size())) {}

// --- the owner's side ---

std::size_t Buffers::free_row() const {
  for (std::size_t number = 0; number < mailbox_.buffers(); ++number) {
    if (state_of(load(mailbox_.row(rank_, number).state)) == RowState::free) return number;
  }
  refuse(APELINK_ENOSPACE, "this rank has registered ", mailbox_.buffers(),
         " buffers already; unregister some, or set parameter am_buffers higher");
}

void Buffers::add(const Registration& what, am_context_t context) {
  accept_if(what.type == AM_PERSISTENT_BUF || what.type == AM_STREAMING_BUF, APELINK_EINVAL, "there is no type ",
            what.type, "; buffers are AM_PERSISTENT_BUF or AM_STREAMING_BUF");
  accept_if(what.buffer != nullptr && what.bytes > 0, APELINK_EINVAL, "a buffer of ", what.bytes, " B at ", what.buffer,
            "; it needs an address and at least one byte");
  accept_if(what.bytes <= ~reinterpret_cast<std::uintptr_t>(what.buffer), APELINK_EINVAL, "a buffer of ", what.bytes,
            " B at ", what.buffer, " goes beyond all addresses");
  MemoryInfo info;
  try {
    info = look_at_buffer(world_.device(), what.buffer, what.bytes);
  } catch (const Error& error) {
    refuse(APELINK_EFAULT, error.what());
  }
  const std::lock_guard lock(mutex_);
  if (what.type == AM_STREAMING_BUF) make_room_for_posting(what.port);
  const std::size_t number = free_row();
  make_known(number, what, info);
  write(number, what, context);
}

// Postings that were taken back stay in the queue until a sender passes over them, or this does.
void Buffers::make_room_for_posting(am_portid_t port_number) {
  Port& port = mailbox_.port(rank_, port_number);
  for (;;) {
    const std::uint64_t claimed = HostGroup::load_acquire(&port.claimed);
    if (load(port.posted) - claimed < mailbox_.buffers()) return;
    const std::uint64_t* const posting = mailbox_.posting(rank_, port_number, claimed);
    const Row& row = mailbox_.row(rank_, static_cast<std::size_t>(load(*posting)));
    accept_if(load(row.state) != load(posting[1]), APELINK_ENOSPACE, "port ", port_number, " has ", mailbox_.buffers(),
              " postings of streaming buffers behind one that no message has used yet, most of them "
              "taken back; parameter am_buffers says how many there may be");
    (void)HostGroup::compare_swap_system(&port.claimed, claimed, claimed + 1);  // else a sender has
  }
}

// Asks the peers: they map the memory now, so that no put has to.
void Buffers::make_known(std::size_t number, const Registration& what, const MemoryInfo& info) {
  Row& row = mailbox_.row(rank_, number);
  bool mapped = false;
  bool helped = false;
  for (int peer = 0; peer < fabric_.size(); ++peer) {
    std::optional<std::uint64_t> there;
    if (peer == rank_) {
      there = number_of(what.buffer);
    } else if (!stage_) {
      there = fabric_.export_to_peer(what.buffer, what.bytes, peer);
      mapped = mapped || there.has_value();
      if (!there) there = fabric_.attach_for_good(what.buffer, peer);
    }
    helped = helped || !there;
    HostGroup::store_relaxed(&mailbox_.address(rank_, number, peer), there.value_or(0));
  }
  loans_[number] = helped ? world_.one_sided().lend(what.buffer, what.bytes) : nullptr;
  HostGroup::store_relaxed(&row.memory, mapped ? info.id : 0);
  HostGroup::store_relaxed(&row.touched_by_cpus, world_.one_sided().cpu_reaches(info.kind) ? 1 : 0);
}

void Buffers::write(std::size_t number, const Registration& what, am_context_t context) {
  Row& row = mailbox_.row(rank_, number);
  HostGroup::store_relaxed(&row.begin, number_of(what.buffer));
  HostGroup::store_relaxed(&row.bytes, what.bytes);
  HostGroup::store_relaxed(&row.context, context);
  HostGroup::store_relaxed(&row.port, what.port);
  if (what.type == AM_STREAMING_BUF) return post(number, what.port);
  HostGroup::store_release(&row.state, state_word(++registrations_, RowState::persistent));  // pairs with look()
}

void Buffers::post(std::size_t number, am_portid_t port_number) {
  const std::uint64_t state = state_word(++registrations_, RowState::streaming);
  HostGroup::store_release(&mailbox_.row(rank_, number).state, state);  // pairs with look()
  Port& port = mailbox_.port(rank_, port_number);
  const std::uint64_t posted = load(port.posted);
  std::uint64_t* const posting = mailbox_.posting(rank_, port_number, posted);
  HostGroup::store_relaxed(posting, number);
  HostGroup::store_relaxed(posting + 1, state);
  HostGroup::store_release(&port.posted, posted + 1);  // pairs with take_streaming()
}

std::optional<Buffers::Barred> Buffers::bar(std::size_t number) {
  Row& row = mailbox_.row(rank_, number);
  const std::uint64_t state = load(row.state);
  const bool persistent = state_of(state) == RowState::persistent || state_of(state) == RowState::ending_persistent;
  const std::uint64_t barred =
      state_word(state >> kStateBits, persistent ? RowState::ending_persistent : RowState::ending_streaming);
  const bool done = HostGroup::compare_swap_system(&row.state, state, barred) == state;
  HostGroup::fence_all();  // with enter(): either it sees the state, or settle() sees the user
  if (!done) return std::nullopt;
  return Barred{number, &row, barred};
}

// Waits until no message is at these rows; then they are free. Without the mutex: events are taken, and other buffers
// registered, meanwhile. Messages issued after the last visit are not at these rows, so it does not wait for them.
void Buffers::settle(const std::vector<Barred>& rows) {
  std::vector<std::uint64_t> issued;
  const auto nobody = [&] {
    for (const Barred& one : rows) {
      if (HostGroup::load_acquire(&one.row->users) != 0) return false;  // pairs with the end of a Visit
    }
    for (int source = static_cast<int>(issued.size()); source < fabric_.size(); ++source) {
      issued.push_back(load(mailbox_.traffic(rank_, source).issued));
    }
    for (int source = 0; source < fabric_.size(); ++source) {
      const std::uint64_t done = HostGroup::load_acquire(&mailbox_.traffic(rank_, source).done);
      if (done < issued[static_cast<std::size_t>(source)]) return false;
    }
    return true;
  };
  WaitView view = fabric_.wait_view();
  view.faults = nullptr;
  const Status status = wait_for_self(HostGroup(0, 1), view, nobody);  // a rank that has left has finished its messages
  if (status != Status::ok) {
    fabric_.check();
    const Row& row = *rows.front().row;
    refuse(APELINK_EBUSY, "a message was still at the buffer of ", load(row.bytes), " B at ", pointer(load(row.begin)),
           " after ", fabric_.parameters().timeout_s, " s (parameter timeout_s); no other comes to it: try again");
  }
  const std::lock_guard lock(mutex_);
  for (const Barred& one : rows) {  // another thread may have settled it, and have registered the row's next buffer
    const std::uint64_t ended = state_word(one.state >> kStateBits, RowState::free);
    if (HostGroup::compare_swap_system(&one.row->state, one.state, ended) == one.state) loans_[one.number] = nullptr;
  }
}

void Buffers::remove(const Registration& what) { settle({find_and_bar(what)}); }

Buffers::Barred Buffers::find_and_bar(const Registration& what) {
  const std::lock_guard lock(mutex_);
  const bool streaming = what.type == AM_STREAMING_BUF;
  const RowState wanted = streaming ? RowState::streaming : RowState::persistent;
  const RowState ending = streaming ? RowState::ending_streaming : RowState::ending_persistent;
  for (std::size_t number = 0; number < mailbox_.buffers(); ++number) {
    Row& row = mailbox_.row(rank_, number);
    const RowState state = state_of(HostGroup::load_acquire(&row.state));
    const bool same = load(row.begin) == number_of(what.buffer) && load(row.bytes) == what.bytes &&
                      load(row.port) == what.port && state != RowState::free;
    if (!same) continue;
    accept_if(state != RowState::used || !streaming, APELINK_EBUSY, "the streaming buffer of ", what.bytes, " B at ",
              what.buffer, " was taken by a message; its receive event ends its registration");
    if (state != wanted && state != ending) continue;
    if (const std::optional<Barred> barred = bar(number)) return *barred;
    refuse(APELINK_EBUSY, "the buffer of ", what.bytes, " B at ", what.buffer,
           " has just been taken by a message; its receive event ends its registration");
  }
  refuse(APELINK_EFAULT, "no ", what.type == AM_STREAMING_BUF ? "streaming" : "persistent", " buffer of ", what.bytes,
         " B at ", what.buffer, " is registered by this link");
}

void Buffers::remove_all(am_portid_t port) noexcept {
  try {
    std::vector<Barred> rows;
    {
      const std::lock_guard lock(mutex_);
      for (std::size_t number = 0; number < mailbox_.buffers(); ++number) {
        Row& row = mailbox_.row(rank_, number);
        if (state_of(load(row.state)) == RowState::free || load(row.port) != port) continue;
        std::optional<Barred> barred;
        while (!barred) barred = bar(number);  // a message has taken the streaming buffer: the next attempt sees that
        rows.push_back(*barred);
      }
    }
    if (!rows.empty()) settle(rows);  // all at once: one deadline
  } catch (const std::exception&) {
    // The rows stay taken: a message may still be at one. The world has failed, or that message's rank is stuck.
  }
}

bool Buffers::holds(const void* memory, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t begin = number_of(memory);
  for (std::size_t number = 0; number < mailbox_.buffers(); ++number) {
    const Row& row = mailbox_.row(rank_, number);
    if (state_of(load(row.state)) == RowState::free) continue;
    if (load(row.begin) < begin + bytes && begin < load(row.begin) + load(row.bytes)) return true;
  }
  return false;
}

bool Buffers::is_used_by(const Told& event) const {
  const Row& row = mailbox_.row(rank_, static_cast<std::size_t>(event.row - 1));
  return load(row.state) == state_word(event.registration, RowState::used);
}

void Buffers::end_streaming(const Told& event) {
  const std::lock_guard lock(mutex_);
  if (!is_used_by(event)) return;
  const auto row = static_cast<std::size_t>(event.row - 1);
  loans_[row] = nullptr;  // its message has ended
  HostGroup::store_release(&mailbox_.row(rank_, row).state, state_word(event.registration, RowState::free));
}

void Buffers::post_again(const Told& event) {
  const std::lock_guard lock(mutex_);
  if (!is_used_by(event)) return;
  const auto row = static_cast<std::size_t>(event.row - 1);
  Row& its = mailbox_.row(rank_, row);
  const auto port = static_cast<am_portid_t>(load(its.port));
  HostGroup::store_release(&its.state, state_word(++registrations_, RowState::streaming));  // if there is no room
  make_room_for_posting(port);
  post(row, port);
}

// --- the sender's side ---

// Null for a row that is free, or changes at this moment.
std::optional<Target> Buffers::look(int rank, std::size_t number) const {
  const Row& row = mailbox_.row(rank, number);
  Target target;
  target.row = number;
  target.state = HostGroup::load_acquire(&row.state);  // pairs with write()
  if (state_of(target.state) == RowState::free) return std::nullopt;
  target.begin = load(row.begin);
  target.bytes = load(row.bytes);
  return target;
}

// Nothing if the registration has ended since it was looked at. Throws if its memory is gone.
std::optional<Visit> Buffers::enter(int rank, const Target& target) {
  Row& row = mailbox_.row(rank, target.row);
  HostGroup::fetch_add_system(&row.users, std::uint64_t{1});
  HostGroup::fence_all();  // with end()
  Target whole = target;
  const std::uint64_t memory = load(row.memory);
  whole.context = load(row.context);
  whole.here = load(mailbox_.address(rank, target.row, rank_));
  whole.cpu = load(row.touched_by_cpus) != 0;
  Visit visit(row, whole, nullptr);  // ends with the next line, if there is no use in it
  if (HostGroup::load_acquire(&row.state) != target.state) return std::nullopt;
  if (rank == rank_ || whole.here == 0 || is_remote_process(whole.here) || memory == 0) return visit;
  std::shared_ptr<const void> mapping = fabric_.imported(rank, memory);
  accept_if(mapping != nullptr, APELINK_EFAULT, "rank ", rank, " has freed the memory of its buffer of ", whole.bytes,
            " B at ", pointer(whole.begin), ", and has not unregistered it");
  visit.keep(std::move(mapping));
  return visit;
}

Visit Buffers::visit(int rank, am_vaddr_t address, std::size_t bytes) {
  std::atomic<std::size_t>& last = last_found_[static_cast<std::size_t>(rank)];
  const std::size_t first = last.load(std::memory_order_relaxed);
  std::optional<Target> begins_here;  // but is too short
  for (std::size_t k = 0; k < mailbox_.buffers(); ++k) {
    const std::size_t number = k == 0 ? first : k - 1 < first ? k - 1 : k;
    const std::optional<Target> target = look(rank, number);
    if (!target || state_of(target->state) != RowState::persistent) continue;
    const std::uint64_t offset = address - target->begin;
    if (offset >= target->bytes) continue;
    if (bytes > target->bytes - offset) {
      begins_here = target;
      continue;
    }
    if (std::optional<Visit> visit = enter(rank, *target)) {
      last.store(number, std::memory_order_relaxed);
      return std::move(*visit);
    }
  }
  if (begins_here) {
    const std::uint64_t offset = address - begins_here->begin;
    refuse(APELINK_ERANGE, bytes, " B at ", pointer(address), " end ", offset + bytes - begins_here->bytes,
           " B after rank ", rank, "'s buffer of ", begins_here->bytes, " B at ", pointer(begins_here->begin));
  }
  refuse(APELINK_EFAULT, "rank ", rank, " has no persistent buffer registered at ", pointer(address),
         ": it never had, or has unregistered it");
}

bool Buffers::has_streaming(int rank, am_portid_t port) const {
  const Port& its = mailbox_.port(rank, port);
  return HostGroup::load_acquire(&its.posted) != HostGroup::load_acquire(&its.claimed);
}

std::optional<Visit> Buffers::take_streaming(int rank, am_portid_t port, std::size_t bytes) {
  Port& its = mailbox_.port(rank, port);
  for (;;) {
    const std::uint64_t claimed = HostGroup::load_acquire(&its.claimed);
    if (HostGroup::load_acquire(&its.posted) == claimed) return std::nullopt;  // pairs with write()
    const std::uint64_t* const posting = mailbox_.posting(rank, port, claimed);
    const auto number = static_cast<std::size_t>(HostGroup::load_relaxed(posting));
    const std::uint64_t state = HostGroup::load_relaxed(posting + 1);
    const std::optional<Target> target = number < mailbox_.buffers() ? look(rank, number) : std::nullopt;
    const bool stands = target && target->state == state;
    if (HostGroup::load_acquire(&its.claimed) != claimed) continue;  // the row just read may be a later posting
    accept_if(!stands || bytes <= target->bytes, APELINK_ETOOLARGE, bytes,
              " B do not fit the next streaming buffer of ", "port ", port, " of rank ", rank, ", which has ",
              stands ? target->bytes : 0, " B");
    std::optional<Visit> visit;
    if (stands) visit = enter(rank, *target);  // which may throw: the buffer then stays the next
    if (HostGroup::compare_swap_system(&its.claimed, claimed, claimed + 1) != claimed) continue;
    const std::uint64_t used = state_word(state >> kStateBits, RowState::used);
    // Without a visit it was taken back.
    if (!visit || HostGroup::compare_swap_system(&mailbox_.row(rank, number).state, state, used) != state) continue;
    return visit;
  }
}

}  // namespace onstream::am
