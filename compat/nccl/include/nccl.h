/* NCCL's interface over onstream: docs/nccl.md. For programs; with CUDA, or with its stand-in (compat/standin). */
#ifndef NCCL_H_
#define NCCL_H_

#include <cuda_runtime.h>
#ifdef CUDART_VERSION /* programs rely on these, as they come with NCCL's own header */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#if defined(__cplusplus) && CUDART_VERSION >= 11080
#include <cuda_fp8.h>
#endif
#endif

#include "onstream_nccl/calls.h"

#endif
