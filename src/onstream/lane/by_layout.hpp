// Ordered sends and receives of the host device whose buffer lies by a layout: the bodies of all others, over
// LayoutGroup. Large data goes from its places through two chunks that the receiver takes, or straight to a buffer that
// the receiver has offered; and to its places from those chunks, or from memory that this rank can read. Small data is
// packed on the stack, and goes by the ring.
#pragma once

#include "onstream/lane/recv.hpp"
#include "onstream/lane/send.hpp"
#include "onstream/layout.hpp"

namespace onstream::lane {

// The lane's lock is held (queue_lock.hpp). `op.bytes` are the layout's; op.source does not count.
void send_by_layout(Send op, const Layout& layout, const void* buffer);

// As above; op.capacity are the layout's bytes, and the op offers no destination. A message of another size is refused
// as one that is too large, and nothing is written.
void receive_by_layout(Receive op, const Layout& layout, void* buffer);

// A posted receive's message, which lies in `data` without gaps, to its places, if it is of the layout's size. Else
// nothing is written, the fault is reported, and the status is truncated.
Status deliver_by_layout(const WaitView& wait, const LaneView& lane, const Ticket& ticket, const Layout& layout,
                         void* buffer, const void* data);

}  // namespace onstream::lane
