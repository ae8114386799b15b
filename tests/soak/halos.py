"""Halos in one to three dimensions, against numpy's pad."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from .teams import factors
from .turn import Turn

GHOST = -1.0  # in the ghost cells before an exchange
MOST = {1: 5000, 2: 60, 3: 14}  # cells of a rank's block along each of so many dimensions


@dataclass(frozen=True)
class Halo:
    grid: list[int]
    ghost: list[int]
    periodic: list[bool]
    corners: bool
    dtype: str
    local: list[int]

    @property
    def inside(self) -> tuple[slice, ...]:
        return tuple(slice(width, width + n) for n, width in zip(self.local, self.ghost, strict=True))

    def padded(self, turn: Turn, time: int) -> np.ndarray:
        """The global array with its ghost cells."""
        shape = [ranks * n for ranks, n in zip(self.grid, self.local, strict=True)]
        whole = turn.numbers_of(int(np.prod(shape)), self.dtype, time).reshape(shape)
        for axis, width in enumerate(self.ghost):
            pads = [(width, width) if one == axis else (0, 0) for one in range(len(shape))]
            around = {"mode": "wrap"} if self.periodic[axis] else {"constant_values": GHOST}
            whole = np.pad(whole, pads, **around)
        return whole

    def block(self, turn: Turn, time: int) -> tuple[np.ndarray, np.ndarray]:
        """This rank's block before the exchange and behind it."""
        place = np.unravel_index(turn.rank, self.grid)
        sides = zip(place, self.local, self.ghost, strict=True)
        filled = self.padded(turn, time)[tuple(slice(at * n, at * n + n + 2 * width) for at, n, width in sides)]
        before = np.full(filled.shape, GHOST).astype(self.dtype)
        before[self.inside] = filled[self.inside]
        return before, filled if self.corners else self._by_faces(before, filled)

    def _by_faces(self, before: np.ndarray, filled: np.ndarray) -> np.ndarray:
        """Without corners the ghost cells beside faces alone are filled."""
        result = before.copy()
        for axis, lower in itertools.product(range(len(self.ghost)), (True, False)):
            edge = slice(0, self.ghost[axis]) if lower else slice(before.shape[axis] - self.ghost[axis], None)
            face: Any = tuple(edge if one == axis else self.inside[one] for one in range(len(self.ghost)))
            result[face] = filled[face]
        return result


def _some_halo(turn: Turn) -> Halo:
    dice = turn.dice
    grid = factors(turn, dice.randint(1, 3))
    ghost = [dice.choice((1, 1, 2, 0)) for _ in grid]
    local = [dice.randint(max(2, width), MOST[len(grid)]) for width in ghost]
    periodic = [dice.random() < 0.5 for _ in grid]
    return Halo(grid, ghost, periodic, dice.random() < 0.5, dice.choice(("f4", "f8", "i4", "i2")), local)


def halos(turn: Turn) -> None:
    one, memory, tag = _some_halo(turn), turn.some_memory(kernels=True), turn.some_tag()
    shape = [n + 2 * width for n, width in zip(one.local, one.ghost, strict=True)]
    array = turn.array(np.zeros(shape, one.dtype), memory)
    plan = turn.world.halo(array, ghost=one.ghost, grid=one.grid, periodic=one.periodic, corners=one.corners, tag=tag)

    def prepare(time: int) -> None:
        turn.fill(array, one.block(turn, time)[0])
        turn.world.barrier()  # a neighbour that is ahead fills these cells

    def verify(time: int) -> None:
        turn.check(array, one.block(turn, time)[1], str(one))

    turn.several(plan.launch, prepare, verify, ways=("plain", "stream", "graph"))
