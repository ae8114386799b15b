"""Teams of some of the ranks, and neighbourhoods in grids and graphs."""

from __future__ import annotations

import numpy as np

from .collectives import one_collective
from .turn import Turn


def teams(turn: Turn) -> None:
    order = turn.dice.sample(range(turn.size), turn.size)
    cut = turn.dice.randint(1, turn.size)
    groups = [order[:cut], order[cut:]]
    mine = next(group for group in groups if turn.rank in group)
    if turn.dice.random() < 0.5:
        team = turn.world.team(mine)
    else:
        team = turn.world.split(groups.index(mine), key=mine.index(turn.rank))
    turn.check_number(list(team.ranks), mine, "the ranks of a team")
    inner = turn.fork(groups.index(mine))
    for _ in range(inner.dice.randint(1, 4)):
        one_collective(inner, team, mine)
        if inner.dice.random() < 0.3:
            team.sync()


def neighbourhoods(turn: Turn) -> None:
    turn.dice.choice((grid_of_neighbours, graph_of_neighbours))(turn)


def factors(turn: Turn, dimensions: int) -> list[int]:
    """A grid of all ranks."""
    grid, left = [], turn.size
    for _ in range(dimensions - 1):
        grid.append(turn.dice.choice([one for one in range(1, left + 1) if left % one == 0]))
        left //= grid[-1]
    grid.append(left)
    return grid


def grid_of_neighbours(turn: Turn) -> None:
    grid = factors(turn, turn.dice.randint(1, 3))
    periodic = [turn.dice.random() < 0.5 for _ in grid]
    hood = turn.world.neighbourhood(grid, periodic=periodic)
    count, memory = turn.some_bytes(100_000) // 4, turn.some_memory(kernels=True)
    edges = 2 * len(grid)
    mine, faces = (turn.array(np.zeros(edges * count, "i4"), memory) for _ in range(2))
    before = np.full(count, 77, "i4")

    def values(time: int, rank: int) -> np.ndarray:
        return turn.numbers_of(edges * count, "i4", time, rank)

    def prepare(time: int) -> None:
        turn.fill(mine, values(time, turn.rank))
        turn.fill(faces, np.tile(before, edges))

    def verify(time: int) -> None:
        parts = []
        for edge, source in enumerate(hood.sources):
            opposite = edge ^ 1  # the lower neighbour's data is the part that it sent to its upper one
            sent = before if source < 0 else values(time, source)[opposite * count : (opposite + 1) * count]
            parts.append(sent)
        turn.check(faces, np.concatenate(parts), f"all_to_all of {count} i4 in a grid {grid}, periodic {periodic}")

    turn.several(lambda stream: hood.all_to_all(mine, faces, stream=stream), prepare, verify)


def graph_of_neighbours(turn: Turn) -> None:
    dice, size = turn.dice, turn.size
    edges = sorted({(dice.randrange(size), dice.randrange(size)) for _ in range(dice.randint(1, 3 * size))})
    lengths = {edge: turn.some_bytes(60_000) for edge in edges}
    sources = [source for source, dest in edges if dest == turn.rank]
    destinations = [dest for source, dest in edges if source == turn.rank]
    hood = turn.world.neighbourhood(sources=sources, destinations=destinations)
    memory = turn.some_memory(kernels=True)
    leaving = [lengths[turn.rank, dest] for dest in destinations]
    arriving = [lengths[source, turn.rank] for source in sources]
    mine, came = (turn.array(np.zeros(sum(one), "u1"), memory) for one in (leaving, arriving))

    def joined(parts: list[np.ndarray]) -> np.ndarray:
        return np.concatenate([np.zeros(0, "u1"), *parts])

    def along(time: int, source: int, dest: int) -> np.ndarray:
        return turn.bytes_of(lengths[source, dest], time, source, dest)

    def prepare(time: int) -> None:
        turn.fill(mine, joined([along(time, turn.rank, dest) for dest in destinations]))
        turn.fill(came, np.zeros(sum(arriving), "u1"))

    def verify(time: int) -> None:
        expected = joined([along(time, source, turn.rank) for source in sources])
        turn.check(came, expected, f"all_to_all_v along the edges {edges}")

    turn.several(lambda stream: hood.all_to_all_v(mine, came, leaving, arriving, stream=stream), prepare, verify)
