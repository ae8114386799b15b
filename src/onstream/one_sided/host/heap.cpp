#include "onstream/symmetric.hpp"

#include <algorithm>
#include <bit>

#include "onstream/base/error.hpp"
#include "onstream/bootstrap/wire.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/one_sided/host/first_fit.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream {

namespace {

void check_alignment(std::size_t alignment) {
  require(std::has_single_bit(alignment), "heap: an alignment is a power of two, not ", alignment);
}

// In whole pages; nothing where the sum does not fit a size.
std::optional<std::size_t> in_pages(std::size_t bytes) {
  if (bytes > ~std::size_t{0} - Heap::kPageBytes) return std::nullopt;
  return (bytes + Heap::kPageBytes - 1) / Heap::kPageBytes * Heap::kPageBytes;
}

}  // namespace

Heap::Heap(OneSided& one_sided, const HeapOptions& options) : one_sided_(one_sided), options_(options) {
  require(options.bytes >= FirstFit::kGrain, "heap: at least ", FirstFit::kGrain, " B, not ", options.bytes);
  agree(concat("a heap of ", options.bytes, " B of ", name_of(options.kind), " memory, growing by ", options.grow_bytes,
               " B"));
  const std::optional<std::size_t> whole = in_pages(options.bytes);
  if (!whole) fail(ErrorCode::system, "heap: no memory has ", options.bytes, " B");
  add_segment(*whole);
}

Heap::~Heap() = default;

void Heap::close() {
  for (const std::shared_ptr<Segment>& segment : segments_) one_sided_.free(segment);
  segments_.clear();
  rooms_.clear();
  alignments_.clear();
}

void Heap::agree(const std::string& call) const {
  if (one_sided_.fabric().parameters().heap_check == "off") return;
  one_sided_.fabric().require_same("every rank makes the same calls on a heap, but", "calls", call);
}

void Heap::add_segment(std::size_t bytes) {
  const auto segment = one_sided_.segment(bytes, options_.kind);
  alignments_.push_back(common_alignment(*segment));
  rooms_.emplace_back(segment->bytes());
  segments_.push_back(segment);
}

void Heap::drop_last_segment() {
  one_sided_.free(segments_.back());
  segments_.pop_back();
  rooms_.pop_back();
  alignments_.pop_back();
}

// The largest that all ranks' parts have, but no more than their size lets them count on.
std::size_t Heap::common_alignment(const Segment& segment) const {
  const std::size_t mine = std::size_t{1} << std::countr_zero(reinterpret_cast<std::uintptr_t>(segment.local()));
  const wire::Packer stated = wire::Packer().u64(mine);
  std::size_t all = std::min(mine, alignment_of(segment.bytes()));
  for (const std::string& theirs : one_sided_.fabric().all_gather("where the parts of a heap begin", stated.body())) {
    all = std::min<std::size_t>(all, wire::Unpacker(theirs).u64());
  }
  return all;
}

std::optional<Heap::HeapBlock> Heap::find(std::size_t bytes, std::size_t alignment) {
  for (std::size_t i = 0; i < rooms_.size(); ++i) {
    if (alignment > alignments_[i]) continue;
    if (const std::optional<std::size_t> offset = rooms_[i].allocate(bytes, alignment)) return HeapBlock{i, *offset};
  }
  return std::nullopt;
}

bool Heap::full_for(std::size_t bytes, std::size_t alignment) const {
  if (growth_for(bytes, alignment)) return false;
  for (std::size_t i = 0; i < rooms_.size(); ++i) {
    FirstFit room = rooms_[i];
    if (alignment <= alignments_[i] && room.allocate(bytes, alignment)) return false;
  }
  return true;
}

std::size_t Heap::largest_alignment() const { return alignments_.empty() ? 0 : *std::ranges::max_element(alignments_); }

std::optional<std::size_t> Heap::growth_for(std::size_t bytes, std::size_t alignment) const {
  if (options_.grow_bytes == 0 || segments_.empty() || alignment > kMostAlignment) return std::nullopt;
  return in_pages(std::max({options_.grow_bytes, bytes, alignment}));
}

Heap::HeapBlock Heap::claim(std::size_t bytes, std::size_t alignment) {
  check_alignment(alignment);
  require(!segments_.empty(), "heap: it was closed");
  if (const std::optional<HeapBlock> piece = find(bytes, alignment)) return *piece;
  if (const std::optional<std::size_t> whole = growth_for(bytes, alignment)) {
    add_segment(*whole);
    if (const std::optional<HeapBlock> piece = find(bytes, alignment)) return *piece;
    drop_last_segment();
  }
  if (alignment > largest_alignment()) {
    fail(ErrorCode::system, "heap: an alignment of ", alignment, " B; the largest is ", largest_alignment(),
         " B, because the parts of all ranks begin there");
  }
  std::size_t largest = 0;
  for (const FirstFit& room : rooms_) largest = std::max(largest, room.largest_free());
  fail(ErrorCode::system, "heap: no room for ", bytes, " B aligned to ", alignment, ": ", used(), " of ", this->bytes(),
       " B are used, the largest free piece has ", largest, " B; ", options_.advice);
}

std::byte* Heap::address_of(const HeapBlock& piece) const { return segments_[piece.segment]->local() + piece.offset; }

void* Heap::allocate(std::size_t bytes, std::size_t alignment) {
  agree(concat("allocate(", bytes, ", ", alignment, ')'));
  return address_of(claim(bytes, alignment));
}

void* Heap::allocate_zeroed(std::size_t bytes, std::size_t alignment) {
  agree(concat("allocate_zeroed(", bytes, ", ", alignment, ')'));  // before claim(): calls that differ claim nothing
  std::byte* const address = address_of(claim(bytes, alignment));
  zero(address, bytes);
  agree("the zeroing of a piece");  // a peer may store there from now on
  return address;
}

void* Heap::reallocate(void* address, std::size_t bytes) {
  if (address == nullptr) return allocate(bytes);
  agree(concat("reallocate(", where(address), ", ", bytes, ')'));
  const std::optional<HeapBlock> piece = piece_of(address);
  require(piece.has_value(), "heap: reallocate of ", address, ", which is no piece of this heap");
  FirstFit& room = rooms_[piece->segment];
  const std::size_t held = room.bytes_at(piece->offset).value();
  if (room.resize(piece->offset, bytes)) return address;
  std::byte* const moved = address_of(claim(bytes, kAlignment));
  one_sided_.copy(moved, address, std::min(held, bytes));
  agree("the move of a piece");  // a peer may still read the old one, or write the new one early
  rooms_[piece->segment].free(piece->offset);
  return moved;
}

void Heap::free(void* address) {
  if (address == nullptr) return;
  agree(concat("free(", where(address), ')'));
  const std::optional<HeapBlock> piece = piece_of(address);
  require(piece.has_value(), "heap: free of ", address, ", which is no piece of this heap, or was freed before");
  rooms_[piece->segment].free(piece->offset);
}

std::string Heap::where(const void* address) const {
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const auto offset =
        reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(segments_[i]->local());
    if (offset < segments_[i]->bytes()) return concat("offset ", offset, " of its segment ", i);
  }
  return "an address outside it";
}

std::optional<Heap::HeapBlock> Heap::piece_of(const void* address) const {
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const auto offset =
        reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(segments_[i]->local());
    if (offset < segments_[i]->bytes() && rooms_[i].bytes_at(offset)) return HeapBlock{i, offset};
  }
  return std::nullopt;
}

std::optional<HeapPlace> Heap::place(const void* address) const {
  for (const std::shared_ptr<Segment>& segment : segments_) {
    const auto offset = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(segment->local());
    if (offset < segment->bytes()) return HeapPlace{segment, offset, segment->bytes() - offset};
  }
  return std::nullopt;
}

std::byte* Heap::peer(const void* address, int rank) const {
  const std::optional<HeapPlace> found = place(address);
  require(found.has_value(), "heap: ", address, " is not in this heap");
  return found->segment->peer(rank) + found->offset;
}

std::optional<std::size_t> Heap::bytes_at(const void* address) const {
  const std::optional<HeapBlock> piece = piece_of(address);
  if (!piece) return std::nullopt;
  return rooms_[piece->segment].bytes_at(piece->offset);
}

void Heap::zero(std::byte* begin, std::size_t bytes) {
  if (one_sided_.cpu_reaches(options_.kind)) {
    std::memset(begin, 0, bytes);
    return;
  }
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  if (zeroes_ == nullptr) zeroes_ = one_sided_.fabric().device()->allocate(kChunk, MemoryKind::device);
  for (std::size_t done = 0; done < bytes; done += kChunk) {
    one_sided_.copy(begin + done, zeroes_->data(), std::min(kChunk, bytes - done));
  }
}

std::size_t Heap::bytes() const {
  std::size_t all = 0;
  for (const FirstFit& room : rooms_) all += room.bytes();
  return all;
}
std::size_t Heap::used() const {
  std::size_t all = 0;
  for (const FirstFit& room : rooms_) all += room.used();
  return all;
}
std::size_t Heap::pieces() const {
  std::size_t all = 0;
  for (const FirstFit& room : rooms_) all += room.pieces();
  return all;
}

}  // namespace onstream
