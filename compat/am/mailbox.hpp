// Mailbox: the pinned memory of each rank that the others look at and write to - which ports are open, which buffers
// are registered, and the rings of events.
//
// One symmetric segment, so CPUs of all ranks load and store all of it, and a GPU that has copied a payload stores the
// word that tells of it. Everything is words of 64 bits. Each structure names its writers; all others only read it.
// Nothing here blocks but construction, which is collective.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "onstream/device/kernel/group.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/transport/fabric.hpp"
#include "onstream_am.h"

namespace onstream::am {

// A port of a rank. `generation` is odd while a link has it open, and another at every opening: events of an earlier
// one are dropped. Written by the owner; `claimed` by senders, which take streaming buffers by it.
struct alignas(64) Port {
  std::uint64_t generation = 0;
  std::uint64_t posted = 0;   // streaming buffers, since the start
  std::uint64_t claimed = 0;  // ... of which so many are used or were taken back
};

// The low bits of `Row::state`; above them stands a number that no two registrations share. An ending row is one that
// its owner has barred, whose last messages it waits for.
enum class RowState : std::uint64_t { free = 0, persistent, streaming, used, ending_persistent, ending_streaming };
constexpr std::uint64_t kStateBits = 3;
constexpr RowState state_of(std::uint64_t word) { return static_cast<RowState>(word & ((1u << kStateBits) - 1)); }
constexpr std::uint64_t state_word(std::uint64_t number, RowState state) {
  return number << kStateBits | static_cast<std::uint64_t>(state);
}

// A registered buffer. Written by the owner while it is free, `state` last (release; pairs with the acquire of a rank
// that looks it up); a sender turns streaming into used. `users` counts the messages that are at it: a message that
// adds itself looks at `state` again, and the owner, once it has changed `state`, waits for 0 (both sequentially
// consistent).
struct alignas(64) Row {
  std::uint64_t state = 0;
  std::uint64_t users = 0;
  std::uint64_t begin = 0;  // in the owner's address space
  std::uint64_t bytes = 0;
  std::uint64_t memory = 0;  // MemoryInfo::id where the peers map the allocation; else 0
  std::uint64_t touched_by_cpus = 0;
  std::uint64_t context = 0;
  std::uint64_t port = 0;
};

// The contents of an event.
struct Told {
  std::uint64_t type = AM_TYPE_NONE;  // am_type_t; AM_TYPE_NONE: came to nothing
  std::uint64_t generation = 0;       // of the port
  std::uint64_t data = 0;
  std::uint64_t rank = 0;  // the other side of the message
  std::uint64_t port = 0;  // of the other side
  std::uint64_t address = 0;
  std::uint64_t buffer = 0;
  std::uint64_t buffer_bytes = 0;
  std::uint64_t bytes = 0;
  std::uint64_t context = 0;
  std::uint64_t row = 0;  // of a streaming buffer: its number + 1; its registration ends with the event, except a NONE
  std::uint64_t registration = 0;  // of that: the number above its row's state
  std::uint64_t entered_ns = 0;
  std::uint64_t copied_ns = 0;
  std::uint64_t posted_ns = 0;
};

// An event in its ring. Written by its source, which owns the slot from the moment that the ring has room until it
// stores `ready`, the event's number in the ring + 1 (release/acquire); then the link that has the port open reads it.
struct alignas(128) Slot {
  std::uint64_t ready = 0;
  Told told;
};

// The ring from one source to one port. The owner writes `taken`; the source counts by itself the events that it has
// put in.
struct alignas(64) Ring {
  std::uint64_t taken = 0;
};

// Messages of one source to one rank's buffers whose payload a GPU copies after the call: `issued` counts them, written
// by the source while it visits a row; `done` follows in the order of the source's stream. Before a registration ends
// the owner waits until `done` has reached the value that `issued` had when the row's last visit was over.
struct alignas(64) Traffic {
  std::uint64_t issued = 0;
  std::uint64_t done = 0;
};

class Mailbox {
 public:
  Mailbox(Fabric& fabric, std::size_t events, std::size_t buffers);  // collective

  std::size_t events() const { return events_; }
  std::size_t buffers() const { return buffers_; }

  Port& port(int rank, am_portid_t port) const { return at<Port>(rank, 0, port); }
  Row& row(int rank, std::size_t number) const { return at<Row>(rank, rows_, number); }
  // Where `reader` addresses the row's buffer; 0: not at all, its owner's proxy copies.
  std::uint64_t& address(int rank, std::size_t row, int reader) const {
    return at<std::uint64_t>(rank, addresses_, row * ranks_ + static_cast<std::size_t>(reader));
  }
  // The streaming buffers of a port, by the order of their posting: number of the row, and its state, as two words.
  std::uint64_t* posting(int rank, am_portid_t port, std::uint64_t number) const {
    return &at<std::uint64_t>(rank, postings_, 2 * (port * buffers_ + number % buffers_));
  }
  Ring& ring(int rank, am_portid_t port, int source) const { return at<Ring>(rank, rings_, number_of(port, source)); }
  Slot& slot(int rank, am_portid_t port, int source, std::uint64_t number) const {
    return at<Slot>(rank, slots_, number_of(port, source) * events_ + number % events_);
  }
  Traffic& traffic(int rank, int source) const { return at<Traffic>(rank, traffic_, static_cast<std::size_t>(source)); }
  // A word of the mailbox as kernels are told of it.
  Remote remote(int rank, const void* word) const {
    return {window_, rank,
            static_cast<std::size_t>(static_cast<const std::byte*>(word) - parts_[static_cast<std::size_t>(rank)])};
  }

 private:
  template <class T>
  T& at(int rank, std::size_t offset, std::size_t number) const {
    return *reinterpret_cast<T*>(parts_[static_cast<std::size_t>(rank)] + offset + number * sizeof(T));
  }
  std::size_t number_of(am_portid_t port, int source) const { return port * ranks_ + static_cast<std::size_t>(source); }

  std::size_t ranks_;
  std::size_t events_;
  std::size_t buffers_;
  std::size_t rows_;  // where each part of the mailbox begins; ports come first
  std::size_t addresses_;
  std::size_t postings_;
  std::size_t traffic_;
  std::size_t rings_;
  std::size_t slots_;
  std::size_t bytes_;
  std::shared_ptr<Segment> segment_;
  Window window_;
  std::vector<std::byte*> parts_;
};

}  // namespace onstream::am
