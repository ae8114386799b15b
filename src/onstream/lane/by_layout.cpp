#include "onstream/lane/by_layout.hpp"

#include "onstream/lane/host/layout_group.hpp"

namespace onstream::lane {

namespace {

const HostGroup kCaller(0, 1);

// Up to so many bytes a copy that the nearest cache holds costs less than a walk by the ring's units.
constexpr std::uint64_t kFew = 4096;
static_assert(kFew >= kMostFlagged);  // those the ring takes by words

// Where the message comes to memory without gaps first: it is small, or posted receives are to be taken before it,
// which other threads may do.
void receive_beside(Receive op, const Layout& layout, void* buffer) {
  std::byte few[kFew];
  const std::uint64_t capacity = op.capacity;
  std::unique_ptr<std::byte[]> many;
  if (capacity > kFew) many = std::make_unique_for_overwrite<std::byte[]>(capacity);
  std::byte* const data = many != nullptr ? many.get() : few;
  const Ticket ticket = op.ticket;
  std::uint64_t status = static_cast<std::uint64_t>(Status::pending);
  std::uint64_t received = 0;
  op.destination = data;
  op.ticket = {ticket.numbered, &status, &received, ticket.use};
  op(kCaller);
  auto ended = static_cast<Status>(status);
  if (ended == Status::ok) ended = deliver_by_layout(op.wait, op.lane, op.ticket, layout, buffer, data);
  settle(kCaller, ticket, ended, received);
}

}  // namespace

void send_by_layout(Send op, const Layout& layout, const void* buffer) {
  std::byte few[kFew];
  if (op.bytes <= kFew) {
    gather(few, buffer, layout);
    op.source = few;
    return op(kCaller);
  }
  op.source = LayoutGroup::data();
  op(LayoutGroup(layout, static_cast<std::byte*>(const_cast<void*>(buffer))));
}

void receive_by_layout(Receive op, const Layout& layout, void* buffer) {
  Receive::Counters now;
  if (op.capacity <= kFew || !op.counters(kCaller, now)) return receive_beside(op, layout, buffer);
  op.destination = LayoutGroup::data();
  op(LayoutGroup(layout, static_cast<std::byte*>(buffer)));
}

Status deliver_by_layout(const WaitView& wait, const LaneView& lane, const Ticket& ticket, const Layout& layout,
                         void* buffer, const void* data) {
  const std::uint64_t received = HostGroup::load_relaxed(ticket.received);
  const std::uint64_t bytes = layout.bytes();
  if (received == bytes) {
    scatter(buffer, data, layout);
    return Status::ok;
  }
  constexpr bool kSenderHears = false;
  report(kCaller, wait, Status::truncated,
         of_ticket(recv_fault(lane, kSenderHears, Status::truncated, bytes, received), ticket));
  return Status::truncated;
}

}  // namespace onstream::lane
