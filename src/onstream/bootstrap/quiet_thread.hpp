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
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(function));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace onstream
