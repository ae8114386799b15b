// A send and a receive as one op: side by side in one kernel where the device can, else posted both and waited for.
#include <array>

#include "onstream/lane/kernels.hpp"
#include "onstream/lane/send_receive.hpp"
#include "onstream/message/engine.hpp"

namespace onstream {

void MessageEngine::check_both(const Outgoing& out, const Incoming& in) {
  check_arguments("sendrecv", out.source, out.bytes, out.peer, out.options);
  check_arguments("sendrecv", in.destination, in.bytes, in.peer, in.options);
  const auto source = reinterpret_cast<std::uintptr_t>(out.source);
  const auto destination = reinterpret_cast<std::uintptr_t>(in.destination);
  const bool apart = source < destination ? out.bytes <= destination - source : in.bytes <= source - destination;
  require(apart || out.bytes == 0 || in.bytes == 0, "the buffers of a ", text_of(out, in),
          " overlap: what arrives would change what is sent; receive into other memory");
  fabric_->check([&] { return text_of(out, in); });
}

void MessageEngine::sendrecv(const Outgoing& out, const Incoming& in, Stream stream) {
  check_both(out, in);
  sendrecv_unchecked(out, in, stream);
}

void MessageEngine::sendrecv_unchecked(const Outgoing& out, const Incoming& in, Stream stream) {
  if (!on_host_ && side_by_side(out, in, stream)) return;
  // All refusals come before anything is posted.
  SendRoute route = route_send(out, lane::Completion::posted);
  const RecvRoute from = route_recv(in, lane::Completion::posted);
  copy_small(route, out, Moment::on_stream, stream);
  const auto arriving = request_for(in);
  const auto sent = request_for(out);
  irecv_by(from, arriving, in.destination, Outstanding::Next::on_stream, stream);
  isend_by(route, sent, out.source, stream);
  const std::array requests = {arriving, sent};  // the receive first: the peer may wait for its fetch
  wait_all(requests, stream);
}

Exchange MessageEngine::isendrecv(const Outgoing& out, const Incoming& in) {
  check_both(out, in);
  require_not_nested(out, in);
  // All refusals come before anything is posted.
  SendRoute route = route_send(out, lane::Completion::posted);
  const RecvRoute from = route_recv(in, lane::Completion::posted);
  Exchange both{request_for(out), request_for(in)};
  irecv_by(from, both.arriving, in.destination);  // first: a full ring may need it to go on
  isend_by(std::move(route), both.sent, out);
  return both;
}

// A small send that finds room in its tag's ring ends at once, so the receive may follow it: nothing needs to be
// posted.
std::optional<SendrecvEnds> MessageEngine::sendrecv_ahead(const Outgoing& out, const Incoming& in,
                                                          std::size_t* received) {
  if (!on_host_) return std::nullopt;
  check_both(out, in);
  require_not_nested(out, in);
  // A receive is refused before anything is sent: for its buffer here, for those posted before it by the longer way.
  if (!outstanding_.none(queue_of(in.peer, in.options.tag))) return std::nullopt;
  (void)route_recv(in, lane::Completion::ordered);
  const std::optional<Status> sent = send_ahead(out);
  if (!sent) return std::nullopt;
  return SendrecvEnds{*sent, recv(in, received)};
}

Status MessageEngine::sendrecv(const Outgoing& out, const Incoming& in, std::size_t* received) {
  if (const auto ends = sendrecv_ahead(out, in, received))
    return ends->sent != Status::ok ? ends->sent : ends->received;
  const Exchange both = isendrecv(out, in);
  const Status recv_status = wait(both.arriving);
  const Status send_status = wait(both.sent);
  if (received != nullptr) *received = both.arriving->received;
  return send_status != Status::ok ? send_status : recv_status;
}

// False if it takes more than one kernel: a buffer that kernels cannot touch, or no room for the blocks of both.
bool MessageEngine::side_by_side(const Outgoing& out, const Incoming& in, Stream stream) {
  SendRoute to = route_send(out, lane::Completion::ordered);
  RecvRoute from = route_recv(in, lane::Completion::ordered);
  const bool copies = to.copy_first || from.bounce != nullptr || !grids_.side_by_side();
  if (copies) {
    if (to.bounce != nullptr) bounces_->give_back(std::move(to.bounce));
    if (from.bounce != nullptr) bounces_->give_back(std::move(from.bounce));
    return false;
  }
  lane::SendReceive body;
  body.send = send_body(to, out.bytes, view(out.peer, out.options.tag), lane::Completion::ordered);
  body.receive = receive_body(from, in.bytes, view(in.peer, in.options.tag));
  pass_posted(in.peer, in.options, stream);
  CopyThread::CopierLease lease;
  if (to.copy_engine) lease = fabric_->copies().take(to.copy_lead);
  body.send.copier = lease.copier();
  if (to.prefetch) prefetch(out.source, out.bytes, stream);
  if (from.prefetch) prefetch(in.destination, in.bytes, stream);
  const Grid grid = grids_.exchange(body);
  launch(*device_, lane::exchange_kernel(), body, grid, stream);
  lease.give_back(stream);
  if (to.bounce != nullptr) bounces_->give_back(std::move(to.bounce), stream);
  note_use(stream, {&out, 1}, {&in, 1});
  return true;
}

}  // namespace onstream
