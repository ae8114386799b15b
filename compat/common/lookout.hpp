// For interfaces whose standard ends all processes of a job: how one ends, and the thread that looks whether another
// asked for it.
//
// Shared by OpenSHMEM (shmem_global_exit) and UPC (upc_global_exit); each has it in its own library. A process may be
// in a computation without end, so a thread of the library looks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "onstream/world.hpp"

namespace onstream {

constexpr int kFailedExit = 1;                            // the status of a process that ends with a failed job
constexpr auto kHearing = std::chrono::milliseconds(50);  // so that the others hear why before the connections close

// Ends the process; flushes its files first, within a time limit. The program's own threads go on until the last
// moment, so nothing of it is taken down; one of them may hold a stream for ever, blocked writing to a pipe that is
// full.
[[noreturn]] void leave(int status);

// Fails the world, unless it has failed, because `who` ("PE 1") cannot go on: says why first, or, of an error that is
// the world's failure, the part that the log does not say yet. Comes back once the others have had time to hear.
void fail_job(World& world, const char* call, const std::string& who, const std::exception& error);

// The runtime that this process has: none in a forked child, which is no rank of the job.
template <class Runtime>
Runtime* of_this_process(Runtime* running) {
  return running == nullptr || running->world().in_forked_child() ? nullptr : running;
}

// While it lives: ends the process once another rank has told it to, or some time after the world has failed, in which
// the program's own call reports the error that it met.
class Lookout {
 public:
  // `exit_told` gives the status to end with, or -1. `who` is in the line that a failure leaves: "UPC: thread 1".
  Lookout(World& world, std::function<int()> exit_told, std::string who);
  ~Lookout();
  Lookout(const Lookout&) = delete;
  Lookout& operator=(const Lookout&) = delete;

 private:
  void look();

  World& world_;
  std::function<int()> exit_told_;
  std::string who_;
  std::mutex mutex_;
  std::condition_variable change_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace onstream
