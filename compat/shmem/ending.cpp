#include "ending.hpp"

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "guarded.hpp"
#include "lookout.hpp"

namespace onstream::shmem {

namespace {

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
  if (of_this_process(running()) == nullptr || ending()) return;
  ending() = true;
  Runtime& shmem = *running();
  try {
    if (status == 0) return finish(shmem);
    stop_looking();  // or it would end this process before its other handlers have run
    shmem.world().abort(concat("rank ", shmem.rank(), " ended with status ", status, " and without shmem_finalize"));
    std::this_thread::sleep_for(kHearing);
  } catch (const std::exception& error) {
    end_job("the end of the program", error);
  }
}

}  // namespace

void watch_the_end() {
  static const bool once = [] {
    on_exit(at_end, nullptr);
    return true;
  }();
  (void)once;
  lookout() = new Lookout(running()->world(), [shmem = running()] { return shmem->exit_told(); }, "OpenSHMEM: this PE");
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
    shmem.world().abort(concat("PE ", shmem.rank(), " called shmem_global_exit(", status, ")"), Cause::interrupt);
    std::this_thread::sleep_for(kHearing);
  } catch (const std::exception& error) {
    log(LogLevel::error, "shmem_global_exit: ", error.what());
  }
  std::exit(status);
}

void end_job(const char* call, const std::exception& error) {
  Runtime* const shmem = of_this_process(running());
  const int told = shmem != nullptr ? shmem->exit_told() : -1;
  if (shmem == nullptr) {
    log(LogLevel::error, call, ": ", error.what());
  } else if (told < 0) {
    fail_job(shmem->world(), call, concat("PE ", shmem->rank()), error);
  }
  ending() = true;
  leave(told >= 0 ? told : kFailedExit);
}

void say(const std::string& text) {
  (void)std::fwrite(text.data(), 1, text.size(), stdout);
  (void)std::fflush(stdout);
}

}  // namespace onstream::shmem
