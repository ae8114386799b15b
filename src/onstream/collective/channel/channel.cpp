#include "onstream/collective/channel/channel.hpp"

#include <algorithm>
#include <string>

#include "onstream/base/error.hpp"
#include "onstream/device/lifetime/deferred_release.hpp"

namespace onstream::collective {

namespace {

// Slots of all ranks, twice, in so many bytes; whole pairs of lines, as a unit may be two.
std::uint64_t slot_lines_of(const Parameters& parameters, std::size_t ranks) {
  constexpr std::uint64_t kLeast = 64;
  const auto bytes = static_cast<std::uint64_t>(parameters.collective_bytes);
  return std::max(kLeast, bytes / (2 * ranks * sizeof(Line)) / 4 * 4);
}

// LL128 lines of a slot: whole stripes, as many for a second shot as for the first.
std::uint64_t ll128_lines_of(const Fabric& fabric, std::size_t ranks) {
  if (!fabric.whole_lines()) return 0;
  const auto bytes = static_cast<std::uint64_t>(fabric.parameters().collective_ll128_bytes);
  return bytes / (2 * ranks * sizeof(Line)) / (2 * kStripeLines) * (2 * kStripeLines);
}

std::uint64_t stage_bytes_of(const Parameters& parameters, std::size_t ranks) {
  // Every region of every block has a place for each rank: 16 bytes, and their sums before these are rounded.
  constexpr std::uint64_t kLeastPlace = 16 + 4 * 16;
  const std::uint64_t least = kMostBlocks * 256 * ((2 * ranks * kLeastPlace + 255) / 256);
  return std::max(least, static_cast<std::uint64_t>(parameters.collective_stage_bytes));
}

EngineUse engine_use(const std::string& text) {
  if (text == "on") return EngineUse::on;
  return text == "large" ? EngineUse::large : EngineUse::off;
}

}  // namespace

void require_same_parameters(Fabric& fabric) {
  const Parameters& parameters = fabric.parameters();
  const std::string mine = concat(
      "collective_algorithm=", parameters.collective_algorithm, " collective_check=", parameters.collective_check,
      " collective_channels=", parameters.collective_channels, " collective_bytes=", parameters.collective_bytes,
      " collective_ll128_bytes=", parameters.collective_ll128_bytes,
      " collective_stage_bytes=", parameters.collective_stage_bytes,
      " collective_ll_threads=", parameters.collective_ll_threads,
      " collective_block_bytes=", parameters.collective_block_bytes, " collective_group=", parameters.collective_group,
      " collective_halves_bytes=", parameters.collective_halves_bytes,
      " collective_chain_bytes=", parameters.collective_chain_bytes,
      " collective_engine=", parameters.collective_engine, " rules of path_file=", fabric.paths().digest());
  fabric.require_same("the parameters of collectives are the same on every rank, but", "has", mine);
}

MachineTraits machine_of(const Fabric& fabric, int rank, std::size_t ranks) {
  const Parameters& parameters = fabric.parameters();
  return {fabric.device()->kind(),
          rank,
          static_cast<int>(ranks),
          Channel::slot_bytes(parameters, ranks),
          Channel::ll128_bytes(fabric, ranks),
          static_cast<int>(parameters.collective_group),
          static_cast<std::uint64_t>(parameters.collective_chain_bytes),
          engine_use(parameters.collective_engine),
          fabric.crowded(),
          &fabric.paths()};
}

Channel::Channel(Fabric& fabric, BlockBudget& budget, const std::vector<int>& ranks, int number)
    : ground_(release_later(std::make_unique<ChannelMemory>())) {
  // Segments are the same on every rank, teams need not be.
  const std::string mine = concat(bytes_for(fabric, ranks.size()));
  std::size_t most_bytes = 0;
  for (const std::string& theirs : fabric.all_gather("the start of collectives", mine)) {
    most_bytes = std::max(most_bytes, static_cast<std::size_t>(std::stoull(theirs)));
  }
  require_same_parameters(fabric);
  ground_->shared = fabric.segment(most_bytes, MemoryKind::device);
  std::vector<std::uint64_t> parts;
  for (const int rank : ranks) parts.push_back(reinterpret_cast<std::uint64_t>(ground_->shared->peer(rank)));
  if (parts.empty()) {  // a rank of no team
    parts.push_back(reinterpret_cast<std::uint64_t>(ground_->shared->local()));
  }
  set_up(fabric, ranks, number, std::move(parts));
  // Nobody writes before all have set theirs up.
  budget_ = budget.enter(fabric, "making room for a first collective", BlockBudget::Blocks::in_order, ranks,
                         BlockBudget::limits_of(fabric));
  order.ground = std::make_shared<const ChannelHold>(ChannelHold{ground_, nullptr, budget_});
  order.budget = budget_;
}

Channel::Channel(Fabric& fabric, const std::vector<int>& ranks, const Channel& of, SubsetMemory shared)
    : ground_(release_later(std::make_unique<ChannelMemory>())), budget_(of.budget_) {
  ground_->some = std::move(shared);
  set_up(fabric, ranks, static_cast<int>(of.view_.channel), ground_->some.parts);
  order.ground = ground_;
  order.budget = budget_;
}

std::size_t Channel::bytes_for(const Fabric& fabric, std::size_t ranks) {
  const Parameters& parameters = fabric.parameters();
  const std::size_t size = std::max<std::size_t>(1, ranks);
  return places_of(static_cast<int>(size), slot_lines_of(parameters, size), ll128_lines_of(fabric, size),
                   stage_bytes_of(parameters, size))
      .bytes;
}

void Channel::set_up(Fabric& fabric, const std::vector<int>& ranks, int number, std::vector<std::uint64_t> parts) {
  const Parameters& parameters = fabric.parameters();
  const std::size_t size = parts.size();
  Device& device = *fabric.device();
  ground_->wait_memory = fabric.wait_memory();
  const std::size_t table = size * (sizeof(std::uint64_t) + sizeof(std::int32_t));
  ground_->own = device.allocate(sizeof(ChannelState) + table, MemoryKind::device);

  std::vector<std::int32_t> worlds(ranks.begin(), ranks.end());
  if (worlds.empty()) worlds.push_back(fabric.rank());
  std::byte* const own = ground_->own->data();
  std::byte* const worlds_at = own + sizeof(ChannelState) + size * sizeof(std::uint64_t);
  fabric.streams()->copy_now(own + sizeof(ChannelState), parts.data(), parts.size() * sizeof(std::uint64_t));
  fabric.streams()->copy_now(worlds_at, worlds.data(), worlds.size() * sizeof(std::int32_t));

  view_.state = reinterpret_cast<ChannelState*>(own);
  view_.parts = reinterpret_cast<const std::uint64_t*>(own + sizeof(ChannelState));
  view_.worlds = reinterpret_cast<const std::int32_t*>(worlds_at);
  view_.rank = static_cast<std::uint32_t>(std::ranges::find(ranks, fabric.rank()) - ranks.begin());
  view_.size = static_cast<std::uint32_t>(size);
  view_.slot_lines = static_cast<std::uint32_t>(slot_lines_of(parameters, size));
  view_.ll128_lines = static_cast<std::uint32_t>(ll128_lines_of(fabric, size));
  view_.channel = static_cast<std::uint32_t>(number);
  view_.stage_bytes = stage_bytes_of(parameters, size);
  view_.places = places_of(static_cast<int>(size), view_.slot_lines, view_.ll128_lines, view_.stage_bytes);
  view_.wait = fabric.wait_view();
}

void Channel::take(std::shared_ptr<Hierarchy> made) {
  order.ground = std::make_shared<const ChannelHold>(ChannelHold{ground_, made, budget_});
  hierarchy = std::move(made);
}

std::size_t Channel::slot_bytes(const Parameters& parameters, std::size_t ranks) {
  return slot_lines_of(parameters, std::max<std::size_t>(1, ranks)) * kLineData;
}

std::size_t Channel::ll128_bytes(const Fabric& fabric, std::size_t ranks) {
  return stripes_in(ll128_lines_of(fabric, std::max<std::size_t>(1, ranks))) * kStripeData;
}

std::size_t Channel::device_bytes() const {
  return (ground_->shared != nullptr ? ground_->shared->bytes() : ground_->some.own->bytes()) + ground_->own->bytes();
}

}  // namespace onstream::collective
