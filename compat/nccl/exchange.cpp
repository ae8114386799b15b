// A group's messages of one communicator, started together.
//
// World::exchange does that, on a GPU in one launch for up to seven peers; a message alone is one too. So no order of
// the calls, on any rank, makes one wait for another that has not started. A tag takes a limited number of posted
// receives, so many messages go in turns of that number for each peer: the n-th message of a pair is in the same turn
// on both sides.
//
// Messages between two ranks match in the order of the calls, whichever streams they are on: a later message on another
// stream waits for the earlier ones, outside of captures.
#include <algorithm>
#include <array>
#include <vector>

#include "call.hpp"
#include "onstream/base/error.hpp"
#include "onstream/transport/buffer.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::nccl {

namespace {

constexpr int kTurn = 48;  // messages of a pair; fewer than tag_receives, and they fit the ring where they are tiny

Outgoing outgoing(const Call& op) { return {op.input, op.bytes(), op.other, {}}; }
Incoming incoming(const Call& op) { return {op.output, op.bytes(), op.other, {}}; }

// Puts the next messages behind those enqueued before on another stream, outside of captures.
void follow_messages(ncclComm& comm, Stream stream) {
  Device& device = comm.world->device();
  if (device.capturing(stream)) return;
  if (comm.has_messages && comm.last_stream != stream.handle) {
    for (const auto& event : comm.world->unfinished()) device.wait(stream, event);
  }
  comm.has_messages = true;
  comm.last_stream = stream.handle;
}

// Calls function(send, receive) for the n-th send of a rank to itself and its n-th receive from itself; null where one
// of the two is missing.
template <class Function>
void for_each_own(const ncclComm& comm, std::span<const Call> messages, const Function& function) {
  std::size_t sends = 0;
  std::size_t receives = 0;
  const auto next = [&](std::size_t& at, OpKind kind) -> const Call* {
    while (at < messages.size() && (messages[at].other != comm.rank || messages[at].kind != kind)) ++at;
    return at < messages.size() ? &messages[at++] : nullptr;
  };
  for (;;) {
    const Call* const send = next(sends, OpKind::send);
    const Call* const receive = next(receives, OpKind::recv);
    if (send == nullptr && receive == nullptr) return;
    function(send, receive);
  }
}

void check_own(const ncclComm& comm, std::span<const Call> messages) {
  const Device& device = comm.world->device();
  for_each_own(comm, messages, [&](const Call* send, const Call* receive) {
    if (receive == nullptr) {
      refuse(ncclInvalidUsage, "rank ", comm.rank, " sends ", send->bytes(),
             " B to itself, and there is no receive for them in the same group");
    }
    if (send == nullptr) {
      refuse(ncclInvalidUsage, "rank ", comm.rank, " receives ", receive->bytes(),
             " B from itself, and there is no send for them in the same group");
    }
    if (receive->bytes() < send->bytes()) {
      refuse(ncclInvalidUsage, "rank ", comm.rank, " sends ", send->bytes(), " B to itself, and its receive takes ",
             receive->bytes(), " B");
    }
    if (send->bytes() == 0) return;
    (void)look_at_buffer(device, send->input, send->bytes());
    (void)look_at_buffer(device, receive->output, send->bytes());
  });
}

void copy_own(ncclComm& comm, std::span<const Call> messages, Stream stream) {
  for_each_own(comm, messages, [&](const Call* send, const Call* receive) {
    if (send->bytes() == 0 || send->input == receive->output) return;
    comm.world->device().copy(receive->output, send->input, send->bytes(), stream);
  });
}

// Which of the messages, other than to this rank itself, are in a turn.
class Turns {
 public:
  Turns(const ncclComm& comm, std::span<const Call> messages) : own_(comm.rank), messages_(messages) {
    counts_.resize(2 * static_cast<std::size_t>(comm.size));
    most_ = static_cast<int>(std::min<std::int64_t>(kTurn, comm.world->fabric()->parameters().tag_receives));
  }

  bool several() {
    std::ranges::fill(counts_, 0);
    for (const Call& op : messages_) {
      if (op.other != own_ && ++count_of(op) > most_) return true;
    }
    return false;
  }

  // The messages of the next turn; false if there is none.
  bool next(std::vector<Incoming>& in, std::vector<Outgoing>& out) {
    in.clear();
    out.clear();
    std::ranges::fill(counts_, 0);
    for (const Call& op : messages_) {
      if (op.other == own_) continue;
      if (count_of(op)++ / most_ != turn_) continue;
      if (op.kind == OpKind::send) {
        out.push_back(outgoing(op));
      } else {
        in.push_back(incoming(op));
      }
    }
    ++turn_;
    return !in.empty() || !out.empty();
  }

 private:
  int& count_of(const Call& op) {
    return counts_[2 * static_cast<std::size_t>(op.other) + (op.kind == OpKind::send ? 0 : 1)];
  }

  int own_;
  std::span<const Call> messages_;
  std::vector<int> counts_;
  int most_ = kTurn;  // of a pair and direction in one turn; the same on every rank
  int turn_ = 0;
};

// An exchange refuses impossible messages before it starts; so with several turns, all are checked before the first,
// and this rank's messages to itself are copied behind.
void exchange_all(ncclComm& comm, std::span<const Call> messages, Stream stream) {
  check_own(comm, messages);
  Turns turns(comm, messages);
  if (turns.several()) check_messages(comm, messages);
  std::vector<Incoming> in;
  std::vector<Outgoing> out;
  while (turns.next(in, out)) comm.world->exchange(out, in, stream);
  copy_own(comm, messages, stream);
}

void run_one(ncclComm& comm, const Call& op, Stream stream) {
  if (op.kind == OpKind::send) return comm.world->send(op.input, op.bytes(), op.other, {}, stream);
  comm.world->recv(op.output, op.bytes(), op.other, {}, stream);
}

}  // namespace

void check_messages(ncclComm& comm, std::span<const Call> messages) {
  check_own(comm, messages);
  std::vector<Incoming> in;
  std::vector<Outgoing> out;
  for (const Call& op : messages) {
    if (op.other == comm.rank) continue;
    if (op.kind == OpKind::send) {
      out.push_back(outgoing(op));
    } else {
      in.push_back(incoming(op));
    }
  }
  comm.world->check_exchange(out, in);
}

void exchange_messages(ncclComm& comm, std::span<const Call> messages, Stream stream) {
  follow_messages(comm, stream);
  const Call& first = messages.front();
  if (messages.size() == 1 && first.other != comm.rank) return run_one(comm, first, stream);
  const bool pair = messages.size() == 2 && first.kind != messages[1].kind && first.other != comm.rank &&
                    messages[1].other != comm.rank;
  if (!pair) return exchange_all(comm, messages, stream);
  const Call& second = messages[1];
  const std::array out{outgoing(first.kind == OpKind::send ? first : second)};
  const std::array in{incoming(first.kind == OpKind::send ? second : first)};
  comm.world->exchange(out, in, stream);  // which has nothing against one buffer for both
}

}  // namespace onstream::nccl
