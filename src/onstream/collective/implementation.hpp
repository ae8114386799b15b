// The implementation of Collective: its channels, and the calls' way through checks, choice and preparation onto
// streams. Plans share it with the Collective, which may go before them.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "onstream/base/error.hpp"
#include "onstream/collective/collective.hpp"
#include "onstream/collective/compile/compile.hpp"
#include "onstream/collective/compile/hierarchy.hpp"
#include "onstream/collective/compile/user_reduction.hpp"
#include "onstream/collective/enqueue/checking.hpp"
#include "onstream/collective/enqueue/compiled_call.hpp"
#include "onstream/collective/enqueue/runner.hpp"
#include "onstream/collective/kernel/user_kernels.hpp"
#include "onstream/collective/select/algorithm.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"

namespace onstream {

class Collective::Implementation {
 public:
  Implementation(std::shared_ptr<Fabric> fabric, std::shared_ptr<collective::BlockBudget> room, std::vector<int> ranks)
      : fabric_(std::move(fabric)),
        room_(std::move(room)),
        device_(fabric_->device()),
        ranks_(std::move(ranks)),
        checks_(fabric_->parameters().collective_check == "on"),
        places_(static_cast<std::size_t>(fabric_->parameters().collective_channels)),
        runner_(fabric_) {
    const auto found = std::ranges::find(ranks_, fabric_->rank());
    rank_ = found == ranks_.end() ? -1 : static_cast<int>(found - ranks_.begin());
  }
  ~Implementation() {
    for (std::unique_ptr<collective::Channel>& channel : channels_) {
      runner_.let_go(std::shared_ptr<collective::Channel>(std::move(channel)));
    }
  }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  const std::vector<int>& ranks() const { return ranks_; }
  const std::shared_ptr<Fabric>& fabric() const { return fabric_; }
  const std::shared_ptr<collective::BlockBudget>& room() const { return room_; }  // of all channels of the world

  // Collective over the world.
  void make_channels(int count) {
    is_team_ = true;
    places_ = Places(static_cast<std::size_t>(count));
    for (int number = 0; number < count; ++number) {
      start_channel(number);
      start_copies(number);
    }
  }

  void run(const CollectiveCall& call, Stream stream) {
    if (const CachedCall again = find_again(call)) {
      runner_.enqueue_next(*again.order, stream, *again.work);
    } else if (const Ready ready = work_of(call)) {
      runner_.enqueue(ready.channel->order, stream, *ready.work);
    }
  }

  void run(const CollectiveCall& call) {
    if (CachedCall again = find_again(call)) {
      runner_.run_next(*again.order, std::move(again.held), *again.work);
    } else if (const Ready ready = work_of(call)) {
      runner_.run_and_wait(ready.channel->order, *ready.work);
    }
  }

  void check_alone(const CollectiveCall& call) const {
    (void)check(call);
    check_channel(call.channel);
    if (call.algorithm == Algorithm::automatic) return;
    (void)with_choice(call.combine ? collective::UserReduction::move_of(call) : call);
  }

  std::string explain(const CollectiveCall& call) const {
    if (call.combine) {
      collective::UserReduction::check(call, device_->kind());
      return "a reduction of your own behind " + explain(collective::UserReduction::move_of(call));
    }
    check_meaning(call);
    check_channel(call.channel);
    check_own_part(call);
    return collective::explain(with_algorithm(call), machine());
  }

  // Comes before any of the kernels is enqueued: kernels that run on a GPU can hold up loading. Does not hold the
  // mutex, as loading may take long.
  void load(const collective::UserKernels& own) const {
    {
      const std::lock_guard lock(loaded_mutex_);
      if (loaded_.contains(&own)) return;
    }
    require(device_->kind() == DeviceKind::host || own.lines.kernel.cuda != nullptr, "the reduction ", own.name(),
            " has no kernels for cuda: have nvcc compile the file that calls reduced_with (its name ends in .cu)");
    for (const Kernel* kernel : {&own.lines.kernel, &own.two_shot.kernel, &own.bulk.kernel}) {
      if (kernel->host != nullptr) device_->load(*kernel);
    }
    const std::lock_guard lock(loaded_mutex_);
    loaded_.insert(&own);
  }

  std::size_t device_bytes() const {
    const std::lock_guard lock(mutex_);
    std::size_t bytes = spares_->bytes();
    for (const auto& channel : channels_) {
      bytes += channel->device_bytes() + channel->hierarchy_bytes;
    }
    return bytes;
  }

 private:
  friend class Collective::Planned;

  collective::Machine machine() const { return collective::machine_of(*fabric_, rank_, ranks_.size()); }

  // --- arguments ---

  void check_world(const CollectiveCall& call) const {
    fabric_->check([&] { return collective::what_of(call); });
  }

  // Throws the error of a call that cannot work.
  collective::Buffers check(const CollectiveCall& call) const {
    if (call.combine) {
      collective::UserReduction::check(call, device_->kind());
      return check(collective::UserReduction::in_bytes(call));
    }
    check_world(call);
    check_meaning(call);
    const std::size_t in = call.input_bytes(rank_, size());
    const std::size_t out = call.output_bytes(rank_, size());
    const collective::Buffers buffers = {runner_.check_buffer(call, "input", call.input, in),
                                         runner_.check_buffer(call, "output", call.output, out)};
    check_own_part(call);
    check_overlap(call, in, out);
    return buffers;
  }

  // All but where its buffers lie.
  void check_meaning(const CollectiveCall& call) const {
    require(rank_ >= 0, name_of(call.kind), ": rank ", fabric_->rank(), " is not in this team");
    require(is_collective(call.kind), "a collective call is of no collective kind, but ", name_of(call.kind));
    require(!collective::is_of_neighbours(call.kind), name_of(call.kind),
            ": neighbourhood(...) gives an object that does it");
    require(size() <= collective::kMostRanks, name_of(call.kind), " on ", size(), " ranks: a team has at most ",
            collective::kMostRanks);
    require(call.root >= 0 && call.root < size(), name_of(call.kind), ": root ", call.root,
            " does not exist; this team has ranks 0 to ", size() - 1);
    check_counts(call);
    if (call.own != nullptr) check_functor(call);
    if (collective::has_op(call.kind)) {
      require(supports(call.type, call.op), name_of(call.kind), ": ", name_of(call.op), " has no meaning for ",
              name_of(call.type));
    }
  }

  void check_functor(const CollectiveCall& call) const {
    const collective::UserKernels& own = *call.own;
    require(collective::has_op(call.kind), name_of(call.kind),
            " reduces nothing, so it takes no reduction of your own");
    require(call.type == ElementType::uint8 && call.count % own.element_bytes == 0, name_of(call.kind), ": ",
            call.count, " ", name_of(call.type), " are no whole elements of ", own.element_bytes,
            " B; the call was changed behind reduced_with");
    load(own);
  }

  void check_counts(const CollectiveCall& call) const {
    const auto one_each = [&](const char* what, const std::vector<std::size_t>& list) {
      require(list.size() == ranks_.size(), name_of(call.kind), ": ", what, " has ", list.size(),
              " entries; this team has ", ranks_.size(), " ranks");
    };
    if (call.kind == OpKind::all_to_all_v) {
      one_each("send_counts", call.send_counts);
      one_each("send_offsets", call.send_offsets);
    }
    if (collective::is_v(call.kind)) {
      one_each("receive_counts", call.receive_counts);
      one_each("receive_offsets", call.receive_offsets);
      check_apart(call);
    }
    if (call.kind == OpKind::all_gather_v) {
      const std::size_t mine = call.receive_counts[static_cast<std::size_t>(rank_)];
      require(call.count == mine, "all_gather_v: this rank gives ", call.count, " elements, but receive_counts[", rank_,
              "] is ", mine);
    }
  }

  void check_own_part(const CollectiveCall& call) const {
    if (call.kind != OpKind::all_to_all_v) return;
    const std::size_t sent = call.send_counts[static_cast<std::size_t>(rank_)];
    const std::size_t expected = call.receive_counts[static_cast<std::size_t>(rank_)];
    require(sent == expected, name_of(call.kind), ": this rank sends itself ", sent, " elements and expects ",
            expected);
  }

  // If two ranks sent to one place, the last to arrive would win.
  void check_apart(const CollectiveCall& call) const {
    const auto both = collective::overlapping(call.receive_offsets, call.receive_counts);
    if (!both) return;
    fail(ErrorCode::invalid_argument, name_of(call.kind), ": what comes from rank ", ranks_[both->first],
         " and from rank ", ranks_[both->second], " overlaps in the output");
  }

  // call.hpp says which overlaps are allowed.
  void check_overlap(const CollectiveCall& call, std::size_t in, std::size_t out) const {
    const auto* input = static_cast<const std::byte*>(call.input);
    const auto* output = static_cast<const std::byte*>(call.output);
    if (in == 0 || out == 0 || input + in <= output || output + out <= input) return;
    require(is_in_place(call, input, output), name_of(call.kind), ": the input of ", in, " B at ", call.input,
            " and the output of ", out, " B at ", call.output, " overlap, and not as a collective in place");
  }
  bool is_in_place(const CollectiveCall& call, const std::byte* input, const std::byte* output) const {
    const std::size_t element = size_of(call.type);
    const std::size_t part = call.count * element * static_cast<std::size_t>(rank_);
    switch (call.kind) {
      case OpKind::all_gather:
      case OpKind::gather: return input == output + part;
      case OpKind::reduce_scatter:
      case OpKind::scatter: return output == input + part;
      case OpKind::all_gather_v:
        return input == output + call.receive_offsets[static_cast<std::size_t>(rank_)] * element;
      case OpKind::all_to_all_v:
        return input == output && call.send_counts == call.receive_counts && call.send_offsets == call.receive_offsets;
      default: return input == output;
    }
  }

  // Compares the call with those of the other ranks, in the checking mode.
  void compare(const CollectiveCall& call) {
    if (!checks_) return;
    channel_of(call).checking->check(call, [this](const CollectiveCall& one) { run_unchecked(one); });
  }

  static bool has_nothing_to_do(const CollectiveCall& call) {
    return call.count == 0 && call.kind != OpKind::barrier && !collective::is_v(call.kind);
  }

  // The work of an equal call before. It counts as a call of the channel; nobody else uses the order meanwhile.
  struct CachedCall {
    collective::Order* order = nullptr;
    std::unique_lock<std::mutex> held;
    const collective::CompiledCall* work = nullptr;  // null: nothing that this one could be

    explicit operator bool() const { return work != nullptr; }
  };
  CachedCall find_again(const CollectiveCall& call) {
    check_world(call);
    collective::Channel* const channel = checks_ ? nullptr : find(call.channel);
    if (channel == nullptr) return {};
    std::unique_lock held(channel->order.mutex);
    const collective::CompiledCall* const work = channel->recent.find(call, *device_);
    if (work == nullptr) return {};
    if (!channel->room().takes_next_call(work->most)) {  // calls have another number of blocks now
      channel->recent.forget();
      return {};
    }
    return {&channel->order, std::move(held), work};
  }

  struct Ready {
    collective::Channel* channel = nullptr;
    std::shared_ptr<const collective::CompiledCall> work;  // null: there is nothing to do

    explicit operator bool() const { return work != nullptr; }
  };
  // Throws the error of a call that cannot work.
  Ready work_of(const CollectiveCall& call) {
    const collective::Buffers buffers = check(call);
    compare(call);
    if (has_nothing_to_do(call)) return {};
    collective::Channel& channel = channel_of(call);
    auto work = std::make_shared<const collective::CompiledCall>(prepare_next(channel, call));
    if (!checks_) {
      const std::lock_guard lock(channel.order.mutex);
      channel.recent.keep(call, buffers, work);
    }
    return {&channel, std::move(work)};
  }

  CollectiveCall with_algorithm(CollectiveCall call) const {
    const std::string& asked = fabric_->parameters().collective_algorithm;
    if (call.algorithm != Algorithm::automatic || asked == "auto") return call;
    const Algorithm algorithm = algorithm_of(asked);
    for (const collective::AlgorithmRow& row : collective::algorithms()) {
      if (row.algorithm == algorithm && why_not(row, call, machine()).empty()) call.algorithm = algorithm;
    }
    return call;
  }

  // --- work ---

  // The parts that first calls make: a channel, and the copies of one.
  enum class Part { channel, copies };

  void run_unchecked(const CollectiveCall& call) {
    collective::Channel& channel = channel_of(call);
    runner_.run_and_wait(channel.order, prepare_next(channel, call));
  }

  void check_channel(int number) const {
    require(number >= 0 && static_cast<std::size_t>(number) < places_.size(), "channel ", number,
            " does not exist; there are ", places_.size(), is_team_ ? " of this team" : " (collective_channels)");
  }
  collective::Channel& channel_of(const CollectiveCall& call) {
    check_channel(call.channel);
    if (collective::Channel* channel = find(call.channel)) return *channel;
    const std::lock_guard making(making_mutex_);
    if (find(call.channel) == nullptr) make_with_all(Part::channel, call);
    return *find(call.channel);
  }
  // Collective over the world.
  std::unique_ptr<collective::Channel> make_channel(int number) {
    auto made = std::make_unique<collective::Channel>(*fabric_, *room_, ranks_, number);
    if (checks_) made->checking = release_later(std::make_unique<collective::Checking>(*device_, ranks_));
    return made;
  }
  // Null: there is none yet.
  collective::Channel* find(int number) const {
    const auto place = static_cast<std::size_t>(number);
    return place < places_.size() ? places_[place].load(std::memory_order_acquire) : nullptr;  // start_channel()
  }

  // Ranks may come to the first calls of channels, and to the first by copy on them, in different orders: all ranks now
  // make each part that any of them asks for, in ascending order. Each part is made once, so its messages are new. The
  // caller holds making_mutex_.
  void make_with_all(Part part, const CollectiveCall& call) {
    std::set<std::pair<Part, int>> asked;
    for (const std::string& theirs :
         fabric_->all_gather("the first collective of a channel", concat(static_cast<int>(part), ' ', call.channel),
                             collective::what_of(call))) {
      const std::vector<std::string_view> words = words_of(theirs);
      asked.emplace(static_cast<Part>(number_in<int>(words.at(0)).value()), number_in<int>(words.at(1)).value());
    }
    for (const auto& [of, one] : asked) of == Part::channel ? start_channel(one) : start_copies(one);
  }
  void start_channel(int number) {
    auto made = make_channel(number);
    const std::lock_guard lock(mutex_);
    collective::Channel* const channel = channels_.emplace_back(std::move(made)).get();
    places_[static_cast<std::size_t>(number)].store(channel, std::memory_order_release);  // pairs with find()
  }
  // All ranks have the channel: the rank that asks for copies made it with them.
  void start_copies(int number) {
    auto made = std::make_unique<collective::Copies>(*fabric_, ranks_, number);
    const std::lock_guard lock(mutex_);
    find(number)->copies = std::move(made);
  }

  // The call with the algorithm that it takes.
  CollectiveCall with_choice(const CollectiveCall& call) const {
    CollectiveCall asked = with_algorithm(call);
    asked.algorithm = collective::choose(asked, machine()).algorithm;
    return asked;
  }

  // Counts as a call of the channel, unless it is refused. May ask peers to map the buffers, and block for their
  // answer.
  collective::CompiledCall prepare_next(collective::Channel& channel, const CollectiveCall& call) {
    if (has_nothing_to_do(call)) return {};
    const CollectiveCall asked = call.combine ? call : with_choice(call);
    return prepare(channel, asked, channel.room().of_next_call());
  }

  // Prepares kernels of at most so many blocks.
  collective::CompiledCall prepare(collective::Channel& channel, const CollectiveCall& asked, int most) {
    collective::CompiledCall work;
    if (asked.combine) {
      const auto own = std::make_shared<const collective::UserReduction>(fabric_, *spares_, asked, rank_, size());
      work = prepare_by_algorithm(channel, with_choice(own->move()), most);
      work.add(own->reduction(channel.view()));
      work.keep(own);
    } else {
      work = prepare_by_algorithm(channel, asked, most);
    }
    work.buffers = {asked.input, asked.output};
    work.most = most;
    return work;
  }

  collective::CompiledCall prepare_by_algorithm(collective::Channel& channel, const CollectiveCall& asked, int most) {
    collective::CompiledCall work;
    if (asked.algorithm == Algorithm::copy) {
      const std::lock_guard lock(channel.order.mutex);
      collective::Copies& copies = copies_of(channel, asked);
      work.copies = {&copies, copies.prepare(*fabric_, asked)};
    } else if (asked.algorithm == Algorithm::hierarchical) {
      const std::lock_guard lock(channel.order.mutex);
      for (collective::KernelLaunch& stage : stages(channel, asked, most)) work.add(std::move(stage));
    } else {
      work.add(collective::prepare(*fabric_, channel, ranks_, asked, most));
      work.by_lines = collective::is_by_lines(asked.algorithm);
    }
    return work;
  }

  // The hosts of all ranks come to these in the same order, one call after the other.
  collective::Copies& copies_of(collective::Channel& channel, const CollectiveCall& call) {
    if (collective::Copies* copies = find_copies(channel)) return *copies;
    const std::lock_guard making(making_mutex_);
    if (find_copies(channel) == nullptr) make_with_all(Part::copies, call);
    return *find_copies(channel);
  }
  collective::Copies* find_copies(const collective::Channel& channel) const {
    const std::lock_guard lock(mutex_);
    return channel.copies.get();
  }

  // The kernels of a hierarchical call. The caller holds the order's mutex.
  std::vector<collective::KernelLaunch> stages(collective::Channel& channel, const CollectiveCall& call, int most) {
    if (channel.hierarchy == nullptr) {
      const collective::Groups groups(size(), static_cast<int>(fabric_->parameters().collective_group), rank_);
      (void)copies_of(channel, call);
      channel.take(release_later(std::make_unique<collective::Hierarchy>(*fabric_, ranks_, groups, channel, call)));
    }
    std::vector<collective::KernelLaunch> work = channel.hierarchy->prepare(*fabric_, call, most);
    channel.hierarchy_bytes = channel.hierarchy->device_bytes();
    return work;
  }

  std::shared_ptr<Fabric> fabric_;
  std::shared_ptr<collective::BlockBudget> room_;
  std::shared_ptr<Device> device_;
  std::vector<int> ranks_;
  int rank_ = -1;
  bool is_team_ = false;
  bool checks_;
  std::shared_ptr<collective::ScratchPool> spares_ = std::make_shared<collective::ScratchPool>(device_);
  mutable std::mutex loaded_mutex_;
  mutable std::set<const collective::UserKernels*> loaded_;
  std::mutex making_mutex_;  // held, while all ranks meet, by the maker of channels or their copies
  using Places = std::vector<std::atomic<collective::Channel*>>;
  Places places_;             // by number; null: not made yet
  mutable std::mutex mutex_;  // guards the members below, and which copies channels have; never for long
  std::vector<std::unique_ptr<collective::Channel>> channels_;
  collective::Runner runner_;
};

}  // namespace onstream
