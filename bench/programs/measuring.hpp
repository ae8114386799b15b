// Clocks, medians and ends that all programs share.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

namespace programs {

inline void ok(cudaError_t error, const char* call) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error));
}

inline double now_us() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(now).count();
}

inline double median_of(std::vector<double> samples) {
  std::ranges::sort(samples);
  return samples.at(samples.size() / 2);
}

// main() of a program: `run(arguments)`, with errors told in one line.
template <class Run>
int main_of(const char* name, int argc, char** argv, const Run& run) {
  try {
    run(std::vector<std::string>(argv + 1, argv + argc));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}

}  // namespace programs
