#include "phases.hpp"

#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/device/host/group.hpp"
#include "onstream/device/kernel/wait.hpp"
#include "onstream/kernel.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::upc {

struct alignas(32) Phases::Words {
  std::uint64_t tag = 0;  // the phase's number and the act; last, after the values
  std::array<std::uint64_t, 3> values = {};
};

namespace {

constexpr std::uint64_t kActMask = 0xff;

// All threads find the same, so whichever is first to say it says the same.
template <class PartOf>
void demand_same(const std::vector<Step>& all, const char* what, const PartOf& part_of) {
  for (std::size_t thread = 1; thread < all.size(); ++thread) {
    if (part_of(all[thread]) == part_of(all[0])) continue;
    fail(ErrorCode::invalid_argument, what, ", but thread 0 ", describe(all[0]), " and thread ", thread, ' ',
         describe(all[thread]));
  }
}

}  // namespace

std::string describe(const Step& step) {
  const auto& [a, b, c] = step.values;
  const char* const space = c != 0 ? "device" : "host";
  switch (step.act) {
    case Act::none: break;
    case Act::barrier: return b != 0 ? concat("is in barrier ", static_cast<std::int32_t>(a)) : "is in a barrier";
    case Act::end: return "has come to the end of main";
    case Act::all_alloc: return concat("calls upc_all_alloc(", a, ", ", b, ") in ", space, " memory");
    case Act::all_free:
      return a == 0 ? "calls upc_all_free of null"
                    : concat("calls upc_all_free of ", reinterpret_cast<const void*>(a), " of thread ", b);
    case Act::all_lock_alloc: return "calls upc_all_lock_alloc";
    case Act::all_lock_free: return concat("calls upc_all_lock_free of ", reinterpret_cast<const void*>(a));
    case Act::answer: return "takes an answer";
  }
  return "does nothing";
}

void await(World& world, const std::function<bool()>& ready, const std::function<std::string()>& why) {
  WaitView waits = world.fabric()->wait_view();
  waits.faults = nullptr;  // told here
  const Status status = wait_for_peer(HostGroup(0, 1), waits, one_sided::kAnyRank, ready);
  if (status == Status::ok) return;
  const std::string what = why();
  if (!world.failure()) {
    world.abort(status == Status::timeout
                    ? concat(what, " within ", world.fabric()->parameters().timeout_s, " s (timeout_s)")
                    : concat(what, ", and the others left"));
  }
  world.fabric()->check_waited(status);
  fail(ErrorCode::aborted, what);
}

std::size_t Phases::word_bytes(int threads) { return 2 * static_cast<std::size_t>(threads) * sizeof(Words); }

Phases::Phases(World& world, std::vector<std::byte*> words) : world_(world), words_(std::move(words)) {}

Phases::Words* Phases::words(int at, int from) const {
  auto* const all = reinterpret_cast<Words*>(words_[static_cast<std::size_t>(at)]);
  return all + (number_ % 2) * words_.size() + static_cast<std::size_t>(from);
}

void Phases::notify(const Step& mine) {
  ++number_;
  notified_ = true;
  mine_ = mine;
  for (int thread = 0; thread < world_.size(); ++thread) {
    Words* const to = words(thread, world_.rank());
    for (std::size_t i = 0; i < mine.values.size(); ++i) HostGroup::store_relaxed(&to->values[i], mine.values[i]);
    HostGroup::store_release(&to->tag, tag(mine.act));  // pairs with has_come()
  }
}

bool Phases::has_come(int thread) const {
  return HostGroup::load_acquire(&words(world_.rank(), thread)->tag) >> kActBits == number_;
}

std::string Phases::missing() const {
  std::string names;
  for (int thread = 0; thread < world_.size(); ++thread) {
    if (!has_come(thread)) names += concat(names.empty() ? "thread " : ", thread ", thread);
  }
  return names;
}

std::vector<Step> Phases::wait() {
  int next = 0;
  await(
      world_,
      [&] {
        while (next < world_.size() && has_come(next)) ++next;
        return next == world_.size();
      },
      [&] { return concat("thread ", world_.rank(), ' ', describe(mine_), ", where ", missing(), " did not come"); });
  notified_ = false;
  std::vector<Step> all;
  for (int thread = 0; thread < world_.size(); ++thread) {
    const Words* const from = words(world_.rank(), thread);
    Step step;
    step.act = static_cast<Act>(HostGroup::load_relaxed(&from->tag) & kActMask);
    for (std::size_t i = 0; i < step.values.size(); ++i) step.values[i] = HostGroup::load_relaxed(&from->values[i]);
    all.push_back(step);
  }
  demand_same(all, "all threads make this call together", [](const Step& step) { return step.act; });
  return all;
}

void Phases::agree(const Step& mine) {
  require(!notified_, "this thread is between upc_notify and upc_wait");
  notify(mine);
  const std::vector<Step> all = wait();
  demand_same(all, "all threads make this call with the same values", [](const Step& step) { return step.values; });
}

std::array<std::uint64_t, 3> Phases::from_first(const std::array<std::uint64_t, 3>& mine) {
  notify({Act::answer, mine});
  return wait().front().values;
}

}  // namespace onstream::upc
