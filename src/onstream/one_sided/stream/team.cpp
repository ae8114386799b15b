#include "onstream/one_sided/stream/team.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/device/kernel/thread_lock.hpp"
#include "onstream/one_sided/kernel/bodies.hpp"
#include "onstream/one_sided/kernel/kernels.hpp"
#include "onstream/one_sided/stream/implementation.hpp"
#include "onstream/one_sided/stream/team_words.hpp"

namespace onstream {

using one_sided::TeamWords;

namespace {

TeamView team_view(OneSidedImplementation& one_sided, const TeamWords& words, TeamWords::CallerKind kind, int slot,
                   const std::vector<int>& members, std::vector<std::shared_ptr<Memory>>& tables) {
  const int mine = one_sided.rank();
  TeamView view;
  const bool by_host = kind == TeamWords::CallerKind::host || kind == TeamWords::CallerKind::world;
  view.waits = by_host ? one_sided.host_waits() : one_sided.fabric().wait_view();
  view.size = static_cast<std::int32_t>(members.size());
  view.rank = static_cast<std::int32_t>(std::ranges::find(members, mine) - members.begin());
  view.flags = words.flags(kind, slot, mine);
  view.number = words.number(kind, slot, mine);
  std::vector<std::uint64_t*> theirs;
  for (const int member : members) theirs.push_back(words.flags(kind, slot, member) + view.rank);
  if (view.size <= TeamView::kInline) {
    std::ranges::copy(members, view.ranks);
    std::ranges::copy(theirs, view.theirs);
    return view;
  }
  const MemoryKind memory = by_host ? MemoryKind::pinned : MemoryKind::device;
  tables.push_back(one_sided.table_of(theirs.data(), theirs.size() * sizeof(theirs[0]), memory));
  view.further = reinterpret_cast<std::uint64_t* const*>(tables.back()->data());
  tables.push_back(one_sided.table_of(members.data(), members.size() * sizeof(members[0]), memory));
  view.further_ranks = reinterpret_cast<const std::int32_t*>(tables.back()->data());
  return view;
}

// The colour and key that a member asks for, in one word.
std::uint64_t as_word(int colour, int key) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(colour)) << 32 | static_cast<std::uint32_t>(key);
}
int colour_of(std::uint64_t word) { return static_cast<int>(static_cast<std::uint32_t>(word >> 32)); }
int key_of(std::uint64_t word) { return static_cast<int>(static_cast<std::uint32_t>(word)); }

// The slots that all members of each new team can have, by colour.
std::map<int, TeamWords::Offer> offers_of(const std::vector<Team::Words>& all) {
  std::map<int, TeamWords::Offer> offers;
  for (const auto& [asked, free, may_be_free, changes] : all) {
    const int colour = colour_of(asked);
    if (colour == Team::kNone) continue;
    TeamWords::Offer& offer =
        offers.try_emplace(colour, TeamWords::Offer{~std::uint64_t{0}, ~std::uint64_t{0}, 0}).first->second;
    offer.free &= free;
    offer.may_be_free &= may_be_free;
  }
  return offers;
}

// Of the slots that a split takes: no other split of this world has the same, as each counts the changes so far.
std::uint64_t generation_of(const std::vector<Team::Words>& all) {
  constexpr std::uint64_t kPrime = 0x100000001b3;  // FNV-1a, Fowler, Noll and Vo
  std::uint64_t mixed = 0xcbf29ce484222325;
  for (const Team::Words& words : all) {
    for (const std::uint64_t word : words) mixed = (mixed ^ word ^ (word >> 32)) * kPrime;
  }
  return mixed | 1;  // never 0, which is no team's
}

// Whether all new teams can have words now. Throws if one cannot and nothing has changed since `before`: slots that
// another thread's split takes and gives back meanwhile are seen at some members before that, at others behind it.
bool have_words(const std::vector<Team::Words>& all, const std::vector<Team::Words>& before, int slots) {
  bool now = true;
  for (const auto& [colour, offer] : offers_of(all)) {
    now = now && offer.free != 0;
    if (offer.may_be_free != 0 || all != before) continue;
    fail(ErrorCode::system, "split: the members of colour ", colour,
         " have no words in common for another team; a rank has those of ", slots,
         " teams; let some teams go, or raise parameter teams");
  }
  return now;
}

// A split of the team at slot `parent` on this rank, and the slot that it has claimed.
class Split {
 public:
  Split(TeamWords& words, int parent) : words_(words), parent_(parent) {}
  ~Split() {
    release();
    words_.end_split(parent_);
  }
  Split(const Split&) = delete;
  Split& operator=(const Split&) = delete;

  void begin() { words_.begin_split(parent_); }
  bool claim(int slot) {
    if (!words_.claim(slot, parent_)) return false;
    claimed_ = slot;
    return true;
  }
  void release() {
    if (claimed_ != kNothing) words_.release(claimed_);
    claimed_ = kNothing;
  }
  int keep() {
    words_.keep(claimed_);
    return std::exchange(claimed_, kNothing);
  }

 private:
  static constexpr int kNothing = -1;
  TeamWords& words_;
  int parent_;
  int claimed_ = kNothing;
};

}  // namespace

Team::Implementation::Implementation(OneSidedImplementation& one_sided, std::shared_ptr<TeamWords> words, int slot,
                                     std::vector<int> members)
    : Team(std::move(members)), one_sided_(one_sided), words_(std::move(words)), slot_(slot) {
  const auto view_of = [&](TeamWords::CallerKind kind) {
    return team_view(one_sided_, *words_, kind, slot_, members_, tables_);
  };
  stream_ = view_of(TeamWords::CallerKind::stream);
  kernel_ = view_of(TeamWords::CallerKind::kernel);
  host_ = view_of(TeamWords::CallerKind::host);
  if (slot_ == 0) world_ = view_of(TeamWords::CallerKind::world);
  rank_ = host_.rank;
  words_->watch(slot_, members_);
}

Team::Implementation::~Implementation() { words_->release(slot_); }

Team::Implementation& Team::self() { return static_cast<Implementation&>(*this); }
const Team::Implementation& Team::self() const { return static_cast<const Implementation&>(*this); }

int Team::world_rank(int member) const {
  require(member >= 0 && member < size(), "team: there is no member ", member, "; this team has members 0 to ",
          size() - 1);
  return members_[static_cast<std::size_t>(member)];
}

std::optional<int> Team::member_of(int world_rank) const {
  const auto found = std::ranges::find(members_, world_rank);
  if (found == members_.end()) return std::nullopt;
  return static_cast<int>(found - members_.begin());
}

TeamView Team::view() const { return self().kernel_; }

void Team::barrier(Stream stream) {
  Implementation& own = self();
  own.one_sided_.fabric().check([&] { return concat("a barrier of ", size(), " ranks"); });
  constexpr int kWarp = 32;
  const int threads = std::clamp((size() + kWarp - 1) / kWarp * kWarp, kWarp, kMaxThreads);
  Device& device = own.one_sided_.device();
  const bool captured = device.capturing(stream);
  {
    const std::lock_guard lock(own.barriers_);
    const std::uint32_t late = own.last_barrier_.is_in_front(device, stream, captured) ? 0 : 1;
    launch(device, one_sided::barrier_kernel(), one_sided::TeamBarrier{own.stream_, late}, {1, threads}, stream);
    own.last_barrier_.set(device, stream, captured, 1);
  }
  if (own.one_sided_.note(stream) == Noted::captured) device.retain(stream, shared_from_this());
}

Status Team::Implementation::meet(const TeamView& view) {
  const Status status = view.barrier(HostGroup(0, 1));
  if (status == Status::ok || one_sided_.fabric().failure()) return status;
  const std::uint64_t number = HostGroup::load_relaxed(view.number);
  std::string missing;
  bool left = false;
  for (int member = 0; member < size(); ++member) {
    const bool came = static_cast<std::int64_t>(HostGroup::load_acquire(view.flags + member) - number) >= 0;
    if (member == rank_ || came) continue;
    left = left || one_sided_.fabric().has_left(world_rank(member));
    missing += concat(missing.empty() ? "rank " : ", rank ", world_rank(member));
  }
  if (status == Status::aborted && !left) return status;  // interrupted
  one_sided_.fabric().abort(
      concat("a barrier of the hosts of ", size(), " ranks: ", missing,
             status == Status::timeout
                 ? concat(" did not come within ", one_sided_.fabric().parameters().timeout_s, " s (timeout_s)")
                 : std::string(" left the world")));
  return status;
}

void Team::Implementation::meet(const TeamView& view, HostMeetings& meetings) {
  Fabric& fabric = one_sided_.fabric();
  fabric.check([] { return std::string("a barrier"); });
  ThreadLock lock(view.waits, meetings.holder, meetings.ended);
  require(lock.status() != Status::misused,
          "a barrier: called while this thread is inside another one, as from a signal handler; call it after the "
          "handler");
  if (lock.status() == Status::timeout)
    fabric.abort("a barrier waited for another thread's, which did not end in time");
  const Status status = lock.held() ? meet(view) : lock.status();
  if (lock.held()) HostGroup::store_relaxed(&meetings.ended, meetings.ended + 1);
  lock.unlock();
  if (status == Status::ok) return;
  try {
    fabric.check_waited(status);
  } catch (const Error& error) {
    fail_named(DidNot::end, fabric.rank(), "a barrier", error);
  }
  fail(ErrorCode::aborted, "a barrier of the hosts of ", size(), " ranks was interrupted");
}

void Team::sync() { self().meet(self().host_, self().syncs_); }

void OneSidedImplementation::barrier() {
  auto& all = static_cast<Team::Implementation&>(*team());
  all.meet(all.world_, all.barriers_of_world_);
}

std::vector<Team::Words> Team::exchange(const Words& mine) {
  Implementation& own = self();
  for (const int member : members_) {
    std::uint64_t* const to = own.words_->exchanged(own.slot_, member, rank_);
    for (std::size_t i = 0; i < kExchangeWords; ++i) HostGroup::store_relaxed(to + i, mine[i]);
  }
  sync();
  std::vector<Words> all(members_.size());
  for (int member = 0; member < size(); ++member) {
    const std::uint64_t* const from = own.words_->exchanged(own.slot_, own.one_sided_.rank(), member);
    for (std::size_t i = 0; i < kExchangeWords; ++i) {
      all[static_cast<std::size_t>(member)][i] = HostGroup::load_relaxed(from + i);
    }
  }
  sync();  // all have read before anyone writes again
  return all;
}

// Members exchange their team and their free slots; then whether all could claim their team's slot, clean, or else they
// start again. All members see the same words, so they choose alike, and no member has a slot that another cannot have.
std::shared_ptr<Team> Team::split(int colour, int key) {
  Implementation& own = self();
  Split split(*own.words_, own.slot_);
  std::vector<Words> all;
  const auto has_claimed = [&] {
    if (colour == kNone) return true;
    const int slot = std::countr_zero(offers_of(all).at(colour).free);
    if (!split.claim(slot)) return false;
    own.words_->zero(*own.one_sided_.fabric().streams(), slot);
    own.words_->install(slot, generation_of(all));
    return true;
  };
  for (bool made = false; !made;) {
    const TeamWords::Offer mine = own.words_->offer();
    const std::vector<Words> before =
        std::exchange(all, exchange({as_word(colour, key), mine.free, mine.may_be_free, mine.changes}));
    split.begin();  // not before all have come: a member not here yet may be in another split
    if (!have_words(all, before, own.words_->slots())) continue;
    made = std::ranges::all_of(exchange({has_claimed() ? 1u : 0u}), [](const Words& words) { return words[0] == 1; });
    if (!made) split.release();
  }
  if (colour == kNone) return nullptr;
  std::vector<int> chosen;
  for (int member = 0; member < size(); ++member) {
    if (colour_of(all[static_cast<std::size_t>(member)][0]) == colour) chosen.push_back(member);
  }
  std::ranges::stable_sort(chosen, {}, [&](int member) { return key_of(all[static_cast<std::size_t>(member)][0]); });
  std::vector<int> members;
  for (const int member : chosen) members.push_back(world_rank(member));
  return std::shared_ptr<Team>(new Implementation(own.one_sided_, own.words_, split.keep(), std::move(members)));
}

// Else some would be in a team that others know nothing of.
void Team::Implementation::require_alike(const char* call, const std::vector<int>& mine) {
  Words words{std::hash<std::string_view>{}(call)};
  std::ranges::transform(mine, words.begin() + 1, [](int number) { return static_cast<std::uint32_t>(number); });
  const std::vector<Words> all = exchange(words);
  const auto named = [&](const Words& theirs) {
    if (theirs[0] != words[0]) return std::string("calls another split");
    std::string numbers = "names";
    for (std::size_t i = 0; i < mine.size(); ++i) numbers += concat(" ", static_cast<std::int32_t>(theirs[i + 1]));
    return numbers;
  };
  for (int member = 0; member < size(); ++member) {
    const Words& theirs = all[static_cast<std::size_t>(member)];
    require(theirs == all[0], call, ": rank ", world_rank(0), ' ', named(all[0]), ", but rank ", world_rank(member),
            ' ', named(theirs), "; all members of a team name the same");
  }
}

std::shared_ptr<Team> Team::split_strided(int first, int step, int count) {
  self().require_alike("split_strided", {first, step, count});
  const auto at = [&](int i) { return first + static_cast<std::int64_t>(step) * i; };
  const std::int64_t last = count >= 1 ? at(count - 1) : -1;
  require(first >= 0 && first < size() && last >= 0 && last < size() && (step != 0 || count == 1),
          "split_strided: members ", first, ", ", at(1), ", ... ", count, " of them, of a team of ", size());
  for (int i = 0; i < count; ++i) {
    if (at(i) == rank_) return split(0, i);
  }
  return split(kNone, 0);
}

std::pair<std::shared_ptr<Team>, std::shared_ptr<Team>> Team::split_2d(int width) {
  self().require_alike("split_2d", {width});
  require(width >= 1, "split_2d: rows of ", width, " members; at least 1");
  std::shared_ptr<Team> row = split(rank_ / width, rank_ % width);
  std::shared_ptr<Team> column = split(rank_ % width, rank_ / width);
  return {std::move(row), std::move(column)};
}

std::shared_ptr<Team> OneSidedImplementation::team_of_all() {
  auto words = std::make_shared<TeamWords>(*fabric_);
  (void)words->claim(0, 0);
  words->keep(0);
  words->install(0, 1);
  std::vector<int> all(static_cast<std::size_t>(fabric_->size()));
  std::iota(all.begin(), all.end(), 0);
  return std::shared_ptr<Team>(new Team::Implementation(*this, std::move(words), 0, std::move(all)));
}

}  // namespace onstream
