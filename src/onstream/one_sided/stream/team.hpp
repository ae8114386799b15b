// The state of a Team (onstream/one_sided.hpp): its flags, as hosts, streams and kernels see them.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "onstream/device/lifetime/last_epoch.hpp"
#include "onstream/kernel.hpp"
#include "onstream/one_sided.hpp"

namespace onstream {

namespace one_sided {
class TeamWords;
}

// The thread of this rank that is in a barrier of the hosts, and how many have ended.
struct HostMeetings {
  std::uint64_t holder = 0;
  std::uint64_t ended = 0;
};

// Every Team is one.
class Team::Implementation final : public Team {
 public:
  Implementation(OneSidedImplementation& one_sided, std::shared_ptr<one_sided::TeamWords> words, int slot,
                 std::vector<int> members);
  ~Implementation();

  // A barrier of the hosts by the flags of `view`: those of a rank's threads follow each other.
  void meet(const TeamView& view, HostMeetings& meetings);
  Status meet(const TeamView& view);
  void require_alike(const char* call, const std::vector<int>& mine);

  OneSidedImplementation& one_sided_;
  std::shared_ptr<one_sided::TeamWords> words_;
  int slot_;
  TeamView host_;   // flags in memory that every CPU touches
  TeamView world_;  // the same for the world's barrier; of the team of all alone
  HostMeetings barriers_of_world_;
  TeamView stream_;  // flags that kernels touch
  TeamView kernel_;  // flags that the program's own kernels touch
  std::vector<std::shared_ptr<Memory>> tables_;
  HostMeetings syncs_;
  std::mutex barriers_;     // held while one of a stream is enqueued
  LastEpoch last_barrier_;  // of a stream
};

}  // namespace onstream
