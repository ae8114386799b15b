#include "onstream/collective/compile/hierarchy.hpp"

#include <algorithm>
#include <bit>

#include "onstream/base/error.hpp"
#include "onstream/collective/compile/compile.hpp"
#include "onstream/collective/kernel/kernels.hpp"
#include "onstream/collective/protocol/convert.hpp"
#include "onstream/device/kernel/wait.hpp"

namespace onstream::collective {

Hierarchy::Hierarchy(Fabric& fabric, const std::vector<int>& ranks, const Groups& groups, Channel& channel,
                     const CollectiveCall& first)
    : groups_(groups) {
  Device& device = *fabric.device();
  const std::vector<int> teams[2] = {groups.within(), groups.across()};
  Channel::SubsetMemory shared[2];
  std::vector<Say> mine(ranks.size());
  std::string trouble;
  try {
    for (std::size_t level = 0; level < 2; ++level) {
      const std::size_t bytes = Channel::bytes_for(fabric, teams[level].size());
      shared[level].own = device.allocate(bytes, MemoryKind::device);
      const std::byte* const memory = shared[level].own->data();
      for (const int peer : teams[level]) {
        if (peer == groups.rank) continue;
        const int world = ranks[static_cast<std::size_t>(peer)];
        const auto there = fabric.export_to_peer(memory, bytes, world);
        require(there.has_value(), "rank ", world, " cannot address its memory: ", fabric.why_not(memory, world));
        Say& say = mine[static_cast<std::size_t>(peer)];
        say.output = *there;
        say.send_bytes = device.inspect(memory).id;  // by which the peer finds its mapping
      }
    }
  } catch (const Error& error) {
    fabric.check();
    trouble = error.what();
  }
  const Named name{first.kind, first.count * size_of(first.type), first.channel, 0};
  const auto exchange = [&] {
    for (Say& say : mine) {
      say.signature = signature_of(first, Algorithm::hierarchical);
      say.set_trouble(trouble);
    }
    std::vector<Say> says = channel.copies->tell(fabric, mine, name);
    for (std::size_t i = 0; i < says.size(); ++i) {
      require(says[i].signature == mine[i].signature, name_of(first.kind), " in stages: rank ", ranks[i],
              " calls another collective, or the same with another count; nothing was moved");
      require(says[i].trouble[0] == 0, name_of(first.kind), ": algorithm hierarchical cannot, as of rank ", ranks[i],
              ": ", says[i].trouble.data());
    }
    return says;
  };
  const std::vector<Say> says = exchange();
  try {
    make_levels(fabric, ranks, channel, says, teams, shared);
  } catch (const Error& error) {
    fabric.check();
    trouble = error.what();
  }
  (void)exchange();  // nobody writes before all have set theirs up
  levels_[0].channel->fail_with(channel, *levels_[1].channel);
  levels_[1].channel->fail_with(channel, *levels_[0].channel);
  channel.fail_with(*levels_[0].channel, *levels_[1].channel);
}

void Hierarchy::make_levels(Fabric& fabric, const std::vector<int>& ranks, Channel& channel,
                            const std::vector<Say>& says, const std::vector<int> (&teams)[2],
                            Channel::SubsetMemory (&shared)[2]) {
  for (std::size_t level = 0; level < 2; ++level) {
    for (const int peer : teams[level]) {
      const Say& say = says[static_cast<std::size_t>(peer)];
      const int world = ranks[static_cast<std::size_t>(peer)];
      const bool own = peer == groups_.rank;
      levels_[level].ranks.push_back(world);
      shared[level].parts.push_back(own ? reinterpret_cast<std::uint64_t>(shared[level].own->data()) : say.output);
      if (!own) shared[level].mapped.push_back(fabric.imported(world, say.send_bytes));
    }
    levels_[level].channel = std::make_unique<Channel>(fabric, levels_[level].ranks, channel, std::move(shared[level]));
  }
}

std::vector<KernelLaunch> Hierarchy::prepare(Fabric& fabric, const CollectiveCall& call, int most) {
  const std::size_t own = sums_bytes(call, groups_);
  const CollectiveCall longer = in_sums(call, nullptr);
  std::byte* const memory = scratch(*fabric.device(), own + scratch_bytes(longer, groups_));
  std::vector<KernelLaunch> launches;
  const auto convert = [&](Conversion conversion, const void* from, void* to, std::size_t bytes) {
    if (own == 0 || bytes == 0) return;
    Convert body;
    body.input = static_cast<const std::byte*>(from);
    body.output = static_cast<std::byte*>(to);
    body.count = bytes / size_of(call.type);
    body.type = call.type;
    body.conversion = conversion;
    body.op = call.op;
    body.ranks = static_cast<std::uint32_t>(groups_.size);
    body.factor = std::bit_cast<Factor>(call.factor);
    const auto each = static_cast<std::size_t>(fabric.parameters().collective_block_bytes);
    const auto blocks = std::clamp<std::size_t>(bytes / each, 1, static_cast<std::size_t>(most));
    const bool on_host = fabric.device()->kind() == DeviceKind::host;
    launches.emplace_back().set(convert_kernel(), body,
                                on_host ? Grid{1, 1} : Grid{static_cast<int>(blocks), kMaxThreads});
  };
  convert(Conversion::to_floats, call.input, memory, call.input_bytes(groups_.rank, groups_.size));
  for (Stage& stage : stages_of(in_sums(call, memory), groups_, memory + own)) {
    const Level& level = levels_[static_cast<std::size_t>(stage.among)];
    const ChannelView& view = level.channel->view();
    const MachineTraits machine = machine_of(fabric, static_cast<int>(view.rank), view.size);
    stage.call.stage_of = signature_of(call, Algorithm::hierarchical);
    stage.call.named = part_of(call.name(), kInStage);
    stage.call.algorithm = choose(stage.call, machine).algorithm;
    launches.push_back(collective::prepare(fabric, *level.channel, level.ranks, stage.call, most));
  }
  convert(Conversion::to_results, memory, call.output, call.output_bytes(groups_.rank, groups_.size));
  return launches;
}

std::byte* Hierarchy::scratch(Device& device, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  if (scratches_.empty() || scratches_.back()->bytes() < bytes) {
    const std::size_t before = scratches_.empty() ? 0 : scratches_.back()->bytes();
    scratches_.push_back(device.allocate(std::max(bytes, 2 * before), MemoryKind::device));
  }
  return scratches_.back()->data();
}

std::size_t Hierarchy::device_bytes() const {
  std::size_t bytes = 0;
  for (const Level& level : levels_) bytes += level.channel->device_bytes();
  for (const auto& memory : scratches_) bytes += memory->bytes();
  return bytes;
}

}  // namespace onstream::collective
