#include "ending.hpp"

#include <cstdlib>
#include <thread>
#include <utility>

#include "lookout.hpp"
#include "onstream/base/error.hpp"
#include "onstream/base/log.hpp"

namespace onstream::upc {

namespace {

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
  if (of_this_process(running()) == nullptr || life().ended) return;
  life().ended = true;
  Runtime& upc = *running();
  try {
    if (status == 0) return finish(upc);
    stop_looking();  // or it would end this process before its other handlers have run
    upc.world().abort(concat("rank ", upc.thread(), " ended with status ", status));
    std::this_thread::sleep_for(kHearing);
  } catch (const std::exception& error) {
    end_job("the end of main", error);
  }
}

}  // namespace

Runtime& start() {
  require(!life().ended, "this thread has come to its end");
  running() = new Runtime();
  on_exit(at_end, nullptr);
  life().lookout = new Lookout(
      running()->world(), [upc = running()] { return upc->exit_told(); }, concat("UPC: thread ", running()->thread()));
  return *running();
}

void end_all(Runtime& upc, int status) {
  life().ended = true;
  stop_looking();  // or it would end this process in the midst of std::exit
  try {
    upc.tell_exit(status);
    upc.world().abort(concat("rank ", upc.thread(), " called upc_global_exit(", status, ")"), Cause::interrupt);
    std::this_thread::sleep_for(kHearing);
  } catch (const std::exception& error) {
    log(LogLevel::error, "upc_global_exit: ", error.what());
  }
  std::exit(status);
}

void end_job(const char* call, const std::exception& error) {
  Runtime* const upc = of_this_process(running());
  const int told = upc != nullptr ? upc->exit_told() : -1;
  if (upc == nullptr) {
    log(LogLevel::error, call, ": ", error.what());
  } else if (told < 0) {
    fail_job(upc->world(), call, concat("thread ", upc->thread()), error);
  }
  life().ended = true;
  leave(told >= 0 ? told : kFailedExit);
}

}  // namespace onstream::upc
