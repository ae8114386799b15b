// Request: an isend or irecv on its way, as Messages sees it. Users hold it as an opaque handle.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "onstream/message/tickets.hpp"
#include "onstream/plan/lane.hpp"

namespace onstream {

class Request {
 public:
  OpKind kind = OpKind::none;
  lane::View lane;
  Tickets::Slot slot;
  std::size_t bytes = 0;
  bool captured = false;           // lives in a graph: its ticket is never used again by others
  std::shared_ptr<Memory> bounce;  // stands in for a buffer that kernels or peers cannot reach
  void* copy_back = nullptr;       // irecv through a bounce buffer: where the data finally goes
  std::optional<Status> result;    // once the host has collected it
  std::size_t received = 0;
  std::shared_ptr<Event> last_wait;  // behind the newest wait on a stream
  std::uint64_t order = 0;           // among the requests of its Messages
  std::uint64_t owner = 0;           // the Messages that made it
  std::shared_ptr<Tickets> tickets;  // where the slot goes back

  Request() = default;
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  ~Request() {
    if (tickets != nullptr && !captured) tickets->give_back(slot, std::move(last_wait));
  }
};

}  // namespace onstream
