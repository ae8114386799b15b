// The implementation of Collective: the way of a call from check over select and compile to enqueue.
//
//   check     check/check.hpp, and the memory of its buffers
//   select    select/select.hpp: its algorithm
//   compile   compile/compiler.hpp: its kernels and copies
//   enqueue   enqueue/runner.hpp: onto a stream, or with the host waiting
//
// A call by lines that equals an earlier one skips the first three (enqueue/call_cache.hpp). Plans share this with the
// Collective, which may go before them.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "onstream/base/error.hpp"
#include "onstream/collective.hpp"
#include "onstream/collective/channel/channels.hpp"
#include "onstream/collective/check/check.hpp"
#include "onstream/collective/compile/compiler.hpp"
#include "onstream/collective/compile/user_reduction.hpp"
#include "onstream/collective/enqueue/runner.hpp"
#include "onstream/collective/kernel/user_kernels.hpp"
#include "onstream/collective/network/network_collectives.hpp"
#include "onstream/collective/select/algorithm.hpp"
#include "onstream/collective/select/select.hpp"

namespace onstream {

class Collective::Implementation {
 public:
  // `lanes`: where the world spans hosts. Then it is collective over the world.
  Implementation(std::shared_ptr<Fabric> fabric, std::shared_ptr<collective::BlockBudget> budget,
                 std::vector<int> ranks, std::shared_ptr<lane::NetworkLanes> lanes, int channels)
      : fabric_(std::move(fabric)),
        budget_(std::move(budget)),
        ranks_(std::move(ranks)),
        rank_(place_of(ranks_, fabric_->rank())),
        checks_(fabric_->parameters().collective_check == "on"),
        channels_(fabric_, budget_,  // of ranks of several hosts none: they meet the others' as ranks of no team
                  collective::NetworkCollectives::spans_hosts(*fabric_, ranks_) ? std::vector<int>{} : ranks_),
        compiler_(fabric_, channels_, ranks_, rank_),
        runner_(fabric_),
        lanes_(std::move(lanes)) {
    if (lanes_ == nullptr) return;
    auto network = std::make_unique<collective::NetworkCollectives>(fabric_, lanes_, ranks_, rank_, channels);
    network_number_ = network->number();
    if (collective::NetworkCollectives::spans_hosts(*fabric_, ranks_)) network_ = std::move(network);
  }
  ~Implementation() {
    for (std::unique_ptr<collective::Channel>& channel : channels_.take_all()) {
      runner_.let_go(std::shared_ptr<collective::Channel>(std::move(channel)));
    }
  }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  const std::vector<int>& ranks() const { return ranks_; }
  const std::shared_ptr<Fabric>& fabric() const { return fabric_; }
  const std::shared_ptr<collective::BlockBudget>& budget() const { return budget_; }  // of all channels of the world
  const std::shared_ptr<lane::NetworkLanes>& lanes() const { return lanes_; }         // of a world of several hosts
  bool spans_hosts() const { return network_ != nullptr; }
  std::size_t device_bytes() const { return compiler_.scratch_bytes() + channels_.device_bytes(); }

  // Collective over the world.
  void make_channels(int count) { channels_.make_all(count); }
  // Where no team of the world needs any.
  void number_channels(int count) { channels_.meet(count); }

  void run(const CollectiveCall& call, Stream stream) {
    if (const auto again = find_again(call)) {
      runner_.enqueue_next(*again.order, stream, *again.work);
    } else if (const Ready ready = work_of(call)) {
      runner_.enqueue(*ready.order, stream, *ready.work);
    }
  }

  void run(const CollectiveCall& call) {
    if (auto again = find_again(call)) {
      runner_.run_next(*again.order, std::move(again.held), *again.work);
    } else if (const Ready ready = work_of(call)) {
      runner_.run_and_wait(*ready.order, *ready.work);
    }
  }

  void check_alone(const CollectiveCall& call) const {
    (void)check(call);
    channels_.check_number(call.channel);
    if (call.algorithm != Algorithm::automatic) (void)selected(call);
  }

  std::string explain(const CollectiveCall& call) const {
    if (network_ != nullptr) {
      check_alone(call);
      return network_->explain(call);
    }
    if (call.combine) {
      collective::UserReduction::check(call, fabric_->device()->kind());
      return "a reduction of your own behind " + explain(collective::UserReduction::move_of(call));
    }
    check_meaning(call);
    channels_.check_number(call.channel);
    check_own_part(call, place());
    return collective::explain(as_asked(call), machine());
  }

  // Comes before any of the kernels is enqueued: kernels that run on a GPU can hold up loading. Does not hold the
  // mutex, as loading may take long.
  void load(const collective::UserKernels& own) const {
    {
      const std::lock_guard lock(loaded_mutex_);
      if (loaded_.contains(&own)) return;
    }
    Device& device = *fabric_->device();
    require(device.kind() == DeviceKind::host || own.lines.kernel.cuda != nullptr, "the reduction ", own.name(),
            " has no kernels for cuda: have nvcc compile the file that calls reduced_with (its name ends in .cu)");
    for (const Kernel* kernel : {&own.lines.kernel, &own.two_shot.kernel, &own.bulk.kernel}) {
      if (kernel->host != nullptr) device.load(*kernel);
    }
    const std::lock_guard lock(loaded_mutex_);
    loaded_.insert(&own);
  }

 private:
  friend class Collective::PlannedCollective;

  static int place_of(const std::vector<int>& ranks, int rank) {
    const auto found = std::ranges::find(ranks, rank);
    return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
  }
  collective::Place place() const { return {ranks_, rank_, fabric_->rank()}; }
  collective::MachineTraits machine() const { return collective::machine_of(*fabric_, rank_, ranks_.size()); }

  // --- check ---

  void check_world(const CollectiveCall& call) const {
    fabric_->check([&] { return collective::what_of(call); });
  }

  void check_meaning(const CollectiveCall& call) const {
    collective::check_meaning(call, place());
    if (network_ != nullptr) collective::NetworkCollectives::check(call);
    if (call.user_kernels != nullptr) load(*call.user_kernels);
  }

  // Throws the error of a call that cannot work.
  collective::Buffers check(const CollectiveCall& call) const {
    if (call.combine) {
      collective::UserReduction::check(call, fabric_->device()->kind());
      return check(collective::UserReduction::in_bytes(call));
    }
    check_world(call);
    check_meaning(call);
    const std::size_t in = call.input_bytes(rank_, size());
    const std::size_t out = call.output_bytes(rank_, size());
    const collective::Buffers buffers = {runner_.check_buffer(call, "input", call.input, in),
                                         runner_.check_buffer(call, "output", call.output, out)};
    check_own_part(call, place());
    check_overlap(call, place(), in, out);
    return buffers;
  }

  // Compares the call with those of the other ranks, in the checking mode.
  void compare(const CollectiveCall& call) {
    if (!checks_) return;
    if (network_ != nullptr) {
      return network_->checking(call.channel).check(call, [this](const CollectiveCall& one) {
        runner_.run_and_wait(network_->order(one.channel), network_->compile(one));
      });
    }
    channels_.of(call).checking->check(call, [this](const CollectiveCall& one) {
      collective::Channel& channel = channels_.of(one);
      runner_.run_and_wait(channel.order, compile_next(channel, one));
    });
  }

  static bool has_nothing_to_do(const CollectiveCall& call) {
    return call.count == 0 && call.kind != OpKind::barrier && !collective::is_v(call.kind);
  }

  // --- select ---

  CollectiveCall as_asked(const CollectiveCall& call) const {
    return collective::as_asked(call, fabric_->parameters().collective_algorithm, machine());
  }
  // A user reduction by a function has the algorithm of the move of its inputs.
  CollectiveCall selected(const CollectiveCall& call) const {
    if (network_ != nullptr) return call;
    return compiler_.selected(call.combine ? collective::UserReduction::move_of(call) : call);
  }

  // --- compile ---

  // Counts as a call of the channel, unless it is refused.
  collective::CompiledCall compile_next(collective::Channel& channel, const CollectiveCall& call) {
    if (has_nothing_to_do(call)) return {};
    return compiler_.compile(channel, call.combine ? call : selected(call), channel.budget().of_next_call());
  }

  collective::CachedCall find_again(const CollectiveCall& call) {
    check_world(call);
    if (checks_) return {};
    if (network_ != nullptr) {
      if (!channels_.has(call.channel)) return {};
      return runner_.find_again(network_->order(call.channel), network_->recent(call.channel), nullptr, call);
    }
    collective::Channel* const channel = channels_.find(call.channel);
    if (channel == nullptr) return {};
    return runner_.find_again(channel->order, channel->recent, &channel->budget(), call);
  }

  struct Ready {
    collective::Order* order = nullptr;
    std::shared_ptr<const collective::CompiledCall> work;  // null: there is nothing to do

    explicit operator bool() const { return work != nullptr; }
  };
  Ready work_of(const CollectiveCall& call) {
    const collective::Buffers buffers = check(call);
    compare(call);
    if (has_nothing_to_do(call)) return {};
    if (network_ != nullptr) {
      channels_.check_number(call.channel);
      return kept(call, buffers, network_->order(call.channel), network_->recent(call.channel),
                  network_->compile(call));
    }
    collective::Channel& channel = channels_.of(call);
    return kept(call, buffers, channel.order, channel.recent, compile_next(channel, call));
  }
  // The work, which equal calls find again.
  Ready kept(const CollectiveCall& call, const collective::Buffers& buffers, collective::Order& order,
             collective::CallCache& recent, collective::CompiledCall compiled) const {
    auto work = std::make_shared<const collective::CompiledCall>(std::move(compiled));
    if (!checks_) {
      const std::lock_guard lock(order.mutex);
      recent.keep(call, buffers, work);
    }
    return {&order, std::move(work)};
  }

  // For plans of ranks of several hosts.
  std::pair<collective::Order*, collective::CompiledCall> network_work(const CollectiveCall& call) {
    if (has_nothing_to_do(call)) return {&network_->order(call.channel), {}};
    return {&network_->order(call.channel), network_->compile(call)};
  }
  std::uint64_t number_of_team() const { return lanes_ != nullptr ? network_number_ : channels_.number_of_first(); }

  std::shared_ptr<Fabric> fabric_;
  std::shared_ptr<collective::BlockBudget> budget_;
  std::vector<int> ranks_;
  int rank_;
  bool checks_;
  mutable std::mutex loaded_mutex_;
  mutable std::set<const collective::UserKernels*> loaded_;
  collective::Channels channels_;
  collective::Compiler compiler_;
  collective::Runner runner_;
  std::shared_ptr<lane::NetworkLanes> lanes_;
  std::unique_ptr<collective::NetworkCollectives> network_;  // of ranks of several hosts
  std::uint64_t network_number_ = 0;                         // of this team, in a world of several hosts
};

}  // namespace onstream
