// Team: a set of ranks that meet: barriers on streams, on hosts and in kernels, and small exchanges between hosts.
//
// Every member's flag for every other lies in symmetric memory, so a barrier is one store to each member and one wait
// for each, all at once. The number of a barrier lies in device memory and the kernel counts it, so a captured barrier
// means the same at every replay. Stream barriers, host barriers and barriers of a kernel's own view are counted apart
// and may be used side by side; of each kind one at a time on a rank.
//
// Calls that say so are collective over the team: all members make them in the same order. A team must outlive its
// enqueued barriers; a graph keeps the teams that it has barriers of. A team is of no use after its world.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "onstream/device/lifetime/last_epoch.hpp"
#include "onstream/one_sided/kernel/device.hpp"

namespace onstream {

class OneSidedImplementation;
namespace one_sided {
class TeamWords;
}

class Team : public std::enable_shared_from_this<Team> {
 public:
  static constexpr int kNone = -1;  // a colour: in no new team

  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int rank() const { return rank_; }  // in the team
  int size() const { return static_cast<int>(members_.size()); }
  int world_rank(int member) const;
  std::optional<int> member_of(int world_rank) const;  // nothing: not in the team
  std::span<const int> members() const { return members_; }

  // --- new teams; collective over this one, and threads may split several teams at once. Null for members of no new
  // team. Throw, on every member, when some new team's members have no words for another one (parameter teams) ---
  // Those of one colour, by key, then by rank.
  std::shared_ptr<Team> split(int colour, int key);
  // Members first, first + step, ..., count of them.
  std::shared_ptr<Team> split_strided(int first, int step, int count);
  // Members as rows of `width`: my row and my column. The last row may be shorter.
  std::pair<std::shared_ptr<Team>, std::shared_ptr<Team>> split_2d(int width);

  // --- barriers ---
  // On a stream, one small kernel; may be captured. Work enqueued before it has happened on every member's stream, and
  // is seen behind it.
  void barrier(Stream stream);
  // The hosts meet; enqueued work does not matter. Throws the story when the world failed meanwhile: timeout where this
  // rank's own deadline passed, else aborted.
  void sync();
  // For a program's own kernels.
  TeamView view() const;

  // --- between hosts ---
  static constexpr std::size_t kExchangeWords = 4;
  using Words = std::array<std::uint64_t, kExchangeWords>;
  // Collective: the words of every member, in their order.
  std::vector<Words> exchange(const Words& mine);

 private:
  friend class OneSidedImplementation;
  Team(OneSidedImplementation& one_sided, std::shared_ptr<one_sided::TeamWords> words, int slot,
       std::vector<int> members);
  Status meet();
  void require_alike(const char* call, const std::vector<int>& mine);

  OneSidedImplementation& one_sided_;
  std::shared_ptr<one_sided::TeamWords> words_;
  int slot_;
  std::vector<int> members_;
  int rank_ = -1;
  TeamView host_;    // flags in memory that every CPU touches
  TeamView stream_;  // flags that kernels touch
  TeamView kernel_;  // flags that the program's own kernels touch
  std::vector<std::shared_ptr<Memory>> tables_;
  std::mutex barriers_;     // held while one of a stream is enqueued
  LastEpoch last_barrier_;  // of a stream
};

}  // namespace onstream
