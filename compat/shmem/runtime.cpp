#include "runtime.hpp"

#include <algorithm>

#include "guarded.hpp"
#include "onstream/collective.hpp"
#include "onstream/collective/protocol/view.hpp"
#include "onstream/device/host/group.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/symmetric.hpp"
#include "settings.hpp"

struct onstream_shmem_context onstream_shmem_default_context = {0};
struct onstream_shmem_team onstream_shmem_world_team = {0};
struct onstream_shmem_team onstream_shmem_shared_team = {0};

namespace onstream::shmem {

namespace {

constexpr std::uint64_t kTold = std::uint64_t{1} << 32;  // in the word of tell_exit(), beside the status

// Whether a team of so many can have the library's collectives.
bool is_for_library(int size) { return size <= collective::kMostRanks; }

std::unique_ptr<Heap> make_heap(World& world, const Settings& settings, MemoryKind kind) {
  HeapOptions options;
  options.bytes = settings.heap_bytes;
  options.kind = kind;
  options.advice = "SHMEM_SYMMETRIC_SIZE gives the heap more bytes";
  return std::make_unique<Heap>(world.one_sided(), options);
}

// Ranks whose memory this one loads and stores, by the lowest of them.
int neighbourhood(const Segment& segment, int size) {
  for (int rank = 0; rank < size; ++rank) {
    if (segment.direct(rank)) return rank;
  }
  return 0;
}

}  // namespace

Runtime*& running() {
  static Runtime* runtime = nullptr;
  return runtime;
}

int ContextHandle::rank_of(int pe) const {
  if (pe < 0 || pe >= members->size()) [[unlikely]] {
    fail(ErrorCode::invalid_argument, "PE ", pe, " does not exist; this context's team has PEs 0 to ",
         members->size() - 1);
  }
  return members->members()[static_cast<std::size_t>(pe)];
}

Runtime::Runtime(int thread_level) : thread_level_(thread_level) {
  const Settings settings = settings_from_environment();
  world_ = World::create();
  rank_ = world_->rank();
  size_ = world_->size();
  heap_ = make_heap(*world_, settings, settings.on_device ? MemoryKind::device : MemoryKind::pinned);
  words_ = world_->segment((static_cast<std::size_t>(size_) + 1) * sizeof(std::uint64_t), MemoryKind::pinned);
  box_ = reinterpret_cast<std::uint64_t*>(words_->local());
  world_team_.team = world_->team();
  compare_ranks();
  if (one_device_kind_ && is_for_library(size_)) world_team_.collective = {world_, &world_->collective()};
  shared_team_.team = world_->team()->split(neighbourhood(*words_, size_), rank_);
  default_context_.context = std::make_unique<Context>(world_->one_sided());
  default_context_.team = &world_team_;
  default_context_.members = world_team_.team;
  default_context_.shared_by_threads = thread_level == SHMEM_THREAD_MULTIPLE;
  give_collectives(world_team_, &shared_team_);
  globals_.make(*world_);
  world_->team()->sync();
}

void Runtime::compare_ranks() {
  const auto kind = static_cast<std::uint64_t>(world_->device().kind());
  const auto level = static_cast<std::uint64_t>(thread_level_);
  for (const Team::Words& words : world_->team()->exchange({kind, level, 0, 0})) {
    one_device_kind_ = one_device_kind_ && words[0] == kind;
    some_have_threads_ = some_have_threads_ || words[1] == SHMEM_THREAD_MULTIPLE;
  }
}

void Runtime::close() {
  quiet_all();
  world_->team()->sync();
  const auto end = [](ContextHandle& context) {
    context.context.reset();
    context.members.reset();
  };
  for (const auto& context : contexts_) end(*context);
  end(default_context_);
  const auto let_go = [](TeamHandle& team) {
    team.context.reset();
    team.collective.reset();
    team.team.reset();
  };
  for (const auto& team : teams_) let_go(*team);
  let_go(shared_team_);
  let_go(world_team_);
  heap_->close();
  if (device_heap_owner_ != nullptr) device_heap_owner_->close();
  globals_.close(*world_);
  world_->free(words_);
  heap_.reset();
  device_heap_.store(nullptr, std::memory_order_relaxed);  // no call is under way
  device_heap_owner_.reset();
  words_.reset();
  world_.reset();
}

Heap& Runtime::device_heap() {
  if (heap_->kind() == MemoryKind::device) return *heap_;
  if (device_heap_owner_ == nullptr) {
    device_heap_owner_ = make_heap(*world_, settings_from_environment(), MemoryKind::device);
    device_heap_.store(device_heap_owner_.get(), std::memory_order_release);  // pairs with made_device_heap()
  }
  return *device_heap_owner_;
}

Heap* Runtime::heap_of(const void* address) const {
  if (heap_->place(address)) return heap_.get();
  Heap* const on_device = made_device_heap();
  return on_device != nullptr && on_device->place(address) ? on_device : nullptr;
}

void* Runtime::pointer(const void* address, int rank) const {
  if (globals_.holds(address)) {
    if (rank == rank_) return const_cast<void*>(address);
    const auto offset = reinterpret_cast<const std::byte*>(globals_.place(address)) - globals_.segment()->local();
    return globals_.segment()->direct(rank) ? globals_.segment()->peer(rank) + offset : nullptr;
  }
  const Heap* const heap = heap_of(address);
  if (heap == nullptr || !world_->one_sided().cpu_reaches(heap->kind())) return nullptr;
  const HeapPlace found = heap->place(address).value();
  return found.segment->direct(rank) ? found.segment->peer(rank) + found.offset : nullptr;
}

ContextHandle& Runtime::made_context(shmem_ctx_t handle) {
  require(handle != SHMEM_CTX_INVALID, "the context is SHMEM_CTX_INVALID");
  auto& found = static_cast<ContextHandle&>(*handle);
  require(found.context != nullptr, "the context was destroyed");
  return found;
}

TeamHandle& Runtime::team(shmem_team_t handle) {
  require(handle != SHMEM_TEAM_INVALID, "the team is SHMEM_TEAM_INVALID");
  if (handle == SHMEM_TEAM_WORLD) return world_team_;
  if (handle == SHMEM_TEAM_SHARED) return shared_team_;
  auto& found = static_cast<TeamHandle&>(*handle);
  require(found.team != nullptr, "the team was destroyed");
  return found;
}

shmem_team_t Runtime::handle_of(const TeamHandle& team) const {
  if (&team == &world_team_) return SHMEM_TEAM_WORLD;
  if (&team == &shared_team_) return SHMEM_TEAM_SHARED;
  return const_cast<TeamHandle*>(&team);
}

ContextHandle* Runtime::make_context(TeamHandle& team, long options) {
  auto made = std::make_unique<ContextHandle>();
  made->context = std::make_unique<Context>(world_->one_sided());
  made->team = &team;
  made->members = team.team;
  made->shared_by_threads =
      thread_level_ == SHMEM_THREAD_MULTIPLE && (options & (SHMEM_CTX_PRIVATE | SHMEM_CTX_SERIALIZED)) == 0;
  const std::lock_guard held(mutex_);
  contexts_.push_back(std::move(made));
  return contexts_.back().get();
}

void Runtime::end_context(ContextHandle& context) {
  context.context->quiet();
  context.context.reset();
  context.members.reset();
}

TeamHandle* Runtime::adopt(std::shared_ptr<Team> team, const shmem_team_config_t& config) {
  auto made = std::make_unique<TeamHandle>();
  made->team = std::move(team);
  made->config = config;
  const std::lock_guard held(mutex_);
  teams_.push_back(std::move(made));
  return teams_.back().get();
}

Context& Runtime::collectives_of(TeamHandle& team) {
  if (team.context == nullptr) team.context = std::make_unique<Context>(world_->one_sided());
  return *team.context;
}

void Runtime::give_collectives(const TeamHandle& parent, TeamHandle* made) {
  if (parent.size() != size_ || some_have_threads_ || !one_device_kind_) return;
  if (made != nullptr && std::ranges::equal(made->team->members(), world_team_.team->members())) {
    made->collective = world_team_.collective;  // calls of both come in the same order on every PE
    return;
  }
  if (made_device_heap() == nullptr && heap_->kind() != MemoryKind::device) return;
  // A PE in a team that is too large names none, as a PE in no team does, so that all ranks come.
  const bool has_some = made != nullptr && is_for_library(made->size());
  const std::shared_ptr<Collective> among =
      world_->collective().among(has_some ? made->team->members() : std::span<const int>());
  if (has_some) made->collective = among;
}

bool Runtime::cpu_reaches(const void* dest, const void* source) const {
  const auto reached = [&](const void* address) {
    const Heap* const heap = heap_of(address);
    return heap == nullptr ? in_globals(address) : world_->one_sided().cpu_reaches(heap->kind());
  };
  return reached(dest) && reached(source);
}

bool Runtime::in_library(const void* dest, const void* source) const {
  const auto is_symmetric = [&](const void* address) { return in_globals(address) || heap_of(address) != nullptr; };
  if (!is_symmetric(dest) || !is_symmetric(source)) return false;
  return world_->device().kind() == DeviceKind::host || !cpu_reaches(dest, source);
}

void Runtime::quiet_all() {
  default_context_.context->quiet();
  const std::lock_guard held(mutex_);
  for (const auto& context : contexts_) {
    if (context->context != nullptr) context->context->quiet();
  }
}

void Runtime::tell_exit(int status) {
  Context context(world_->one_sided());
  const std::uint64_t told = kTold | static_cast<std::uint32_t>(status);
  for (int rank = 0; rank < size_; ++rank) context.set(box_ + size_, told, rank);
  context.quiet();
}

int Runtime::exit_told() const {
  const std::uint64_t word = HostGroup::load_acquire(box_ + size_);  // pairs with tell_exit()
  return word == 0 ? -1 : static_cast<int>(static_cast<std::uint8_t>(word));
}

}  // namespace onstream::shmem
