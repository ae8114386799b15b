// The fault log: this rank's knowledge of the faults in its world. It remembers, for any thread; the fabric acts.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "onstream/transport/failure.hpp"

namespace onstream {

class FaultLog {
 public:
  struct First {
    std::string reason;
    Cause cause = Cause::failure;
    bool logged = false;
  };

  void add_death(int rank);
  // The world fails, while the ranks `gone` are not there any more: by death, or because they had left. Says whether
  // this is the first cause, which stays.
  bool begin(const First& first, const std::vector<int>& gone);
  First first() const;
  std::uint64_t failed_at_ns() const { return failed_at_ns_.load(std::memory_order_relaxed); }

  // The plan's name in faults of its ops, and the ops' tags, by op; -1: the op has none.
  void name_plan(std::uint64_t number, const std::string& name, std::vector<int> tags);
  // A fault of an op of this rank, which gets its plan's name, and its tag, here. Says whether it fails the world. If
  // it does not, the call that waits for the op tells the program, or, where none does, take().
  enum class ReportedBy { by_world, by_call };
  bool add(FaultReport& fault, ReportedBy reported = ReportedBy::by_world);
  bool has_fatal() const;                     // one of this rank's ops has failed the world
  void add_remote(const FaultReport& fault);  // of another rank
  // This rank's faults that failed no world: taken out, oldest first. One load where there are none.
  std::vector<FaultReport> take();
  // A message itself tells of such a fault, which take() then does not give. Returns the fault's report, if it has
  // come.
  std::optional<FaultReport> reported(const FaultReport& fault);

  // All of it but the story, and how far sends run ahead.
  Failure failure() const;

 private:
  mutable std::mutex mutex_;  // guards all but the atomics
  First first_;
  std::atomic<std::uint64_t> failed_at_ns_ = 0;
  std::vector<int> dead_;
  std::vector<int> left_;  // before the failure
  struct PlanNames {
    std::string name;
    std::vector<int> tags;
  };
  std::map<std::uint64_t, PlanNames> plans_;  // by number
  std::vector<FaultReport> fatal_;            // of this rank: they failed the world
  std::vector<FaultReport> remote_;           // of the other ranks
  std::vector<FaultReport> faults_;           // of this rank: they failed one op each
  std::deque<FaultReport> owed_;              // those whose calls tell, the newest ones
  std::atomic<bool> has_faults_ = false;
};

}  // namespace onstream
