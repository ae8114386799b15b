#include "ending.hpp"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "guarded.hpp"
#include "onstream/base/quiet_thread.hpp"

namespace onstream::shmem {

namespace {

constexpr int kFailed = 1;
constexpr auto kLookEvery = std::chrono::milliseconds(10);
constexpr auto kHearing = std::chrono::milliseconds(50);  // so that the others hear why before the connections close
constexpr auto kFlushing = std::chrono::seconds(1);       // at most, of the program's files
constexpr int kLooksAfterFailure = 100;                   // in which the PE's own call says what happened to it

// Ends the process, with what it has written in its files. The program's own threads go on until the last moment, so
// nothing of it is taken down; one of them may hold a stream for ever, blocked writing to a pipe that is full.
[[noreturn]] void leave(int status) {
  try {
    const auto flushed = std::make_shared<std::promise<void>>();
    const std::future<void> done = flushed->get_future();
    quiet_thread([flushed] {
      (void)std::fflush(nullptr);
      flushed->set_value();
    }).detach();
    (void)done.wait_for(kFlushing);
  } catch (const std::exception& error) {
    log(LogLevel::error, "what files hold in buffers is lost: ", error.what());
  }
  ::_exit(status);
}

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

void stop_looking() { delete std::exchange(lookout(), nullptr); }

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
    stop_looking();  // or it would end this process before its other handlers have run
    shmem.world().abort(concat("rank ", shmem.rank(), " ended with status ", status, " and without shmem_finalize"));
    std::this_thread::sleep_for(kHearing);
  } catch (const std::exception& error) {
    log(LogLevel::error, "OpenSHMEM: at the end of the process: ", error.what());
    leave(kFailed);
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
  stop_looking();
  shmem.close();
  running() = nullptr;
  finalized() = true;
}

bool was_finalized() { return finalized(); }

void end_all(Runtime& shmem, int status) {
  ending() = true;
  stop_looking();  // or it would end this process in the midst of std::exit
  try {
    shmem.tell_exit(status);
    shmem.world().abort(concat("PE ", shmem.rank(), " called shmem_global_exit(", status, ")"),
                        Fabric::Cause::interrupt);
    std::this_thread::sleep_for(kHearing);
  } catch (const std::exception& error) {
    log(LogLevel::error, "shmem_global_exit: ", error.what());
  }
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
  leave(status);
}

void say(const std::string& text) {
  (void)std::fwrite(text.data(), 1, text.size(), stdout);
  (void)std::fflush(stdout);
}

}  // namespace onstream::shmem
