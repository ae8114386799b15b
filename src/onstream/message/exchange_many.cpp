// Several messages of both directions as one op: in one kernel where the device can, those of one lane and direction
// after each other, else all posted, the receives first, and waited for.
#include <algorithm>
#include <array>
#include <utility>

#include "onstream/lane/kernels.hpp"
#include "onstream/lane/send_receive.hpp"
#include "onstream/message/engine.hpp"

namespace onstream {

namespace {

template <class Message>
bool share_a_lane(const Message& one, const Message& other) {
  return other.peer == one.peer && other.options.tag == one.options.tag;
}

// The messages with those of one lane together, each lane's in their order.
template <std::size_t kMost, class Message>
std::array<const Message*, kMost> by_lane(std::span<const Message> messages) {
  std::array<const Message*, kMost> sorted{};
  const auto queue = [](const Message& one) { return std::pair(one.peer, one.options.tag); };
  for (std::size_t count = 0; count < messages.size(); ++count) {
    std::size_t place = count;
    for (; place > 0 && queue(messages[count]) < queue(*sorted[place - 1]); --place) sorted[place] = sorted[place - 1];
    sorted[place] = &messages[count];
  }
  return sorted;
}

template <int kMost>
const Kernel& kernel_of(bool small) {
  if constexpr (kMost == lane::kFew) return small ? lane::exchange_few_small_kernel() : lane::exchange_few_kernel();
  return small ? lane::exchange_many_small_kernel() : lane::exchange_many_kernel();
}

// Adds the chains of messages that are sorted by lane. Returns how many.
template <class Message>
std::int32_t add_chains(std::span<const Message* const> sorted, lane::Chain* chains) {
  std::int32_t count = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i + 1 < sorted.size() && share_a_lane(*sorted[i], *sorted[i + 1])) continue;
    chains[count++].messages = static_cast<std::int16_t>(i + 1);
  }
  return count;
}

}  // namespace

void MessageEngine::exchange(std::span<const Outgoing> out, std::span<const Incoming> in, Stream stream) {
  for (const Outgoing& one : out) check_arguments("exchange", one.source, one.bytes, one.peer, one.options);
  for (const Incoming& one : in) check_arguments("exchange", one.destination, one.bytes, one.peer, one.options);
  fabric_->check([&] { return concat("an exchange of ", out.size(), " sends and ", in.size(), " receives"); });
  if (out.empty() && in.empty()) return;
  if (out.size() == 1 && in.size() == 1) return sendrecv_unchecked(out.front(), in.front(), stream);
  const std::size_t most = std::max(out.size(), in.size());
  const bool fits =
      !on_host_ && out.size() + in.size() <= static_cast<std::size_t>(grids_.most_blocks()) && most <= lane::kMany;
  if (fits && most <= lane::kFew && side_by_side<lane::kFew>(out, in, stream)) return;
  if (fits && most > lane::kFew && side_by_side<lane::kMany>(out, in, stream)) return;
  // All refusals come before anything is posted.
  const std::vector<SendRoute> to = route_sends(out);
  const std::vector<RecvRoute> from = route_receives(in);
  require_room("exchange", in, stream);
  std::vector<std::shared_ptr<Request>> requests;
  requests.reserve(in.size() + out.size());
  for (const Incoming& one : in) requests.push_back(request_for(one));
  for (const Outgoing& one : out) requests.push_back(request_for(one));
  for (std::size_t i = 0; i < in.size(); ++i) {
    irecv_by(from[i], requests[i], in[i].destination, Outstanding::Next::on_stream, stream);
  }
  isend_all_by(to, out, std::span(requests).subspan(in.size()), stream);
  wait_all(requests, stream);
}

// Makes the routes and drops them: exchange() makes them again.
void MessageEngine::check_exchange(std::span<const Outgoing> out, std::span<const Incoming> in) {
  fabric_->check([&] { return concat("an exchange of ", out.size(), " sends and ", in.size(), " receives"); });
  const auto let_go = [this](auto&& route) {
    if (route.bounce != nullptr) bounces_->give_back(std::move(route.bounce));
  };
  for (const Outgoing& one : out) let_go(route_send(one, lane::Completion::ordered));
  for (const Incoming& one : in) {
    let_go(route_recv(one, lane::Completion::ordered));
  }
}

// Throws as one of the receives would.
std::vector<RecvRoute> MessageEngine::route_receives(std::span<const Incoming> messages) {
  std::vector<RecvRoute> routes;
  routes.reserve(messages.size());
  for (const Incoming& message : messages) routes.push_back(route_recv(message, lane::Completion::posted));
  return routes;
}

// Throws if lanes have no room for the receives of a list. Replays are not counted.
void MessageEngine::require_room(const char* what, std::span<const Incoming> messages, Stream stream) {
  if (device_->capturing(stream)) return;
  for (const Incoming& one : messages) {
    const auto shares_lane = [&](const Incoming& other) { return share_a_lane(one, other); };
    const auto count = static_cast<std::size_t>(std::ranges::count_if(messages, shares_lane));
    outstanding_.check(what, queue_of(one.peer, one.options.tag), one.peer, one.options.tag, count);
  }
}

// False if it takes more than one kernel, as the pair of a sendrecv.
template <int kMost>
bool MessageEngine::side_by_side(std::span<const Outgoing> out, std::span<const Incoming> in, Stream stream) {
  const auto sorted_out = by_lane<kMost>(out);
  const auto sorted_in = by_lane<kMost>(in);
  std::array<SendRoute, kMost> to;
  std::array<RecvRoute, kMost> from;
  bool copies = false;
  bool small = true;
  const auto ring =
      kMost > lane::kFew ? Router::RingUse::by_one_block : Router::RingUse::through;  // each has few blocks
  for (std::size_t i = 0; i < out.size(); ++i) {
    to[i] = route_send(*sorted_out[i], lane::Completion::ordered, ring);
    copies = copies || to[i].copy_first;
    small = small && !to[i].spread && sorted_out[i]->bytes <= to[i].ring_max;
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    from[i] = route_recv(*sorted_in[i], lane::Completion::ordered, ring);
    copies = copies || from[i].bounce != nullptr;
    small = small && !from[i].spread && sorted_in[i]->bytes <= from[i].offer_min;
  }
  if (copies) {
    for (SendRoute& route : to) {
      if (route.bounce != nullptr) bounces_->give_back(std::move(route.bounce));
    }
    for (RecvRoute& route : from) {
      if (route.bounce != nullptr) bounces_->give_back(std::move(route.bounce));
    }
    return false;
  }
  require_room("exchange", in, stream);
  std::array<CopyThread::CopierLease, kMost> leases;
  lane::ExchangeMany<kMost> body;
  body.receiving = add_chains<Incoming>(std::span(sorted_in).first(in.size()), body.chains);
  body.sending = add_chains<Outgoing>(std::span(sorted_out).first(out.size()), body.chains + body.receiving);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto& [destination, bytes, peer, options] = *sorted_in[i];
    body.receive[i] = receive_body(from[i], bytes, view(peer, options.tag));
    pass_posted(peer, options, stream);
    if (from[i].prefetch) prefetch(destination, bytes, stream);
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto& [source, bytes, peer, options] = *sorted_out[i];
    body.send[i] = send_body(to[i], bytes, view(peer, options.tag), lane::Completion::ordered);
    if (to[i].copy_engine) leases[i] = fabric_->copies().take(to[i].copy_lead);
    body.send[i].copier = leases[i].copier();
    if (to[i].prefetch) prefetch(source, bytes, stream);
  }
  const Grid grid = grids_.exchange(body);
  launch(*device_, kernel_of<kMost>(small), body, grid, stream);
  for (std::size_t i = 0; i < out.size(); ++i) {
    leases[i].give_back(stream);
    if (to[i].bounce != nullptr) bounces_->give_back(std::move(to[i].bounce), stream);
  }
  note_use(stream, out, in);
  return true;
}

}  // namespace onstream
