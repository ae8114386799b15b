#include "onstream/plan/build/rows.hpp"

#include <algorithm>

#include "onstream/device.hpp"
#include "onstream/layout/walk.hpp"
#include "onstream/plan/build/lower.hpp"
#include "onstream/plan/build/spread.hpp"
#include "onstream/plan/kernel/brief.hpp"

namespace onstream::plan {

namespace {

constexpr std::uint64_t kMostRows = 8192;  // beyond, rows cost more memory traffic than the data

// Appends the lines of a task. False if the pieces of one line do not lie evenly.
bool add_rows(std::vector<Row>& rows, const Program& program, std::uint32_t index, std::byte* address,
              const LayoutView& layout) {
  const Task& task = program.tasks[index];
  for (std::uint64_t line = 0; line < task.slot_lines; ++line) {
    const std::uint64_t begin = line * kLineData;
    const std::uint64_t bytes = std::min<std::uint64_t>(task.bytes - begin, kLineData);
    Row row;
    row.slot = task.slots + line;
    row.odd_slot = static_cast<std::uint32_t>(task.slot_lines);
    row.task = index;
    row.started = task.started;
    row.times = line == 0 ? task.op + 1 : 0;
    row.access_width = static_cast<std::uint16_t>(task.access_width);
    row.pieces = static_cast<std::uint16_t>(bytes / task.access_width);
    if (bytes > 0) row.local = address + offset_of(layout, begin);
    for (std::uint16_t piece = 1; piece < row.pieces; ++piece) {
      const std::byte* here = address + offset_of(layout, begin + piece * task.access_width);
      if (piece == 1) row.stride = here - row.local;
      if (here != row.local + piece * row.stride) return false;
    }
    rows.push_back(row);
  }
  return true;
}

std::uint64_t lines_of(const Program& program, const std::vector<std::uint32_t>& tasks) {
  std::uint64_t lines = 0;
  for (std::uint32_t task : tasks) lines += program.tasks[task].slot_lines;
  return lines;
}

int row_blocks(std::uint64_t rows) {
  constexpr std::uint64_t kOfBlock = std::uint64_t{kMaxThreads} * kRowsEach;
  return static_cast<int>((rows + kOfBlock - 1) / kOfBlock);
}

// A thread for each row as long as that needs few warps.
int threads_for(std::uint64_t rows) {
  constexpr std::uint64_t kWarp = 32;
  constexpr std::uint64_t kOneEach = 256;
  const std::uint64_t wanted = rows <= kOneEach ? rows : std::max(kOneEach, (rows + kRowsEach - 1) / kRowsEach);
  return static_cast<int>(std::clamp<std::uint64_t>((wanted + kWarp - 1) / kWarp * kWarp, kWarp, kMaxThreads));
}

}  // namespace

bool make_rows(Program& program, const TaskLists& lists, int most_blocks) {
  const bool only_lines = lists.moves.empty() && lists.raises.empty() && lists.awaits.empty() &&
                          program.signals.empty() && program.middle.empty() && program.words.empty() &&
                          program.announce_release == 0;
  const std::uint64_t packs = lines_of(program, lists.packs);
  const std::uint64_t unpacks = lines_of(program, lists.unpacks);
  const std::uint64_t most = std::max(packs, unpacks);
  const int blocks = row_blocks(packs) + row_blocks(unpacks);
  if (!only_lines || most == 0 || most > kMostRows || (blocks > 2 && blocks > most_blocks)) return false;
  std::vector<Row> pack_rows;
  std::vector<Row> unpack_rows;
  for (std::uint32_t task : lists.packs) {
    if (!add_rows(pack_rows, program, task, program.tasks[task].from, program.tasks[task].from_layout)) return false;
  }
  for (std::uint32_t task : lists.unpacks) {
    if (!add_rows(unpack_rows, program, task, program.tasks[task].to, program.tasks[task].to_layout)) return false;
  }
  const bool one_block = row_blocks(most) == 1;
  program.pack_rows = std::move(pack_rows);
  program.unpack_rows = std::move(unpack_rows);
  program.pack_blocks = one_block ? 0 : row_blocks(packs);
  program.blocks.resize(static_cast<std::size_t>(one_block ? 1 : blocks));
  program.mover_blocks = static_cast<int>(program.blocks.size());
  program.threads = one_block ? threads_for(most) : kMaxThreads;
  program.brief = true;
  return true;
}

}  // namespace onstream::plan
