// Routes: how one message's bytes will travel, decided when it is enqueued from the properties of its buffer.
//
// Sender and receiver decide alone; the protocol (lane/memory/lane.hpp) makes every pair of decisions meet.
#pragma once

#include <cstddef>
#include <memory>

#include "onstream/lane/lanes.hpp"
#include "onstream/lane/send.hpp"
#include "onstream/message/bounce.hpp"
#include "onstream/message/message.hpp"
#include "onstream/path/choose.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream {

struct SendRoute {
  const void* source = nullptr;  // the kernel reads it: the buffer, or `bounce`
  std::uint64_t ring_max = 0;
  std::uint64_t offer_min = 0;
  std::uint64_t peer_source = 0;      // of `source`
  std::uint64_t attached_source = 0;  // of the buffer itself, if `source` is a bounce buffer that could be spared
  lane::Header announce = lane::Header::push;
  std::shared_ptr<Memory> bounce;  // a copy of the whole buffer, or the two chunks of a staged send
  bool copy_first = false;         // the buffer is to be copied to `bounce` before the op
  std::uint64_t peer_bounce = 0;   // of a staged send
  bool copy_engine = false;
  std::uint64_t copy_lead = 0;  // of it, the first bytes that the kernel writes itself
  bool prefetch = false;        // the buffer's pages shall be on the device
  bool plain = false;           // a message of the ring out of plain host memory
  bool spread = false;          // by several blocks through the ring (lane/spread.hpp)
};

struct RecvRoute {
  void* destination = nullptr;  // the kernel writes it: the buffer, or `bounce`
  std::uint64_t offer_min = 0;
  std::uint64_t peer_destination = 0;
  std::shared_ptr<Memory> bounce;  // to be copied to the buffer after the op
  bool prefetch = false;           // the buffer's pages shall be on the device
  bool spread = false;             // a message that fills the buffer comes by several blocks through the ring
};

class Router {
 public:
  Router(Fabric& fabric, const Lanes& lanes, BouncePool& bounces);

  // First. Throws for a forced path that cannot carry so many bytes, wherever they go: invalid_argument, or unsupported
  // where it carries no message at all.
  void check_size(std::size_t bytes, int peer, int lane, Path path) const {
    (void)ring_max(effective(path), bytes, peer, lane, 0);
  }
  // Whether a message that is small enough goes through the ring, and may do so by several blocks. Beside it, it goes
  // as a larger one does.
  enum class RingUse { through, by_one_block, beside };
  // Throw invalid_argument for memory of another device, unmapped memory, or a forced path that does not reach the
  // peer's. On the host device, plain memory of a message that the ring carries is not checked.
  SendRoute send(const Outgoing& message, lane::Completion completion, RingUse ring);
  // Of an ordered send of the host device to a rank of this host, whose op packs the data as it goes. `message` has the
  // layout's bytes; its source does not count.
  SendRoute send_by_layout(const Outgoing& message);
  RecvRoute recv(const Incoming& message, lane::Completion completion, RingUse ring);
  // The path that a send would take now, and why: one line a rule. Throws as send() does for its arguments.
  std::string explain(const Outgoing& message) const;
  // Which sends may end before their receives begin, for stories of a failure.
  Ahead ahead() const;

  // The path was not asked for, so that it may be changed.
  // The largest message that goes through the ring of a tag, ordered and posted.
  std::size_t most_ahead(int tag) const {
    return std::min<std::size_t>(std::min(ll_max_, posted_ll_max_), lanes_.ring_capacity(tag));
  }
  bool may_choose(Path path) const { return effective(path) == Path::automatic; }
  std::size_t chunk_bytes() const { return chunk_bytes_; }

 private:
  std::uint64_t ring_max(Path path, std::size_t bytes, int peer, int lane, std::size_t ll_max) const;
  std::uint64_t network_ring_max(Path path, std::size_t bytes, int peer, int lane, std::size_t ll_max) const;
  std::uint64_t offer_min(Path path, int lane, lane::Completion completion) const;
  bool spreads(Path path, std::size_t bytes, int lane, lane::Completion completion, RingUse ring) const;
  Path effective(Path path) const;
  std::string explain_network(const Outgoing& message) const;
  path::Transfer transfer_of(const SendRoute& route, const Outgoing& message, MemoryKind kind,
                             lane::Completion completion) const;
  void share(SendRoute& route, std::size_t bytes, int peer, Path way);
  void stage(SendRoute& route, std::size_t bytes, int peer, Path path, lane::Completion completion);
  std::uint64_t reach(const void* address, std::size_t bytes, int peer, const MemoryInfo& info) const;

  Fabric& fabric_;
  const Lanes& lanes_;
  BouncePool& bounces_;
  Path default_path_;
  bool on_host_;
  bool prefetch_;
  std::size_t ll_max_;
  std::size_t posted_ll_max_;
  const path::Rule* spread_;  // by which messages are spread; null: none are
  std::size_t spread_max_;
  std::size_t offer_min_;
  std::size_t chunk_bytes_;
  std::size_t copy_lead_;
};

}  // namespace onstream
