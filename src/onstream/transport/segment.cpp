#include "onstream/transport/segment.hpp"

#include <string_view>

#include "onstream/base/error.hpp"
#include "onstream/device/export.hpp"
#include "onstream/device/memory/reclaim.hpp"

namespace onstream {

namespace {

// A rank's word to the others about its part, in lines: its id; its address; then for every peer why that one does not
// map it, or nothing.
struct SegmentNotice {
  std::uint64_t id = 0;
  std::uint64_t address = 0;
  std::vector<std::string> refused;

  std::string text() const {
    std::string lines = concat(id, '\n', address, '\n');
    for (const std::string& why : refused) lines += concat(one_line(why), '\n');
    return lines;
  }

  static SegmentNotice from(std::string_view text) {
    SegmentNotice notice;
    notice.id = number(next(text));
    notice.address = number(next(text));
    while (!text.empty()) notice.refused.emplace_back(next(text));
    return notice;
  }

 private:
  static std::string one_line(std::string text) {
    for (char& letter : text) letter = letter == '\n' ? ' ' : letter;
    return text;
  }
  static std::string_view next(std::string_view& text) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    return line;
  }
  static std::uint64_t number(std::string_view text) { return number_in<std::uint64_t>(text).value_or(0); }
};

// Why `peer` does not map the part; nothing if it does now. Throws that where it must.
std::string offer(const SegmentMaker& maker, const MemoryInfo& info, int peer) {
  if (!maker.unmapped_why.empty()) return maker.unmapped_why;
  if (maker.hosts.is_remote(peer)) return maker.hosts.why_apart(peer);
  if (maker.mapped == Mapped::by_path && !info.exportable) {
    return concat(name_of(info.kind), " memory is private to its process");
  }
  try {
    (void)maker.peer_mapping.offer(info, peer);
    return "";
  } catch (const Error& error) {
    if (maker.mapped == Mapped::always || error.code() != ErrorCode::unsupported) throw;
    return error.what();
  }
}

}  // namespace

MappedSegment::MappedSegment(const SegmentMaker& maker, std::size_t bytes, MemoryKind kind, const Agree& agree)
    : bytes_(bytes), kind_(kind), rank_(maker.rank), number_(maker.number), device_bytes_(maker.device_bytes) {
  MemoryInfo info;
  std::vector<int> offered;
  const auto make = [&] {
    memory_ = allocate_in_time(maker.device, bytes, kind);
    info = maker.device.inspect(memory_->data());
    SegmentNotice notice{info.id, reinterpret_cast<std::uint64_t>(memory_->data()), {}};
    for (int peer = 0; peer < maker.size; ++peer) {
      notice.refused.push_back(peer == maker.rank ? "" : offer(maker, info, peer));
      if (peer != maker.rank && notice.refused.back().empty()) offered.push_back(peer);
    }
    return notice.text();
  };
  std::vector<std::string> notices;
  try {
    notices = agree(make);
  } catch (const Error&) {
    for (const int peer : offered) maker.peer_mapping.withdraw(info, peer);
    throw;
  }
  for (int rank = 0; rank < maker.size; ++rank) take_part(maker, rank, notices[static_cast<std::size_t>(rank)]);
  if (kind_ == MemoryKind::device) *device_bytes_ += bytes_;
}

void MappedSegment::take_part(const SegmentMaker& maker, int rank, const std::string& notices) {
  const SegmentNotice notice = SegmentNotice::from(notices);
  PeerPart part;
  part.there = notice.address;
  part.why_not =
      maker.hosts.is_remote(rank) ? maker.hosts.why_apart(rank) : notice.refused.at(static_cast<std::size_t>(rank_));
  if (rank == rank_) part.here = memory_->data();
  if (rank != rank_ && part.why_not.empty()) {
    part.mapping = maker.peer_mapping.take(rank, notice.id);
    if (part.mapping == nullptr)  // its own step failed behind the agreement, by an interrupt or with the world
      fail(ErrorCode::aborted, "rank ", rank, " withdrew its part of segment ", number_);
  }
  if (part.mapping != nullptr) part.here = part.mapping->data();
  parts_.push_back(std::move(part));
  for (const std::string& why : notice.refused) direct_everywhere_ = direct_everywhere_ && why.empty();
}

MappedSegment::~MappedSegment() { release(); }

void MappedSegment::release() {
  if (freed_.exchange(true, std::memory_order_acq_rel)) return;
  if (kind_ == MemoryKind::device) *device_bytes_ -= bytes_;
  for (PeerPart& part : parts_) part.mapping.reset();
  memory_.reset();
}

const MappedSegment::PeerPart& MappedSegment::part(int rank) const {
  require(rank >= 0 && rank < static_cast<int>(parts_.size()), "segment ", number_, ": rank ", rank,
          " does not exist; there are ranks 0 to ", parts_.size() - 1);
  return parts_[static_cast<std::size_t>(rank)];
}

std::byte* MappedSegment::peer(int rank) const {
  const PeerPart& its = part(rank);
  if (freed()) fail(ErrorCode::closed, "segment ", number_, " of ", bytes_, " B was freed");
  if (its.here == nullptr) {
    fail(ErrorCode::unsupported, "rank ", rank_, " cannot load and store rank ", rank, "'s part of segment ", number_,
         ": ", its.why_not, "; put, get and signals reach it through its owner");
  }
  return its.here;
}

std::uint64_t MappedSegment::address_at(int rank) const {
  const PeerPart& its = part(rank);
  if (freed()) fail(ErrorCode::closed, "segment ", number_, " of ", bytes_, " B was freed");
  return its.there;
}

void MappedSegment::check_launch() const {
  if (!freed()) return;
  fail(ErrorCode::closed, "segment ", number_, " of ", bytes_,
       " B, which the graph uses, was freed: free it when the graph is of no more use");
}

void Segments::add(const std::shared_ptr<Segment>& segment) {
  const std::lock_guard lock(mutex_);
  std::erase_if(segments_, [](const KnownSegment& one) { return one.segment.expired(); });
  segments_.push_back({segment, reinterpret_cast<std::uint64_t>(segment->local()), segment->bytes()});
}

WordPlace Segments::place_of(const void* word) const {
  const auto at = reinterpret_cast<std::uint64_t>(word);
  const std::lock_guard lock(mutex_);
  for (const KnownSegment& one : segments_) {
    if (at - one.begin < one.bytes && !one.segment.expired()) return {at - one.begin, one.bytes};
  }
  return {at, 0};
}

namespace {

// Whether [begin, begin + bytes) lies in the part of `peer`, as this rank addresses it.
bool holds(const Segment& segment, int peer, std::uintptr_t begin, std::size_t bytes) {
  if (!segment.direct(peer)) return false;
  const auto base = reinterpret_cast<std::uintptr_t>(segment.peer(peer));
  return begin >= base && bytes <= segment.bytes() && begin - base <= segment.bytes() - bytes;
}

}  // namespace

std::shared_ptr<Segment> Segments::of(int peer, const void* address, std::size_t bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  for (const std::shared_ptr<Segment>& segment : living()) {
    if (holds(*segment, peer, begin, bytes)) return segment;
  }
  return nullptr;
}

std::shared_ptr<Segment> Segments::of_any(int ranks, const void* address) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  for (const std::shared_ptr<Segment>& segment : living()) {
    for (int peer = 0; peer < ranks; ++peer) {
      if (holds(*segment, peer, begin, 1)) return segment;
    }
  }
  return nullptr;
}

std::shared_ptr<Segment> Segments::numbered(std::uint64_t number) const {
  for (const std::shared_ptr<Segment>& segment : living()) {
    if (segment->number() == number) return segment;
  }
  return nullptr;
}

// Letting go of the last handle frees memory, which may wait for kernels: never with the mutex held.
std::vector<std::shared_ptr<Segment>> Segments::living() const {
  std::vector<std::shared_ptr<Segment>> found;
  const std::lock_guard lock(mutex_);
  for (const KnownSegment& one : segments_) {
    if (auto segment = one.segment.lock()) found.push_back(std::move(segment));
  }
  return found;
}

}  // namespace onstream
