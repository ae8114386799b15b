"""Kernels of Triton's for library_ranks.py. Triton reads their text here, and looks up their names here too."""

import triton
import triton.language as tl


@triton.jit
def store_numbers(out, first, count, BLOCK: tl.constexpr):
    """out[i] = first + i."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, first + at.to(tl.float32), mask=at < count)
