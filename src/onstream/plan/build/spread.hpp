// Spreading: which block and which team of threads does which part of which task.
//
// Lines of path ll go to teams in chunks, so that many small messages are moved side by side; bulk copies go to blocks
// in parts, in proportion to their bytes.
#pragma once

#include <cstdint>
#include <vector>

namespace onstream::plan {

struct Lowering;
struct Program;

// Indices of tasks, by the kind of work.
struct TaskLists {
  std::vector<std::uint32_t> packs;
  std::vector<std::uint32_t> moves;
  std::vector<std::uint32_t> raises;  // moves of the second kernel: they only tell
  std::vector<std::uint32_t> unpacks;
  std::vector<std::uint32_t> awaits;
};

// Fills items, blocks, mover_blocks and threads of `program`, parts of its tasks and of its chains.
void spread(Program& program, const TaskLists& lists, const Lowering& in);

}  // namespace onstream::plan
