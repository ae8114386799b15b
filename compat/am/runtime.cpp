#include "runtime.hpp"

#include "onstream/base/log.hpp"
#include "refusal.hpp"

namespace onstream::am {

namespace {

std::size_t size_of(std::int64_t value) { return static_cast<std::size_t>(value); }

bool is_open(std::uint64_t generation) { return generation % 2 == 1; }

// Makes the world, and checks that the torus and its parameters are equal, as one rank's launcher may give it others.
std::shared_ptr<World> world_of_equals() {
  std::shared_ptr<World> world = World::create();
  const Parameters& its = world->fabric()->parameters();
  world->fabric()->require_same(
      "a torus is the same on every rank, but", "has",
      concat("torus ", its.torus, ", am_events ", its.am_events, " and am_buffers ", its.am_buffers));
  return world;
}

// The process's runtime, as long as it has links. Looked at while another thread may still be making the next.
class Current {
 public:
  std::shared_ptr<Runtime> get() {
    const std::lock_guard lock(mutex_);
    return runtime_.lock();
  }
  void set(const std::shared_ptr<Runtime>& runtime) {
    const std::lock_guard lock(mutex_);
    runtime_ = runtime;
  }

 private:
  std::mutex mutex_;
  std::weak_ptr<Runtime> runtime_;
};

Current& current() {
  static auto* const of_process = new Current;  // threads may use links while the process ends
  return *of_process;
}

}  // namespace

Runtime::Runtime()
    : world_(world_of_equals()),
      torus_(fabric().parameters().torus, world_->size()),
      mailbox_(fabric(), size_of(fabric().parameters().am_events), size_of(fabric().parameters().am_buffers)),
      events_(mailbox_, world_->rank(), world_->size()),
      buffers_(*world_, mailbox_),
      mover_(*world_, mailbox_),
      stamps_(fabric().parameters().am_stamps == "on") {
  meet();
}

Runtime::~Runtime() { finish_messages(); }

void Runtime::finish_messages() noexcept {
  try {
    mover_.finish();
  } catch (const Error&) {
    // The world has failed, and the calls that waited for these messages have said so.
  }
}

// Starts the proxy threads: all ranks have one if some rank may register memory that some peer reaches by its owner's
// proxy only. On the host device none needs it where every process may attach to every other.
void Runtime::meet() {
  const bool stage = fabric().parameters().path == "stage";
  const auto mine = [&] {
    if (world_->device().kind() != DeviceKind::host || stage) return std::string("proxy");
    for (int peer = 0; peer < size(); ++peer) {
      if (!fabric().attach(this, peer)) return std::string("proxy");
    }
    return std::string();
  };
  bool proxy = false;
  for (const std::string& stated : fabric().agree("the links of registered buffers", mine)) {
    proxy = proxy || stated == "proxy";
  }
  if (proxy && size() > 1) world_->one_sided().start_proxy();
  HostGroup::store_release(&mailbox_.port(rank(), 0).generation, 1);  // the first link's, on every rank
  fabric().barrier("the first link");
}

// The first link finds its port open already, as all ranks' first links do.
am_portid_t Runtime::open_port() {
  const std::lock_guard lock(mutex_);
  for (am_portid_t number = 0; number < AM_NPORTS; ++number) {
    Port& port = mailbox_.port(rank(), number);
    if (ports_[number]) continue;
    ports_[number] = true;
    const std::uint64_t generation = HostGroup::load_relaxed(&port.generation);
    if (!is_open(generation)) HostGroup::store_release(&port.generation, generation + 1);  // pairs with the senders
    return number;
  }
  refuse(APELINK_ENOSPACE, "this rank has ", AM_NPORTS, " links open (AM_NPORTS); close one first");
}

void Runtime::close_port(am_portid_t number) {
  {
    const std::lock_guard lock(mutex_);
    Port& port = mailbox_.port(rank(), number);
    const std::uint64_t generation = HostGroup::load_relaxed(&port.generation);
    HostGroup::store_release(&port.generation, generation + 1);  // pairs with the senders, and with take()
  }
  finish_messages();  // the caller frees the link's buffers next
  buffers_.remove_all(number);
  events_.drop_all(number);
  const std::lock_guard lock(mutex_);
  ports_[number] = false;
}

void* Runtime::allocate(std::size_t bytes, MemoryKind kind) {
  std::shared_ptr<Memory> memory = world_->allocate(bytes, kind);
  const std::lock_guard lock(mutex_);
  void* const address = memory->data();
  memories_[address] = std::move(memory);
  return address;
}

void Runtime::free(void* memory) {
  std::shared_ptr<Memory> gone;
  const std::lock_guard lock(mutex_);
  const auto found = memories_.find(memory);
  accept_if(found != memories_.end(), APELINK_EFAULT, memory, " is no memory of ape_alloc, or was freed before");
  accept_if(!buffers_.holds(memory, found->second->bytes()), APELINK_EBUSY, "a buffer in the ", found->second->bytes(),
            " B at ", memory, " is registered; unregister it first");
  gone = std::move(found->second);
  memories_.erase(found);
}

Link::Link(std::shared_ptr<Runtime> runtime)
    : runtime_(std::move(runtime)),
      port_(runtime_->open_port()),
      generation_(HostGroup::load_relaxed(&runtime_->mailbox().port(runtime_->rank(), port_).generation)) {}

void Link::close() {
  if (closed_.exchange(true, std::memory_order_acq_rel)) return;
  runtime_->close_port(port_);
}

std::shared_ptr<Link> open_link() {
  static std::mutex first;
  const std::lock_guard lock(first);
  std::shared_ptr<Runtime> runtime = current().get();
  if (runtime == nullptr) {
    runtime = std::make_shared<Runtime>();
    current().set(runtime);
  }
  return std::make_shared<Link>(std::move(runtime));
}

std::optional<std::string> story_of_failure() {
  const std::shared_ptr<Runtime> runtime = current().get();
  const auto failure = runtime == nullptr ? std::nullopt : runtime->fabric().settled_failure("");
  if (!failure) return std::nullopt;
  const char* const go_on = failure->dead.empty() ? "to go on, every rank closes all its links and opens them again"
                                                  : "links are opened by all ranks of a job: start it again";
  return concat(facts_of(*failure), "\n", go_on);
}

}  // namespace onstream::am
