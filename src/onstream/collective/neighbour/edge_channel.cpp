#include "onstream/collective/neighbour/edge_channel.hpp"

#include <algorithm>
#include <vector>

#include "onstream/collective/channel/channel.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"

namespace onstream::collective {

EdgeChannel::EdgeChannel(Fabric& fabric, BlockBudget& budget, const EdgeList& edges, std::size_t half)
    : ground_(release_later(std::make_unique<EdgeChannelMemory>())) {
  const Parameters& parameters = fabric.parameters();
  require_same_parameters(fabric);
  const std::size_t size = 2 * half + 1;
  constexpr std::uint64_t kLeastLines = 64;
  constexpr std::uint64_t kLeastStage = 4096;
  const auto slots = static_cast<std::uint64_t>(parameters.collective_bytes) / (2 * size * sizeof(Line)) / 4 * 4;
  view_.slot_lines = static_cast<std::uint32_t>(std::max(kLeastLines, slots));
  view_.stage_bytes = std::max(kLeastStage * std::max<std::size_t>(1, half),
                               static_cast<std::uint64_t>(parameters.collective_stage_bytes));
  view_.places = places_of(static_cast<int>(size), view_.slot_lines, 0, view_.stage_bytes);
  ground_->wait_memory = fabric.wait_memory();
  ground_->shared = fabric.segment(view_.places.bytes, MemoryKind::device);
  fill_tables(fabric, edges, half);
  // Nobody writes before all have set theirs up. Ends tell each other how many blocks they have (edges.hpp).
  budget_ = budget.enter(fabric, "the memory of a neighbourhood", BlockBudget::Blocks::all, {},
                         BlockBudget::limits_of(fabric));
  order.ground = std::make_shared<const EdgeChannelHold>(EdgeChannelHold{ground_, budget_});
  order.budget = budget_;
}

void EdgeChannel::fill_tables(Fabric& fabric, const EdgeList& edges, std::size_t half) {
  const std::size_t size = 2 * half + 1;
  Device& device = *fabric.device();
  const std::size_t table = size * (sizeof(std::uint64_t) + sizeof(std::int32_t));
  ground_->own = device.allocate(sizeof(ChannelState) + table, MemoryKind::device);

  std::vector<std::int32_t> worlds(size, fabric.rank());
  for (std::size_t i = 0; i < edges.in.size(); ++i) worlds[i] = std::max(0, edges.in[i].rank);
  for (std::size_t i = 0; i < edges.out.size(); ++i) worlds[half + i] = std::max(0, edges.out[i].rank);
  std::vector<std::uint64_t> parts;
  for (const std::int32_t world : worlds) {
    parts.push_back(reinterpret_cast<std::uint64_t>(ground_->shared->peer(world)));
  }
  std::byte* const own = ground_->own->data();
  std::byte* const parts_at = own + sizeof(ChannelState);
  std::byte* const worlds_at = parts_at + size * sizeof(std::uint64_t);
  fabric.streams()->copy_now(parts_at, parts.data(), size * sizeof(std::uint64_t));
  fabric.streams()->copy_now(worlds_at, worlds.data(), size * sizeof(std::int32_t));

  view_.state = reinterpret_cast<ChannelState*>(own);
  view_.parts = reinterpret_cast<const std::uint64_t*>(parts_at);
  view_.worlds = reinterpret_cast<const std::int32_t*>(worlds_at);
  view_.rank = static_cast<std::uint32_t>(2 * half);
  view_.size = static_cast<std::uint32_t>(size);
  view_.wait = fabric.wait_view();
}

}  // namespace onstream::collective
