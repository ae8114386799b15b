#include "runtime.hpp"

#include "onstream/base/error.hpp"
#include "onstream/base/log.hpp"
#include "onstream/device/host/group.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/symmetric.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::upc {

namespace {

constexpr std::uint64_t kDevice = std::uint64_t{1} << 62;  // in a pointer's address: the place is in device memory
constexpr std::uint64_t kFirst = 4096;                     // the address of offset 0; null is none
constexpr std::size_t kLine = 64;

}  // namespace

Runtime*& running() {
  static Runtime* runtime = nullptr;
  return runtime;
}

// Grains of 64 B, or more where the tables would be too large.
Runtime::Space Runtime::plan_space(MemoryKind kind, std::int64_t bytes) {
  constexpr std::size_t kMostGrains = std::size_t{1} << 21;
  Space space{kind, kLine, 0, nullptr};
  const auto half = (static_cast<std::size_t>(bytes) + 1) / 2;
  while (half / space.grain > kMostGrains) space.grain *= 2;
  space.grains = (half + space.grain - 1) / space.grain;
  return space;
}

Runtime::Runtime() : world_(World::create()) {
  thread_ = world_->rank();
  threads_ = world_->size();
  for (int thread = 0; thread < threads_; ++thread) {
    if (!world_->fabric()->is_remote(thread)) continue;
    fail(ErrorCode::unsupported, "UPC's threads need one host in this version, and thread ", thread,
         " is on another than thread ", thread_, "; OpenSHMEM and the library's own calls go between hosts");
  }
  const Parameters& parameters = world_->fabric()->parameters();
  spaces_ = {plan_space(MemoryKind::pinned, parameters.upc_host_bytes),
             plan_space(MemoryKind::device, parameters.upc_device_bytes)};
  for (Space& space : spaces_) space.segment = world_->segment(2 * space.half_bytes(), space.kind);
  context_ = std::make_unique<Context>(world_->one_sided());
  make_book();
  world_->barrier();
}

// Every part holds the word of the exit, the words of the phases, and the tables of both halves of both spaces; those
// of the symmetric halves are in use at thread 0.
void Runtime::make_book() {
  std::size_t bytes = kLine + (Phases::word_bytes(threads_) + kLine - 1) / kLine * kLine;
  for (const Space& space : spaces_) bytes += 2 * Arena::table_bytes(space.grains);
  book_ = world_->fabric()->segment(bytes, MemoryKind::pinned);
  std::vector<std::byte*> words;
  for (int thread = 0; thread < threads_; ++thread) words.push_back(book_->peer(thread) + kLine);
  phases_ = std::make_unique<Phases>(*world_, std::move(words));
  for (const Space& space : spaces_) {
    for (const Half half : {Half::symmetric, Half::own}) arena(thread_, space, half).clear();
  }
}

std::byte* Runtime::tables(int thread, const Space& space, Half half) const {
  std::byte* at = book_->peer(thread) + kLine + (Phases::word_bytes(threads_) + kLine - 1) / kLine * kLine;
  if (&space != spaces_.data()) at += 2 * Arena::table_bytes(spaces_[0].grains);
  if (half == Half::own) at += Arena::table_bytes(space.grains);
  return at;
}

Arena Runtime::arena(int thread, const Space& space, Half half) const {
  return {tables(thread, space, half), space.grains};
}

void Runtime::close() {
  context_.reset();
  phases_.reset();
  for (Space& space : spaces_) world_->free(space.segment);
  world_->fabric()->free(book_);
  for (Space& space : spaces_) space.segment.reset();
  book_.reset();
  world_.reset();
}

upc_ptr_t Runtime::allocate(const char* call, Half half, MemoryKind kind, std::size_t bytes) {
  const Space& space = space_of(kind);
  const int home = half == Half::symmetric ? 0 : thread_;
  const Arena from = arena(home, space, half);
  const std::size_t grains = bytes / space.grain + (bytes % space.grain != 0 ? 1 : 0);
  const std::optional<std::size_t> first = from.allocate(*world_, thread_, grains);
  if (!first) {
    log(LogLevel::warn, call, ": no room for ", bytes, " B: of the ", space.half_bytes(), " B of ",
        kind == MemoryKind::device ? "device" : "host", " memory for ",
        half == Half::own ? "a thread's own pieces, " : "pieces in all parts, ", from.used() * space.grain,
        " B are used, by ", from.pieces(), " pieces; raise ONSTREAM_UPC_",
        kind == MemoryKind::device ? "DEVICE" : "HOST", "_BYTES, of which that is half");
    return UPC_NULL;
  }
  const std::size_t offset = *first * space.grain + (half == Half::own ? space.half_bytes() : 0);
  return {(kind == MemoryKind::device ? kDevice : 0) | (kFirst + offset), static_cast<std::uint32_t>(home), 0};
}

void Runtime::free(upc_ptr_t ptr) {
  const Spot at = spot("the pointer", ptr);
  const Half half = at.offset < at.space->half_bytes() ? Half::symmetric : Half::own;
  const std::size_t within = at.offset - (half == Half::own ? at.space->half_bytes() : 0);
  const auto thread = static_cast<int>(ptr.thread);
  const bool begins = within % at.space->grain == 0 && ptr.phase == 0 && (half == Half::own || thread == 0);
  require(begins && arena(thread, *at.space, half).free(*world_, thread_, within / at.space->grain), text_of(ptr),
          " is no piece that an allocation gave, or was freed before");
}

std::string Runtime::text_of(upc_ptr_t ptr) const {
  return concat("pointer {thread ", ptr.thread, ", address ", reinterpret_cast<const void*>(ptr.addr), ", phase ",
                ptr.phase, "}");
}

bool Runtime::on_device(upc_ptr_t ptr) { return (ptr.addr & kDevice) != 0; }

Runtime::Spot Runtime::spot(const char* name, upc_ptr_t ptr) const {
  // Not by require(), whose text costs more than a small copy even if nothing is wrong.
  if (ptr.addr == 0) [[unlikely]]
    fail(ErrorCode::invalid_argument, name, " is null");
  if (ptr.thread >= static_cast<std::uint32_t>(threads_)) [[unlikely]] {
    fail(ErrorCode::invalid_argument, name, " is ", text_of(ptr), ", but there are threads 0 to ", threads_ - 1);
  }
  const Space& space = spaces_[on_device(ptr) ? 1 : 0];
  const std::uint64_t address = ptr.addr & ~kDevice;
  if (address < kFirst || address - kFirst >= 2 * space.half_bytes()) [[unlikely]] {
    fail(ErrorCode::invalid_argument, name, " is ", text_of(ptr), ", outside the shared space of ",
         2 * space.half_bytes(), " B of each thread");
  }
  return {&space, address - kFirst};
}

// Looked up at the first and the last byte: pieces lie side by side, but a program errs by one far more often than by
// two.
bool Runtime::allocated(const Spot& at, int thread, std::size_t bytes) const {
  const std::size_t half_bytes = at.space->half_bytes();
  const Half half = at.offset < half_bytes ? Half::symmetric : Half::own;
  const std::size_t begin = at.offset - (half == Half::own ? half_bytes : 0);
  if (begin + bytes > half_bytes) return false;
  const Arena where = arena(half == Half::symmetric ? 0 : thread, *at.space, half);
  return where.is_live(begin / at.space->grain) && where.is_live((begin + bytes - 1) / at.space->grain);
}

Runtime::Place Runtime::place(const char* name, upc_ptr_t ptr, std::size_t bytes) const {
  const Spot at = spot(name, ptr);
  const std::size_t left = 2 * at.space->half_bytes() - at.offset;
  if (bytes > left) [[unlikely]] {
    fail(ErrorCode::invalid_argument, name, " is ", text_of(ptr), ": from there ", left,
         " B are left of the thread's part, not ", bytes);
  }
  const auto thread = static_cast<int>(ptr.thread);
  if (bytes != 0 && !allocated(at, thread, bytes)) [[unlikely]] {
    fail(ErrorCode::invalid_argument, name, " is ", text_of(ptr), ": ", bytes,
         " B from there are not all allocated, or were freed");
  }
  const Segment& segment = *at.space->segment;
  std::byte* const here = segment.direct(thread) ? segment.peer(thread) + at.offset : nullptr;
  return {segment.local() + at.offset, thread, here, world_->one_sided().cpu_reaches(at.space->kind)};
}

void Runtime::tell_exit(int status) const {
  for (int thread = 0; thread < threads_; ++thread) {
    auto* const word = reinterpret_cast<std::uint64_t*>(book_->peer(thread));
    HostGroup::store_release(word, kTold | static_cast<std::uint8_t>(status));  // pairs with exit_told()
  }
}

int Runtime::exit_told() const {
  const std::uint64_t word = HostGroup::load_acquire(reinterpret_cast<const std::uint64_t*>(book_->local()));
  return word == 0 ? -1 : static_cast<int>(static_cast<std::uint8_t>(word));
}

}  // namespace onstream::upc
