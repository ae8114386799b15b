#include "group.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace onstream::nccl {

namespace {

struct Group {
  int depth = 0;
  std::vector<Call> ops;
  std::vector<Making> makings;
  std::vector<Call> sorted;        // scratch of the end
  std::optional<Refusal> refusal;  // the first of its calls that was refused

  void clear() {
    depth = 0;
    ops.clear();
    makings.clear();
    refusal.reset();
  }
};

Group& group() {
  static thread_local Group own;
  return own;
}

// Every one in a thread of its own, as each may wait for another.
void side_by_side(std::span<const std::function<void()>> tasks) {
  if (tasks.size() == 1) return tasks.front()();
  std::vector<std::exception_ptr> errors(tasks.size());
  {
    std::vector<std::jthread> threads;
    threads.reserve(tasks.size());
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      try {
        threads.emplace_back([&, i] {
          try {
            tasks[i]();
          } catch (...) {
            errors[i] = std::current_exception();
          }
        });
      } catch (const std::system_error& error) {
        errors[i] = std::make_exception_ptr(Refusal(ncclSystemError, concat("no thread could start: ", error.what())));
      }
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
}

void take_back(const Making& making) {
  if (making.comm != nullptr) empty(*making.comm);
  publish(making.out, nullptr);
}

// A making, and its findings as it began.
struct Started {
  Making* making;
  Begun begun;
};

void begin_in_background(Started& started) {
  ncclComm* const comm = started.making->comm;
  std::thread starter([comm, begun = std::move(started.begun), make = std::move(started.making->make)]() mutable {
    try {
      make(std::move(begun));
    } catch (...) {
      const Refusal why = refusal_of(std::current_exception(), nullptr);
      if (comm == nullptr || set_failed(*comm, why)) told("the start of a communicator", why);
    }
  });
  if (comm == nullptr) return starter.detach();  // it needs the parent alone, whose end waits for threads inside
  const std::lock_guard lock(comm->mutex);
  comm->starter = std::move(starter);
}

void make_in_background(Started& started) {
  try {
    begin_in_background(started);
  } catch (const std::system_error& error) {
    take_back(*started.making);
    refuse(ncclSystemError, "no thread could start for a communicator: ", error.what());
  }
}

// Makes them side by side, or throws the first Refusal, with all handles taken back that came to nothing.
void make_now(std::span<Started* const> all) {
  std::vector<std::function<void()>> tasks;
  std::vector<char> made(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    tasks.emplace_back([&made = made[i], &started = *all[i]] {
      started.making->make(std::move(started.begun));
      made = 1;
    });
  }
  try {
    if (tasks.size() == 1) return tasks.front()();
    side_by_side(tasks);
  } catch (...) {
    const Refusal why = refusal_of(std::current_exception(), nullptr);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (made[i] == 0) take_back(*all[i]->making);
    }
    throw why;
  }
}

// Inside their parents, which may be ended from now on, and numbered in the order of the calls, the same on every rank.
// None of them where one parent has ended: then all are taken back.
std::vector<Started> begin_all(std::span<Making> makings) {
  std::vector<Started> all;
  try {
    for (Making& making : makings) {
      all.push_back({&making, {}});
      if (making.within != nullptr) all.back().begun.within = std::make_unique<const Inside>(*making.within);
    }
  } catch (...) {
    std::ranges::for_each(makings, take_back);
    throw;
  }
  for (Started& started : all) {
    if (started.making->count != nullptr) started.begun.number = (*started.making->count)++;
  }
  return all;
}

ncclResult_t make_all(std::span<Making> makings) {
  std::vector<Started> all = begin_all(makings);
  std::vector<Started*> now;
  ncclResult_t result = ncclSuccess;
  std::exception_ptr error;
  for (Started& started : all) {
    if (started.making->start == Options::Start::blocking) {
      now.push_back(&started);
      continue;
    }
    try {
      make_in_background(started);
      if (started.making->comm != nullptr) result = ncclInProgress;
    } catch (const Refusal&) {
      error = std::current_exception();
    }
  }
  make_now(now);
  if (error != nullptr) std::rethrow_exception(error);
  return result;
}

// Sorts by communicator, in one order on all ranks, independent of the order of the calls, as they may share a stream;
// within one by its ranks in this process.
void sort_by_comm(const std::vector<Call>& ops, std::vector<Call>& sorted) {
  sorted = ops;
  std::ranges::stable_sort(sorted, [](const Call& one, const Call& other) {
    if (one.comm == other.comm) return false;
    const int order = one.comm->place.compare(other.comm->place);
    return order != 0 ? order < 0 : one.comm->rank < other.comm->rank;
  });
}

// Calls function(ops of one communicator) for each.
template <class Function>
void for_each_comm(std::span<const Call> sorted, const Function& function) {
  for (std::size_t first = 0; first < sorted.size();) {
    std::size_t last = first + 1;
    while (last < sorted.size() && sorted[last].comm == sorted[first].comm) ++last;
    function(sorted.subspan(first, last - first));
    first = last;
  }
}

// Hosts meet in these calls. A communicator's ranks in this process wait for each other, so they run side by side;
// communicators follow each other.
void run_meeting(std::span<const Call> sorted) {
  std::vector<std::function<void()>> ranks;
  const ncclComm* last = nullptr;
  for_each_comm(sorted, [&](std::span<const Call> of_one) {
    const ncclComm* const comm = of_one.front().comm;
    if (last != nullptr && comm->place != last->place) side_by_side(std::exchange(ranks, {}));
    ranks.emplace_back([of_one] { run(of_one); });
    last = comm;
  });
  side_by_side(ranks);
}

// Refusals come before anything is started.
void run_all(Group& group) {
  const std::vector<Call>& ops = group.ops;
  const bool one_comm = std::ranges::all_of(ops, [&](const Call& op) { return op.comm == ops.front().comm; });
  if (one_comm) {
    const bool at_once = ops.size() == 1 || std::ranges::all_of(ops, &Call::is_message);  // which are checked there
    if (!at_once) check(ops);
    return run(ops);
  }
  sort_by_comm(ops, group.sorted);
  for_each_comm(group.sorted, [](std::span<const Call> of_one) { check(of_one); });
  const bool meet = std::ranges::any_of(ops, [](const Call& op) { return op.comm->hosts == Hosts::meet; });
  if (!meet) return for_each_comm(group.sorted, [](std::span<const Call> of_one) { run(of_one); });
  run_meeting(group.sorted);
}

void demand_open(const Group& group) {
  if (group.depth == 0) refuse(ncclInvalidUsage, "no group is open in this thread; ncclGroupStart opens one");
}

// Leaves one level. True at the last, with the group taken.
bool leaves_last(Group& group) {
  demand_open(group);
  return --group.depth == 0;
}

// Clears at the end of a scope, also after an exception.
struct Clearing {
  Group& group;
  ~Clearing() { group.clear(); }
};

}  // namespace

bool in_group() { return group().depth > 0; }

void submit(const Call& op) {
  Group& own = group();
  if (own.depth == 0) return run(op);
  if (!own.makings.empty()) {
    refuse(ncclInvalidUsage, "this group makes communicators; end it before one of them is used");
  }
  own.ops.push_back(op);
}

ncclResult_t submit(Making making) {
  Group& own = group();
  if (own.depth == 0) return make_all({&making, 1});
  if (!own.ops.empty()) {
    take_back(making);
    refuse(ncclInvalidUsage, "this group has ops of communicators; end it before another one is made");
  }
  own.makings.push_back(std::move(making));
  return ncclSuccess;
}

void demand_no_ops(const ncclComm& comm) {
  const Group& own = group();
  const bool used = std::ranges::any_of(own.ops, [&](const Call& op) { return op.comm == &comm; });
  if (used) refuse(ncclInvalidUsage, "this thread's group has ops of the communicator; end the group first");
  const bool split = std::ranges::any_of(own.makings, [&](const Making& one) { return one.within == &comm; });
  if (split) refuse(ncclInvalidUsage, "this thread's group splits the communicator; end the group first");
}

void note_in_group(const Refusal& refusal) {
  Group& own = group();
  if (own.depth > 0 && !own.refusal) own.refusal = refusal;
}

}  // namespace onstream::nccl

using namespace onstream::nccl;

ncclResult_t ncclGroupStart(void) {
  ++group().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
  auto& own = group();
  return guarded("ncclGroupEnd", nullptr, [&] {
    if (!leaves_last(own)) return ncclSuccess;
    const Clearing clearing{own};
    if (own.refusal) {
      std::ranges::for_each(own.makings, take_back);
      throw own.refusal->under("nothing of the group was started, as one of its calls was refused: ");
    }
    if (!own.makings.empty()) return make_all(own.makings);
    if (!own.ops.empty()) run_all(own);
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  auto& own = group();
  return guarded("ncclGroupSimulateEnd", nullptr, [&] {
    demand_open(own);
    demand(own.depth == 1, "this is ", own.depth, " groups deep; only the outermost one's end can be simulated");
    const Clearing clearing{own};
    std::ranges::for_each(own.makings, take_back);
    demand(info != nullptr, "there is no place for what it tells");
    demand(info->magic == ONSTREAM_NCCL_SIM_MAGIC && info->size >= sizeof(ncclSimInfo_t),
           "the info was not made with NCCL_SIM_INFO_INITIALIZER");
    if (own.refusal) throw own.refusal->under("one of the group's calls was refused: ");
    demand(own.makings.empty(), "making communicators cannot be simulated");
    info->estimatedTime = static_cast<float>(predicted_us(own.ops));
    return ncclSuccess;
  });
}

ONSTREAM_NCCL_TWIN(ncclGroupStart);
ONSTREAM_NCCL_TWIN(ncclGroupEnd);
ONSTREAM_NCCL_TWIN(ncclGroupSimulateEnd);
