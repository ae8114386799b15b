// StackTicket: the ticket of a host call that ends before it returns, on its stack.
#pragma once

#include <cstdint>

#include "onstream/lane/memory/lane.hpp"
#include "onstream/message.hpp"

namespace onstream {

struct StackTicket {
  lane::Numbered numbered;
  std::uint64_t status = static_cast<std::uint64_t>(Status::pending);
  std::uint64_t received = 0;
  lane::Ticket ticket(const MessageOptions& options) {
    return {&numbered, &status, &received, 1 | (options.reported_by_wait ? lane::kOwed : 0)};
  }
};

}  // namespace onstream
