"""Plans of every op, and halos in one to three dimensions, against numpy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .collectives import factors
from .turn import Turn

GHOST = -1.0  # what ghost cells hold before an exchange
WORDS = 64  # bytes of a rank's words in the segment of a plan: a counter for each source, 8 ranks
SLOT = 4096  # bytes that each source may put


def plans(turn: Turn) -> None:
    """Strided messages, puts with signals and their waits, and a sum behind them."""
    dice, size, me = turn.dice, turn.size, turn.rank
    table = np.arange(48, dtype="f4").reshape(6, 8)
    messages = [(dice.randrange(size), dice.randrange(size), turn.some_lane()) for _ in range(dice.randint(1, 12))]
    puts = sorted({(dice.randrange(size), dice.randrange(size)) for _ in range(dice.randint(0, size))})
    path = dice.choice(("auto", "auto", "auto", "store", "copy", "memop"))
    memory = turn.some_memory(kernels=True, peers=path != "auto")
    sums = dice.random() < 0.5
    segment = turn.world.segment(WORDS + SLOT * size)
    builder, leaving, coming, sources = turn.world.plan(turn.name), {}, {}, {}
    if not puts and not sums:
        builder.use_path(path)
    for number, (source, dest, lane) in enumerate(messages):
        if source == me:
            leaving[number] = turn.array(table, memory)
            builder.send(leaving[number][:, 2:5], dest, lane=lane)
        if dest == me:
            coming[number] = turn.array(np.zeros((8, 6), "f4"), memory)
            builder.recv(coming[number].T[:, 1:4], source, lane=lane)
    for source, dest in puts:
        if source == me:
            sources[dest] = turn.array(np.zeros(SLOT, "u1"), memory)
            builder.put(segment.array(SLOT, "u1", offset=WORDS + SLOT * me), sources[dest], dest)
            builder.signal(segment.array(1, "u8", offset=8 * me), dest)
        if dest == me:
            builder.wait(segment.array(1, "u8", offset=8 * source))
    total = turn.array(np.zeros(300), memory)
    if sums:
        builder.collectives().all_reduce(total)
    plan = builder.build()

    def prepare(time: int) -> None:
        for number, array in leaving.items():
            turn.fill(array, table + 100 * number + 10_000 * time)
        for array in coming.values():
            turn.fill(array, np.zeros((8, 6), "f4"))
        for dest, array in sources.items():
            turn.fill(array, turn.bytes_of(SLOT, time, me, dest))
        turn.fill(total, np.full(300, float(me + time)))
        turn.world.barrier()  # a peer that is ahead stores here

    def verify(time: int) -> None:
        for number, array in coming.items():
            expected = np.zeros((6, 8), "f4")
            expected[:, 1:4] = (table + 100 * number + 10_000 * time)[:, 2:5]
            turn.check(array, expected.T, f"message {number} of {messages} of a plan, launch {time}")
        for source, dest in puts:
            if dest == me:
                at = WORDS + SLOT * source
                turn.check(segment.local()[at : at + SLOT], turn.bytes_of(SLOT, time, source, me), f"put from {source}")
        if sums:
            turn.check(total, np.full(300, float(sum(range(size)) + size * time)), "the sum of a plan")

    turn.several(plan.launch, prepare, verify, ways=("plain", "stream", "graph"))
    turn.world.barrier()  # the segment ends with this function


# --- halos ---


def halos(turn: Turn) -> None:
    dice = turn.dice
    dimensions = dice.randint(1, 3)
    grid = factors(turn, dimensions)
    ghost = [dice.choice((1, 1, 2, 0)) for _ in grid]
    periodic = [dice.random() < 0.5 for _ in grid]
    corners, dtype = dice.random() < 0.5, dice.choice(("f4", "f8", "i4", "i2"))
    most = {1: 5000, 2: 60, 3: 14}[dimensions]
    local = [dice.randint(max(2, width), most) for width in ghost]
    memory = turn.some_memory(kernels=True)
    array = turn.array(np.zeros([n + 2 * width for n, width in zip(local, ghost, strict=True)], dtype), memory)
    lane = turn.some_lane()
    plan = turn.world.halo(array, ghost=ghost, grid=grid, periodic=periodic, corners=corners, lane=lane)
    place = np.unravel_index(turn.rank, grid)

    def expected_of(time: int) -> tuple[np.ndarray, np.ndarray]:
        """The block before the exchange and behind it."""
        whole = _whole(turn, grid, local, dtype, time)
        for axis, width in enumerate(ghost):
            pads = [(width, width) if one == axis else (0, 0) for one in range(dimensions)]
            if periodic[axis]:
                whole = np.pad(whole, pads, mode="wrap")
            else:
                whole = np.pad(whole, pads, constant_values=GHOST)
        block = whole[tuple(slice(at * n, at * n + n + 2 * w) for at, n, w in zip(place, local, ghost, strict=True))]
        inside = tuple(slice(w, w + n) for n, w in zip(local, ghost, strict=True))
        before = np.full(block.shape, GHOST).astype(dtype)
        before[inside] = block[inside]
        return before, block if corners else _faces_alone(before, block, ghost, inside)

    def prepare(time: int) -> None:
        turn.fill(array, expected_of(time)[0])
        turn.world.barrier()  # a neighbour that is ahead fills these cells

    def verify(time: int) -> None:
        what = f"halo of {local} {dtype}, ghost {ghost}, grid {grid}, periodic {periodic}, corners {corners}"
        turn.check(array, expected_of(time)[1], what)

    turn.several(plan.launch, prepare, verify, ways=("plain", "stream", "graph"))


def _whole(turn: Turn, grid: list[int], local: list[int], dtype: str, time: int) -> np.ndarray:
    shape = [ranks * n for ranks, n in zip(grid, local, strict=True)]
    return turn.numbers_of(int(np.prod(shape)), dtype, time).reshape(shape)


def _faces_alone(before: np.ndarray, block: np.ndarray, ghost: list[int], inside: tuple[slice, ...]) -> np.ndarray:
    """Of the block's ghost cells those beside a face; edges and corners stay."""
    result = before.copy()
    for axis, side in itertools.product(range(len(ghost)), (0, 1)):
        width = ghost[axis]
        edge: Any = slice(0, width) if side == 0 else slice(before.shape[axis] - width, None)
        face = tuple(edge if one == axis else inside[one] for one in range(len(ghost)))
        result[face] = block[face]
    return result
