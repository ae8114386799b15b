// Proxy: a thread of each rank that moves bytes for peers whose kernels cannot address its memory.
//
// Every ordered pair of ranks has two slots in pinned memory of the target: the asking rank claims both, leaves its
// request and the bytes in one, and sets `work`; the target's thread does it and clears `work`, which is both the
// receipt and the slot free again. A transfer of several chunks claims the slots for each two, and takes them in turn,
// so that the asking rank copies one while the target's thread copies the other. Nothing counts, so a captured request
// means the same at every replay. A rank's own lock, held for no longer than such a claim, keeps its streams from using
// a peer's slots at once. The thread runs while the Proxy lives.
//
// It touches memory that the target has lent (lent_memory.hpp) and nothing else: any other request fails the world,
// with a story that names both ranks and the memory, is not answered, and is the last that the thread looks at.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "onstream/base/quiet_thread.hpp"
#include "onstream/one_sided/kernel/step.hpp"
#include "onstream/one_sided/proxy/lent_memory.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::one_sided {

enum class ProxyWork : std::uint64_t { none = 0, put, get, store, add, atomic };

// Written by the asking rank; `work` last, and cleared by the target.
struct alignas(64) ProxyRequest {
  std::uint64_t work = 0;     // asked() for
  std::uint64_t address = 0;  // in the target's address space
  std::uint64_t bytes = 0;    // of a put or get; the width of a store or add; packed() of an atomic
  std::uint64_t value = 0;    // of a store, add or atomic
};

// A ProxyWork, and the entry of the target's Lent that it is for: one word, as the cost of a request is its words.
constexpr std::uint64_t asked(ProxyWork work, LentId id) { return id << 8 | static_cast<std::uint64_t>(work); }
constexpr ProxyWork work_of(std::uint64_t asked) { return static_cast<ProxyWork>(asked & 0xff); }
constexpr LentId lent_of(std::uint64_t asked) { return asked >> 8; }

// An atomic's op and width. Its expected value comes, and its old value goes, where bytes do.
constexpr std::uint64_t packed(AtomicOp op, std::size_t width) { return static_cast<std::uint64_t>(op) << 8 | width; }
constexpr AtomicOp op_of(std::uint64_t packed) { return static_cast<AtomicOp>(packed >> 8); }
constexpr std::uint8_t width_of(std::uint64_t packed) { return static_cast<std::uint8_t>(packed); }

class Proxy {
 public:
  Proxy(Fabric& fabric, std::shared_ptr<Lent> lent);  // collective
  ~Proxy();

  static constexpr std::size_t kSlots = 2;

  // Where this rank asks `peer`, and where the bytes go.
  ProxyRequest* slot(int peer, std::size_t number = 0) const;
  std::byte* data(int peer, std::size_t number = 0) const {
    return reinterpret_cast<std::byte*>(slot(peer, number) + 1);
  }
  std::size_t chunk_bytes() const { return chunk_bytes_; }
  std::uint64_t* lock(int peer) const { return locks_of_peers() + peer; }
  // The memory that steps touch here: for a graph, which may outlive this object.
  std::shared_ptr<const void> memory() const { return std::make_shared<const Memories>(slots_, locks_); }

 private:
  using Memories = std::pair<std::shared_ptr<Segment>, std::shared_ptr<Memory>>;
  std::uint64_t* locks_of_peers() const { return reinterpret_cast<std::uint64_t*>(locks_->data()); }
  void serve();
  bool look();
  void perform(int asker, const ProxyRequest& request, std::byte* data);
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
  std::thread thread_;
};

}  // namespace onstream::one_sided
