// A thread that takes no signals: those sent to the process stay with the program's own threads (Python's Ctrl-C).
#pragma once

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace onstream {

template <class Function>
std::thread quiet_thread(Function function) {
  // A thread inherits the mask of its creator; blocking only inside would leave a moment without it.
  struct Blocked {
    Blocked() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~Blocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }  // also where there is no thread to be had
    sigset_t before;
  };
  const Blocked blocked;
  return std::thread(std::move(function));
}

}  // namespace onstream
