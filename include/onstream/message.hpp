// Messages: tagged, in order, on a stream.
//
// Each (source, destination, tag) is an independent queue, a lane; between two ranks, per lane, messages match in
// posting order. The program must order streams whose ops are of one lane and direction (one stream, or events), as the
// order of the ops matches them. Threads need no order: calls in which the host waits, or posts, run one at a time of
// each lane and direction, so each message goes to one receive, and whole, whichever thread's that is; a call may wait
// for those before it. A message shorter than its receive is fine; a longer one is `truncated` on both sides.
//
//   send    done on the stream when the buffer may be reused. Up to ll_max_bytes, and up to spread_max_bytes on the
//           first spread_tags lanes of cuda, it runs ahead of its receive while the lane's ring has room; beyond that
//           it waits for its receive, as MPI's standard send may.
//   recv    done on the stream when the data is there.
//   sendrecv   both at once: neither waits for the other, so all ranks of a ring may call it. One kernel on cuda, where
//           kernels can touch both buffers. Buffers that overlap are refused.
//   isend, irecv   done on the stream at once; the request completes at its wait. A small isend on a stream, or by path
//           ll, is done once the ring of its lane has room. A request may be let go before; that its message was too
//           large is then told at the receiver alone. Waiting for it again is allowed: the host is given the same
//           status at once, and a stream goes on.
//   probe   tells the next message of a lane, of which only the header must have come, and takes nothing. Messages of
//           receives posted before are passed over. match keeps the message for its caller, who receives it.
//
// A receive of the host may take its message from any rank (kAnySource): from the one whose message is there first, and
// from the next rank in turn where several are. Such an irecv takes a message when a wait or a test asks for it, in
// posting order among those of its tag; receives from a named rank that are called before that come first.
//
// A send or a receive may have a layout in the place of its bytes: its data then lies in the buffer by that. The
// layouts of both sides have equal bytes(), of any shapes; a receive by a layout takes no message of another size,
// longer or shorter: it is `truncated`, and nothing is written. A receive's layout that overlaps itself is refused. On
// cuda the buffer must be host memory.
//
// Only bytes travel: that both sides mean the same element type is the program's affair. Of each lane and source,
// tag_receives receives may be posted and not waited for; the call that asks for one more throws invalid_argument, and
// all goes on. (Graphs are not counted when they are captured: a replay that posts too many fails the world.)
//
// Wrong arguments throw, and so does every call once the world has failed (aborted, with the story). How an op ends is
// a value: the host-synchronous forms return its Status, which must be looked at; on a stream, its fault is kept in the
// world (World::check, take_faults, failure).
#pragma once

#include <cstddef>
#include <limits>
#include <memory>

#include "onstream/device.hpp"
#include "onstream/error.hpp"
#include "onstream/layout.hpp"
#include "onstream/path.hpp"

namespace onstream {

struct MessageOptions {
  int tag = 0;
  Path path = Path::automatic;
  // For a call that blocks, or a request that this thread waits for next: the status alone tells if the message was
  // truncated or unmapped. World::check(), finish() and take_faults(), which any thread may call, do not tell it too.
  bool reported_by_wait = false;
};

// The peer of a receive or a probe of the host that takes any rank's message, this rank's own included. A
// number that no program computes by mistake, as it may -1.
constexpr int kAnySource = std::numeric_limits<int>::min();

// One of several messages to be posted together.
struct Outgoing {
  const void* source = nullptr;
  std::size_t bytes = 0;
  int peer = 0;
  MessageOptions options;
};

// A message to be received.
struct Incoming {
  void* destination = nullptr;
  std::size_t bytes = 0;
  int peer = 0;
  MessageOptions options;
};

// A message that lies in a buffer by a layout, to be sent or received.
struct LayoutMessage {
  void* buffer = nullptr;  // of a send it is only read
  Layout layout;
  int peer = 0;
  MessageOptions options;

  std::size_t bytes() const { return layout.bytes(); }
};

// An isend or irecv on its way. It keeps the memory that it needs; the buffer stays the caller's and must live until
// the wait.
class Request;

// A message that has come, or whose sender waits for its receive.
struct Probed {
  int peer = kAnySource;
  int tag = 0;
  std::size_t bytes = 0;
};

// A message that match() found: until irecv() or recv() has taken it, no other receive or probe gets it, and receives
// of its lane in other threads wait. (Those of this thread are refused, as they would wait for themselves; ops on
// streams of a GPU do not wait.) If it is let go of unreceived, it is the next message of its lane again. One thread
// uses it at a time, whichever.
class Matched {
 public:
  virtual ~Matched() = default;
  Matched(const Matched&) = delete;
  Matched& operator=(const Matched&) = delete;
  const Probed& message() const { return message_; }

 protected:
  explicit Matched(const Probed& message) : message_(message) {}

 private:
  const Probed message_;
};

// Both halves of a sendrecv. Wait for the receive first: the peer may wait for its fetch.
struct Exchange {
  std::shared_ptr<Request> sent;
  std::shared_ptr<Request> arriving;
};

// How the halves of a sendrecv ended that followed each other.
struct SendrecvEnds {
  Status sent;
  Status received;
};

}  // namespace onstream
