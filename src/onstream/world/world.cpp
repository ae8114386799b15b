#include "onstream/world.hpp"

#include "onstream/base/error.hpp"
#include "onstream/base/fork_guard.hpp"
#include "onstream/base/text.hpp"
#include "onstream/collective.hpp"
#include "onstream/collective/channel/channel.hpp"
#include "onstream/device/memory/reclaim.hpp"
#include "onstream/halo.hpp"
#include "onstream/lane/remote/network_lanes.hpp"
#include "onstream/message/engine.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/plan.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream {

namespace {

// For faults of single ops, which do not fail the world.
void throw_unless_empty(const std::vector<FaultReport>& faults) {
  if (faults.empty()) return;
  std::string story;
  for (const FaultReport& fault : faults) story += (story.empty() ? "" : "\n") + onstream::describe(fault);
  // All that does not fail the world is one of two things.
  fail(faults.front().status == Status::unmapped ? ErrorCode::unmapped : ErrorCode::truncated, story);
}

// The words that parameter managed_advice may be are checked already.
Advice advice_from(const std::string& word) {
  if (word == "device") return Advice::device;
  if (word == "host") return Advice::host;
  return word == "read_mostly" ? Advice::read_mostly : Advice::none;
}

std::string text_of(const PeerMappingStatistics& it) {
  return concat("registrations: ", it.hits, " hits, ", it.misses, " misses, ", it.failures, " failures, ",
                it.unreachable, " of private memory, ", it.stale, " stale; ", it.exported, " exported (",
                human_bytes(it.exported_bytes), "), ", it.imported, " imported (", human_bytes(it.imported_bytes), ")");
}

std::shared_ptr<lane::NetworkLanes> network_lanes_of(Fabric& fabric) {
  if (fabric.network() == nullptr) return nullptr;
  collective::require_same_parameters(fabric);
  return std::make_shared<lane::NetworkLanes>(fabric);
}

}  // namespace

std::shared_ptr<World> World::create(const Launch& launch, const Parameters& parameters) {
  return std::shared_ptr<World>(new World(std::make_shared<Fabric>(launch, parameters)), LeftToParent());
}

World::World(std::shared_ptr<Fabric> fabric)
    : fabric_(std::move(fabric)),
      network_lanes_(network_lanes_of(*fabric_)),
      collective_(std::make_unique<Collective>(fabric_, network_lanes_)),
      messages_(std::make_unique<MessageEngine>(fabric_)),
      one_sided_(std::make_unique<OneSided>(fabric_)) {}

World::~World() = default;

int World::rank() const { return fabric_->rank(); }
int World::size() const { return fabric_->size(); }
bool World::in_forked_child() const { return fabric_->in_forked_child(); }
void World::check_process() const { fabric_->check_process(); }
const Launch& World::launch() const { return fabric_->launch(); }
const std::shared_ptr<Fabric>& World::fabric() const { return fabric_; }
Device& World::device() const { return *fabric_->device(); }

std::shared_ptr<Memory> World::allocate(std::size_t bytes, MemoryKind kind) {
  require(bytes > 0, "allocate: at least one byte");
  std::shared_ptr<Memory> memory = allocate_in_time(*fabric_->device(), bytes, kind);
  const std::string& advice = fabric_->parameters().managed_advice;
  if (kind == MemoryKind::managed && advice != "none") device().advise(memory->data(), bytes, advice_from(advice));
  return memory;
}

void World::register_memory(const void* address, std::size_t bytes) {
  fabric_->check([&] { return concat("the registration of ", bytes, " B"); });
  require(address != nullptr && bytes > 0, "register_memory: a null pointer or no bytes");
  for (int peer = 0; peer < size(); ++peer) {
    if (fabric_->export_in_time(address, bytes, peer)) continue;
    fail(ErrorCode::unsupported, "rank ", peer, " cannot reach ", bytes, " B at ", address, ": ",
         fabric_->why_not(address, peer));
  }
}

std::shared_ptr<Segment> World::segment(std::size_t bytes, MemoryKind kind) { return one_sided_->segment(bytes, kind); }
void World::free(const std::shared_ptr<Segment>& segment) { one_sided_->free(segment); }
std::shared_ptr<Team> World::team() const { return one_sided_->team(); }

void World::send(const void* source, std::size_t bytes, int peer, const MessageOptions& options, Stream stream) {
  messages_->send({source, bytes, peer, options}, stream);
}
void World::recv(void* destination, std::size_t bytes, int peer, const MessageOptions& options, Stream stream) {
  messages_->recv({destination, bytes, peer, options}, stream);
}
std::shared_ptr<Request> World::isend(const void* source, std::size_t bytes, int peer, const MessageOptions& options,
                                      Stream stream) {
  return messages_->isend({source, bytes, peer, options}, stream);
}
std::shared_ptr<Request> World::irecv(void* destination, std::size_t bytes, int peer, const MessageOptions& options,
                                      Stream stream) {
  return messages_->irecv({destination, bytes, peer, options}, stream);
}
void World::sendrecv(const Outgoing& out, const Incoming& in, Stream stream) { messages_->sendrecv(out, in, stream); }
void World::exchange(std::span<const Outgoing> out, std::span<const Incoming> in, Stream stream) {
  messages_->exchange(out, in, stream);
}
void World::check_exchange(std::span<const Outgoing> out, std::span<const Incoming> in) {
  messages_->check_exchange(out, in);
}
void World::wait(const std::shared_ptr<Request>& request, Stream stream) { messages_->wait_all({&request, 1}, stream); }
std::vector<std::shared_ptr<Request>> World::isend_all(std::span<const Outgoing> messages, Stream stream) {
  return messages_->isend_all(messages, stream);
}
void World::wait_all(std::span<const std::shared_ptr<Request>> requests, Stream stream) {
  messages_->wait_all(requests, stream);
}

Status World::send(const void* source, std::size_t bytes, int peer, const MessageOptions& options) {
  return messages_->send({source, bytes, peer, options});
}
Status World::recv(void* destination, std::size_t bytes, int peer, const MessageOptions& options,
                   std::size_t* received) {
  return messages_->recv({destination, bytes, peer, options}, received);
}
std::shared_ptr<Request> World::isend(const void* source, std::size_t bytes, int peer, const MessageOptions& options) {
  return messages_->isend({source, bytes, peer, options});
}
std::shared_ptr<Request> World::irecv(void* destination, std::size_t bytes, int peer, const MessageOptions& options) {
  return messages_->irecv({destination, bytes, peer, options});
}
void World::send(const LayoutMessage& message, Stream stream) { messages_->send(message, stream); }
void World::recv(const LayoutMessage& message, Stream stream) { messages_->recv(message, stream); }
std::shared_ptr<Request> World::isend(const LayoutMessage& message, Stream stream) {
  return messages_->isend(message, stream);
}
std::shared_ptr<Request> World::irecv(const LayoutMessage& message, Stream stream) {
  return messages_->irecv(message, stream);
}
void World::sendrecv(const LayoutMessage& out, const LayoutMessage& in, Stream stream) {
  messages_->sendrecv(out, in, stream);
}
Status World::send(const LayoutMessage& message) { return messages_->send(message); }
Status World::recv(const LayoutMessage& message, std::size_t* received) { return messages_->recv(message, received); }
std::shared_ptr<Request> World::isend(const LayoutMessage& message) { return messages_->isend(message); }
std::shared_ptr<Request> World::irecv(const LayoutMessage& message) { return messages_->irecv(message); }
Exchange World::isendrecv(const LayoutMessage& out, const LayoutMessage& in) { return messages_->isendrecv(out, in); }
std::optional<SendrecvEnds> World::sendrecv_ahead(const LayoutMessage& out, const LayoutMessage& in,
                                                  std::size_t* received) {
  return messages_->sendrecv_ahead(out, in, received);
}
std::optional<Probed> World::iprobe(int peer, int tag) { return messages_->iprobe(peer, tag); }
Status World::probe(int peer, int tag, Probed& found) { return messages_->probe(peer, tag, found); }
std::shared_ptr<Matched> World::imatch(int peer, int tag) { return messages_->imatch(peer, tag); }
Status World::match(int peer, int tag, std::shared_ptr<Matched>& found) { return messages_->match(peer, tag, found); }
std::shared_ptr<Request> World::irecv(const std::shared_ptr<Matched>& matched, void* destination, std::size_t bytes,
                                      const MessageOptions& options) {
  return messages_->irecv(matched, destination, bytes, options);
}
Status World::recv(const std::shared_ptr<Matched>& matched, void* destination, std::size_t bytes,
                   const MessageOptions& options) {
  return messages_->wait(irecv(matched, destination, bytes, options));
}
std::size_t World::wait_any(std::span<const std::shared_ptr<Request>> requests, Status& status) {
  return messages_->wait_any(requests, status);
}
std::vector<World::EndedRequest> World::wait_some(std::span<const std::shared_ptr<Request>> requests) {
  Status status = Status::ok;
  const std::size_t first = messages_->wait_any(requests, status);
  std::vector<EndedRequest> ended;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Status one = i == first ? status : messages_->test(requests[i]);
    if (one != Status::pending) ended.push_back({i, one});
  }
  return ended;
}
std::optional<World::EndedRequest> World::test_any(std::span<const std::shared_ptr<Request>> requests) {
  Status status = Status::ok;
  const auto first = messages_->test_any(requests, status);
  return first ? std::optional(EndedRequest{*first, status}) : std::nullopt;
}
bool World::test_all(std::span<const std::shared_ptr<Request>> requests) {
  std::size_t ended = 0;  // each is tested: a test moves its message along
  for (const auto& request : requests) ended += messages_->test(request) != Status::pending ? 1 : 0;
  return ended == requests.size();
}
Exchange World::isendrecv(const Outgoing& out, const Incoming& in) { return messages_->isendrecv(out, in); }
Status World::sendrecv(const Outgoing& out, const Incoming& in, std::size_t* received) {
  return messages_->sendrecv(out, in, received);
}
std::optional<SendrecvEnds> World::sendrecv_ahead(const Outgoing& out, const Incoming& in, std::size_t* received) {
  return messages_->sendrecv_ahead(out, in, received);
}
Status World::wait(const std::shared_ptr<Request>& request) { return messages_->wait(request); }
Status World::test(const std::shared_ptr<Request>& request) { return messages_->test(request); }
bool World::has_room(std::size_t bytes, int peer, int lane) const { return messages_->has_room(bytes, peer, lane); }
std::size_t World::received(const std::shared_ptr<Request>& request) const { return MessageEngine::received(request); }
int World::source(const std::shared_ptr<Request>& request) const { return MessageEngine::source(request); }

std::string World::explain(const Outgoing& message) const { return messages_->explain(message); }
bool World::captured(const std::shared_ptr<Request>& request) const { return request->captured; }
std::shared_ptr<Window> World::window(void* address, std::size_t bytes) { return one_sided_->window(address, bytes); }
std::shared_ptr<Window> World::window(std::shared_ptr<Segment> segment) {
  return one_sided_->window(std::move(segment));
}
OneSided& World::one_sided() const { return *one_sided_; }

Collective& World::collective() const { return *collective_; }

PlanBuilder World::plan(std::string name) { return PlanBuilder(fabric_, std::move(name), network_lanes_); }

std::shared_ptr<Plan> World::halo(void* array, const HaloSpec& spec, std::string name) {
  PlanBuilder builder = plan(std::move(name));
  add_halo(builder, *fabric_, array, spec);
  return builder.build();
}

// By words in memory, a hundred times as fast as by the mesh.
void World::barrier() { one_sided_->barrier(); }

void World::synchronize(Stream stream) {
  device().synchronize(stream);
  fabric_->check_waited();
  check();
}

std::vector<std::shared_ptr<Event>> World::points(const std::vector<Stream>& beside) const {
  std::vector<std::shared_ptr<Event>> events = messages_->points(beside);
  const auto others = fabric_->uses().points(beside);
  events.insert(events.end(), others.begin(), others.end());
  return events;
}

std::vector<std::shared_ptr<Event>> World::unfinished() const {
  std::vector<std::shared_ptr<Event>> events = points();
  std::erase_if(events, [](const auto& event) { return ended(*event); });
  return events;
}

void World::abort(const std::string& reason, Cause cause) { fabric_->abort(reason, cause); }

void World::finish(std::vector<Stream> synchronized, const std::vector<std::shared_ptr<Event>>& besides) {
  constexpr double kKernelsGiveUpS = 5;  // behind their deadline at the latest, which began when they started
  const double limit_s = fabric_->parameters().timeout_s;
  for (const Stream stream : fabric_->streams()->leased()) synchronized.push_back(stream);
  auto work = points(synchronized);
  work.insert(work.end(), besides.begin(), besides.end());
  const auto is_over = [](const auto& event) { return ended(*event); };
  const Deadline limit(limit_s + kKernelsGiveUpS);
  for (std::uint32_t round = 0; std::erase_if(work, is_over), !work.empty(); ++round) {
    if (limit.passed()) {
      fail(ErrorCode::timeout, "rank ", rank(), ": work of this world has not ended within ", limit_s,
           " s (timeout_s), or what its streams have to do before");
    }
    HostGroup::pause(round, 16);
  }
  fabric_->check_unreported();
  std::vector<FaultReport> faults = fabric_->take_faults();
  std::erase_if(faults, [](const FaultReport& fault) { return fault.logged; });  // whether it came in time is open
  throw_unless_empty(faults);
}

void World::leave() { fabric_->leave(); }

void World::check() const {
  fabric_->check();
  throw_unless_empty(fabric_->take_faults());
}

std::optional<Failure> World::failure() const { return fabric_->failure(); }
std::vector<FaultReport> World::take_faults() { return fabric_->take_faults(); }

std::size_t World::device_bytes() const { return messages_->device_bytes(); }

std::string World::paths() const { return fabric_->paths().text(); }
std::string World::describe() const {
  const std::string plain = fabric_->attach_story();
  return concat("rank ", rank(), " of ", size(), " on ", name_of(device().kind()), ":", device().index(), " (",
                device().name(), "), launched by ", fabric_->launch().launcher, "; tags hold ",
                human_bytes(messages_->device_bytes()), " of device memory, all of the library's segments ",
                human_bytes(fabric_->device_bytes()), "; ", text_of(fabric_->reach_statistics()),
                plain.empty() ? "" : "; ", plain);
}

World::Statistics World::statistics() const {
  return {fabric_->reach_statistics(), messages_->device_bytes(), fabric_->device_bytes()};
}

}  // namespace onstream
