// BlockBudget: how many thread blocks the collectives of a world take, channel by channel, so that those of all
// channels run at once on a GPU in any order in which ranks start them (docs/decisions/0012).
//
// A block that waits keeps a multiprocessor from all others, and each channel may have placed two kernels: one that
// runs, and the next one of its stream. So all that the channels of a rank may have placed fits its share of the GPU.
// Two channels alone have more, as long as there is room for a block besides.
//
// A channel that is made, or has gone, changes the room of all. The same call has as many blocks on every rank: calls
// are counted, captured ones too, and those that some rank of the team has prepared already keep their blocks. Ranks
// that have captured unequally often disagree for some calls: kernels that need the same number of blocks compare it
// (signature_of). Graphs and plans keep their blocks, too, and the other channels share the rest. Every channel has one
// block at least, whether it fits or not; one that does not is logged. Each world knows of its own channels only.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "onstream/transport/fabric.hpp"

namespace onstream::collective {

class BlockBudget {
 public:
  // How the blocks of one kernel depend on each other.
  enum class Blocks : std::int32_t {
    // Each needs those of its own number on the other ranks (by LL lines whichever has its units, which waits for
    // nobody before it sends them), and block 0, which may stay until all are through (engine_sums.hpp): with two
    // places a kernel gets on.
    in_order,
    all  // on all of them: a kernel gets on when all of it is placed
  };

  // A channel's. Calls of one channel are prepared in the same order on every rank.
  class BudgetShare {
   public:
    // Counts a call: so many blocks it may have at most.
    int of_next_call();
    // Counts a call if it may have exactly so many.
    bool takes_next_call(int blocks);
    // A graph or a plan keeps a kernel of so many.
    void keep(int blocks);

   private:
    friend class BlockBudget;
    struct LimitStep {
      std::uint64_t from;  // the first call
      int blocks;
    };
    BudgetShare(std::shared_ptr<std::mutex> mutex, Blocks how, std::span<const int> ranks)
        : mutex_(std::move(mutex)), how_(how), ranks_(ranks.begin(), ranks.end()) {}
    void step_to(std::uint64_t from, int blocks);
    int blocks_of(std::uint64_t call);
    std::shared_ptr<std::mutex> mutex_;  // the budget's
    Blocks how_;
    std::vector<int> ranks_;
    std::uint64_t calls_ = 0;
    int kept_ = 0;
    std::vector<LimitStep> steps_;
  };

  // The limits of one rank.
  struct Limits {
    std::int32_t limit = 1;      // half the blocks that run at once in its share of a GPU (Fabric::block_limit)
    std::int32_t most = 1;       // that one kernel may have (collective_blocks)
    std::int32_t shared = 0;     // not 0: by several ranks, a GPU
    std::int32_t keeps_out = 0;  // not 0: blocks that wait keep others out, as on a GPU
  };
  static Limits limits_of(const Fabric& fabric);

  // The part of a channel that is being made. Collective over the world, with two barriers of it. This rank's device
  // work for the channel is done before. `ranks` are those whose calls of it have as many blocks as this rank's.
  std::shared_ptr<BudgetShare> enter(Fabric& fabric, std::string_view topic, Blocks how, std::span<const int> ranks,
                                     const Limits& limits);

  // The blocks that there are, and the channels that want some.
  struct WantedBlocks {
    int limit = 1;
    int most = 1;
    bool shared = false;
    std::vector<int> kept;  // by each channel
    Blocks how = Blocks::in_order;
  };
  // The blocks of a kernel of each channel.
  static int share(const WantedBlocks& wanted);
  // Whether all channels have room for one block each, or for the blocks that they keep.
  static bool fits(const WantedBlocks& wanted);

 private:
  void warn_of(const WantedBlocks& wanted);

  std::shared_ptr<std::mutex> mutex_ = std::make_shared<std::mutex>();
  std::vector<std::weak_ptr<BudgetShare>> parts_;  // in the order in which they were made, on every rank the same
  bool warned_ = false;
};

}  // namespace onstream::collective
