// By kernels: the cells along the edges on one stream, all others on a second one.
#include "am_stencil_cells.h"

#include <cuda_runtime.h>

#include <utility>

const int on_device = 1;

namespace {

constexpr int kThreads = 256;

int nx, ny;
double *now, *next;
cudaStream_t boundary_stream, bulk_stream;
cudaError_t first_error = cudaSuccess;

void note(cudaError_t error) {
  if (first_error == cudaSuccess) first_error = error;
}

std::size_t tile_bytes() { return static_cast<std::size_t>(nx) * static_cast<std::size_t>(ny) * sizeof(double); }
int blocks_for(int threads) { return (threads + kThreads - 1) / kThreads; }

__device__ double average(double west, double east, double south, double north) {
  return 0.25 * ((west + east) + (south + north));
}

// The place of a cell along the edges by its number; corners come once.
__device__ int2 boundary_place(int number, int wide, int high) {
  if (number < wide) return {number, 0};
  if (number < 2 * wide) return {number - wide, high - 1};
  number -= 2 * wide;
  return number < high - 2 ? int2{0, number + 1} : int2{wide - 1, number - (high - 2) + 1};
}

__device__ void take_edge(double value, int2 at, int wide, int high, const sides& edges) {
  if (at.x == 0) edges.of[WEST][at.y] = value;
  if (at.x == wide - 1) edges.of[EAST][at.y] = value;
  if (at.y == 0) edges.of[SOUTH][at.x] = value;
  if (at.y == high - 1) edges.of[NORTH][at.x] = value;
}

__global__ void first_edges(const double* cells, int wide, int high, sides edges) {
  const int number = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (number >= 2 * wide + 2 * (high - 2)) return;
  const int2 at = boundary_place(number, wide, high);
  take_edge(cells[at.y * wide + at.x], at, wide, high, edges);
}

__global__ void boundary(const double* cells, double* out, int wide, int high, sides ghosts, sides edges) {
  const int number = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (number >= 2 * wide + 2 * (high - 2)) return;
  const int2 at = boundary_place(number, wide, high);
  const double* const c = cells + at.y * wide + at.x;
  const double west = at.x > 0 ? c[-1] : ghosts.of[WEST][at.y];
  const double east = at.x + 1 < wide ? c[1] : ghosts.of[EAST][at.y];
  const double south = at.y > 0 ? c[-wide] : ghosts.of[SOUTH][at.x];
  const double north = at.y + 1 < high ? c[wide] : ghosts.of[NORTH][at.x];
  const double value = average(west, east, south, north);
  out[at.y * wide + at.x] = value;
  take_edge(value, at, wide, high, edges);
}

__global__ void bulk(const double* cells, double* out, int wide, int high) {
  const int number = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (number >= (wide - 2) * (high - 2)) return;
  const int at = (number / (wide - 2) + 1) * wide + number % (wide - 2) + 1;
  out[at] = average(cells[at - 1], cells[at + 1], cells[at - wide], cells[at + wide]);
}

int along_edges() { return 2 * nx + 2 * (ny - 2); }

}  // namespace

const char* cells_open(int wide, int high, const void* memory) {
  nx = wide;
  ny = high;
  cudaPointerAttributes where{};
  note(cudaPointerGetAttributes(&where, memory));  // the GPU that the link took
  note(cudaSetDevice(where.device));
  note(cudaStreamCreateWithFlags(&boundary_stream, cudaStreamNonBlocking));
  note(cudaStreamCreateWithFlags(&bulk_stream, cudaStreamNonBlocking));
  now = cells_array(tile_bytes());
  next = cells_array(tile_bytes());
  return first_error == cudaSuccess ? nullptr : cudaGetErrorString(first_error);
}

double* cells_array(size_t bytes) {
  void* memory = nullptr;
  note(cudaMalloc(&memory, bytes));
  return first_error == cudaSuccess ? static_cast<double*>(memory) : nullptr;
}

void cells_copy(void* to, const void* from, size_t bytes) {
  note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, boundary_stream));
  note(cudaStreamSynchronize(boundary_stream));
}

void cells_load(const double* start) { cells_copy(now, start, tile_bytes()); }

void cells_first_edges(sides edges) {
  first_edges<<<blocks_for(along_edges()), kThreads, 0, boundary_stream>>>(now, nx, ny, edges);
  note(cudaGetLastError());
}

void cells_boundary(sides ghosts, sides edges) {
  boundary<<<blocks_for(along_edges()), kThreads, 0, boundary_stream>>>(now, next, nx, ny, ghosts, edges);
  note(cudaGetLastError());
}

void cells_boundary_done(void) { note(cudaStreamSynchronize(boundary_stream)); }

void cells_bulk(void) {
  bulk<<<blocks_for((nx - 2) * (ny - 2)), kThreads, 0, bulk_stream>>>(now, next, nx, ny);
  note(cudaGetLastError());
}

void cells_bulk_done(void) { note(cudaStreamSynchronize(bulk_stream)); }

void cells_next(void) { std::swap(now, next); }

// An error of any step before shows in the answer, which is then not that of one rank alone.
void cells_store(double* end) {
  for (int i = 0; i < nx * ny; ++i) end[i] = -1;
  if (first_error == cudaSuccess) cells_copy(end, now, tile_bytes());
}
