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

#include "onstream/base/error.hpp"
#include "onstream/base/log.hpp"
#include "onstream/base/quiet_thread.hpp"

namespace onstream::upc {

namespace {

constexpr int kFailed = 1;
constexpr auto kLookEvery = std::chrono::milliseconds(10);
constexpr auto kHearing = std::chrono::milliseconds(50);  // so that the others hear why before the connections close
constexpr auto kFlushing = std::chrono::seconds(1);       // at most, of the program's files
constexpr int kLooksAfterFailure = 100;                   // in which the thread's own call says what happened to it

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

// Looks whether another thread has ended all.
class Lookout {
 public:
  explicit Lookout(Runtime& upc) : upc_(upc), thread_([this] { look(); }) {}
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
      if (const int status = upc_.exit_told(); status >= 0) leave(status);
      if (!upc_.world().failure() || ++failed < kLooksAfterFailure) continue;
      log(LogLevel::error, "UPC: thread ", upc_.thread(), " ends with the others, ", upc_.world().failure()->story);
      leave(kFailed);
    }
  }

  Runtime& upc_;
  std::mutex mutex_;
  std::condition_variable change_;
  bool ended_ = false;
  std::thread thread_;
};

struct Life {
  Lookout* lookout = nullptr;
  bool ended = false;  // this thread has no runtime any more, or is about to lose it
};

Life& life() {
  static Life one;
  return one;
}

void stop_looking() { delete std::exchange(life().lookout, nullptr); }

void finish(Runtime& upc) {
  require(!upc.phases().notified(), "the program ends between upc_notify and upc_wait");
  upc.context().quiet();
  upc.phases().agree({Act::end, {}});
  stop_looking();
  upc.close();
  running() = nullptr;
}

// The process ends: as UPC has it, once all threads have come to the end of main.
void at_end(int status, void*) {
  if (running() == nullptr || life().ended) return;
  life().ended = true;
  Runtime& upc = *running();
  try {
    if (status == 0) return finish(upc);
    stop_looking();  // or it would end this process before its other handlers have run
    upc.world().abort(concat("rank ", upc.thread(), " ended with status ", status));
    std::this_thread::sleep_for(kHearing);
  } catch (const std::exception& error) {
    end_job("the end of main", error.what());
  }
}

}  // namespace

Runtime& start() {
  require(!life().ended, "this thread has come to its end");
  running() = new Runtime();
  on_exit(at_end, nullptr);
  life().lookout = new Lookout(*running());
  return *running();
}

void end_all(Runtime& upc, int status) {
  life().ended = true;
  stop_looking();  // or it would end this process in the midst of std::exit
  try {
    upc.tell_exit(status);
    upc.world().abort(concat("rank ", upc.thread(), " called upc_global_exit(", status, ")"), Fabric::Cause::interrupt);
    std::this_thread::sleep_for(kHearing);
  } catch (const std::exception& error) {
    log(LogLevel::error, "upc_global_exit: ", error.what());
  }
  std::exit(status);
}

void end_job(const char* call, const char* why) {
  Runtime* const upc = running();
  const int told = upc != nullptr ? upc->exit_told() : -1;
  if (upc == nullptr) {
    log(LogLevel::error, call, ": ", why);
  } else {
    if (told < 0) log(LogLevel::error, call, ": thread ", upc->thread(), ": ", why);
    try {
      upc->world().abort(concat("rank ", upc->thread(), ": ", call, ": ", why));
      std::this_thread::sleep_for(kHearing);
    } catch (const std::exception& error) {
      log(LogLevel::error, call, ": ", error.what());
    }
  }
  life().ended = true;
  leave(told >= 0 ? told : kFailed);
}

}  // namespace onstream::upc
