// Mover: how a payload travels between a local buffer and a peer's registered one, and how slots are published behind
// it.
//
// Four ways, by the memory that this rank reaches: its CPU copies (cpu); the system does, process to process
// (remote_process); its GPU does, on one stream of the rank's, and stores the words of the events behind the payload
// (stream); the owner's proxy thread does (proxy). All but stream are done when the call returns. Thread-safe.
#pragma once

#include <deque>
#include <mutex>

#include "buffers.hpp"
#include "events.hpp"

namespace onstream::am {

enum class Way { cpu, remote_process, stream, proxy };
enum class Direction { put, get };

struct Payload {
  Direction direction;
  int rank;  // the peer
  void* local;
  std::uint64_t offset;  // within the peer's buffer
  std::size_t bytes;
};

class Mover {
 public:
  Mover(World& world, const Mailbox& mailbox);
  ~Mover();
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  Way way_of(const Payload& payload, const Target& target) const;
  // For all ways but stream. Throws Refusal, EFAULT, for memory that is not mapped, ECLOSED and EDEAD, and Error.
  void move_now(Way way, const Payload& payload, const Target& target);
  // Way stream: enqueues the copy, and the publishing of the slots. The visit's mapping is kept until that is done.
  void enqueue(const Payload& payload, Visit visit, const Slots& slots);
  // Waits for all that was enqueued.
  void finish();

 private:
  struct Pending {
    const Traffic* traffic;
    std::uint64_t number;
    std::shared_ptr<const void> mapping;
  };
  Window window_of(const Payload& payload, const Target& target) const;
  [[noreturn]] void refuse_the_gone(int rank) const;
  void let_go_of_done();

  World& world_;
  const Mailbox& mailbox_;
  int rank_;
  bool on_host_;
  Stream stream_;
  std::mutex mutex_;  // guards the order of the stream, and the members below
  std::deque<Pending> pending_;
  bool used_ = false;  // the stream has work that nobody has waited for
};

}  // namespace onstream::am
