// How a thread waits for the work of a host stream: it waits, and says so now and then.
//
// The library's own work ends by itself: every wait in it has a deadline. A host function of the program need not end,
// and to give up on it would break the order of the stream, so there is no deadline here; but nobody waits in silence.
#pragma once

#include <condition_variable>
#include <mutex>

namespace onstream::host {

// How long a wait is silent; 60 s, until somebody says otherwise. For the whole process.
void set_patience(double seconds);

// One wait of a thread.
class Patience {
 public:
  explicit Patience(const char* what) : what_(what) {}
  // Sleeps until `changed` is notified, or until the silence has lasted long enough, and then names the awaited work.
  void sleep(std::unique_lock<std::mutex>& lock, std::condition_variable& changed);

 private:
  const char* what_;
  double waited_s_ = 0;
};

}  // namespace onstream::host
