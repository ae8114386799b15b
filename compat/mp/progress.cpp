#include "progress.hpp"

#include <chrono>
#include "onstream/base/clock.hpp"

#include "onstream/base/error.hpp"
#include "onstream/base/quiet_thread.hpp"
#include "onstream/device/host/group.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::mp {

Progress::Progress(World& world, std::vector<std::unique_ptr<Pair>>& pairs)
    : world_(world), pairs_(pairs), thread_(quiet_thread([this] { work(); })) {}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Progress::make_room(Pair& pair, int peer) {
  const auto most = static_cast<std::size_t>(world_.fabric()->parameters().tag_receives);
  const Deadline deadline(world_.fabric()->parameters().timeout_s);
  for (std::uint32_t round = 0;; ++round) {
    {
      const std::lock_guard lock(pair.mutex);
      while (!pair.posted.empty() && pair.posted.front()->settled.load()) pair.posted.pop_front();
      if (pair.posted.size() < most) return;
    }
    advance(pair);
    if (deadline.passed()) {
      fail(ErrorCode::timeout, most, " receives from rank ", peer,
           " are posted already, and none of them has ended; raise tag_receives");
    }
    HostGroup::pause(round);
  }
}

void Progress::add(Pair& pair, const std::shared_ptr<Operation>& request) {
  const std::lock_guard lock(pair.mutex);
  pair.posted.push_back(request);
}

void Progress::keep(std::vector<std::shared_ptr<const void>> things, std::shared_ptr<Event> until) {
  const std::lock_guard lock(mutex_);
  kept_.push_back({std::move(until), std::move(things)});
}

void Progress::let_go() {
  const auto done = [](const Kept& kept) {
    try {
      return kept.until->done();
    } catch (const Error&) {
      return true;  // the device is lost, and the work with it
    }
  };
  const std::lock_guard lock(mutex_);
  std::erase_if(kept_, done);
}

bool Progress::ended(Operation& request) {
  if (request.settled.load()) return true;
  const std::unique_lock busy(request.busy, std::try_to_lock);
  if (!busy.owns_lock()) return false;
  if (world_.test(request.message) != Status::pending) request.settled.store(true);
  return request.settled.load();
}

void Progress::advance(Pair& pair) {
  for (;;) {
    std::shared_ptr<Operation> oldest;
    {
      const std::lock_guard lock(pair.mutex);
      if (pair.posted.empty()) return;
      oldest = pair.posted.front();
    }
    if (!ended(*oldest)) return;
    const std::lock_guard lock(pair.mutex);
    if (!pair.posted.empty() && pair.posted.front() == oldest) pair.posted.pop_front();
  }
}

void Progress::work() {
  // A GPU is asked by a kernel, which costs more than a look at memory.
  const bool on_host = world_.device().kind() == DeviceKind::host;
  const std::chrono::milliseconds tick(on_host ? 1 : 5);
  std::vector<std::shared_ptr<Operation>> before(pairs_.size());
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (wake_.wait_for(lock, tick, [&] { return stopping_; })) return;
    }
    let_go();
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      std::shared_ptr<Operation> oldest;
      {
        const std::lock_guard lock(pairs_[i]->mutex);
        if (!pairs_[i]->posted.empty()) oldest = pairs_[i]->posted.front();
      }
      if (oldest != nullptr && oldest == before[i]) {
        try {
          advance(*pairs_[i]);
        } catch (const Error&) {
          // The world has failed; the program's own calls tell.
        }
      }
      before[i] = std::move(oldest);
    }
  }
}

}  // namespace onstream::mp
