// am_wait_event: the next event of a link, told in the program's terms.
//
// Peers that have left end a wait only where no message of this rank's own is under way to the port.
#include "handles.hpp"
#include "onstream/kernel.hpp"
#include "refusal.hpp"

using namespace onstream;
using namespace onstream::am;

namespace {

void tell(const Torus& torus, const Told& told, am_event_t* event) {
  *event = {};
  event->ev_type = static_cast<am_type_t>(told.type);
  const ape_net_address_t node = torus.address_of(static_cast<int>(told.rank));
  const auto data = static_cast<int>(static_cast<std::uint32_t>(told.data));
  const auto port = static_cast<am_portid_t>(told.port);
  auto* const buffer = reinterpret_cast<void*>(told.buffer);
  switch (event->ev_type) {
    case AM_TYPE_NONE: break;
    case AM_TYPE_RECV:
      event->ev.ev_recv = {data, node, port, told.address, buffer, told.buffer_bytes, told.bytes, told.context};
      break;
    case AM_TYPE_SENT: event->ev.ev_sent = {data, node, port, told.bytes, told.address, told.context}; break;
    case AM_TYPE_GET: event->ev.ev_get = {node, buffer, told.bytes, told.address, told.context}; break;
  }
}

bool take(const Link& link, am_event_t* event) {
  Runtime& runtime = link.runtime();
  Told told;
  do {
    if (!runtime.events().take(link.port(), link.generation(), &told)) return false;
    if (told.type == AM_TYPE_NONE) runtime.buffers().post_again(told);
  } while (told.type == AM_TYPE_NONE);
  if (told.row != 0) runtime.buffers().end_streaming(told);
  tell(runtime.torus(), told, event);
  event->times = {told.entered_ns, told.copied_ns, told.posted_ns, runtime.stamp()};
  return true;
}

// How the wait for an event ended that has not come.
int in_vain(const Link& link, Status status, int timeout_ms) {
  Fabric& fabric = link.runtime().fabric();
  accept_if(!link.closed(), APELINK_ECLOSED, "the link was closed by another thread");
  fabric.check();
  if (status == Status::timeout) {
    accept_if(timeout_ms >= 0, APELINK_ETIMEOUT, "no event has come within ", fabric.parameters().timeout_s,
              " s (parameter timeout_s)");
    return APELINK_WOULDBLOCK;
  }
  accept_if(!fabric.has_left(-1), APELINK_ECLOSED,
            "every other rank has closed its links, and no event of theirs is left");
  refuse(APELINK_ESYSTEM, "the wait was interrupted");
}

int wait(const Link& link, am_event_t* event, int timeout_ms) {
  if (take(link, event)) return APELINK_SUCCESS;
  Fabric& fabric = link.runtime().fabric();
  fabric.check();
  if (timeout_ms == 0) {
    if (!fabric.has_left(-1)) return APELINK_WOULDBLOCK;
    const bool under_way = link.runtime().events().expects_own(link.port());
    if (take(link, event)) return APELINK_SUCCESS;  // all of the others' came before that
    return under_way ? APELINK_WOULDBLOCK : in_vain(link, Status::aborted, timeout_ms);
  }
  WaitView view = fabric.wait_view();
  view.faults = nullptr;
  constexpr std::uint64_t kMs = 1000000;
  if (timeout_ms > 0) view.timeout_ns = static_cast<std::uint64_t>(timeout_ms) * kMs;
  bool came = false;
  const auto ready = [&] {
    came = take(link, event);
    return came || link.closed();
  };
  Status status = wait_for_peer(HostGroup(0, 1), view, one_sided::kAnyRank, ready);
  if (status == Status::aborted && fabric.has_left(-1)) {
    status = wait_for_self(HostGroup(0, 1), view, [&] {
      const bool under_way = link.runtime().events().expects_own(link.port());
      return ready() || !under_way;
    });
    if (status == Status::ok && !came) status = Status::aborted;
  }
  return came ? APELINK_SUCCESS : in_vain(link, status, timeout_ms);
}

}  // namespace

int am_wait_event(apelink_t handle, am_event_t* event, int timeout) {
  return guarded("am_wait_event", [&] {
    const std::shared_ptr<Link> link = link_of(handle);
    accept_if(event != nullptr, APELINK_EINVAL, "the event's address is null");
    return wait(*link, event, timeout);
  });
}
