// The texts that launchers and the kernel describe jobs with. Pure functions of text from outside; they throw
// invalid_argument with the text they could not read.
#pragma once

#include <string>
#include <string_view>

namespace onstream {

// Ranks on the node-th host by Slurm's "2(x3),1": 2, 2, 2, 1.
int slurm_tasks_on_node(std::string_view text, int node);

// "node07" of Slurm's "node[07-09,12],login1".
std::string slurm_first_host(std::string_view text);

// From /proc/PID/stat; see proc(5). An unreadable text gives parent 0, which ends a walk to the root.
struct ProcessStat {
  std::string name;
  int parent = 0;
  std::string start_time;  // in clock ticks since boot
};
ProcessStat parse_process_stat(const std::string& text);

}  // namespace onstream
