#include "onstream/one_sided.hpp"

#include <algorithm>

#include "onstream/base/error.hpp"
#include "onstream/one_sided/kernel/kernels.hpp"
#include "onstream/one_sided/stream/implementation.hpp"
#include "onstream/path/blocks.hpp"

namespace onstream {

using one_sided::FewSteps;
using one_sided::ManySteps;
using one_sided::Proxy;
using one_sided::Step;
using one_sided::StepKind;

namespace {

bool touch(std::uint64_t a, std::uint64_t a_bytes, std::uint64_t b, std::uint64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

// Whether a copy writes bytes that the other reads or writes: then they must not run side by side.
bool collide(const Step& first, const Step& second) {
  return touch(first.target, first.bytes, second.target, second.bytes) ||
         touch(first.target, first.bytes, second.source, second.bytes) ||
         touch(first.source, first.bytes, second.target, second.bytes);
}

Until until_of(const Step& step) { return {step.compare, step.source, step.width, step.sign}; }

// As faults name it, when it has not started.
std::string text_of(std::span<const Step> steps) {
  if (steps.empty()) return "a one-sided op";
  const Step& step = steps.front();
  if (step.kind == StepKind::wait) {
    return concat("wait for ", text_of(until_of(step)));
  }
  if (step.kind == StepKind::copy || step.kind == StepKind::engine) return concat("copy of ", step.bytes, " B");
  return concat("one-sided op on a word of ", step.width, " B");
}

template <class Body>
Body body_of(const WaitView& wait, std::span<const Step> steps) {
  Body body;
  body.wait = wait;
  body.count = static_cast<std::int32_t>(steps.size());
  std::ranges::copy(steps, body.steps);
  return body;
}

}  // namespace

OneSidedImplementation::OneSidedImplementation(std::shared_ptr<Fabric> fabric)
    : fabric_(std::move(fabric)),
      device_(fabric_->device()),
      on_host_(device_->kind() == DeviceKind::host),
      block_bytes_(static_cast<std::size_t>(fabric_->parameters().block_bytes)),
      engine_min_(fabric_->paths().rule(path::Operation::put, path::Link::cuda, Path::copy).from_bytes),
      max_blocks_(std::min(static_cast<int>(fabric_->parameters().max_blocks), fabric_->block_limit())),
      tickets_(*fabric_),
      uses_(device_) {
  device_->load(one_sided::few_steps_kernel());
  device_->load(one_sided::many_steps_kernel());
  device_->load(one_sided::one_wait_kernel());
  device_->load(one_sided::one_write_kernel());
  device_->load(one_sided::barrier_kernel());
  device_->load(one_sided::walk_kernel());
  device_->load(one_sided::wait_many_kernel());
  team_ = team_of_all();
}

// Waits for the work enqueued eagerly, bounded: then the world is aborted, which makes that work end.
OneSidedImplementation::~OneSidedImplementation() {
  try {
    constexpr double kDrainS = 10;
    if (uses_.done(Deadline(fabric_->parameters().timeout_s))) return;
    fabric_->abort("the world was destroyed while its one-sided ops were under way");
    (void)uses_.done(Deadline(kDrainS));
  } catch (const Error&) {
    // The device is gone, and the work with it.
  }
}

std::shared_ptr<Window> OneSidedImplementation::window(void* address, std::size_t bytes) {
  fabric_->check([&] { return concat("a window of ", bytes, " B"); });
  auto made = std::make_shared<Window>(*fabric_, *lent_, address, bytes);
  if (made->needs_proxy()) start_proxy();
  return made;
}

void OneSidedImplementation::start_proxy() {
  if (proxy_ != nullptr) return;
  proxy_ = std::make_unique<Proxy>(*fabric_, lent_);
  fabric_->barrier("window.proxy");
}

std::shared_ptr<Window> OneSidedImplementation::window(std::shared_ptr<Segment> segment) {
  return std::make_shared<Window>(*fabric_, std::move(segment));
}

Proxy& OneSidedImplementation::proxy() {
  require(proxy_ != nullptr, "the window belongs to another world");
  return *proxy_;
}

StepKind OneSidedImplementation::copy_kind(const void* local, std::size_t bytes) const {
  if (on_host_) return StepKind::copy;
  return bytes < engine_min_ && device_->inspect(local).kernel_access ? StepKind::copy : StepKind::engine;
}

void OneSidedImplementation::check_kernel_access(const char* what, const void* address) const {
  const MemoryInfo info = device_->inspect(address);
  require(info.kernel_access, what, ": kernels cannot access the ", name_of(info.kind), " memory at ", address,
          "; allocate it with onstream, or pin it");
}

template <class Emit>
void OneSidedImplementation::cut(std::span<const Step> steps, const Emit& emit) const {
  std::size_t first = 0;
  std::size_t bytes = 0;
  bool ordered = false;    // something stands in the part that is no copy
  bool one_block = false;  // a part that is more than copies and the signals behind them
  bool waited = false;     // something in the parts before
  const auto end = [&](std::size_t next) {
    if (next > first) {
      const auto part = steps.subspan(first, next - first);
      const bool waits = std::ranges::any_of(part, one_sided::waits);
      emit(part, ListPlace{waited, waits && next < steps.size()});
      waited = waited || waits;
    }
    first = next;
    bytes = 0;
    ordered = one_block = false;
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    if (step.kind == StepKind::engine) {
      end(i);
      end(i + 1);
      continue;
    }
    const bool orders = step.kind != StepKind::copy;
    const auto mixes = [&] { return orders ? !one_sided::tells(step) : ordered; };
    const auto earlier = steps.subspan(first, i - first);
    const bool collides = !on_host_ && !orders && std::ranges::any_of(earlier, [&](const Step& other) {
      return other.kind == StepKind::copy && collide(step, other);
    });
    const std::size_t with = bytes + (orders ? 0 : step.bytes);
    const bool too_much = !on_host_ && (one_block || mixes()) && with > block_bytes_;
    if (i - first == ManySteps::kCapacity || collides || too_much) end(i);
    bytes += orders ? 0 : step.bytes;
    one_block = one_block || mixes();
    ordered = ordered || orders;
  }
  end(steps.size());
}

// Many blocks for many bytes, in a part of copies and the signals behind them.
Grid OneSidedImplementation::grid_for(std::span<const Step> steps) const {
  constexpr std::size_t kWord = 16;
  constexpr std::size_t kWarp = 32;
  std::size_t bytes = 0;
  for (const Step& step : steps) bytes += step.kind == StepKind::copy ? step.bytes : 0;
  if (bytes > block_bytes_) return push_grid(bytes, block_bytes_, max_blocks_);
  const std::size_t wanted = (bytes / kWord + kWarp - 1) / kWarp * kWarp;
  return {1, static_cast<int>(std::clamp<std::size_t>(wanted, kWarp, kMaxThreads))};
}

template <class Body>
void OneSidedImplementation::launch_steps(const Kernel& kernel, std::span<const Step> steps, ListPlace place,
                                          Stream stream) {
  Body body = body_of<Body>(fabric_->wait_view(), steps);
  const Grid grid = grid_for(steps);
  const auto told = std::ranges::find_if(steps, [](const Step& step) { return step.kind != StepKind::copy; });
  body.copies = static_cast<std::int32_t>(told - steps.begin());
  if (grid.blocks > 1 && told != steps.end()) body.ticket = tickets_.of(stream);
  if (place.follows || place.leads) body.ended = tickets_.ended(stream);
  body.follows = place.follows;
  launch(*device_, kernel, body, grid, stream);
}

// False: it takes a list.
bool OneSidedImplementation::launch_one(const Step& step, Stream stream) {
  constexpr Grid kWarp = {1, 32};
  if (step.kind == StepKind::wait) {
    launch(*device_, one_sided::one_wait_kernel(), one_sided::OneWait{fabric_->wait_view(), step}, kWarp, stream);
  } else if (one_sided::tells(step)) {
    launch(*device_, one_sided::one_write_kernel(), one_sided::OneWrite{step}, kWarp, stream);
  } else {
    return false;
  }
  return true;
}

void OneSidedImplementation::enqueue(std::span<const Step> steps, std::span<const std::uint64_t> staged,
                                     Stream stream) {
  if (steps.size() == 1 && launch_one(steps[0], stream)) return;
  const auto enqueue_part = [&](std::span<const Step> part, ListPlace place) {
    if (part[0].kind == StepKind::engine) {
      device_->copy(reinterpret_cast<void*>(part[0].target), reinterpret_cast<const void*>(part[0].source),
                    part[0].bytes, stream);
    } else if (part.size() <= FewSteps::kCapacity) {
      launch_steps<FewSteps>(one_sided::few_steps_kernel(), part, place, stream);
    } else {
      launch_steps<ManySteps>(one_sided::many_steps_kernel(), part, place, stream);
    }
  };
  try {
    cut(steps, enqueue_part);
  } catch (...) {
    note(steps, staged, stream);  // the parts before the one that failed are on the stream
    throw;
  }
}

void OneSidedImplementation::run(std::span<const Step> steps, Stream stream, std::span<const std::uint64_t> staged) {
  fabric_->check([&] { return text_of(steps); });
  if (steps.empty()) return;
  enqueue(steps, staged, stream);
  note(steps, staged, stream);
}

void OneSidedImplementation::note(std::span<const Step> steps, std::span<const std::uint64_t> staged, Stream stream) {
  if (note(stream) == Noted::enqueued) return;
  const auto guard = [&](std::uint64_t address) { fabric_->guard(stream, reinterpret_cast<const void*>(address)); };
  for (const Step& step : steps) {
    guard(step.target);
    if (one_sided::moves(step)) guard(step.source);
    if (step.kind == StepKind::atomic) guard(step.bytes);
  }
  for (const std::uint64_t number : staged) fabric_->guard_segment(stream, number);
}

Noted OneSidedImplementation::note(Stream stream) {
  if (uses_.note(stream, fabric_->uses()) != nullptr) return Noted::enqueued;
  device_->retain(stream, fabric_->wait_memory());  // the graph's waits look there
  if (proxy_ != nullptr) device_->retain(stream, proxy_->memory());
  return Noted::captured;
}

void OneSidedImplementation::run_inline(std::span<const Step> steps) const {
  const WaitView wait = fabric_->wait_view();
  std::uint64_t ended = 0;
  const auto play = [&](auto body) {
    body.ended = &ended;
    body(HostGroup(0, 1));
  };
  cut(steps, [&](std::span<const Step> part, ListPlace) {
    if (ended != 0) return;
    if (part.size() <= FewSteps::kCapacity) {
      play(body_of<FewSteps>(wait, part));
    } else {
      play(body_of<ManySteps>(wait, part));
    }
  });
}

void OneSidedImplementation::run(std::span<const Step> steps) {
  fabric_->check([&] { return text_of(steps); });
  if (on_host_) {
    run_inline(steps);
  } else {
    const StreamPool::StreamLease stream = fabric_->streams()->lease();
    enqueue(steps, {}, stream.get());
    device_->synchronize(stream.get());
  }
  fabric_->check_waited();
}

// A word that the CPU reads itself, of a device whose faults it cannot count: those words lie in the device's memory.
Status OneSidedImplementation::wait_here(const Step& step) {
  const HostGroup group(0, 1);
  const WaitView view = fabric_->wait_view();
  const Status status = wait_for_peer(
      group, view, step.peer, [&, range = one_sided::range_of(step)] { return one_sided::is_met(group, step, range); });
  if (status == Status::ok) return status;
  const std::string place = text_of(fabric_->place_of(reinterpret_cast<const void*>(step.target)));
  return finish_wait(status, concat("a wait of the host for ", text_of(until_of(step)), place));
}

void OneSidedImplementation::wait_many(one_sided::Many many, const WordRow& words, const Until& until,
                                       const FoundWords& answer, Stream stream) {
  fabric_->check([&] { return concat("wait for ", words.count, " words"); });
  const auto writable = [&](const char* what, const void* address) {
    require(reinterpret_cast<std::uintptr_t>(address) % sizeof(std::uint64_t) == 0 && address != nullptr,
            "wait: ", what, " of many words go to words of 8 B, not to ", address);
    check_kernel_access("wait", address);
  };
  if (many != one_sided::Many::all) writable("the answers", answer.found);
  if (many == one_sided::Many::some && words.count > 0) writable("the indices", answer.indices);
  if (many == one_sided::Many::all && words.count == 0) return;
  one_sided::WaitMany body{fabric_->wait_view(), {}, words.count, words.left_out, answer.found, answer.indices, many};
  if (words.count > 0) {
    body.first = one_sided::wait_step(words.first, until);
    check_kernel_access("wait", words.first);
    if (words.left_out != nullptr) check_kernel_access("wait", words.left_out);
  }
  constexpr std::size_t kWarp = 32;
  const std::size_t threads = std::clamp<std::size_t>((words.count + kWarp - 1) / kWarp * kWarp, kWarp, kMaxThreads);
  const int wanted = many == one_sided::Many::all ? static_cast<int>(threads) : static_cast<int>(kWarp);
  launch(*device_, one_sided::wait_many_kernel(), body, {1, wanted}, stream);
  if (note(stream) == Noted::enqueued) return;
  for (const void* used : {words.first, static_cast<const void*>(words.left_out),
                           static_cast<const void*>(answer.found), static_cast<const void*>(answer.indices)}) {
    fabric_->guard(stream, used);
  }
}

Status OneSidedImplementation::wait(const Step& step) {
  const MemoryKind kind = device_->inspect(reinterpret_cast<const void*>(step.target)).kind;
  if (on_host_) return one_sided::await(HostGroup(0, 1), fabric_->wait_view(), step);
  if (kind != MemoryKind::device) return wait_here(step);
  const StreamPool::StreamLease lease = fabric_->streams()->lease();
  const Stream stream = lease.get();
  auto body = body_of<FewSteps>(fabric_->wait_view(), std::span(&step, 1));
  body.ended = tickets_.take();
  launch(*device_, one_sided::few_steps_kernel(), body, grid_for(std::span(&step, 1)), stream);
  device_->synchronize(stream);
  std::uint64_t status = 0;
  if (fabric_->failure()) {  // of this wait, or of another op
    const std::uint64_t none = 0;
    device_->copy(&status, body.ended, sizeof status, stream);
    device_->copy(body.ended, &none, sizeof none, stream);
    device_->synchronize(stream);
  }
  tickets_.give_back(body.ended);
  return static_cast<Status>(status);
}

// --- OneSided ---

OneSided::OneSided(std::shared_ptr<Fabric> fabric)
    : implementation_(std::make_unique<OneSidedImplementation>(std::move(fabric))) {}
OneSided::~OneSided() = default;

std::shared_ptr<Window> OneSided::window(void* address, std::size_t bytes) {
  return implementation_->window(address, bytes);
}
std::shared_ptr<Window> OneSided::window(std::shared_ptr<Segment> segment) {
  return implementation_->window(std::move(segment));
}

void OneSided::start_proxy() { implementation_->start_proxy(); }
std::shared_ptr<const void> OneSided::lend(const void* address, std::size_t bytes) {
  return implementation_->lend(address, bytes);
}

std::shared_ptr<Segment> OneSided::segment(std::size_t bytes, MemoryKind kind) {
  return implementation_->segment(bytes, kind);
}
void OneSided::free(const std::shared_ptr<Segment>& segment) { implementation_->free(segment); }
Remote OneSided::symmetric(const void* address, int rank) const { return implementation_->symmetric(address, rank); }
SegmentView OneSided::view(const Segment& segment) const { return implementation_->view(segment); }
std::shared_ptr<Team> OneSided::team() const { return implementation_->team(); }
void OneSided::barrier() { implementation_->barrier(); }
Fabric& OneSided::fabric() const { return implementation_->fabric(); }
bool OneSided::cpu_reaches(MemoryKind kind) const { return implementation_->cpu_reaches(kind); }

void OneSided::run(const Batch& batch, Stream stream) { implementation_->run(batch.steps(), stream, batch.staged()); }
void OneSided::run(const Batch& batch) { implementation_->run(batch.steps()); }

void OneSided::put(const Remote& to, const void* source, std::size_t bytes, Stream stream) {
  Batch batch(*this);
  batch.put(to, source, bytes);
  run(batch, stream);
}
void OneSided::get(void* destination, const Remote& from, std::size_t bytes, Stream stream) {
  Batch batch(*this);
  batch.get(destination, from, bytes);
  run(batch, stream);
}
void OneSided::put_signal(const Remote& to, const void* source, std::size_t bytes, const Signal& signal,
                          Stream stream) {
  Batch batch(*this);
  batch.put(to, source, bytes);
  batch.signal(signal);
  run(batch, stream);
}
void OneSided::signal(const Signal& signal, Stream stream) {
  Batch batch(*this);
  batch.signal(signal);
  run(batch, stream);
}
void OneSided::wait(const void* word, const Until& until, Stream stream) {
  Batch batch(*this);
  batch.wait(word, until);
  run(batch, stream);
}

void OneSided::wait_all(const WordRow& words, const Until& until, Stream stream) {
  implementation_->wait_many(one_sided::Many::all, words, until, {nullptr, nullptr}, stream);
}
void OneSided::wait_any(const WordRow& words, const Until& until, std::uint64_t* found, Stream stream) {
  implementation_->wait_many(one_sided::Many::any, words, until, {found, nullptr}, stream);
}
void OneSided::wait_some(const WordRow& words, const Until& until, std::uint64_t* indices, std::uint64_t* found,
                         Stream stream) {
  implementation_->wait_many(one_sided::Many::some, words, until, {found, indices}, stream);
}

void OneSided::put(const Remote& to, const void* source, std::size_t bytes) {
  Batch batch(*this);
  batch.put(to, source, bytes);
  run(batch);
}
void OneSided::get(void* destination, const Remote& from, std::size_t bytes) {
  Batch batch(*this);
  batch.get(destination, from, bytes);
  run(batch);
}
void OneSided::put_signal(const Remote& to, const void* source, std::size_t bytes, const Signal& signal) {
  Batch batch(*this);
  batch.put(to, source, bytes);
  batch.signal(signal);
  run(batch);
}
void OneSided::signal(const Signal& signal) {
  Batch batch(*this);
  batch.signal(signal);
  run(batch);
}

void OneSided::atomic(AtomicOp op, const Remote& word, std::size_t width, std::uint64_t value, void* old,
                      std::uint64_t expected, Stream stream) {
  Batch batch(*this);
  batch.atomic(op, word, width, value, old, expected);
  run(batch, stream);
}

namespace {

// Throws unless all that `layout`, laid from there, touches is within the part. Its address if it is reached directly.
std::byte* checked(const char* what, const Remote& place, const Layout& layout) {
  const auto offset = static_cast<std::int64_t>(place.offset);
  require(offset + layout.lowest() >= 0, what, ": the layout reaches ", -(offset + layout.lowest()),
          " B in front of rank ", place.rank, "'s part");
  const auto first = static_cast<std::size_t>(offset + layout.lowest());
  const std::uint64_t at =
      place.window.at(place.rank, first, static_cast<std::size_t>(layout.highest() - layout.lowest()));
  if (!place.window.direct(place.rank)) return nullptr;
  return reinterpret_cast<std::byte*>(static_cast<std::int64_t>(at) - layout.lowest());
}

}  // namespace

void OneSided::put(const Remote& to, const Layout& to_layout, const void* source, const Layout& source_layout,
                   Stream stream) {
  if (std::byte* const there = checked("put", to, to_layout)) {
    implementation_->check_kernel_access("put", source);
    return implementation_->walk(there, to_layout, source, source_layout, stream);
  }
  require(!to_layout.overlaps_itself(), "put: the destination's layout, ", to_layout.describe(), ", overlaps itself");
  Batch batch(*this);
  batch.put(to, to_layout, source, source_layout);
  run(batch, stream);
}
void OneSided::get(void* destination, const Layout& to_layout, const Remote& from, const Layout& from_layout,
                   Stream stream) {
  if (const std::byte* const there = checked("get", from, from_layout)) {
    implementation_->check_kernel_access("get", destination);
    return implementation_->walk(destination, to_layout, there, from_layout, stream);
  }
  require(!to_layout.overlaps_itself(), "get: the destination's layout, ", to_layout.describe(), ", overlaps itself");
  Batch batch(*this);
  batch.get(destination, to_layout, from, from_layout);
  run(batch, stream);
}

void OneSided::copy(void* destination, const void* source, std::size_t bytes) {
  Batch batch(*this);
  batch.copy(destination, source, bytes);
  run(batch);
}

Status OneSided::wait(const void* word, const Until& until) {
  return implementation_->wait(one_sided::wait_step(word, until));
}

}  // namespace onstream
