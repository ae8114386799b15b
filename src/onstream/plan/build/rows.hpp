// Rows: the lines of a program whose ops all travel as lines, one by one, for brief.hpp.
#pragma once

#include <cstdint>

namespace onstream::plan {

struct Program;
struct TaskLists;

// Fills pack_rows, unpack_rows, pack_blocks, blocks and threads of `program` if brief.hpp can run it, and says so.
bool make_rows(Program& program, const TaskLists& lists, int most_blocks);

}  // namespace onstream::plan
