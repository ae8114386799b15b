// Kernel-initiated communication: kernels of the program start prepared sends, wait for them and for receives, and tell
// the host. See libmp.h. The kernel records its progress in pinned memory, so that a case that does not end can say how
// far it came.
#include "libmp.h"

#include <cassert>

#include "mp/device.cuh"

namespace {

constexpr int kMost = 20;

struct Exchange {
  mp::mlx5::send_desc_t start[kMost];
  mp::mlx5::wait_desc_t sent[kMost];
  mp::mlx5::wait_desc_t came[kMost];
};

struct Told {
  unsigned began;
  unsigned exchanges;  // that the kernel has been through
  unsigned late;       // waits that failed
};

__device__ void await(mp::mlx5::wait_desc_t& wait, volatile Told* told) {
  if (mp::device::mlx5::wait(wait) != 0) told->late = told->late + 1;
  mp::device::mlx5::signal(wait);
}

__global__ void exchange(Exchange with, int count, bool first, volatile Told* told) {
  assert(count <= kMost);  // a kernel that can print: CUDA sets up printing at a first launch
  told->began = 1;
  for (int i = 0; i < count && told->late == 0; ++i) {
    if (first) mp::device::mlx5::send(with.start[i]);
    await(with.came[i], told);
    if (!first) mp::device::mlx5::send(with.start[i]);
    await(with.sent[i], told);
    told->exchanges = i + 1;
  }
}

void demand_end(cudaStream_t stream, const volatile Told* told, int bytes) {
  for (int tenth = 0; tenth < 100; ++tenth) {
    const cudaError_t status = cudaStreamQuery(stream);
    if (status == cudaSuccess) break;
    if (status != cudaErrorNotReady || tenth == 99) {
      fprintf(stderr, "rank %d, %d B: %s after %d.%d s; the kernel %s, %u exchanges, %u waits in vain\n", rank, bytes,
              cudaGetErrorString(status), tenth / 10, tenth % 10, told->began != 0 ? "began" : "did not begin",
              told->exchanges, told->late);
      CHECK(!"the kernel ends");
    }
    usleep(100000);
  }
  CHECK(told->began == 1 && told->late == 0);
}

void exchange_with(int peer, bool first, int bytes, int count) {
  buffer out = take(DEVICE, static_cast<size_t>(count) * static_cast<size_t>(bytes), 11 + rank);
  buffer in = take(DEVICE, out.bytes, 0);
  buffer told_memory = take(PINNED, sizeof(Told), 0);
  auto* told = reinterpret_cast<Told*>(told_memory.data);
  const cudaStream_t stream = new_stream();
  mp_request_t sends[kMost];
  mp_request_t receives[kMost];
  Exchange with;
  for (int i = 0; i < count; ++i) {
    const size_t offset = static_cast<size_t>(i) * static_cast<size_t>(bytes);
    OK(mp_send_prepare(out.data + offset, bytes, peer, &out.reg, &sends[i]));
    OK(mp::mlx5::get_descriptors(&with.start[i], &sends[i]));
    OK(mp::mlx5::get_descriptors(&with.sent[i], &sends[i]));
    OK(mp_irecv(in.data + offset, bytes, peer, &in.reg, &receives[i]));
    OK(mp::mlx5::get_descriptors(&with.came[i], &receives[i]));
  }
  exchange<<<1, 1, 0, stream>>>(with, count, first, told);
  CUDA_OK(cudaGetLastError());
  demand_end(stream, told, bytes);
  OK(mp_wait_all(static_cast<uint32_t>(count), sends));
  OK(mp_wait_all(static_cast<uint32_t>(count), receives));
  CHECK(all_are(&in, 0, in.bytes, 11 + peer));
  CUDA_OK(cudaStreamDestroy(stream));
  drop(&out);
  drop(&in);
  drop(&told_memory);
}

// One rank sends first; the other answers.
void a_kernel_exchanges_with_the_peer() {
  for (const int bytes : {1, 8, 4000, 100000}) exchange_with(1 - rank, rank == 0, bytes, kMost);
}

void a_kernel_exchanges_with_its_own_rank() {
  for (const int bytes : {1, 8, 4000, 100000}) exchange_with(rank, true, bytes, kMost);
}

#define CASE(name) {#name, name}
const test_case kCases[] = {
    CASE(a_kernel_exchanges_with_the_peer),
    CASE(a_kernel_exchanges_with_its_own_rank),
};

}  // namespace

int main(int argc, char** argv) {
  return run_case(argc, argv, kCases, static_cast<int>(sizeof kCases / sizeof kCases[0]));
}
