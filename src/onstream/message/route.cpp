#include "onstream/message/route.hpp"

#include "onstream/base/error.hpp"
#include "onstream/device/kernel/remote_process.hpp"
#include "onstream/message/host_copy.hpp"
#include "onstream/transport/buffer.hpp"

namespace onstream {

namespace {

constexpr std::size_t kAligned = 128;  // a lead is a multiple, so that the rest is copied as widely

path::Link link_of(const Fabric& fabric) { return path::link_of(fabric.device()->kind()); }

std::size_t ll_max_of(const Fabric& fabric, const Lanes& lanes, path::Operation operation) {
  const std::uint64_t bound = fabric.paths().rule(operation, link_of(fabric), Path::ll).to_bytes;
  return std::min<std::size_t>(bound, lanes.ring_capacity(lanes.count() - 1));
}

const path::Rule* spread_rule_of(const Fabric& fabric) {
  for (const path::Rule& rule : fabric.paths().of(path::Operation::message, link_of(fabric))) {
    if ((rule.needs & path::kSpreadTag) != 0) return &rule;
  }
  return nullptr;
}

path::Operation operation_of(lane::Completion completion) {
  return completion == lane::Completion::ordered ? path::Operation::message : path::Operation::posted;
}

}  // namespace

Router::Router(Fabric& fabric, const Lanes& lanes, BouncePool& bounces)
    : fabric_(fabric),
      lanes_(lanes),
      bounces_(bounces),
      default_path_(path_from(fabric.parameters().path)),
      on_host_(fabric.device()->kind() == DeviceKind::host),
      prefetch_(fabric.parameters().managed_prefetch == "device"),
      ll_max_(ll_max_of(fabric, lanes, path::Operation::message)),
      posted_ll_max_(ll_max_of(fabric, lanes, path::Operation::posted)),
      spread_(spread_rule_of(fabric)),
      spread_max_(spread_ == nullptr ? 0 : std::min<std::size_t>(spread_->to_bytes, lanes.ring_capacity(0))),
      offer_min_(std::min(static_cast<std::size_t>(fabric.parameters().offer_min_bytes), ll_max_)),
      chunk_bytes_(static_cast<std::size_t>(fabric.parameters().stage_chunk_bytes)),
      copy_lead_(static_cast<std::size_t>(fabric.parameters().copy_lead_bytes)) {}

Path Router::effective(Path path) const { return path == Path::automatic ? default_path_ : path; }

// To a rank of another host every path is the network; of the others, path ll says what it says elsewhere.
std::uint64_t Router::network_ring_max(Path path, std::size_t bytes, int peer, int lane, std::size_t ll_max) const {
  if (path == Path::ll) return ring_max(path, bytes, fabric_.rank(), lane, ll_max);
  if (path == Path::automatic || path == Path::net) return std::min<std::size_t>(ll_max, lanes_.ring_capacity(lane));
  fail(ErrorCode::unsupported, "path ", name_of(path), " needs one host, and rank ", peer,
       " is on another; leave the path out, or ask for net");
}

std::uint64_t Router::ring_max(Path path, std::size_t bytes, int peer, int lane, std::size_t ll_max) const {
  if (fabric_.is_remote(peer)) return network_ring_max(path, bytes, peer, lane, ll_max);
  switch (path) {
    case Path::automatic: return ll_max;
    case Path::ll:
      require(bytes <= lanes_.ring_capacity(lane), "path ll carries at most ", lanes_.ring_capacity(lane),
              " B here, the message has ", bytes, " B; raise ", lanes_.spreads(lane) ? "spread_tag_bytes" : "tag_bytes",
              " or choose another path");
      return lanes_.ring_capacity(lane);
    case Path::store:
    case Path::load:
    case Path::copy:
    case Path::stage: return 0;
    case Path::memop:
      fail(ErrorCode::unsupported,
           "path memop cannot carry a message: where it shall go is known only to the receiver's "
           "kernel, and this path has none. Build a plan, or choose another path (path=copy moves by the copy engine)");
    case Path::net: break;
  }
  fail(ErrorCode::unsupported, "path net leads to ranks of other hosts, and rank ", peer,
       " shares this host (parameter host_ranks=1 takes each rank for a host, to try the network on one machine)");
}

// Receives above this many bytes tell the sender where their data shall go. On cuda the ring is faster for all that it
// carries, so only posted receives offer below its limit: their senders may run out of room (lane/send.hpp). The same
// goes for plain memory of another process on the host device (recv()).
std::uint64_t Router::offer_min(Path path, int lane, lane::Completion completion) const {
  switch (path) {
    case Path::automatic: return on_host_ || completion == lane::Completion::posted ? offer_min_ : ll_max_;
    case Path::ll: return lanes_.ring_capacity(lane);
    default: return 0;
  }
}

// A posted message must not fill a ring: it would wait there, perhaps for its own rank's next call.
bool Router::spreads(Path path, std::size_t bytes, int lane, lane::Completion completion, RingUse ring) const {
  const bool through = path == Path::automatic || path == Path::ll;
  return through && ring == RingUse::through && completion == lane::Completion::ordered && lanes_.spreads(lane) &&
         spread_ != nullptr && spread_->claims(bytes) && bytes <= spread_max_;
}

// How the peer names memory of this rank: mapped where that can be, else by a remote process address (host device); or
// 0.
std::uint64_t Router::reach(const void* address, std::size_t bytes, int peer, const MemoryInfo& info) const {
  const bool plain = on_host_ && info.kind == MemoryKind::host;
  return (plain ? fabric_.attach(address, peer) : fabric_.export_to_peer(address, bytes, peer)).value_or(0);
}

// Both ranks copy a large message of the host device; on way `stage` the sender copies it to a bounce buffer first.
void Router::share(SendRoute& route, std::size_t bytes, int peer, Path way) {
  route.announce = lane::Header::share;
  if (way != Path::stage) return;
  auto bounce = bounces_.take(bytes + kHostCopyBytes, MemoryKind::device);
  const auto peer_bounce = fabric_.export_to_peer(bounce->data(), bytes, peer);
  if (!peer_bounce) return bounces_.give_back(std::move(bounce));
  route.attached_source = route.peer_source;
  route.peer_source = *peer_bounce;
  route.source = bounce->data();
  route.bounce = std::move(bounce);
  route.copy_first = true;
}

// Chunks through a bounce buffer while the receiver takes them; a posted message is copied there whole.
void Router::stage(SendRoute& route, std::size_t bytes, int peer, Path path, lane::Completion completion) {
  const bool ordered = completion == lane::Completion::ordered;
  const std::size_t room = ordered ? 2 * chunk_bytes_ : bytes;
  route.bounce = bounces_.take(ordered ? room : bytes + kHostCopyBytes, MemoryKind::device);
  const std::uint64_t there = fabric_.export_to_peer(route.bounce->data(), room, peer).value_or(0);
  require(there != 0, "rank ", peer,
          " cannot address this rank's device memory: ", fabric_.why_not(route.bounce->data(), peer));
  if (ordered) {
    route.announce = lane::Header::stage;
    route.peer_bounce = there;
    return;
  }
  if (path == Path::stage) route.announce = lane::Header::pull;
  route.copy_first = true;
  route.source = route.bounce->data();
  route.peer_source = there;
}

Ahead Router::ahead() const { return {ll_max_, lanes_.spread_count(), spread_max_}; }

// What the choice of a path depends on. Only the receiver knows whether a message goes to host memory, where the copy
// engine is slow: between host memory and a GPU it moves 7% more than kernels do, between two host memories a quarter.
path::Transfer Router::transfer_of(const SendRoute& route, const Outgoing& message, MemoryKind kind,
                                   lane::Completion completion) const {
  path::Transfer transfer;
  transfer.operation = operation_of(completion);
  transfer.bytes = message.bytes;
  transfer.device = fabric_.device()->kind();
  transfer.source.mapped = route.copy_first || route.peer_source != 0;
  transfer.source.cross_memory = is_remote_process(route.peer_source);
  transfer.source.gpu_memory = !route.copy_first && kind != MemoryKind::pinned && kind != MemoryKind::host;
  return transfer;
}

std::string Router::explain_network(const Outgoing& message) const {
  const std::string_view way = message.bytes <= ll_max_              ? "in the ring of its tag"
                               : message.bytes <= net::kMaxSendBytes ? "whole, from its place to the receive's"
                                                                     : "when the receive takes it (rendezvous)";
  return concat("to rank ", message.peer, ", ", human_bytes(message.bytes), " take path net, ", way, ": rank ",
                message.peer, " is on another host (", fabric_.network()->describe(), ")");
}

// As send() decides it for an ordered message.
std::string Router::explain(const Outgoing& message) const {
  const auto& [source, bytes, peer, options] = message;
  check_size(bytes, peer, options.tag, options.path);
  if (fabric_.is_remote(peer)) return explain_network(message);
  const Path path = effective(options.path);
  SendRoute route;
  MemoryInfo info;
  const bool looks = bytes > (on_host_ ? ll_max_ : 0) || (bytes > 0 && path != Path::automatic);
  if (looks) info = look_at_buffer(*fabric_.device(), source, bytes);
  route.copy_first = looks && !info.kernel_access;
  if (looks && !route.copy_first) route.peer_source = reach(source, bytes, peer, info);
  path::Transfer transfer = transfer_of(route, message, info.kind, lane::Completion::ordered);
  transfer.through_ring = bytes <= std::max(ll_max_, spread_max_);
  transfer.spread_tag = lanes_.spreads(options.tag) && bytes <= spread_max_;
  if (looks && !transfer.source.mapped) transfer.source.why_not = fabric_.why_not(source, peer);
  // A source that the peer cannot reach is staged whatever was asked for, except that a load is refused.
  const bool staged = looks && !transfer.source.mapped && (path == Path::store || path == Path::copy);
  transfer.wanted = staged ? Path::stage : path == Path::copy && on_host_ ? Path::store : path;
  transfer.wanted_by = staged ? concat("the receiver cannot reach the source: ", transfer.source.why_not)
                       : options.path == Path::automatic ? "set by parameter path"
                                                         : "set by the call";
  return concat("to rank ", peer, ", ", path::explain(fabric_.paths(), transfer));
}

SendRoute Router::send(const Outgoing& message, lane::Completion completion, RingUse ring) {
  const auto& [source, bytes, peer, options] = message;
  const Path path = effective(options.path);
  const bool ordered = completion == lane::Completion::ordered;
  SendRoute route;
  route.source = source;
  route.spread = spreads(path, bytes, options.tag, completion, ring);
  const std::size_t ll_max = ordered ? ll_max_ : posted_ll_max_;
  const std::size_t most = route.spread ? std::max(ll_max, bytes) : ll_max;
  route.ring_max = ring == RingUse::beside ? 0 : ring_max(path, bytes, peer, options.tag, most);
  route.offer_min = offer_min(path, options.tag, completion);
  const bool small = bytes <= route.ring_max;
  if (bytes == 0 || (small && on_host_)) return route;
  const MemoryInfo info = look_at_buffer(*fabric_.device(), source, bytes);
  if (!info.kernel_access) {
    route.bounce = bounces_.take(bytes + kHostCopyBytes, MemoryKind::pinned);
    route.source = route.bounce->data();
    route.copy_first = true;
    route.plain = small;
  }
  if (small) return route;
  if (fabric_.is_remote(peer)) {  // the proxy reads it, or the peer takes it, as it is here
    route.announce = lane::Header::pull;
    route.peer_source = reinterpret_cast<std::uint64_t>(source);
    return route;
  }
  route.prefetch = prefetch_ && info.kind == MemoryKind::managed;
  route.peer_source = route.copy_first ? fabric_.export_to_peer(route.source, bytes, peer).value_or(0)
                                       : reach(route.source, bytes, peer, info);
  path::Transfer transfer = transfer_of(route, message, info.kind, completion);
  transfer.through_ring = false;
  const Path way = path == Path::automatic ? choose(fabric_.paths(), transfer).path : path;
  if (on_host_ && path == Path::automatic && route.peer_source != 0) {
    share(route, bytes, peer, way);
    return route;
  }
  route.copy_engine = way == Path::copy && ordered;
  if (path == Path::automatic && bytes > copy_lead_) route.copy_lead = copy_lead_ & ~(kAligned - 1);
  if (way == Path::load) {
    require(route.peer_source != 0, "path load needs a source that rank ", peer,
            " can address: ", fabric_.why_not(source, peer));
    route.announce = lane::Header::pull;
  } else if (!route.copy_first && (route.peer_source == 0 || way == Path::stage)) {
    stage(route, bytes, peer, path, completion);
  }
  return route;
}

SendRoute Router::send_by_layout(const Outgoing& message) {
  const Path path = effective(message.options.path);
  SendRoute route;
  route.ring_max = ring_max(path, message.bytes, message.peer, message.options.tag, ll_max_);
  route.offer_min = offer_min(path, message.options.tag, lane::Completion::ordered);
  if (message.bytes > route.ring_max) stage(route, message.bytes, message.peer, Path::stage, lane::Completion::ordered);
  return route;
}

RecvRoute Router::recv(const Incoming& message, lane::Completion completion, RingUse ring) {
  const auto& [destination, bytes, peer, options] = message;
  const Path path = effective(options.path);
  RecvRoute route;
  route.destination = destination;
  route.offer_min = offer_min(path, options.tag, completion);
  route.spread = spreads(path, bytes, options.tag, completion, ring);
  const bool small = bytes <= route.offer_min;
  if (bytes == 0 || (small && on_host_)) return route;
  const bool posted = completion == lane::Completion::posted;
  const MemoryInfo info = fabric_.device()->inspect(destination);
  // The ring carries bytes to plain memory for less than the cost of a system call; looking there takes one too.
  const bool remote = fabric_.is_remote(peer);
  const bool by_ring =
      on_host_ && (remote || (info.kind == MemoryKind::host && !posted && path == Path::automatic)) && bytes <= ll_max_;
  if (!by_ring) check_buffer(*fabric_.device(), info, destination, bytes);
  if (!info.kernel_access) {
    route.bounce = bounces_.take(bytes + kHostCopyBytes, MemoryKind::pinned);
    route.destination = route.bounce->data();
  }
  route.prefetch = prefetch_ && !small && info.kind == MemoryKind::managed;
  if (small || path == Path::load || path == Path::stage) return route;
  if (remote) {  // this rank's own proxy writes there
    route.peer_destination = reinterpret_cast<std::uint64_t>(destination);
    route.offer_min = std::max<std::uint64_t>(route.offer_min, ll_max_);
    return route;
  }
  route.peer_destination = route.bounce != nullptr ? fabric_.export_to_peer(route.destination, bytes, peer).value_or(0)
                                                   : reach(destination, bytes, peer, info);
  if (by_ring && is_remote_process(route.peer_destination)) route.offer_min = ll_max_;
  if (route.peer_destination != 0 || !posted || route.bounce != nullptr) return route;
  // Nobody is there to fetch until the wait: the message goes to a bounce buffer meanwhile, if the peer reaches that.
  std::shared_ptr<Memory> bounce = bounces_.take(bytes + kHostCopyBytes, MemoryKind::device);
  route.peer_destination = fabric_.export_to_peer(bounce->data(), bytes, peer).value_or(0);
  if (route.peer_destination == 0) {
    bounces_.give_back(std::move(bounce));
  } else {
    route.bounce = std::move(bounce);
    route.destination = route.bounce->data();
  }
  return route;
}

}  // namespace onstream
