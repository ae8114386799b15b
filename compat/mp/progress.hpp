// Progress: a thread that completes posted receives while the program does something else.
//
// libmp's receives complete in the network card. Here a receive is completed by a wait for it or a later one, and a
// rank may do other things first: wait for its own send, or stand in an MPI barrier that the sender, waiting for this
// receive, has not reached. So a receive that stays unfinished for a tick is looked at by this thread.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "pair.hpp"

namespace onstream::mp {

class Progress {
 public:
  Progress(World& world, std::vector<std::unique_ptr<Pair>>& pairs);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Before a receive from `peer` is posted: waits for older ones while as many as a tag takes are under way.
  void make_room(Pair& pair, int peer);
  // Takes note of a posted receive.
  void add(Pair& pair, const std::shared_ptr<Operation>& request);
  // Keeps these until the event is done, or the runtime ends.
  void keep(std::vector<std::shared_ptr<const void>> things, std::shared_ptr<Event> until);
  // Completes those of this peer's receives that have ended.
  void advance(Pair& pair);

 private:
  struct Kept {
    std::shared_ptr<Event> until;
    std::vector<std::shared_ptr<const void>> things;
  };

  void work();
  void let_go();
  bool ended(Operation& request);

  World& world_;
  std::vector<std::unique_ptr<Pair>>& pairs_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::vector<Kept> kept_;
  std::thread thread_;
};

}  // namespace onstream::mp
