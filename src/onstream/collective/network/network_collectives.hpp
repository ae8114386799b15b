// The collectives of a team whose ranks are on several hosts: the channels, and the work of a call (program.hpp).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "onstream/collective/check/checking.hpp"
#include "onstream/collective/enqueue/call_cache.hpp"
#include "onstream/collective/enqueue/compiled_call.hpp"
#include "onstream/collective/enqueue/runner.hpp"
#include "onstream/collective/resource/scratch_pool.hpp"
#include "onstream/lane/remote/network_lanes.hpp"

namespace onstream::collective {

class NetworkProgram;

// The program as work for a stream or a host. Equal calls find it again if it keeps little memory.
CompiledCall work_of(std::shared_ptr<const NetworkProgram> program, const CollectiveCall& call);

class NetworkCollectives {
 public:
  // Collective over the world.
  NetworkCollectives(std::shared_ptr<Fabric> fabric, const std::shared_ptr<lane::NetworkLanes>& lanes,
                     std::vector<int> ranks, int rank, int channels);

  static bool spans_hosts(const Fabric& fabric, const std::vector<int>& ranks);

  // The same on all ranks of the team, and different for each.
  std::uint64_t number() const { return static_cast<std::uint64_t>(lease_->first()) + 1; }
  Order& order(int channel) { return at(channel).order; }
  CallCache& recent(int channel) { return at(channel).recent; }
  Checking& checking(int channel) { return *at(channel).checking; }  // with parameter collective_check
  // Throws unsupported for a call that it cannot do.
  static void check(const CollectiveCall& call);
  CompiledCall compile(const CollectiveCall& call) const;
  std::string explain(const CollectiveCall& call) const;

 private:
  struct NetworkChannel {
    Order order;
    CallCache recent;
    std::unique_ptr<Checking> checking;
  };
  NetworkChannel& at(int channel) { return *channels_.at(static_cast<std::size_t>(channel)); }

  std::shared_ptr<Fabric> fabric_;
  std::shared_ptr<lane::NetworkLanes::LaneLease> lease_;
  std::vector<int> ranks_;
  int rank_;
  std::shared_ptr<ScratchPool> spares_;
  std::vector<std::unique_ptr<NetworkChannel>> channels_;
};

}  // namespace onstream::collective
