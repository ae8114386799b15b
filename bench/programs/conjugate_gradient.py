"""Conjugate gradients for Poisson's equation on a square, with numpy: a step is one iteration, with two sums over ranks.

Usage: conjugate_gradient.py onstream|mpi STEPS COLUMNS..., by `onstream run` or mpirun. Hestenes and Stiefel, 1952; it
starts anew when the residual has become small, so that a step is always the same work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from ghosts import ARENA, block_of, run

SMALL = 1e-12


def make(library: Any, way: str, columns: int) -> tuple[Callable[[], None], Callable[[], float]]:
    p = block_of(columns, library.rank, library.size)
    middle, up, down, left, right = p[1:-1, 1:-1], p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:]
    b, x, r, q, part = (ARENA.zeros(*middle.shape) for _ in range(5))
    b[:] = r[:] = middle
    exchange = library.exchange(way, p)
    first = rr = library.sum(float(np.vdot(r, r)))

    def step() -> None:
        nonlocal rr
        exchange()
        np.multiply(middle, 4.0, out=q)
        for side in (up, down, left, right):
            np.subtract(q, side, out=q)
        np.multiply(middle, q, out=part)
        alpha = rr / library.sum(float(part.sum()))
        np.multiply(middle, alpha, out=part)
        np.add(x, part, out=x)
        np.multiply(q, alpha, out=part)
        np.subtract(r, part, out=r)
        last, rr = rr, library.sum(float(np.vdot(r, r)))
        if rr < SMALL * first:
            x[:], r[:], middle[:] = 0.0, b, b
            rr = first
            return
        np.multiply(middle, rr / last, out=middle)
        np.add(middle, r, out=middle)

    return step, lambda: rr / first


run("conjugate_gradient", make)
