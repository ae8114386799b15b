"""The heat equation on a square, explicit in time, with numpy: each step exchanges ghost cells and updates a block.

Usage: heat.py onstream|mpi STEPS COLUMNS..., by `onstream run` or mpirun.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from ghosts import ARENA, block_of, run


def make(library: Any, way: str, columns: int) -> tuple[Callable[[], None], Callable[[], float]]:
    old = block_of(columns, library.rank, library.size)
    new, part = ARENA.zeros(*old.shape), ARENA.zeros(*old[1:-1, 1:-1].shape)
    new[:] = old
    updates = []
    for u, v in ((old, new), (new, old)):
        here, there = u[1:-1, 1:-1], v[1:-1, 1:-1]
        updates.append((library.exchange(way, u), u[:-2, 1:-1], u[2:, 1:-1], u[1:-1, :-2], u[1:-1, 2:], here, there))
    turn = 0

    def step() -> None:
        nonlocal turn
        exchange, up, down, left, right, here, there = updates[turn]
        turn = 1 - turn
        exchange()
        np.add(up, down, out=part)
        np.add(part, left, out=part)
        np.add(part, right, out=part)
        np.multiply(part, 0.2, out=part)
        np.multiply(here, 0.2, out=there)
        np.add(there, part, out=there)

    def check() -> float:
        middle = updates[turn][5]
        return library.sum(float((middle * middle).sum()))

    return step, check


run("heat", make)
