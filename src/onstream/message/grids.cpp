#include "onstream/message/grids.hpp"

#include <algorithm>
#include <array>

#include "onstream/path/blocks.hpp"

namespace onstream {

namespace {

// Whole warps, as far as a block goes.
int threads_for(std::size_t wanted) {
  return static_cast<int>(std::clamp<std::size_t>((wanted + 31) / 32 * 32, 32, kMaxThreads));
}

// A thread for each line.
Grid ring_grid(std::size_t bytes) { return {1, threads_for(lane::lines_for(bytes))}; }

// As few threads as take all lines at once.
int few_threads(std::size_t bytes) {
  return threads_for((lane::lines_for(bytes) + kLinesInFlight - 1) / kLinesInFlight);
}

}  // namespace

Grids::Grids(const Fabric& fabric)
    : ll_max_(fabric.paths().rule(path::Operation::message, path::Link::cuda, Path::ll).to_bytes),
      block_bytes_(static_cast<std::size_t>(fabric.parameters().block_bytes)),
      max_blocks_(std::min<std::int64_t>(fabric.parameters().max_blocks, fabric.block_limit())),
      recv_blocks_(std::min<std::int64_t>(fabric.parameters().recv_blocks, fabric.block_limit())) {}

Grid Grids::send(const lane::Send& body) const {
  if (body.spread != 0) return spread(body.bytes);
  if (body.bytes <= body.ring_max) return ring_grid(body.bytes);
  if (body.copier.slot != nullptr) return body.copier.lead > 0 ? lead(body.copier.lead) : kOneWarp;
  const bool alone = body.announce == lane::Header::pull || body.announce == lane::Header::stage;
  return alone ? Grid{1, kMaxThreads} : push(body.bytes);
}

Grid Grids::send_many(const lane::SendMany& many) const {
  std::size_t most = 0;
  for (int i = 0; i < many.count; ++i) most = std::max<std::size_t>(most, many.items[i].bytes);
  return ring_grid(most);
}

Grid Grids::push(std::size_t bytes) const {
  return push_grid(bytes, block_bytes_, std::min<std::int64_t>(max_blocks_, lane::kArrivals));
}

// As few lines for each thread as it has under way.
Grid Grids::spread(std::size_t bytes) const {
  constexpr std::size_t kBlockBytes = lane::kSpreadThreads * lane::kSpreadLines * kLineData;
  return {blocks_for(lane::units_for(bytes) * lane::kUnitLines * kLineData, kBlockBytes, max_blocks_),
          lane::kSpreadThreads};
}

// As many blocks as keep the link busy until the copy engine has started.
Grid Grids::lead(std::size_t bytes) const {
  constexpr std::int64_t kMost = 16;
  return {blocks_for(bytes, block_bytes_, std::min(max_blocks_, kMost)), kMaxThreads};
}

// Most large messages are pushed; more blocks serve those that this rank fetches itself, one for each 64 block_bytes.
Grid Grids::receive(std::size_t bytes, std::size_t offer_min) const {
  constexpr std::size_t kBlocksEach = 64;
  if (bytes <= offer_min) return ring_grid(bytes);
  const int blocks = blocks_for(bytes, kBlocksEach * block_bytes_, recv_blocks_);
  return {blocks, blocks == 1 ? kMaxThreads / 2 : kMaxThreads};
}

Grid Grids::receive(const lane::Receive& body) const {
  if (body.spread == 0) return receive(body.capacity, body.offer_min);
  const Grid of_lines = spread(body.capacity);
  return {std::min(of_lines.blocks + 1, static_cast<int>(max_blocks_)), of_lines.threads};
}

// Its first block may find a spread message in the ring.
Grid Grids::await_receive(std::size_t bytes) const {
  const Grid grid = receive(bytes, ll_max_);
  return bytes <= ll_max_ ? grid : Grid{grid.blocks, kMaxThreads};
}

// Pushes keep their shape; a small half beside one does with as few threads as it can.
Grid Grids::exchange(lane::SendReceive& body) const {
  const Grid in = receive(body.receive);
  const Grid out = send(body.send);
  const int most = static_cast<int>(max_blocks_);
  const bool pushes = body.send.bytes > body.send.ring_max && out.threads > kOneWarp.threads;
  const bool fetches = body.receive.capacity > body.receive.offer_min;
  const int small = fetches ? out.threads : few_threads(body.receive.capacity);
  body.receive_blocks = std::min(in.blocks, most - 1);
  return {body.receive_blocks + std::min(out.blocks, most - body.receive_blocks),
          std::max(out.threads, pushes ? small : in.threads)};
}

template <int kMost>
Grid Grids::exchange(lane::ExchangeMany<kMost>& body) const {
  std::array<Grid, 2 * kMost> parts;
  int pushing = 0;  // threads of those that push, which keep their shape
  int threads = kOneWarp.threads;
  const int count = body.receives + body.sends;
  for (int i = 0; i < count; ++i) {
    Grid& part = parts[static_cast<std::size_t>(i)];
    if (i < body.receives) {
      part = receive(body.receive[i]);
    } else {
      const lane::Send& one = body.send[i - body.receives];
      part = send(one);
      if (one.bytes > one.ring_max && part.threads > kOneWarp.threads) pushing = std::max(pushing, part.threads);
    }
    threads = std::max(threads, part.threads);
  }
  const auto parted = std::span<const Grid>(parts).first(static_cast<std::size_t>(count));
  return share(parted, body.ends, pushing > 0 ? pushing : threads);
}
template Grid Grids::exchange(lane::ExchangeMany<lane::kFew>& body) const;
template Grid Grids::exchange(lane::ExchangeMany<lane::kMany>& body) const;

// Gives each part the blocks that it wants, or its proportion of the blocks there are; one each at least. There are at
// least as many blocks as parts.
Grid Grids::share(std::span<const Grid> parts, std::span<std::int32_t> ends, int threads) const {
  std::int64_t wanted = 0;
  for (const Grid& part : parts) wanted += part.blocks;
  const auto count = static_cast<std::int64_t>(parts.size());
  const std::int64_t spare = max_blocks_ - count;  // beyond one each
  std::int32_t end = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t more = parts[i].blocks - 1;
    const bool fits = wanted <= max_blocks_;
    end += static_cast<std::int32_t>(1 + (fits ? more : more * spare / (wanted - count)));
    ends[i] = end;
  }
  return {end, threads};
}

Grid Grids::deliver(std::size_t bytes) const { return {blocks_for(bytes, block_bytes_, max_blocks_), kMaxThreads}; }

}  // namespace onstream
