// Grids: how many blocks and threads the kernel of a message gets, by its size and how it travels.
//
// The figures behind the rules: docs/decisions/0006. The host device ignores them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "onstream/lane/many.hpp"
#include "onstream/lane/send_receive.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream {

class Grids {
 public:
  explicit Grids(const Fabric& fabric);

  Grid send(const lane::Send& body) const;
  Grid send_many(const lane::SendMany& many) const;
  Grid receive(const lane::Receive& body) const;
  // Of one whose message comes in the ring if it has no more than `offer_min` bytes.
  Grid receive(std::size_t bytes, std::size_t offer_min) const;
  // Of the wait of a posted one.
  Grid await_receive(std::size_t bytes) const;
  // Both in one grid: the receive's blocks, body.receive_blocks of them, which this sets, and the send's.
  Grid exchange(lane::SendReceive& body) const;
  // All of an ExchangeMany in one grid: sets the blocks of its chains and messages.
  template <int kMost>
  Grid exchange(lane::ExchangeMany<kMost>& body) const;
  int most_blocks() const { return static_cast<int>(max_blocks_); }
  bool side_by_side() const { return max_blocks_ >= 2; }
  Grid deliver(std::size_t bytes) const;

 private:
  Grid push(std::size_t bytes) const;
  Grid spread(std::size_t bytes) const;
  Grid lead(std::size_t bytes) const;
  Grid share(std::span<const std::int64_t> wanted, std::span<lane::Chain> chains, int threads) const;

  std::size_t ll_max_;
  std::size_t block_bytes_;
  std::int64_t max_blocks_;
  std::int64_t recv_blocks_;
};

// Of a kernel in which one thread or one warp works.
constexpr Grid kOneWarp = {1, 32};

}  // namespace onstream
