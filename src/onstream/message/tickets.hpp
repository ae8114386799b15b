// Tickets: where an op with a request says how it ended. A pool, since ops must not allocate.
//
// A ticket's message number and crew lie in device memory, its status and size in pinned memory where the host looks.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "onstream/device/device.hpp"
#include "onstream/plan/lane.hpp"

namespace onstream {

class Tickets {
 public:
  struct Slot {
    lane::Ticket ticket;
    lane::Crew* crew = nullptr;
  };

  explicit Tickets(std::shared_ptr<Device> device);

  // A pending ticket. Grows the pool when it is empty, which allocates.
  Slot take();
  // Back into the pool, once its op has settled it and `last_wait`, if there is one, is done; then lets go of
  // `with_it`. A graph that it was in must be over.
  void give_back(const Slot& slot, std::shared_ptr<Event> last_wait, std::shared_ptr<const void> with_it);

 private:
  void grow();
  void reclaim();

  std::shared_ptr<Device> device_;
  std::mutex mutex_;
  std::vector<Slot> free_;
  struct Busy {
    Slot slot;
    std::shared_ptr<Event> last_wait;
    std::shared_ptr<const void> with_it;
  };
  static bool free_again(const Busy& busy);

  std::vector<Busy> busy_;  // given back while an op or a wait on them was still on its way
  std::vector<std::shared_ptr<Memory>> memory_;
};

}  // namespace onstream
