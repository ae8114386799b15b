#include "onstream/one_sided/proxy/proxy.hpp"

#include <atomic>
#include <cstring>
#include <string>
#include <tuple>

#include "onstream/base/error.hpp"
#include "onstream/one_sided/kernel/kernels.hpp"

namespace onstream::one_sided {

namespace {

constexpr std::size_t kLine = 64;

// A refused request, which fails the world with this story.
struct RefusedRequest {
  std::string story;
};

std::string errand_text(const ProxyRequest& request, std::size_t bytes) {
  switch (work_of(request.work)) {
    case ProxyWork::put: return concat("a put of ", bytes, " B");
    case ProxyWork::get: return concat("a get of ", bytes, " B");
    case ProxyWork::store: return concat("a store of ", bytes, " B");
    case ProxyWork::add: return concat("an add to a word of ", bytes, " B");
    case ProxyWork::atomic: return concat("an atomic ", name_of(op_of(request.bytes)), " of a word of ", bytes, " B");
    case ProxyWork::none: break;
  }
  return "nothing";
}

// Segments by their number; other memory by its address, as its owner sees it.
std::string lent_name(LentId id, std::uint64_t address, int owner) {
  if (id != kByAddress && id % 2 == 0) return concat("rank ", owner, "'s part of segment ", id / 2);
  return concat(id == kByAddress ? "memory" : "a window", " of rank ", owner, " at ",
                reinterpret_cast<const void*>(address));
}

}  // namespace

Proxy::Proxy(Fabric& fabric, std::shared_ptr<Lent> lent)
    : fabric_(fabric),
      device_(fabric.device()),
      lent_(std::move(lent)),
      chunk_bytes_((static_cast<std::size_t>(fabric.parameters().stage_chunk_bytes) + kLine - 1) / kLine * kLine),
      slot_bytes_(sizeof(ProxyRequest) + chunk_bytes_),
      slots_(fabric.segment(kSlots * slot_bytes_ * static_cast<std::size_t>(fabric.size()), MemoryKind::pinned)),
      locks_(device_->allocate(sizeof(std::uint64_t) * static_cast<std::size_t>(fabric.size()), MemoryKind::device)),
      stream_(device_->create_stream()) {
  if (fabric_.network() != nullptr) {
    remote_ = std::make_unique<RemoteSlots>(fabric_, [this](int asker, const ProxyRequest& request, std::byte* data) {
      return perform_remote(asker, request, data);
    });
  }
  bool alone = true;
  for (int peer = 0; peer < fabric_.size(); ++peer)
    alone = alone && (peer == fabric_.rank() || fabric_.is_remote(peer));
  if (!alone) thread_ = quiet_thread([this] { serve(); });
}

Proxy::~Proxy() {
  stopping_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
  remote_.reset();
  let_go_of(*device_, stream_);
}

ProxyRequest* Proxy::slot(int peer, std::size_t number) const {
  if (remote(peer)) return remote_->slot(peer, number);
  const std::size_t before = kSlots * static_cast<std::size_t>(fabric_.rank()) + number;
  return reinterpret_cast<ProxyRequest*>(slots_->peer(peer) + slot_bytes_ * before);
}

std::shared_ptr<const void> Proxy::memory() const {
  using Memories = std::tuple<std::shared_ptr<Segment>, std::shared_ptr<Memory>, std::shared_ptr<std::byte>>;
  return std::make_shared<const Memories>(slots_, locks_, remote_ == nullptr ? nullptr : remote_->memory());
}

// Looks without rest for a moment after each request, then every 50 us (HostGroup::pause).
void Proxy::serve() {
  constexpr std::uint32_t kSpins = 256;
  try {
    for (std::uint32_t idle = 0; !stopping_.load(std::memory_order_relaxed); ++idle) {
      if (look()) idle = 0;
      HostGroup::pause(idle, kSpins, HostGroup::kFewYields);
    }
  } catch (const RefusedRequest& refusal) {
    fabric_.abort_untold(refusal.story);
  } catch (const std::exception& error) {
    fabric_.abort_untold(concat("the proxy of rank ", fabric_.rank(), " failed: ", error.what()));
  }
}

bool Proxy::look() {
  bool worked = false;
  const std::size_t slots = kSlots * static_cast<std::size_t>(fabric_.size());
  for (std::size_t slot = 0; slot < slots; ++slot) {
    std::byte* own = slots_->local() + slot_bytes_ * slot;
    auto& request = *reinterpret_cast<ProxyRequest*>(own);
    if (HostGroup::load_acquire(&request.work) == static_cast<std::uint64_t>(ProxyWork::none)) continue;
    perform(static_cast<int>(slot / kSlots), request, own + sizeof(ProxyRequest));
    HostGroup::store_release(&request.work,
                             static_cast<std::uint64_t>(ProxyWork::none));  // pairs with the asker's wait
    worked = true;
  }
  return worked;
}

void Proxy::perform(int asker, const ProxyRequest& request, std::byte* data) {
  const ProxyRequest whole = request;  // as it was checked
  const std::size_t bytes = [&] {
    try {
      return checked(whole);
    } catch (const Error& error) {
      throw RefusedRequest{
          concat("rank ", asker, " left the proxy of rank ", fabric_.rank(), " what is no request: ", error.what())};
    }
  }();
  const LentId id = lent_of(whole.work);
  const std::string missing =
      lent_->use(id, whole.address, bytes, [&](Lent::Where where) { touch(whole, data, where); });
  if (missing.empty()) return;
  throw RefusedRequest{concat(errand_text(whole, bytes), " by rank ", asker, " is for ",
                              lent_name(id, whole.address, fabric_.rank()), ", ", missing)};
}

// With the network in hand. A request that is refused has no receipt: its asker hears of the failure.
bool Proxy::perform_remote(int asker, const ProxyRequest& request, std::byte* data) {
  try {
    perform(asker, request, data);
    return true;
  } catch (const RefusedRequest& refusal) {
    fabric_.abort_untold(refusal.story);
    return false;
  }
}

std::size_t Proxy::checked(const ProxyRequest& request) const {
  const auto word = [&](std::size_t width) {
    require(width == 4 || width == 8, "a word of ", width, " B");
    require(request.address % width == 0, "a word of ", width, " B at ",
            reinterpret_cast<const void*>(request.address));
    return width;
  };
  switch (work_of(request.work)) {
    case ProxyWork::put:
    case ProxyWork::get:
      require(request.bytes <= chunk_bytes_, request.bytes, " B in a slot of ", chunk_bytes_, " B");
      return request.bytes;
    case ProxyWork::store: return request.bytes == 1 ? 1 : word(request.bytes);
    case ProxyWork::add: return word(request.bytes);
    case ProxyWork::atomic:
      require(request.bytes >> 8 <= static_cast<std::uint64_t>(AtomicOp::compare_swap), "an atomic op ",
              request.bytes >> 8);
      return word(width_of(request.bytes));
    case ProxyWork::none: break;
  }
  fail(ErrorCode::invalid_argument, "work ", static_cast<std::uint64_t>(work_of(request.work)));
}

void Proxy::touch(const ProxyRequest& request, std::byte* data, Lent::Where where) {
  auto* const there = reinterpret_cast<void*>(request.address);
  const ProxyWork work = work_of(request.work);
  if (work == ProxyWork::put) return move(there, data, request.bytes, where);
  if (work == ProxyWork::get) return move(data, there, request.bytes, where);
  change(request, data, where);
}

// Words in a GPU's memory are changed by a kernel: the CPU cannot, and its atomics would not be theirs.
void Proxy::change(const ProxyRequest& request, std::byte* data, Lent::Where where) {
  const ProxyWork work = work_of(request.work);
  Step step;
  step.target = request.address;
  step.source = request.value;
  step.width = static_cast<std::uint8_t>(request.bytes);
  step.kind = work == ProxyWork::add ? StepKind::add : StepKind::store;
  if (work == ProxyWork::atomic) {
    step.kind = StepKind::atomic;
    step.compare = static_cast<Compare>(op_of(request.bytes));
    step.width = width_of(request.bytes);
    step.bytes = reinterpret_cast<std::uint64_t>(data);
  }
  FewSteps body;
  body.wait = fabric_.wait_view();
  body.count = 1;
  body.steps[0] = step;
  if (where == Lent::Where::cpu) return body(HostGroup(0, 1));
  launch(*device_, few_steps_kernel(), body, {1, 32}, stream_);
  device_->synchronize(stream_);
}

void Proxy::move(void* destination, const void* source, std::size_t bytes, Lent::Where where) {
  const auto whole_word = [&](std::size_t width) {
    return bytes == width && (reinterpret_cast<std::uintptr_t>(destination) % width) == 0;
  };
  if (where == Lent::Where::gpu) {
    device_->copy(destination, source, bytes, stream_);
    device_->synchronize(stream_);
  } else if (whole_word(sizeof(std::uint32_t)) || whole_word(sizeof(std::uint64_t))) {
    // A reader sees the word whole.
    if (bytes == sizeof(std::uint64_t)) {
      std::uint64_t value = 0;
      std::memcpy(&value, source, bytes);
      HostGroup::store_release(static_cast<std::uint64_t*>(destination), value);
    } else {
      std::uint32_t value = 0;
      std::memcpy(&value, source, bytes);
      HostGroup::store_release(static_cast<std::uint32_t*>(destination), value);
    }
  } else {
    std::memcpy(destination, source, bytes);
  }
}

}  // namespace onstream::one_sided
