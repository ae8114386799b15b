/* Stand-in for cuda.h where there is no CUDA: see cuda_runtime.h. */
#ifndef ONSTREAM_STANDIN_CUDA_H
#define ONSTREAM_STANDIN_CUDA_H
#include "cuda_runtime.h"
typedef cudaStream_t CUstream;
#endif
