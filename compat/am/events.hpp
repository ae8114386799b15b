// Events: the rings of a link's events, seen from one rank.
//
// Each rank has one ring for each port and source. A slot belongs to a message from its reservation on, so events of
// one source come in the order of the calls, by whichever way the payload is copied; and nothing is lost, as there is
// no reservation without room. A rank's own completions are events from itself. Thread-safe; nothing blocks.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "mailbox.hpp"

namespace onstream::am {

// A slot of a ring, to be filled and then published.
struct Reserved {
  int rank = -1;  // whose ring it is; -1: there is none
  am_portid_t port = 0;
  std::uint64_t number = 0;
  Slot* slot = nullptr;
};

// The slots of one message: the receiver's, if it is to hear of it, and this rank's own.
struct Slots {
  Reserved theirs;
  Reserved own;
};

struct Addressee {
  int rank;
  am_portid_t port;
};

class Events {
 public:
  Events(const Mailbox& mailbox, int rank, int ranks);

  enum class Room { reserved, own_full, their_full };
  // Both slots or none. `to` may be null.
  Room reserve(am_portid_t own_port, const Addressee* to, Slots* slots);
  // Whether that ring has room; another thread may take it.
  bool has_room(const Addressee& to);
  // The last that a source does with a slot: the event is seen after all that was stored before it.
  void publish(const Reserved& reserved) const;
  // publish() for a message that came to nothing.
  void drop(const Slots& slots) const;
  // For slots that nothing was stored in: the newest may be reserved again, others are dropped.
  void give_back(const Slots& slots);
  // Whether a message of this rank's own will still tell this port of it.
  bool expects_own(am_portid_t port);
  // The next event for a port of this rank, by copy; sources take turns. False: there is none, or the port is no longer
  // open in this generation: events that come then are another link's. AM_TYPE_NONE: a message that came to nothing had
  // taken the streaming buffer `row`.
  bool take(am_portid_t port, std::uint64_t generation, Told* out);
  // Drops all that has come to a port that was closed, before it is opened again.
  void drop_all(am_portid_t port);

 private:
  // This rank's view of one of its rings: how much it has reserved, and the count taken when it last looked.
  struct Head {
    std::uint64_t reserved = 0;
    std::uint64_t taken = 0;
  };
  Head& head(const Addressee& to) { return heads_[static_cast<std::size_t>(to.rank)][to.port]; }
  bool room_for(const Addressee& to, std::uint64_t wanted);
  Reserved claim(const Addressee& to);
  bool take_from(am_portid_t port, int source, std::uint64_t generation, Told* out);

  const Mailbox& mailbox_;
  int rank_;
  int ranks_;
  std::mutex put_mutex_;  // guards the heads
  std::vector<std::array<Head, AM_NPORTS>> heads_;
  std::array<std::mutex, AM_NPORTS> take_mutexes_;
  std::array<int, AM_NPORTS> turn_{};  // of sources
};

}  // namespace onstream::am
