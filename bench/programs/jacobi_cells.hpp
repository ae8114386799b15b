// The cells of the Jacobi programs: kernels (jacobi_cells.cu), or the CPU's loops in stream order (jacobi_cells.cpp).
#pragma once

#include <cuda_runtime.h>

namespace programs {

// Rows of `columns` cells each. A rank's own are 1 to `rows`; rows 0 and rows + 1 are its neighbours'.
struct Relax {
  float* next;
  const float* now;
  float* change;  // gets the sum of the squares of all changes added
  int columns;
  int first;  // the first row of this call
  int last;   // and the last, inclusive
};

// A step of Jacobi's method for Laplace's equation: each cell becomes the mean of its four neighbours. The first and
// the last column stay as they are.
void relax(const Relax& part, cudaStream_t stream);

}  // namespace programs
