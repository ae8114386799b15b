#include "onstream/message/grids.hpp"

#include <algorithm>
#include <array>
#include <numeric>

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

// A chain has the blocks of its largest message.
template <int kMost>
Grid Grids::exchange(lane::ExchangeMany<kMost>& body) const {
  std::array<std::int64_t, 2 * kMost> wanted{};
  int pushing = 0;  // threads of those that push, which keep their shape
  int threads = kOneWarp.threads;
  const int count = body.receiving + body.sending;
  const auto first_of = [&](int chain) {
    return chain == 0 || chain == body.receiving ? 0 : body.chains[chain - 1].messages;
  };
  for (int chain = 0; chain < count; ++chain) {
    for (int i = first_of(chain); i < body.chains[chain].messages; ++i) {
      const bool receives = chain < body.receiving;
      const Grid part = receives ? receive(body.receive[i]) : send(body.send[i]);
      (receives ? body.receive_blocks : body.send_blocks)[i] = static_cast<std::int16_t>(part.blocks);
      if (!receives && body.send[i].bytes > body.send[i].ring_max && part.threads > kOneWarp.threads) {
        pushing = std::max(pushing, part.threads);
      }
      threads = std::max(threads, part.threads);
      auto& most = wanted[static_cast<std::size_t>(chain)];
      most = std::max<std::int64_t>(most, part.blocks);
    }
  }
  const auto chains = std::span(body.chains).first(static_cast<std::size_t>(count));
  const Grid all = share(std::span(wanted).first(chains.size()), chains, pushing > 0 ? pushing : threads);
  for (int chain = 0; chain < count; ++chain) {
    auto* const blocks = chain < body.receiving ? body.receive_blocks : body.send_blocks;
    const int own = chains[static_cast<std::size_t>(chain)].end - (chain == 0 ? 0 : body.chains[chain - 1].end);
    for (int i = first_of(chain); i < body.chains[chain].messages; ++i) {
      blocks[i] = static_cast<std::int16_t>(std::min<int>(blocks[i], own));
    }
  }
  return all;
}
template Grid Grids::exchange(lane::ExchangeMany<lane::kFew>& body) const;
template Grid Grids::exchange(lane::ExchangeMany<lane::kMany>& body) const;

// Gives each chain the blocks that it wants, or its proportion of the blocks there are; one each at least. There are at
// least as many blocks as chains.
Grid Grids::share(std::span<const std::int64_t> wanted, std::span<lane::Chain> chains, int threads) const {
  const std::int64_t all = std::accumulate(wanted.begin(), wanted.end(), std::int64_t{0});
  const auto count = static_cast<std::int64_t>(chains.size());
  const std::int64_t spare = max_blocks_ - count;  // beyond one each
  std::int64_t end = 0;
  for (std::size_t i = 0; i < chains.size(); ++i) {
    const std::int64_t more = wanted[i] - 1;
    end += 1 + (all <= max_blocks_ ? more : more * spare / (all - count));
    chains[i].end = static_cast<std::int16_t>(end);
  }
  return {static_cast<int>(end), threads};
}

Grid Grids::deliver(std::size_t bytes) const { return {blocks_for(bytes, block_bytes_, max_blocks_), kMaxThreads}; }

}  // namespace onstream
