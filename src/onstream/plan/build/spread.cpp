#include "onstream/plan/build/spread.hpp"

#include <algorithm>

#include "onstream/device.hpp"
#include "onstream/device/kernel/ll.hpp"
#include "onstream/path/blocks.hpp"
#include "onstream/plan/build/lower.hpp"

namespace onstream::plan {

namespace {

constexpr int kTeam = 32;

// The items of each block of one role, before they are laid out.
struct BlockItems {
  std::vector<WorkItem> lines;  // packs or unpacks
  std::vector<WorkItem> parts;  // moves or awaits
};

class Spreader {
 public:
  Spreader(Program& program, const Lowering& in)
      : program_(program),
        block_bytes_(in.block_bytes),
        most_(in.most_blocks),
        serial_(in.device == DeviceKind::host) {}

  std::vector<BlockItems> share(const std::vector<std::uint32_t>& lines, const std::vector<std::uint32_t>& bulk) {
    std::uint64_t total_lines = 0;
    std::uint64_t total_bytes = 0;
    for (std::uint32_t t : lines) total_lines += program_.tasks[t].slot_lines;
    for (std::uint32_t t : bulk) total_bytes += moved(program_.tasks[t]);
    most_lines_ = std::max(most_lines_, total_lines);
    most_bytes_ = std::max(most_bytes_, total_bytes);
    const int line_blocks = lines.empty() ? 0 : blocks_for(total_lines * kLineData, block_bytes_, most_);
    const int bulk_blocks = bulk.empty() ? 0 : blocks_for(total_bytes, block_bytes_, most_);
    const bool together = line_blocks <= 1 && bulk_blocks <= 1;
    std::vector<BlockItems> shares(
        static_cast<std::size_t>(together ? std::max(line_blocks, bulk_blocks) : line_blocks + bulk_blocks));
    if (line_blocks > 0) share_lines(shares, lines, total_lines, line_blocks);
    if (bulk_blocks > 0) share_parts(shares, bulk, total_bytes, together ? 0 : line_blocks, bulk_blocks);
    return shares;
  }

  // Few threads start sooner; a message of some lines needs no more.
  int threads() const {
    if (serial_) return 1;
    // Up to a MiB or so the bytes are under way at once in small blocks, which issue fewer instructions each.
    constexpr std::uint64_t kShort = std::uint64_t{1} << 20;
    if (most_bytes_ > 0) return most_bytes_ <= kShort ? kMaxThreads / 2 : kMaxThreads;
    const std::uint64_t wanted = (most_lines_ + kTeam - 1) / kTeam * kTeam;
    return static_cast<int>(std::clamp<std::uint64_t>(wanted, 128, kMaxThreads));
  }

 private:
  static std::uint64_t moved(const Task& task) { return task.to == nullptr ? 0 : task.bytes; }

  void share_lines(std::vector<BlockItems>& shares, const std::vector<std::uint32_t>& tasks, std::uint64_t total,
                   int blocks) {
    const std::uint64_t teams = serial_ ? 1 : static_cast<std::uint64_t>(blocks) * (kMaxThreads / kTeam);
    const std::uint64_t chunk =
        std::max<std::uint64_t>(kTeam, ((total + teams - 1) / teams + kTeam - 1) / kTeam * kTeam);
    std::vector<WorkItem> items;
    for (std::uint32_t t : tasks) {
      const std::uint64_t count = program_.tasks[t].slot_lines;
      const std::uint64_t step = serial_ ? count : chunk;
      for (std::uint64_t begin = 0; begin < count; begin += step) {
        items.push_back(
            {t, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(std::min(count, begin + step))});
      }
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      shares[i * static_cast<std::size_t>(blocks) / items.size()].lines.push_back(items[i]);
    }
  }

  void share_parts(std::vector<BlockItems>& shares, const std::vector<std::uint32_t>& tasks, std::uint64_t total,
                   int first, int blocks) {
    int next = 0;
    for (std::uint32_t t : tasks) {
      Task& task = program_.tasks[t];
      if (moved(task) > 0) {
        const double fair = static_cast<double>(blocks) * static_cast<double>(task.bytes) / static_cast<double>(total);
        task.parts = static_cast<std::uint32_t>(std::clamp(static_cast<int>(fair + 0.5), 1, blocks));
      }
      for (std::uint32_t part = 0; part < task.parts; ++part) {
        shares[static_cast<std::size_t>(first + next)].parts.push_back({t, part, part + 1});
        next = (next + 1) % blocks;
      }
      if (task.chain != kNone) program_.chains[task.chain].parts += task.parts;
    }
  }

  Program& program_;
  std::uint64_t block_bytes_;
  int most_;
  bool serial_;
  std::uint64_t most_lines_ = 0;
  std::uint64_t most_bytes_ = 0;
};

ItemSpan append(Program& program, const std::vector<WorkItem>& items) {
  const std::uint32_t first = static_cast<std::uint32_t>(program.items.size());
  program.items.insert(program.items.end(), items.begin(), items.end());
  return {first, static_cast<std::uint32_t>(program.items.size())};
}

void set_movers(Program& program, Block& block, const BlockItems& share) {
  block.packs = append(program, share.lines);
  block.moves = append(program, share.parts);
  for (const WorkItem& item : share.parts) block.moves_wait |= program.tasks[item.task].started != nullptr;
}

void set_finishers(Program& program, Block& block, const BlockItems& share) {
  block.unpacks = append(program, share.lines);
  block.awaits = append(program, share.parts);
  for (const WorkItem& item : share.parts) block.awaits_copy |= program.tasks[item.task].to != nullptr;
}

}  // namespace

void spread(Program& program, const TaskLists& lists, const Lowering& in) {
  Spreader spreader(program, in);
  const std::vector<BlockItems> movers = spreader.share(lists.packs, lists.moves);
  const std::vector<BlockItems> raisers = spreader.share({}, lists.raises);
  const std::vector<BlockItems> finishers = spreader.share(lists.unpacks, lists.awaits);
  program.threads = spreader.threads();
  const bool two_kernels = program.two_kernels = !program.middle.empty() || !lists.raises.empty();
  const bool one_block = !two_kernels && movers.size() <= 1 && finishers.size() <= 1;
  for (const BlockItems& share : movers) set_movers(program, program.blocks.emplace_back(), share);
  if (program.blocks.empty() && (two_kernels || one_block)) program.blocks.emplace_back();
  program.mover_blocks = static_cast<int>(program.blocks.size());
  const std::size_t second = one_block ? 0 : program.blocks.size();
  while (program.blocks.size() < second + std::max<std::size_t>(finishers.size(), two_kernels ? 1 : 0)) {
    program.blocks.emplace_back();
  }
  for (std::size_t i = 0; i < finishers.size(); ++i) set_finishers(program, program.blocks[second + i], finishers[i]);
  if (!raisers.empty()) set_movers(program, program.blocks[second], raisers.front());
}

}  // namespace onstream::plan
