#include "jacobi_cells.hpp"

#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

namespace programs {

namespace {

void relax_rows(void* argument) {
  const Relax& part = *static_cast<const Relax*>(argument);
  const auto stride = static_cast<std::size_t>(part.columns);
  float sum = 0;
  for (int row = part.first; row <= part.last; ++row) {
    const std::size_t begin = static_cast<std::size_t>(row) * stride;
    for (std::size_t at = begin + 1; at < begin + stride - 1; ++at) {
      const float value =
          0.25F * ((part.now[at - stride] + part.now[at + stride]) + (part.now[at - 1] + part.now[at + 1]));
      part.next[at] = value;
      sum += (value - part.now[at]) * (value - part.now[at]);
    }
  }
  *part.change += sum;
}

// The arguments of all calls stay: a graph may run them again at any time.
Relax* kept(const Relax& part) {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<Relax>> all;
  const std::lock_guard lock(mutex);
  for (const auto& one : all) {
    if (std::memcmp(one.get(), &part, sizeof(part)) == 0) return one.get();
  }
  all.push_back(std::make_unique<Relax>(part));
  return all.back().get();
}

}  // namespace

void relax(const Relax& part, cudaStream_t stream) {
  if (part.last >= part.first) cudaLaunchHostFunc(stream, relax_rows, kept(part));
}

}  // namespace programs
