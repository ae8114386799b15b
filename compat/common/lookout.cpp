#include "lookout.hpp"

#include <unistd.h>

#include <cstdio>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/base/log.hpp"
#include "onstream/base/quiet_thread.hpp"
#include "onstream/base/text.hpp"
#include "onstream/transport/fabric.hpp"
#include "onstream/transport/failure.hpp"

namespace onstream {

namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(10);
constexpr auto kFlushing = std::chrono::seconds(1);  // at most, of the program's files
constexpr int kLooksAfterFailure = 100;

void tell_end(const std::string& who, const Failure& failure) {
  const std::string facts = unlogged_facts_of(failure);
  log(LogLevel::error, who, " ends with the others", facts.empty() ? "" : failure.logged ? "\n" : ", ", facts);
}

}  // namespace

void leave(int status) {
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

void fail_job(World& world, const char* call, const std::string& who, const std::exception& error) {
  try {
    const std::optional<Failure> failure = world.fabric()->settled_failure("");
    const auto* const known = dynamic_cast<const Error*>(&error);
    if (failure && known != nullptr && known->of_failure()) {
      tell_end(concat(call, ": ", who), *failure);
    } else {
      log(LogLevel::error, call, ": ", who, ": ", error.what());
    }
    if (!failure) {
      const std::string reason = concat("rank ", world.rank(), ": ", call, ": ", error.what());
      world.fabric()->abort(reason, Cause::failure, Logged::by_caller);
    }
    std::this_thread::sleep_for(kHearing);
  } catch (const std::exception& other) {
    log(LogLevel::error, call, ": ", who, ": ", error.what(), "; the others cannot be told: ", other.what());
  }
}

Lookout::Lookout(World& world, std::function<int()> exit_told, std::string who)
    : world_(world), exit_told_(std::move(exit_told)), who_(std::move(who)), thread_([this] { look(); }) {}

Lookout::~Lookout() {
  {
    const std::lock_guard held(mutex_);
    ended_ = true;
  }
  change_.notify_all();
  thread_.join();
}

void Lookout::look() {
  int failed = 0;
  std::unique_lock held(mutex_);
  while (!change_.wait_for(held, kLookEvery, [this] { return ended_; })) {
    if (const int status = exit_told_(); status >= 0) leave(status);
    const auto failure = world_.failure();
    if (!failure || ++failed < kLooksAfterFailure) continue;
    tell_end(who_, *failure);
    leave(kFailedExit);
  }
}

}  // namespace onstream
