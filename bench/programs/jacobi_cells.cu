#include "jacobi_cells.hpp"

namespace programs {

namespace {

constexpr int kWide = 128;  // threads of a block, a column each
constexpr int kHigh = 8;    // rows that a thread walks down

__global__ void __launch_bounds__(kWide) relax_kernel(Relax part) {
  const int column = static_cast<int>(blockIdx.x) * kWide + static_cast<int>(threadIdx.x);
  const int first = part.first + static_cast<int>(blockIdx.y) * kHigh;
  const int last = min(first + kHigh - 1, part.last);
  const auto stride = static_cast<long long>(part.columns);
  float sum = 0;
  if (column > 0 && column < part.columns - 1) {
    long long at = first * stride + column;
    float above = part.now[at - stride];
    float here = part.now[at];
    for (int row = first; row <= last; ++row, at += stride) {
      const float below = part.now[at + stride];
      const float value = 0.25f * ((above + below) + (part.now[at - 1] + part.now[at + 1]));
      part.next[at] = value;
      sum += (value - here) * (value - here);
      above = here;
      here = below;
    }
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  __shared__ float of_warp[kWide / 32];
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kWide / 32; ++warp) sum += of_warp[warp];
  atomicAdd(part.change, sum);
}

}  // namespace

void relax(const Relax& part, cudaStream_t stream) {
  const int rows = part.last - part.first + 1;
  if (rows <= 0) return;
  const dim3 blocks(static_cast<unsigned>((part.columns + kWide - 1) / kWide),
                    static_cast<unsigned>((rows + kHigh - 1) / kHigh));
  relax_kernel<<<blocks, kWide, 0, stream>>>(part);
}

}  // namespace programs
