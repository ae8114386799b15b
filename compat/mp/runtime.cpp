#include "runtime.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/base/log.hpp"
#include "onstream/device/host/group.hpp"
#include "onstream/device/memory/pages.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/transport/fabric.hpp"
#include "onstream/transport/failure.hpp"
#include "poster.hpp"

// The host stream behind the default stream of the stand-in for the CUDA runtime (standin/), if the program uses it.
extern "C" __attribute__((weak)) void* onstream_standin_default_stream(void);

namespace onstream::mp {

namespace {

constexpr std::size_t kInlineBytes = 64;

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::send: return "the send";
    case Kind::recv: return "the receive";
    case Kind::put: return "the put";
    case Kind::get: return "the get";
  }
  return "the op";
}

bool lies_within(const Block& block, const Registration& registration) {
  const auto begin = reinterpret_cast<std::uintptr_t>(block.address);
  const auto base = reinterpret_cast<std::uintptr_t>(registration.address);
  return begin >= base && begin - base <= registration.bytes && block.bytes <= registration.bytes - (begin - base);
}

}  // namespace

Runtime::Runtime(const Launch& launch, const Parameters& parameters, std::span<const int> peers)
    : world_(World::create(launch, parameters)),
      on_host_(world_->device().kind() == DeviceKind::host),
      words_(std::make_shared<DeviceWordsPool>(world_->fabric()->device())) {
  for (int rank = 0; rank < world_->size(); ++rank) pairs_.push_back(std::make_unique<Pair>());
  for (const int peer : peers) pairs_[static_cast<std::size_t>(peer)]->is_peer = true;
  progress_.reset(new Progress(*world_, pairs_));
}

Runtime::~Runtime() {
  progress_.reset();
  for (const auto& pair : pairs_) {
    for (OwnStream* line : {&pair->sending, &pair->receiving, &pair->arriving}) line->close(world_->device());
  }
  taking_.close(world_->device());
}

std::string Runtime::told(const std::exception& error) {
  const auto* const known = dynamic_cast<const Error*>(&error);
  const bool of_failure = known != nullptr && known->of_failure();
  const std::optional<Failure> failure = of_failure ? world_->fabric()->settled_failure("") : std::nullopt;
  if (!failure) return error.what();
  std::string text = "the world has failed";
  if (std::exchange(failure_told_, true)) return text;
  const std::string facts = unlogged_facts_of(*failure);
  if (!failure->logged) {
    text = facts;
  } else if (!facts.empty()) {
    text += "\n" + facts;
  }
  if (failure->dead.empty()) text += "\nto go on, all processes call mp_finalize and then mp_init again";
  return text;
}

Stream Runtime::stream_of(CUstream_st* stream) const {
  if (stream == nullptr && on_host_ && onstream_standin_default_stream != nullptr) {
    return {onstream_standin_default_stream()};
  }
  return {stream};
}

// --- memory ---

// As ibv_reg_mr asks.
void Runtime::demand_memory(const void* address, std::size_t bytes, const char* cannot) const {
  demand(address != nullptr && bytes > 0, MP_FAILURE, bytes, " B at ", address, ' ', cannot);
  demand(bytes <= UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(address), MP_FAILURE, bytes, " B at ", address, ' ',
         cannot, ": there are no such addresses");
  const bool plain = world_->device().inspect(address).kind == MemoryKind::host;
  demand(!plain || is_mapped(address, bytes), MP_FAILURE, bytes, " B at ", address, ' ', cannot,
         ": not all of it is memory of this process");
}

mp_reg_t Runtime::register_memory(void* address, std::size_t bytes) {
  demand_memory(address, bytes, "cannot be registered");
  auto made = std::make_shared<Registration>();
  made->address = static_cast<std::byte*>(address);
  made->bytes = bytes;
  return registrations_.add(made);
}

void Runtime::deregister(mp_reg_t handle) {
  demand(registrations_.find(handle) != nullptr, MP_FAILURE, "the registration is none, or deregistered already");
  registrations_.remove(handle);
}

void Runtime::create_window(void* address, std::size_t bytes, mp_window_t* place) {
  auto made = std::make_shared<WindowObject>();
  (void)world_->fabric()->agree("mp_window_create", [&] {
    demand(place != nullptr, MP_FAILURE, "there is no place for the window");
    if (bytes > 0) {
      demand_memory(address, bytes, "cannot be a window");
      made->pin = world_->device().pin(address, bytes);
    }
    return std::string();
  });
  made->window = world_->window(address, bytes);
  *place = windows_.add(made);
}

void Runtime::destroy_window(mp_window_t handle) {
  demand(windows_.find(handle) != nullptr, MP_FAILURE, "the window is none, or destroyed already");
  windows_.remove(handle);
}

void Runtime::reach_word(const void* word) {
  if (on_host_ || word == nullptr || world_->device().inspect(word).kernel_access) return;
  pinned_words_.push_back(world_->device().pin(word, sizeof(std::uint32_t)));
}

std::shared_ptr<Memory> Runtime::staging_for(const Operation& request) {
  const MemoryKind kind = world_->device().inspect(request.blocks.front().address).kind;
  return world_->allocate(request.bytes, kind == MemoryKind::device ? MemoryKind::device : MemoryKind::pinned);
}

// --- requests ---

void Runtime::check_peer(int peer) const {
  demand(peer >= 0 && peer < world_->size() && pairs_[static_cast<std::size_t>(peer)]->is_peer, MP_FAILURE, "rank ",
         peer, " is none of the peers that mp_init was given; the communicator has ranks 0 to ", world_->size() - 1);
}

std::shared_ptr<Registration> Runtime::registration_of(const mp_reg_t* handle) const {
  const auto found = handle == nullptr ? nullptr : registrations_.find(*handle);
  demand(found != nullptr, MP_FAILURE, "the registration is none, or deregistered already");
  return found;
}

Window& Runtime::window_of(mp_window_t handle) const {
  const auto found = windows_.find(handle);
  demand(found != nullptr, MP_FAILURE, "the window is none, or destroyed already");
  return *found->window;
}

std::shared_ptr<Operation> Runtime::request_of(const mp_request_t* handle) const {
  const auto found = handle == nullptr ? nullptr : requests_.find(*handle);
  demand(found != nullptr, EINVAL, "the request is none: waited for already, a NOWAIT put, or never made");
  return found;
}

std::vector<std::shared_ptr<Operation>> Runtime::requests_of(std::span<mp_request_t> handles) const {
  std::vector<std::shared_ptr<Operation>> requests;
  std::unordered_map<mp_request_t, std::size_t> places;
  for (std::size_t i = 0; i < handles.size(); ++i) {
    requests.push_back(request_of(&handles[i]));
    const auto [same, is_new] = places.emplace(handles[i], i);
    demand(is_new, EINVAL, "request ", i, " of ", handles.size(), " is the same as request ", same->second);
  }
  return requests;
}

std::shared_ptr<Queue> Runtime::queue_of(const mp_desc_queue_t* handle) const {
  const auto found = handle == nullptr ? nullptr : queues_.find(*handle);
  demand(found != nullptr, MP_FAILURE, "the descriptor queue is none, or freed already");
  return found;
}

// Messages of one block go by way of pinned memory. CUDA pins whole pages, and refuses copies that touch a page that is
// pinned and one that is not. A program may make such copies of its other buffers, so nothing is pinned without need. A
// buffer on pages that are pinned for another is needed too: kernels touch it there, so the pages must stay.
void Runtime::reach(Registration& registration, const Block& block, bool by_kernels) const {
  if (registration.reached || (!by_kernels && !world_->device().inspect(block.address).kernel_access)) return;
  registration.pin = world_->device().pin(registration.address, registration.bytes);
  registration.reached = true;
}

std::shared_ptr<Operation> Runtime::message(Kind kind, std::vector<Block> blocks, int peer, const mp_reg_t* reg) {
  check_peer(peer);
  const std::shared_ptr<Registration> registration = registration_of(reg);
  auto made = std::make_shared<Operation>();
  made->kind = kind;
  made->peer = peer;
  for (const Block& block : blocks) {
    demand(block.bytes == 0 || lies_within(block, *registration), MP_FAILURE, block.bytes, " B at ", block.address,
           " are not within the registered ", registration->bytes, " B at ", registration->address);
    made->bytes += block.bytes;
  }
  std::erase_if(blocks, [](const Block& block) { return block.bytes == 0; });
  made->blocks = std::move(blocks);
  const bool by_kernels = !made->is_message() || made->blocks.size() > 1;
  if (!made->blocks.empty()) reach(*registration, made->blocks.front(), by_kernels);
  if (made->blocks.size() > 1) made->staged = staging_for(*made);
  return made;
}

std::shared_ptr<Operation> Runtime::put(Block source, int peer, const mp_reg_t* reg, std::size_t offset,
                                        mp_window_t window, int flags) {
  constexpr int kKnown = MP_PUT_INLINE | MP_PUT_NOWAIT;
  demand((flags & ~kKnown) == 0, MP_FAILURE, "flags ", flags, " are none of MP_PUT_INLINE and MP_PUT_NOWAIT");
  std::shared_ptr<Operation> made = message(Kind::put, {source}, peer, reg);
  made->nowait = (flags & MP_PUT_NOWAIT) != 0;
  made->batch.emplace(world_->one_sided());
  const Remote to{window_of(window), peer, offset};
  if ((flags & MP_PUT_INLINE) == 0) {
    made->batch->put(to, source.address, source.bytes);
    return made;
  }
  demand(source.bytes <= kInlineBytes, MP_FAILURE, "MP_PUT_INLINE takes at most ", kInlineBytes, " B, not ",
         source.bytes);
  std::byte now[kInlineBytes];
  if (on_host_ || world_->device().inspect(source.address).kind != MemoryKind::device) {
    if (source.bytes > 0) std::memcpy(now, source.address, source.bytes);
  } else {
    const Stream line = taking_.get(world_->device());
    world_->device().copy(now, source.address, source.bytes, line);
    world_->device().synchronize(line);
  }
  made->batch->put_now(to, now, source.bytes);
  return made;
}

std::shared_ptr<Operation> Runtime::get(Block destination, int peer, const mp_reg_t* reg, std::size_t offset,
                                        mp_window_t window) {
  std::shared_ptr<Operation> made = message(Kind::get, {destination}, peer, reg);
  made->batch.emplace(world_->one_sided());
  made->batch->get(destination.address, {window_of(window), peer, offset}, destination.bytes);
  return made;
}

mp_request_t Runtime::hand_out(const std::shared_ptr<Operation>& request) {
  request->handle = requests_.add(request);
  if (request->state == State::posted) end_if_nowait(*request);
  return request->handle;
}

void Runtime::remember(const std::shared_ptr<Operation>& request) {
  request->state = State::prepared;
  pair(request->peer).prepared.push_back(request);
}

void Runtime::demand_prepared(std::span<const std::shared_ptr<Operation>> requests) {
  std::map<int, std::list<std::shared_ptr<Operation>>::const_iterator> next;  // of each peer
  for (const auto& request : requests) {
    demand(request->state == State::prepared && request->is_sent(), MP_FAILURE,
           "the request is not prepared: it was posted or queued already, or is a receive");
    const auto& prepared = pair(request->peer).prepared;
    auto& at = next.try_emplace(request->peer, prepared.begin()).first->second;
    demand(at != prepared.end() && *at == request, MP_FAILURE, "ops for rank ", request->peer,
           " must be posted in the order in which they were prepared");
    ++at;
  }
}

void Runtime::take_prepared(const std::shared_ptr<Operation>& request) {
  demand_prepared({&request, 1});
  pair(request->peer).prepared.pop_front();
  request->state = State::queued;
}

void Runtime::put_back(const std::shared_ptr<Operation>& request) {
  request->state = State::prepared;
  pair(request->peer).prepared.push_front(request);
}

void Runtime::demand_same_graph(std::span<const std::shared_ptr<Operation>> requests, Stream stream) const {
  if (requests.empty()) return;
  const bool capturing = world_->device().capturing(stream);
  for (const auto& request : requests) {
    demand(request->captured || !capturing, EINVAL, "the stream is being captured, and ", name_of(request->kind),
           " was posted outside: a graph waits only for what it posts itself");
    demand(!request->captured || capturing, EINVAL, name_of(request->kind),
           " is part of a graph: wait for it on the stream, inside the capture");
  }
}

void Runtime::end_if_nowait(const Operation& request) {
  if (request.nowait) requests_.remove(request.handle);
}

// --- posting by the host ---

// Where nothing is in the way, the host device does the work within the call.
bool Runtime::post_at_once(Operation& request) {
  if (!on_host_ || request.staged != nullptr || !pair(request.peer).sends.idle()) return false;
  if (!request.is_message()) {
    world_->one_sided().run(*request.batch);
  } else if (world_->has_room(request.bytes, request.peer, 0)) {
    request.message = world_->isend(request.buffer(), request.bytes, request.peer, {});
  } else {
    return false;
  }
  request.state = State::posted;
  return true;
}

void Runtime::post(const std::shared_ptr<Operation>& request) {
  Pair& to = pair(request->peer);
  if (request->is_sent()) {
    if (post_at_once(*request)) return;
    Poster poster(*this, to.sending.get(world_->device()));
    poster.start(request);
    return poster.finish();
  }
  progress_->make_room(to, request->peer);
  if (on_host_ && request->staged == nullptr) {
    request->message = world_->irecv(request->buffer(), request->bytes, request->peer, {});
    request->state = State::posted;
  } else {
    const Stream line = to.receiving.get(world_->device());
    Poster poster(*this, line);
    poster.receive(request);
    poster.finish();
    // On the host device the receives of a pair are posted by this thread, so this one may not come later.
    if (on_host_) world_->device().synchronize(line);
  }
  progress_->add(to, request);  // only now: behind one that was refused no receive would end
}

// --- completion ---

void Runtime::wait_for(const Event& event) const {
  constexpr std::uint32_t kCheckEvery = 256;
  for (std::uint32_t round = 0; !event.done(); ++round) {
    if (round % kCheckEvery == kCheckEvery - 1) world_->fabric()->check();
    HostGroup::pause(round);
  }
}

void Runtime::wait_until_seen(const Operation& request) const {
  const Until seen{Compare::eq, 1, sizeof(std::uint32_t), Sign::unsigned_word};
  const Status status = world_->one_sided().wait(&request.words->seen, seen);
  demand(status == Status::ok, MP_FAILURE, "no kernel has signalled the request's wait descriptor within ",
         world_->fabric()->parameters().timeout_s, " s");
}

// Copies a received message from its staging memory to its blocks.
void Runtime::scatter(Operation& request) {
  std::size_t left = world_->received(request.message);
  Batch batch(world_->one_sided());
  std::byte* staged = request.staged->data();
  for (const Block& block : request.blocks) {
    const std::size_t now = std::min(left, block.bytes);
    batch.copy(block.address, staged, now);
    staged += block.bytes;
    left -= now;
  }
  world_->one_sided().run(batch);
}

void Runtime::finish(Operation& request) {
  demand(request.state != State::lost, MP_FAILURE, name_of(request.kind), " of ", request.bytes, " B with rank ",
         request.peer, " was lost: the call that should have posted it failed");
  const std::lock_guard busy(request.busy);
  if (request.words != nullptr && request.words->asked != 0) wait_until_seen(request);
  if (request.awaited != nullptr) wait_for(*request.awaited);
  if (request.done != nullptr) wait_for(*request.done);
  world_->fabric()->check();
  if (request.message == nullptr) return;
  const Status status = world_->wait(request.message);
  request.settled.store(true);
  if (status == Status::ok && request.staged != nullptr && request.kind == Kind::recv && !request.scattered) {
    scatter(request);
  }
  if (status == Status::ok) return;
  world_->fabric()->check();
  world_->take_faults();
  const bool sent = request.kind == Kind::send;
  throw Refusal(MP_FAILURE, concat(sent ? "the send of " : "the receive of ", request.bytes, " B ",
                                   sent ? "to rank " : "from rank ", request.peer, " ended with ", name_of(status),
                                   status == Status::truncated ? ": the message is larger than its receive" : ""));
}

void Runtime::wait(std::span<mp_request_t> handles) {
  const std::vector<std::shared_ptr<Operation>> requests = requests_of(handles);
  for (const auto& request : requests) {
    demand(request->state != State::prepared && request->state != State::queued, EINVAL,
           "the request was prepared, but is not posted");
  }
  std::exception_ptr first;
  // The last receive of a peer completes all before it, at the price of one.
  for (std::size_t i = requests.size(); i-- > 0;) {
    try {
      finish(*requests[i]);
    } catch (...) {
      if (first == nullptr) first = std::current_exception();
    }
    requests_.remove(handles[i]);
  }
  if (first != nullptr) std::rethrow_exception(first);
}

bool Runtime::is_done(Operation& request) {
  if (request.state == State::lost) return true;
  if (request.state != State::posted && request.state != State::awaited) return false;
  if (request.words != nullptr && request.words->asked != 0 &&
      std::atomic_ref(request.words->seen).load(std::memory_order_acquire) == 0) {
    return false;
  }
  if (request.awaited != nullptr && !request.awaited->done()) return false;
  if (request.done != nullptr && !request.done->done()) return false;
  if (request.message == nullptr || request.settled.load()) return true;
  const std::unique_lock busy(request.busy, std::try_to_lock);
  if (busy.owns_lock() && world_->test(request.message) != Status::pending) request.settled.store(true);
  return request.settled.load();
}

int Runtime::count_done(std::span<mp_request_t> handles) {
  world_->fabric()->check();
  int count = 0;
  for (const mp_request_t& handle : handles) {
    if (const auto request = requests_.find(handle)) count += is_done(*request) ? 1 : 0;
  }
  return count;
}

}  // namespace onstream::mp
