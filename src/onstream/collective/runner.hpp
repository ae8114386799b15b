// Runner: how collectives get onto streams, for whoever owns some: the collectives of a team, or of a neighbourhood.
//
// Those of one order run one after the other, on whichever streams they were enqueued; those of different orders may
// run at once. drain(), and so the destructor, waits for what was enqueued eagerly, bounded: then the world is aborted,
// which makes that work end. So an owner declares it last.
#pragma once

#include <memory>
#include <mutex>

#include "onstream/collective/call.hpp"
#include "onstream/device/streams.hpp"
#include "onstream/device/uses.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::collective {

struct Launching;

struct Order {
  std::mutex mutex;                    // held while a collective is enqueued
  std::shared_ptr<const void> ground;  // what a captured collective needs
  std::shared_ptr<Event> newest;       // behind the newest eager collective
  void* last_stream = nullptr;         // where that was enqueued
};

class Runner {
 public:
  // `owner`: "the world", for the story of an end that comes too early.
  Runner(std::shared_ptr<Fabric> fabric, const char* owner);
  ~Runner() { drain(); }
  void drain() noexcept;
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Throws invalid_argument for a buffer that no collective of this call can take.
  void check_buffer(const CollectiveCall& call, const char* what, const void* address, std::size_t bytes) const;

  StreamPool::Lease lease() { return streams_.lease(); }

  // With the order's mutex held. Calls work() between the collectives of the order.
  template <class Work>
  void enqueue(Order& order, Stream stream, const Work& work) {
    const bool captured = begin(order, stream);
    work();
    end(order, stream, captured);
  }
  void enqueue(Order& order, Stream stream, const Launching& work);
  // Takes the mutex itself. On the host device in this thread, where nothing of the order is under way.
  void run_and_wait(Order& order, const Launching& work);

 private:
  bool begin(Order& order, Stream stream);  // whether it is captured
  void end(Order& order, Stream stream, bool captured);

  std::shared_ptr<Fabric> fabric_;
  std::shared_ptr<Device> device_;
  const char* owner_;
  StreamPool streams_;
  Uses uses_;
};

}  // namespace onstream::collective
