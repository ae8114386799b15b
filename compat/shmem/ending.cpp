#include "ending.hpp"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "guarded.hpp"

namespace onstream::shmem {

namespace {

constexpr int kFailed = 1;
constexpr auto kLookEvery = std::chrono::milliseconds(10);
constexpr auto kHearing = std::chrono::milliseconds(50);  // so that the others hear why before the connections close
constexpr int kLooksAfterFailure = 100;                   // in which the PE's own call says what happened to it

// Looks whether another PE has ended all.
class Lookout {
 public:
  explicit Lookout(Runtime& shmem) : shmem_(shmem), thread_([this] { look(); }) {}
  ~Lookout() {
    {
      const std::lock_guard held(mutex_);
      ended_ = true;
    }
    change_.notify_all();
    thread_.join();
  }
  Lookout(const Lookout&) = delete;
  Lookout& operator=(const Lookout&) = delete;

 private:
  void look() {
    int failed = 0;
    std::unique_lock held(mutex_);
    while (!change_.wait_for(held, kLookEvery, [this] { return ended_; })) {
      if (const int status = shmem_.exit_told(); status >= 0) leave(status);
      if (!shmem_.world().failure()) continue;
      if (++failed < kLooksAfterFailure) continue;
      log(LogLevel::error, "OpenSHMEM: this PE ends with the others, ", shmem_.world().failure()->story);
      leave(kFailed);
    }
  }
  // The program's own threads go on until the last moment, so nothing of it is taken down.
  [[noreturn]] static void leave(int status) {
    (void)std::fflush(stdout);
    (void)std::fflush(stderr);
    ::_exit(status);
  }

  Runtime& shmem_;
  std::mutex mutex_;
  std::condition_variable change_;
  bool ended_ = false;
  std::thread thread_;
};

Lookout*& lookout() {
  static Lookout* watching = nullptr;
  return watching;
}

bool& ending() {
  static bool is = false;
  return is;
}

bool& finalized() {
  static bool is = false;
  return is;
}

// The process ends. Without shmem_finalize: that is done now, or cannot be any more.
void at_end(int status, void*) {
  if (running() == nullptr || ending()) return;
  ending() = true;
  Runtime& shmem = *running();
  try {
    if (status == 0) return finish(shmem);
    shmem.world().abort(concat("rank ", shmem.rank(), " ended with status ", status, " and without shmem_finalize"));
    std::this_thread::sleep_for(kHearing);
  } catch (const std::exception& error) {
    log(LogLevel::error, "OpenSHMEM: at the end of the process: ", error.what());
    (void)std::fflush(nullptr);
    ::_exit(kFailed);
  }
}

}  // namespace

void watch_the_end() {
  static const bool once = [] {
    on_exit(at_end, nullptr);
    return true;
  }();
  (void)once;
  lookout() = new Lookout(*running());
}

void finish(Runtime& shmem) {
  shmem.quiet_all();
  shmem.world().team()->sync();
  delete lookout();
  lookout() = nullptr;
  shmem.close();
  running() = nullptr;
  finalized() = true;
}

bool was_finalized() { return finalized(); }

void end_all(Runtime& shmem, int status) {
  try {
    shmem.tell_exit(status);
    shmem.world().abort(concat("PE ", shmem.rank(), " called shmem_global_exit(", status, ")"),
                        Fabric::Cause::interrupt);
    std::this_thread::sleep_for(kHearing);
  } catch (const std::exception& error) {
    log(LogLevel::error, "shmem_global_exit: ", error.what());
  }
  ending() = true;
  std::exit(status);
}

void end_job(const char* call, const char* why) {
  Runtime* const shmem = running();
  int status = kFailed;
  if (shmem != nullptr) {
    const int told = shmem->exit_told();
    if (told >= 0) status = told;
    if (told < 0) log(LogLevel::error, call, ": PE ", shmem->rank(), ": ", why);
    try {
      shmem->world().abort(concat("rank ", shmem->rank(), ": ", call, ": ", why));
      std::this_thread::sleep_for(kHearing);
    } catch (const std::exception& error) {
      log(LogLevel::error, call, ": ", error.what());
    }
  } else {
    log(LogLevel::error, call, ": ", why);
  }
  ending() = true;
  (void)std::fflush(stdout);
  (void)std::fflush(stderr);
  ::_exit(status);
}

void say(const std::string& text) {
  (void)std::fwrite(text.data(), 1, text.size(), stdout);
  (void)std::fflush(stdout);
}

}  // namespace onstream::shmem
