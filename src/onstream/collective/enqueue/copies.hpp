// Collectives by the copy engine: no kernel at all, so every SM is the program's. The hosts agree where the data goes
// (agreement.hpp); then each rank's stream waits until its receivers are ready, copies, and tells them, by the words of
// plan/op/words.hpp. The watch ends waits that a stream cannot end itself.
//
// Each channel has one. Collectives of one channel follow each other on every rank, so each ordered pair of ranks has
// one pair of words, whose values are constants: a captured launch means the same at every replay, and its addresses
// are those of the capture. The hosts wait for each other when a call is prepared (not for each other's streams);
// prepared work may be enqueued any number of times, and within a replay no host waits either.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "onstream/collective/call/portions.hpp"
#include "onstream/collective/enqueue/agreement.hpp"
#include "onstream/plan/op/pulses.hpp"
#include "onstream/plan/op/words.hpp"

namespace onstream::collective {

class Copies {
 public:
  // Collective over the world, `ranks` are the team's. Throws, on every rank, where pinned memory cannot be shared.
  Copies(Fabric& fabric, std::vector<int> ranks, int channel);

  struct Copy {
    void* to;
    const void* from;
    std::size_t bytes;
  };
  // This rank's part of a call.
  struct CopyList {
    std::vector<Copy> own;  // this rank's to itself
    std::vector<Copy> out;
    plan::PlanWords words;
  };

  // Prepares a call of a kind that moves. Blocks until the hosts of all ranks have called it. Throws invalid_argument,
  // the same on every rank, if they do not agree or if some rank's output cannot be addressed by its senders.
  CopyList prepare(Fabric& fabric, const CollectiveCall& call);
  // The memory that it uses is kept until the stream, or the graph, is through, also if a part of it throws.
  void enqueue(Device& device, const CopyList& work, Stream stream);

  // Exchanges messages between the hosts of the team, as Agreement::exchange, between two copies.
  std::vector<Say> tell(Fabric& fabric, const std::vector<Say>& mine, const Named& name) {
    return agreement_.exchange(fabric, ranks_, mine, name);
  }

 private:
  struct CopyResources {
    std::shared_ptr<Segment> segment;
    std::shared_ptr<const void> wait_memory;
    std::unique_ptr<plan::Pulses> pulses;
    std::shared_ptr<Watchdog> watch;
  };
  struct OfLaunch;
  struct CopiesLaunch {
    std::shared_ptr<const OfLaunch> kept;
    std::shared_ptr<Event> behind;
  };

  std::vector<Say> says_of(Fabric& fabric, const CollectiveCall& call, const std::vector<Portion>& portions) const;
  std::vector<Say> exchange(Fabric& fabric, const std::vector<Say>& mine, const Named& name);
  std::vector<Say> agree(Fabric& fabric, const CollectiveCall& call, const std::vector<Portion>& portions,
                         const Named& name);
  CopyList work_of(const CollectiveCall& call, const std::vector<Portion>& portions, const std::vector<Say>& says,
                   const Named& name) const;
  static void enqueue_parts(Device& device, const CopyList& work, std::uint32_t* pulse, Stream stream);
  std::uint32_t* word(int owner, std::size_t which, int writer) const;

  std::vector<int> ranks_;
  int rank_ = -1;  // in the team
  int world_size_;
  int channel_;
  std::uint64_t number_ = 0;
  std::shared_ptr<CopyResources> held_;
  Agreement agreement_;
  std::deque<CopiesLaunch> launches_;  // eager ones that may be under way, one after the other
};

}  // namespace onstream::collective
