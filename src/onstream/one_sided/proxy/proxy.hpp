// Proxy: a thread of each rank that moves bytes for peers whose kernels cannot address its memory.
//
// Every ordered pair of ranks has two slots in pinned memory of the target: the asking rank claims both, leaves its
// request and the bytes in one, and sets `work`; the target's thread does it and clears `work`, which is both the
// receipt and the slot free again. A transfer of several chunks claims the slots for each two, and takes them in turn,
// so that the asking rank copies one while the target's thread copies the other. A pair on different hosts has its
// slots at the asking rank (remote_slots.hpp). Nothing counts, so a captured request
// means the same at every replay. A rank's own lock, held for no longer than such a claim, keeps its streams from using
// a peer's slots at once. The thread runs while the Proxy lives.
//
// It touches memory that the target has lent (lent_memory.hpp) and nothing else: any other request fails the world,
// with a story that names both ranks and the memory, is not answered, and is the last that the thread looks at.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "onstream/base/quiet_thread.hpp"
#include "onstream/one_sided/kernel/step.hpp"
#include "onstream/one_sided/proxy/lent_memory.hpp"
#include "onstream/one_sided/proxy/remote_slots.hpp"
#include "onstream/one_sided/proxy/request.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::one_sided {

class Proxy {
 public:
  Proxy(Fabric& fabric, std::shared_ptr<Lent> lent);  // collective
  ~Proxy();

  std::size_t slots(int peer) const { return remote(peer) ? RemoteSlots::kSlots : kSlots; }
  // Where this rank asks `peer`, and where the bytes go.
  ProxyRequest* slot(int peer, std::size_t number = 0) const;
  std::byte* data(int peer, std::size_t number = 0) const {
    return reinterpret_cast<std::byte*>(slot(peer, number) + 1);
  }
  std::size_t chunk_bytes(int peer) const {
    return remote(peer) ? std::min(chunk_bytes_, RemoteSlots::kChunkBytes) : chunk_bytes_;
  }
  // The word that becomes 1 behind each request; null: the peer looks at the slots themselves.
  std::uint64_t* asks(int peer) const { return remote(peer) ? remote_->asks(peer) : nullptr; }
  // Comes before ops ask the peer.
  void open(int peer) {
    if (remote(peer)) remote_->open(peer);
  }
  std::uint64_t* lock(int peer) const { return locks_of_peers() + peer; }
  // The memory that steps touch here: for a graph, which may outlive this object.
  std::shared_ptr<const void> memory() const;

 private:
  static constexpr std::size_t kSlots = 2;  // of a pair on one host
  bool remote(int peer) const { return remote_ != nullptr && fabric_.is_remote(peer); }
  std::uint64_t* locks_of_peers() const { return reinterpret_cast<std::uint64_t*>(locks_->data()); }
  void serve();
  bool look();
  void perform(int asker, const ProxyRequest& request, std::byte* data);
  bool perform_remote(int asker, const ProxyRequest& request, std::byte* data);
  // Throws a Refusal for a request that no rank of this library makes. Returns the bytes that the request touches.
  std::size_t checked(const ProxyRequest& request) const;
  void touch(const ProxyRequest& request, std::byte* data, Lent::Where where);
  void change(const ProxyRequest& request, std::byte* data, Lent::Where where);
  void move(void* destination, const void* source, std::size_t bytes, Lent::Where where);

  Fabric& fabric_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<Lent> lent_;
  std::size_t chunk_bytes_;
  std::size_t slot_bytes_;
  std::shared_ptr<Segment> slots_;
  std::shared_ptr<Memory> locks_;  // one word a peer
  Stream stream_;                  // of the thread's copies to and from device memory
  std::atomic<bool> stopping_ = false;
  std::unique_ptr<RemoteSlots> remote_;  // in a world of several hosts
  std::thread thread_;                   // none without other ranks on this host
};

}  // namespace onstream::one_sided
