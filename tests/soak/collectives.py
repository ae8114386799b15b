"""Collectives of every kind, type, reduction and algorithm, against numpy: of the world, of teams, of neighbours."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import onstream as ons

from .turn import Turn

INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
FLOATS = ("f2", "f4", "f8")
COMPLEX = ("c8", "c16")
PAIRS = (
    np.dtype([("value", "f4"), ("index", "i4")]),
    np.dtype([("value", "f8"), ("index", "i8")]),
    np.dtype([("value", "i4"), ("index", "i4")]),
    np.dtype([("value", "i8"), ("index", "i8")]),
)
ALGORITHMS = (
    "auto", "auto", "auto", "lines", "two_shot", "wide", "direct", "copy", "ring", "tree", "halving_doubling",
    "hierarchical",
)  # fmt: skip
REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}
REDUCING = ("all_reduce", "all_reduce", "reduce", "scan", "exclusive_scan", "reduce_scatter")
MOVING = ("broadcast", "all_gather", "gather", "scatter", "all_to_all", "all_gather_v", "all_to_all_v")


def collectives(turn: Turn) -> None:
    for _ in range(turn.dice.randint(1, 5)):
        one_collective(turn, turn.world, list(range(turn.size)))


def one_collective(turn: Turn, of: Any, ranks: list[int]) -> None:
    """One of `of`, a world or a team, which has these ranks of the world."""
    if turn.dice.random() < 0.5:
        reduction(turn, of, ranks)
    else:
        move(turn, of, ranks)


def allowed(explain: Callable[..., Any], algorithm: str) -> str:
    """The algorithm, or auto where it cannot do the call, which all ranks find alike."""
    try:
        explain(algorithm=algorithm)
    except (ons.InvalidArgumentError, ons.UnsupportedError):
        return "auto"
    return algorithm


# --- reductions ---


def some_reduction(turn: Turn) -> tuple[Any, str]:
    """An element type and a reduction that it has."""
    kind = turn.dice.random()
    if kind < 0.1:
        return np.dtype(turn.dice.choice(PAIRS)), turn.dice.choice(("minloc", "maxloc"))
    if kind < 0.2:
        return np.dtype("?"), turn.dice.choice(("min", "max", "band", "bor", "bxor"))
    if kind < 0.3:
        return np.dtype(turn.dice.choice(COMPLEX)), turn.dice.choice(("sum", "prod"))
    if kind < 0.6:
        return np.dtype(turn.dice.choice(FLOATS)), turn.dice.choice(("sum", "sum", "prod", "min", "max", "avg", "own"))
    return np.dtype(turn.dice.choice(INTEGERS)), turn.dice.choice((*REDUCTIONS, "premulsum", "own"))


def given_by(turn: Turn, count: int, dtype: np.dtype[Any], op: str, *names: Any) -> np.ndarray:
    if dtype.names is not None:
        pairs = np.zeros(count, dtype)
        pairs["value"] = turn.bytes_of(count, *names) % 5
        pairs["index"] = turn.bytes_of(count, "index", *names)
        return pairs
    if op == "prod":
        return (turn.bytes_of(count, *names) % 2 + 1).astype(dtype)
    if dtype.kind == "b":
        return turn.bytes_of(count, *names) % 2 == 1
    return turn.numbers_of(count, dtype, *names)


def better(op: str) -> Callable[[Any, Any], Any]:
    def pick(first: Any, second: Any) -> Any:
        less = second["value"] < first["value"] if op == "minloc" else second["value"] > first["value"]
        tie = (second["value"] == first["value"]) & (second["index"] < first["index"])
        return np.where(less | tie, second, first)

    return pick


def reduced(given: list[np.ndarray], op: str, members: int) -> np.ndarray:
    dtype = given[0].dtype
    if op in ("minloc", "maxloc"):
        return functools.reduce(better(op), given)
    if op == "premulsum":
        given = [(one * (place % 3)).astype(dtype) for place, one in enumerate(given)]
    total = functools.reduce(REDUCTIONS.get(op, np.add), given)
    return (total / members if op == "avg" else total).astype(dtype)


def reduction(turn: Turn, of: Any, ranks: list[int]) -> None:
    dice, size = turn.dice, len(ranks)
    kind, (dtype, op) = dice.choice(REDUCING), some_reduction(turn)
    if op == "avg" and size & (size - 1):
        op = "sum"  # elsewhere the quotient is rounded
    if op == "own" and turn.world.device != "host":
        op = "sum"
    per = max(1, turn.some_bytes(400_000) // dtype.itemsize // (size if kind == "reduce_scatter" else 1))
    count = per * size if kind == "reduce_scatter" else per
    root, in_place = dice.randrange(size), dice.random() < 0.4 and kind != "reduce_scatter"
    memories = [turn.some_memory(kernels=True) for _ in range(2)]
    asked = dice.choice(ALGORITHMS)
    me = ranks.index(turn.rank)
    mine = turn.array(np.zeros(count, dtype), memories[0])
    out = mine if in_place else turn.array(np.zeros(per, dtype), memories[1])
    options: dict[str, Any] = {"op": np.add if op == "own" else op, "channel": turn.channel}
    if op == "premulsum":
        options["factor"] = me % 3
    if kind == "reduce":
        options["root"] = root
    if kind == "exclusive_scan":
        options["exclusive"] = True
    method = kind.removeprefix("exclusive_")
    arrays = (mine,) if in_place else (mine, out)
    options["algorithm"] = allowed(functools.partial(getattr(of.explain, method), *arrays, **options), asked)
    before = given_by(turn, per, dtype, op, "before")

    def prepare(time: int) -> None:
        turn.fill(out, before)
        turn.fill(mine, given_by(turn, count, dtype, op, time, ranks[me]))

    def verify(time: int) -> None:
        given = [given_by(turn, count, dtype, op, time, rank) for rank in ranks]
        unchanged = given[me] if in_place else before
        if kind == "all_reduce" or (kind == "reduce" and me == root):
            expected = reduced(given, op, size)
        elif kind == "reduce":
            expected = unchanged
        elif kind == "reduce_scatter":
            expected = reduced(given, op, size)[me * per : (me + 1) * per]
        else:
            some = given[: me + 1] if kind == "scan" else given[:me]
            expected = reduced(some, op, size) if some else unchanged
        turn.check(out, expected, f"{kind} of {count} {dtype} by {options} of ranks {ranks}, in place: {in_place}")

    turn.several(lambda stream: getattr(of, method)(*arrays, stream=stream, **options), prepare, verify)


# --- moves ---


def move(turn: Turn, of: Any, ranks: list[int]) -> None:
    dice, size = turn.dice, len(ranks)
    kind, dtype = dice.choice(MOVING), np.dtype(dice.choice((*INTEGERS, *FLOATS, *COMPLEX)))
    count, root = turn.some_bytes(200_000) // dtype.itemsize, dice.randrange(size)
    memories = [turn.some_memory(kernels=True) for _ in range(2)]
    asked, salt = dice.choice(ALGORITHMS), dice.randrange(1 << 20)
    if kind.endswith("_v"):
        asked = "auto"
    me = ranks.index(turn.rank)

    def dealt(source: int, dest: int) -> int:
        """Elements from one member to another, of the kinds whose parts differ."""
        return (count * ((source * 7 + dest * 3 + salt) % 5)) // 4

    def numbers(n: int, time: int, member: int) -> np.ndarray:
        return turn.numbers_of(n, dtype, time, ranks[member], salt)

    lengths = {
        "broadcast": (count, count),
        "all_gather": (count, count * size),
        "gather": (count, count * size),
        "scatter": (count * size, count),
        "all_to_all": (count * size, count * size),
        "all_gather_v": (dealt(me, 0), sum(dealt(one, 0) for one in range(size))),
        "all_to_all_v": (sum(dealt(me, one) for one in range(size)), sum(dealt(one, me) for one in range(size))),
    }[kind]
    mine = turn.array(np.zeros(lengths[0], dtype), memories[0])
    in_place = kind == "broadcast" or (kind == "all_to_all" and salt % 3 == 0)
    out = mine if in_place else turn.array(np.zeros(lengths[1], dtype), memories[1])
    arrays: tuple[Any, ...] = (mine,) if in_place else (mine, out)
    options: dict[str, Any] = {"channel": turn.channel}
    if kind == "all_gather_v":
        arrays = (mine, out, [dealt(one, 0) for one in range(size)])
    elif kind == "all_to_all_v":
        arrays = (mine, out, [dealt(me, one) for one in range(size)], [dealt(one, me) for one in range(size)])
    if kind in ("broadcast", "gather", "scatter"):
        options["root"] = root
    if not kind.endswith("_v"):
        if "numpy" in memories and asked == "copy":
            asked = "auto"  # needs outputs that peers can address
        options["algorithm"] = allowed(functools.partial(getattr(of.explain, kind), *arrays, **options), asked)
    before = turn.numbers_of(lengths[1], dtype, "before")

    def prepare(time: int) -> None:
        turn.fill(out, before)
        turn.fill(mine, numbers(lengths[0], time, me))

    def part(time: int, member: int, at: int, n: int, whole: int) -> np.ndarray:
        return numbers(whole, time, member)[at : at + n]

    def verify(time: int) -> None:
        if kind == "broadcast":
            expected = numbers(count, time, root)
        elif kind in ("gather", "scatter") and me != root and kind == "gather":
            expected = before
        elif kind in ("all_gather", "gather"):
            expected = np.concatenate([numbers(count, time, one) for one in range(size)])
        elif kind == "scatter":
            expected = part(time, root, me * count, count, count * size)
        elif kind == "all_to_all":
            expected = np.concatenate([part(time, one, me * count, count, count * size) for one in range(size)])
        elif kind == "all_gather_v":
            expected = np.concatenate([numbers(dealt(one, 0), time, one) for one in range(size)])
        else:
            expected = np.concatenate(
                [
                    part(
                        time,
                        one,
                        sum(dealt(one, dest) for dest in range(me)),
                        dealt(one, me),
                        sum(dealt(one, dest) for dest in range(size)),
                    )
                    for one in range(size)
                ]
            )
        turn.check(out, expected, f"{kind} of {count} {dtype} by {options} of ranks {ranks}, in place: {in_place}")

    turn.several(lambda stream: getattr(of, kind)(*arrays, stream=stream, **options), prepare, verify)


# --- teams and neighbourhoods ---


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
            opposite = edge ^ 1  # what comes from the lower neighbour it has sent to its upper one
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
