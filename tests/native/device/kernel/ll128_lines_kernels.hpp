// The kernels of ll128_lines.cpp. Thread i of the grid has 16 bytes of LL128 line i / 8.
#pragma once

#include <cstddef>
#include <cstdint>

#include "onstream/device.hpp"
#include "onstream/device/kernel/group.hpp"

namespace onstream::test {

// Stores 1, 2, ... up to `rounds` into all words of the lines, one after the other.
struct WriteSubgroups {
  Line* lines;
  std::uint64_t rounds;
  std::uint32_t by_halves;  // not 0: one half of an subgroup stores before the other, so that lines do come in two

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    const int thread = group.block() * group.size() + group.rank();
    Line* const subgroup = lines + thread / 8 * 8;
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      if (by_halves != 0) {
        if (thread % 8 >= 4) group.store_line(subgroup + thread % 8, {round, round});
        (void)group.pause(1u << 20, 0);
        if (thread % 8 < 4) group.store_line(subgroup + thread % 8, {round, round});
      } else {
        group.store_subgroup(subgroup, {round, round});
      }
    }
  }
};

// Loads them until the last round is there, or `limit_ns` have passed.
struct ReadSubgroups {
  const Line* lines;
  std::uint64_t rounds;
  std::uint64_t limit_ns;
  std::uint64_t* torn;     // loads that found different words in a line
  std::uint64_t* changes;  // loads that found another round than the load before

  struct Seen {
    std::uint64_t words[kMaxThreads];
  };

  template <Group G>
  ONSTREAM_BODY void operator()(const G& group) const {
    const int thread = group.block() * group.size() + group.rank();
    Seen& seen = group.template shared<Seen>();
    const std::uint64_t start = group.now_ns();
    std::uint64_t last = 0;
    bool goes_on = true;
    while (goes_on) {
      const Line mine = group.load_subgroup(lines + thread / 8 * 8);
      seen.words[group.rank()] = mine.low;
      group.sync();
      if (mine.low != mine.high || mine.low != seen.words[group.rank() / 8 * 8 + 7]) group.add(torn, 1);
      if (mine.low != last) group.add(changes, 1);
      last = mine.low;
      goes_on = group.sync_or(last != rounds && group.now_ns() - start < limit_ns);
    }
  }
};

#ifdef ONSTREAM_WITH_CUDA
const void* write_subgroups_entry();  // ll128_lines_kernels.cu
const void* read_subgroups_entry();
int capability_of_first_gpu();  // 90: 9.0; 0 if the driver does not say
#endif

}  // namespace onstream::test
