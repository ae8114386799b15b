#include "onstream/collective/channel/channels.hpp"

#include <set>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"

namespace onstream::collective {

Channels::Channels(std::shared_ptr<Fabric> fabric, std::shared_ptr<BlockBudget> budget, std::vector<int> ranks)
    : fabric_(std::move(fabric)),
      budget_(std::move(budget)),
      ranks_(std::move(ranks)),
      checks_(fabric_->parameters().collective_check == "on"),
      places_(static_cast<std::size_t>(fabric_->parameters().collective_channels)) {}

void Channels::make_all(int count) {
  is_team_ = true;
  places_ = std::vector<std::atomic<Channel*>>(static_cast<std::size_t>(count));
  for (int number = 0; number < count; ++number) {
    start(number);
    start_copies(number);
  }
}

void Channels::meet(int count) {
  is_team_ = true;
  places_ = std::vector<std::atomic<Channel*>>(static_cast<std::size_t>(count));
}

void Channels::check_number(int number) const {
  require(has(number), "channel ", number, " does not exist; there are ", places_.size(),
          is_team_ ? " of this team" : " (collective_channels)");
}

Channel& Channels::of(const CollectiveCall& call) {
  check_number(call.channel);
  if (Channel* const channel = find(call.channel)) return *channel;
  const std::lock_guard making(making_mutex_);
  if (find(call.channel) == nullptr) make_with_all(Made::channel, call);
  return *find(call.channel);
}

Copies& Channels::copies_of(Channel& channel, const CollectiveCall& call) {
  if (Copies* const copies = find_copies(channel)) return *copies;
  const std::lock_guard making(making_mutex_);
  if (find_copies(channel) == nullptr) make_with_all(Made::copies, call);
  return *find_copies(channel);
}

Copies* Channels::find_copies(const Channel& channel) const {
  const std::lock_guard lock(mutex_);
  return channel.copies.get();
}

void Channels::make_with_all(Made part, const CollectiveCall& call) {
  std::set<std::pair<Made, int>> asked;
  for (const std::string& theirs : fabric_->all_gather(
           "the first collective of a channel", concat(static_cast<int>(part), ' ', call.channel), what_of(call))) {
    const std::vector<std::string_view> words = onstream::words_of(theirs);
    asked.emplace(static_cast<Made>(number_in<int>(words.at(0)).value()), number_in<int>(words.at(1)).value());
  }
  for (const auto& [of, one] : asked) of == Made::channel ? start(one) : start_copies(one);
}

void Channels::start(int number) {
  auto made = std::make_unique<Channel>(*fabric_, *budget_, ranks_, number);
  if (checks_) made->checking = release_later(std::make_unique<Checking>(*fabric_->device(), ranks_));
  const std::lock_guard lock(mutex_);
  Channel* const channel = channels_.emplace_back(std::move(made)).get();
  places_[static_cast<std::size_t>(number)].store(channel, std::memory_order_release);  // pairs with find()
}

// All ranks have the channel: the rank that asks for copies made it with them.
void Channels::start_copies(int number) {
  auto made = std::make_unique<Copies>(*fabric_, ranks_, number);
  const std::lock_guard lock(mutex_);
  find(number)->copies = std::move(made);
}

std::size_t Channels::device_bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& channel : channels_) bytes += channel->device_bytes() + channel->hierarchy_bytes;
  return bytes;
}

std::vector<std::unique_ptr<Channel>> Channels::take_all() { return std::move(channels_); }

}  // namespace onstream::collective
