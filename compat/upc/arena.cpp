#include "arena.hpp"

#include <atomic>
#include <cstring>

#include "onstream/base/text.hpp"
#include "onstream/device/host/group.hpp"
#include "phases.hpp"

namespace onstream::upc {

namespace {

enum class Mark : std::uint32_t { none, free, live, foot };  // a foot is the last grain of a free block of several

constexpr std::uint32_t tag_of(Mark mark, std::size_t grains) {
  return static_cast<std::uint32_t>(grains << 2) | static_cast<std::uint32_t>(mark);
}
constexpr Mark mark_of(std::uint32_t tag) { return static_cast<Mark>(tag & 3); }
constexpr std::size_t grains_of(std::uint32_t tag) { return tag >> 2; }

}  // namespace

// If the holder dies, the world's failure ends the wait.
class Arena::Lock {
 public:
  Lock(World& world, std::uint64_t* word, int thread) : word_(word) {
    const auto mine = static_cast<std::uint64_t>(thread) + 1;
    std::uint64_t held = 0;
    await(
        world,
        [&] {
          held = HostGroup::compare_swap_system(word_, std::uint64_t{0}, mine);
          return held == 0;
        },
        [&] { return concat("thread ", held - 1, " did not give the tables of the shared space back"); });
    HostGroup::fence();  // the stores of the previous holder are seen
  }
  ~Lock() { HostGroup::store_release(word_, 0); }  // pairs with the next holder's fence
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  std::uint64_t* word_;
};

std::size_t Arena::table_bytes(std::size_t grains) {
  constexpr std::size_t kLine = sizeof(ArenaHead);
  return (sizeof(ArenaHead) + grains * (sizeof(std::uint32_t) + 1) + kLine - 1) / kLine * kLine;
}

Arena::Arena(std::byte* tables, std::size_t grains)
    : head_(reinterpret_cast<ArenaHead*>(tables)),
      tags_(reinterpret_cast<std::uint32_t*>(tables + sizeof(ArenaHead))),
      live_(reinterpret_cast<std::uint8_t*>(tags_ + grains)),
      grains_(grains) {}

void Arena::clear() const {
  if (grains_ > 0) put_free(0, grains_);
}

std::size_t Arena::used() const { return HostGroup::load_relaxed(&head_->used); }
std::size_t Arena::pieces() const { return HostGroup::load_relaxed(&head_->pieces); }

bool Arena::is_live(std::size_t grain) const {
  return std::atomic_ref(live_[grain]).load(std::memory_order_relaxed) != 0;
}

void Arena::mark(std::size_t first, std::size_t grains, std::uint8_t live) const {
  std::memset(live_ + first, live, grains);
}

void Arena::put_free(std::size_t first, std::size_t grains) const {
  tags_[first + grains - 1] = tag_of(Mark::foot, grains);
  tags_[first] = tag_of(Mark::free, grains);  // after the foot: of one grain it is this
}

// The first free block in [from, to) that has so many grains.
std::optional<std::size_t> Arena::search(std::size_t from, std::size_t to, std::size_t grains) const {
  for (std::size_t at = from; at < to; at += grains_of(tags_[at])) {
    if (mark_of(tags_[at]) == Mark::free && grains_of(tags_[at]) >= grains) return at;
  }
  return std::nullopt;
}

void Arena::take(std::size_t first, std::size_t grains) const {
  const std::size_t whole = grains_of(tags_[first]);
  tags_[first + whole - 1] = 0;
  tags_[first] = tag_of(Mark::live, grains);
  if (whole > grains) put_free(first + grains, whole - grains);
  mark(first, grains, 1);
}

std::optional<std::size_t> Arena::allocate(World& world, int thread, std::size_t grains) const {
  if (grains > grains_) return std::nullopt;
  const Lock held(world, &head_->holder, thread);
  std::optional<std::size_t> first = search(head_->rover, grains_, grains);
  if (!first) first = search(0, head_->rover, grains);
  if (!first) return std::nullopt;
  take(*first, grains);
  const std::size_t next = *first + grains;
  head_->rover = next < grains_ ? next : 0;
  HostGroup::store_relaxed(&head_->used, head_->used + grains);
  HostGroup::store_relaxed(&head_->pieces, head_->pieces + 1);
  return first;
}

// Free blocks side by side become one.
bool Arena::free(World& world, int thread, std::size_t first) const {
  const Lock held(world, &head_->holder, thread);
  if (first >= grains_ || mark_of(tags_[first]) != Mark::live) return false;
  const std::size_t grains = grains_of(tags_[first]);
  mark(first, grains, 0);
  HostGroup::store_relaxed(&head_->used, head_->used - grains);
  HostGroup::store_relaxed(&head_->pieces, head_->pieces - 1);
  std::size_t begin = first;
  std::size_t end = first + grains;
  if (end < grains_ && mark_of(tags_[end]) == Mark::free) {
    const std::size_t next = end;
    end += grains_of(tags_[next]);
    tags_[next] = 0;
  }
  tags_[first] = 0;
  const std::uint32_t before = first > 0 ? tags_[first - 1] : 0;
  if (mark_of(before) == Mark::foot || mark_of(before) == Mark::free) {
    begin -= grains_of(before);
    tags_[first - 1] = 0;
  }
  put_free(begin, end - begin);
  if (head_->rover > begin && head_->rover < end) head_->rover = begin;
  return true;
}

}  // namespace onstream::upc
