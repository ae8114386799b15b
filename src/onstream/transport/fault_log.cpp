#include "onstream/transport/fault_log.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "onstream/base/clock.hpp"

namespace onstream {

namespace {

bool is_same(const FaultReport& one, const FaultReport& other) {
  return one.rank == other.rank && one.status == other.status && one.op == other.op && one.part == other.part &&
         one.peer == other.peer && one.tag == other.tag && one.bytes == other.bytes && one.plan == other.plan;
}

}  // namespace

void FaultLog::add_death(int rank) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(dead_, rank) == dead_.end()) dead_.push_back(rank);
}

bool FaultLog::begin(const First& first, const std::vector<int>& gone) {
  const std::lock_guard lock(mutex_);
  if (!first_.reason.empty()) return false;
  first_ = first;
  failed_at_ns_ = now_ns();
  std::ranges::copy_if(gone, std::back_inserter(left_),
                       [this](int rank) { return std::ranges::find(dead_, rank) == dead_.end(); });
  return true;
}

FaultLog::First FaultLog::first() const {
  const std::lock_guard lock(mutex_);
  return first_;
}

void FaultLog::name_plan(std::uint64_t number, const std::string& name, std::vector<int> tags) {
  constexpr std::size_t kRemembered = 4096;
  const std::lock_guard lock(mutex_);
  plans_[number] = {name, std::move(tags)};
  if (plans_.size() > kRemembered) plans_.erase(plans_.begin());
}

bool FaultLog::add(FaultReport& fault, ReportedBy reported) {
  const bool fatal = !fails_one_op(fault.status);
  const std::lock_guard lock(mutex_);
  if (const auto plan = plans_.find(fault.plan); plan != plans_.end()) {
    const auto& [name, tags] = plan->second;
    fault.set_plan_name(name);
    const auto op = static_cast<std::size_t>(fault.plan_op);
    if (op < tags.size()) fault.tag = tags[op];
  }
  if (fatal) {
    fatal_.push_back(fault);
  } else if (reported == ReportedBy::by_call) {
    constexpr std::size_t kNewest = 1024;  // a caller that looks at the status alone never asks for them
    owed_.push_back(fault);
    if (owed_.size() > kNewest) owed_.pop_front();
  } else {
    faults_.push_back(fault);
    has_faults_.store(true, std::memory_order_release);
  }
  return fatal;
}

bool FaultLog::has_fatal() const {
  const std::lock_guard lock(mutex_);
  return !fatal_.empty();
}

void FaultLog::add_remote(const FaultReport& fault) {
  const std::lock_guard lock(mutex_);
  remote_.push_back(fault);
}

std::vector<FaultReport> FaultLog::take() {
  if (!has_faults_.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(mutex_);
  has_faults_.store(false, std::memory_order_relaxed);
  return std::exchange(faults_, {});
}

std::optional<FaultReport> FaultLog::reported(const FaultReport& fault) {
  const std::lock_guard lock(mutex_);
  const auto take_from = [&](auto& faults) -> std::optional<FaultReport> {
    const auto found = std::ranges::find_if(faults, [&](const FaultReport& one) { return is_same(one, fault); });
    if (found == faults.end()) return std::nullopt;
    const FaultReport reported = *found;
    faults.erase(found);
    return reported;
  };
  const auto owed = take_from(owed_);
  return owed ? owed : take_from(faults_);
}

Failure FaultLog::failure() const {
  const std::lock_guard lock(mutex_);
  Failure failure;
  failure.reason = first_.reason;
  failure.logged = first_.logged;
  failure.faults = fatal_;
  failure.faults.insert(failure.faults.end(), remote_.begin(), remote_.end());
  failure.dead = dead_;
  failure.left = left_;
  return failure;
}

}  // namespace onstream
