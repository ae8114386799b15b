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

// Every Team is one.
class Team::Implementation final : public Team {
 public:
  Implementation(OneSidedImplementation& one_sided, std::shared_ptr<one_sided::TeamWords> words, int slot,
                 std::vector<int> members);
  ~Implementation();

  Status meet();
  void require_alike(const char* call, const std::vector<int>& mine);

  OneSidedImplementation& one_sided_;
  std::shared_ptr<one_sided::TeamWords> words_;
  int slot_;
  TeamView host_;    // flags in memory that every CPU touches
  TeamView stream_;  // flags that kernels touch
  TeamView kernel_;  // flags that the program's own kernels touch
  std::vector<std::shared_ptr<Memory>> tables_;
  std::mutex meetings_;     // held in a barrier of the hosts: those of a rank's threads follow each other
  std::mutex barriers_;     // held while one of a stream is enqueued
  LastEpoch last_barrier_;  // of a stream
};

}  // namespace onstream
