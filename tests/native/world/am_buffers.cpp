// The buffers of am (compat/am): the fate of a row whose link is closed while an event of it is taken.
#include "buffers.hpp"

#include "refusal.hpp"
#include "support/check.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::am;
using namespace onstream::test;

namespace {

constexpr std::size_t kBytes = 64;

// The event that the sender of a message posts for the streaming buffer that it takes.
Told take(Buffers& buffers, am_portid_t port) {
  const std::optional<Visit> visit = buffers.take_streaming(0, port, kBytes);
  CHECK(visit.has_value());
  Told told;
  told.type = AM_TYPE_RECV;
  told.row = visit->target().row + 1;
  told.registration = visit->target().state >> kStateBits;
  return told;
}

}  // namespace

CASE(an_event_of_a_closed_link_ends_no_registration_of_another_one) {
  Parameters parameters = quick("host");
  run_ranks(1, parameters, [](World& world) {
    const Mailbox mailbox(*world.fabric(), 16, 4);
    Buffers buffers(world, mailbox);
    TestBuffer first(world, kBytes);
    TestBuffer second(world, kBytes);
    const am::Registration one{1, first.data(), kBytes, AM_STREAMING_BUF};
    const am::Registration other{2, second.data(), kBytes, AM_STREAMING_BUF};
    buffers.add(one, 0);
    const Told late = take(buffers, 1);
    buffers.remove_all(1);  // the link is closed; a thread has the event, and has not looked at the buffer yet
    buffers.add(other, 0);
    const Told next = take(buffers, 2);
    CHECK(next.row == late.row);
    buffers.end_streaming(late);
    buffers.post_again(late);
    CHECK(buffers.holds(second.data(), kBytes));
    CHECK_THROWS(buffers.remove(other), "was taken by a message");
    buffers.end_streaming(next);
    CHECK(!buffers.holds(second.data(), kBytes));
    CHECK_THROWS(buffers.remove(other), "is registered by this link");
  });
}

int main(int argc, char** argv) { return run(argc, argv); }
