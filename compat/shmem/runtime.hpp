// Runtime: the library's state between shmem_init and shmem_finalize - the world, the symmetric heap, the globals as a
// segment, and the contexts and teams that the program has made.
//
// There is at most one, and it is never destroyed by the process's end: threads of the program may still be in calls.
// Handles that the program gave back stay as objects, so that their use is an error and no accident.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "globals.hpp"
#include "onstream/collective.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/symmetric.hpp"
#include "onstream/world.hpp"
#include "shmem.h"

namespace onstream::shmem {

// A team as the program holds it. Members are named by world ranks.
class TeamHandle : public onstream_shmem_team {
 public:
  std::shared_ptr<Team> team;  // null: given back
  shmem_team_config_t config = {0};
  std::unique_ptr<Context> context;        // of its collectives
  std::shared_ptr<Collective> collective;  // the library's among its members; null: there are none
  int rank() const { return team->rank(); }
  int size() const { return team->size(); }
};

// A context as the program holds it. `lock()` guards it where several threads may use it.
class ContextHandle : public onstream_shmem_context {
 public:
  std::unique_ptr<Context> context;  // null: given back
  TeamHandle* team = nullptr;        // that it was made of
  std::shared_ptr<Team> members;     // whose numbers its PEs have; it may outlive the team
  bool shared_by_threads = false;
  std::mutex mutex;

  std::unique_lock<std::mutex> lock() {
    std::unique_lock held(mutex, std::defer_lock);
    if (shared_by_threads) held.lock();
    return held;
  }
  void quiet() {
    const auto held = lock();
    context->quiet();
  }
  // The world's rank of a PE. Throws invalid_argument for one that does not exist.
  int rank_of(int pe) const;
};

class Runtime {
 public:
  explicit Runtime(int thread_level);  // collective
  void close();                        // collective

  World& world() const { return *world_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  int thread_level() const { return thread_level_; }

  // The address by which onstream knows a place that the program names.
  template <class T>
  T* place(T* address) const {
    return globals_.place(address);
  }
  Heap& heap() const { return *heap_; }
  Heap& device_heap();                       // collective the first time
  Heap* heap_of(const void* address) const;  // null: in none
  bool in_globals(const void* address) const { return globals_.holds(address); }
  // Where this rank's CPU loads and stores the same place of a world's rank; null where it does not.
  void* pointer(const void* address, int rank) const;

  // --- handles; all throw invalid_argument for one that is not valid ---
  ContextHandle& context(shmem_ctx_t handle) {
    return handle == SHMEM_CTX_DEFAULT ? default_context_ : made_context(handle);
  }
  ContextHandle& default_context() { return default_context_; }
  TeamHandle& team(shmem_team_t handle);
  TeamHandle& world_team() { return world_team_; }
  shmem_team_t handle_of(const TeamHandle& team) const;
  ContextHandle* make_context(TeamHandle& team, long options);
  void end_context(ContextHandle& context);
  TeamHandle* adopt(std::shared_ptr<Team> team, const shmem_team_config_t& config);
  Context& collectives_of(TeamHandle& team);
  // Gives the library's collectives to the team that a split made, null where it made none. Collective over the parent.
  // A team of all PEs has those of the world. Those of fewer are made by all ranks of the world at once, so only where
  // all split, and not where threads of some rank may split several teams at once; and they take MiB and milliseconds
  // (17 ms of each of 4 PEs on 2 cores), so only for programs with memory on the device, where each step of a Context's
  // costs microseconds. Teams of more ranks than the library's have at most (64) get none.
  void give_collectives(const TeamHandle& parent, TeamHandle* made);
  // Whether every CPU loads and stores memory at both places; false too where one of them is not symmetric.
  bool cpu_reaches(const void* dest, const void* source) const;
  // Whether collectives of such memory are the library's: on the host device always, as kernels are the CPU's there; on
  // a GPU where the CPU does not reach one of them. Not where one is not symmetric, which a Context refuses. All ranks
  // that have a team's collectives answer alike for the same symmetric objects: their devices are of one kind.
  bool in_library(const void* dest, const void* source) const;

  // All contexts that the program has not given back.
  void quiet_all();
  // Told to every rank, which end with it; does not end this one.
  void tell_exit(int status);
  // The status of a rank that ended all by shmem_global_exit; -1: none has.
  int exit_told() const;
  // One word of every rank, that a collective of an active set leaves at this one. By world rank.
  std::uint64_t* box() const { return box_; }

 private:
  ContextHandle& made_context(shmem_ctx_t handle);
  Heap* made_device_heap() const { return device_heap_.load(std::memory_order_acquire); }  // pairs with device_heap()
  // Collective: compares the facts that may differ by rank, which all must see alike to choose the library or this
  // interface for a collective.
  void compare_ranks();

  std::shared_ptr<World> world_;
  int rank_ = 0;
  int size_ = 1;
  int thread_level_;
  bool one_device_kind_ = true;     // all ranks'
  bool some_have_threads_ = false;  // at level SHMEM_THREAD_MULTIPLE
  std::unique_ptr<Heap> heap_;
  std::unique_ptr<Heap> device_heap_owner_;
  std::atomic<Heap*> device_heap_ = nullptr;  // made while other threads look addresses up
  std::shared_ptr<Segment> words_;            // the box, and behind it the word of tell_exit()
  std::uint64_t* box_ = nullptr;
  Globals globals_;
  ContextHandle default_context_;
  TeamHandle world_team_;
  TeamHandle shared_team_;
  std::mutex mutex_;  // guards the lists
  std::deque<std::unique_ptr<ContextHandle>> contexts_;
  std::deque<std::unique_ptr<TeamHandle>> teams_;
};

// Null before shmem_init and after shmem_finalize.
Runtime*& running();

}  // namespace onstream::shmem
