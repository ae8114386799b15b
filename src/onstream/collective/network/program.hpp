// A collective between hosts as a program: phases of exchanges, and the arithmetic between them. Made once for a call,
// and run by one thread of the host, any number of times.
//
// Moves are one exchange of every rank with every other. A small sum is one exchange of all inputs, which every rank
// adds for itself; a large one has each rank add its part of all inputs, and give its sums to all. Either way each
// element is added in the order of the ranks.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "onstream/collective/call/call.hpp"
#include "onstream/collective/resource/scratch_pool.hpp"
#include "onstream/lane/remote/network_lanes.hpp"
#include "onstream/lane/remote/peer_exchange.hpp"

namespace onstream::collective {

// Where a program runs.
struct ProgramPlace {
  std::weak_ptr<Fabric> fabric;
  WaitView wait;
  std::shared_ptr<lane::NetworkLanes::LaneLease> lease;
  int lane;
  const std::vector<int>* ranks;  // of the world, by place in the team; used while the program is made
  int rank;                       // in the team
};

class NetworkProgram {
 public:
  NetworkProgram(const ProgramPlace& place, ScratchPool& spares, const CollectiveCall& call);
  // Of a neighbourhood: a part to or from a rank of the world; or both, of this rank itself. In the order of the lanes.
  struct EdgeMove {
    int world_rank;
    const std::byte* out;  // null: none
    std::byte* in;
    std::size_t bytes;
  };
  NetworkProgram(const ProgramPlace& place, ScratchPool& spares, const CollectiveCall& call,
                 const std::vector<EdgeMove>& moves);
  void run() const;
  std::size_t scratch_bytes() const { return scratch_bytes_; }

  // Whether a sum of so many bytes takes one exchange of whole inputs. Two exchanges cost another trip, but each rank
  // gives 2 (n - 1) / n of its bytes instead of n - 1, and adds (n - 1) / n of them instead of n - 1.
  static bool is_one_exchange(std::size_t bytes, std::size_t ranks);

 private:
  struct Phase {
    std::vector<std::function<void()>> before;  // copies and factors of this rank's own
    std::vector<lane::PeerExchange::Pair> pairs;
    std::vector<std::function<void()>> behind;  // sums
  };

  int size() const { return size_; }
  std::size_t bytes() const { return call_.count * element_; }
  std::byte* scratch(std::size_t bytes);
  const std::byte* own_input(Phase& phase, std::size_t bytes);
  void pair(Phase& phase, int peer, const std::byte* out, std::size_t out_bytes, std::byte* in, std::size_t in_bytes);
  void copy(Phase& phase, std::byte* to, const std::byte* from, std::size_t bytes);
  void add(Phase& phase, std::byte* out, std::vector<const std::byte*> inputs, std::size_t bytes);
  void sum(std::byte* out, const std::vector<const std::byte*>& inputs, std::size_t bytes) const;

  void make();
  void move();
  void meet();
  void all_reduce_small();
  void all_reduce_large();
  void reduce();
  void reduce_scatter();
  void scan(bool exclusive);
  bool run(const Phase& phase, std::uint64_t number) const;
  void fail(const lane::PeerExchange::Ended& ended, std::uint64_t number) const;

  ProgramPlace place_;
  CollectiveCall call_;
  int size_ = 0;
  std::size_t element_;
  ScratchPool& spares_;
  std::vector<std::shared_ptr<std::byte>> kept_;
  std::size_t scratch_bytes_ = 0;  // in kept_
  std::vector<Phase> phases_;
};

}  // namespace onstream::collective
