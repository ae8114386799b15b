// Runtime: shared by the links of one process - the world, the torus, the mailbox; made by all ranks with their first
// link, and ended with the process's last. And Link: a port of it.
//
// Calls keep their Link, and so the Runtime, while they run: a link may be closed by another thread meanwhile.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "buffers.hpp"
#include "events.hpp"
#include "mover.hpp"
#include "torus.hpp"

namespace onstream::am {

class Runtime {
 public:
  Runtime();  // collective
  ~Runtime();

  World& world() const { return *world_; }
  Fabric& fabric() const { return *world_->fabric(); }
  int rank() const { return world_->rank(); }
  int size() const { return world_->size(); }
  const Torus& torus() const { return torus_; }
  const Mailbox& mailbox() const { return mailbox_; }
  Events& events() { return events_; }
  Buffers& buffers() { return buffers_; }
  Mover& mover() { return mover_; }
  // Now, if events tell times; else 0.
  std::uint64_t stamp() const { return stamps_ ? HostGroup::now_ns() : 0; }

  // Takes the lowest free port. Throws Refusal, ENOSPACE.
  am_portid_t open_port();
  void close_port(am_portid_t port);

  void* allocate(std::size_t bytes, MemoryKind kind);
  void free(void* memory);

 private:
  void meet();
  void finish_messages() noexcept;

  std::shared_ptr<World> world_;
  Torus torus_;
  Mailbox mailbox_;
  Events events_;
  Buffers buffers_;
  Mover mover_;
  bool stamps_;
  std::mutex mutex_;                     // guards the members below, and this rank's ports
  std::array<bool, AM_NPORTS> ports_{};  // that a link has
  std::map<void*, std::shared_ptr<Memory>> memories_;
};

class Link {
 public:
  explicit Link(std::shared_ptr<Runtime> runtime);

  Runtime& runtime() const { return *runtime_; }
  am_portid_t port() const { return port_; }
  std::uint64_t generation() const { return generation_; }
  bool closed() const { return closed_.load(std::memory_order_acquire); }
  void close();  // once

 private:
  std::shared_ptr<Runtime> runtime_;
  am_portid_t port_;
  std::uint64_t generation_;
  std::atomic<bool> closed_ = false;
};

// A link of the process's runtime, which is made now, by all ranks, if there is none.
std::shared_ptr<Link> open_link();

// Why the runtime's world has failed, and how to go on by the calls of this interface. Nothing where it has not.
std::optional<std::string> story_of_failure();

}  // namespace onstream::am
