"""Collectives of every kind, of the world and of teams: reductions here, moves beside (moves.py)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .moves import move
from .turn import Turn
from .ways import ALGORITHMS, allowed

INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
FLOATS = ("f2", "f4", "f8")
COMPLEX = ("c8", "c16")
PAIRS = (
    np.dtype([("value", "f4"), ("index", "i4")]),
    np.dtype([("value", "f8"), ("index", "i8")]),
    np.dtype([("value", "i4"), ("index", "i4")]),
    np.dtype([("value", "i8"), ("index", "i8")]),
)
REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}
KINDS = ("all_reduce", "all_reduce", "reduce", "scan", "exclusive_scan", "reduce_scatter")


def collectives(turn: Turn) -> None:
    for _ in range(turn.dice.randint(1, 5)):
        one_collective(turn, turn.world, list(range(turn.size)))


def one_collective(turn: Turn, of: Any, ranks: list[int]) -> None:
    """One of `of`, a world or a team, which has these ranks of the world."""
    if turn.dice.random() < 0.5:
        reduction(turn, of, ranks)
    else:
        move(turn, of, ranks)


@dataclass(frozen=True)
class Reduction:
    """The call, equal on every member."""

    kind: str
    dtype: np.dtype[Any]
    op: str
    per: int  # elements that a member gets
    root: int
    in_place: bool
    ranks: list[int]

    @property
    def given(self) -> int:
        """Elements that a member gives."""
        return self.per * len(self.ranks) if self.kind == "reduce_scatter" else self.per

    def values(self, turn: Turn, count: int, *names: Any) -> np.ndarray:
        """Such that no order of adding rounds."""
        some = turn.bytes_of(count, *names)
        if self.dtype.names is not None:
            pairs = np.zeros(count, self.dtype)
            pairs["value"], pairs["index"] = some % 5, turn.bytes_of(count, "index", *names)
            return pairs
        if self.dtype.kind == "b":
            return some % 2 == 1
        return (some % 2 + 1 if self.op == "prod" else some % 11).astype(self.dtype)

    def of(self, given: list[np.ndarray]) -> np.ndarray:
        """The reduction by numpy."""
        if self.op in ("minloc", "maxloc"):
            return functools.reduce(functools.partial(_better, self.op), given)
        if self.op == "premulsum":
            given = [(one * _factor(member)).astype(self.dtype) for member, one in enumerate(given)]
        total = functools.reduce(REDUCTIONS.get(self.op, np.add), given)
        return (total / len(self.ranks) if self.op == "avg" else total).astype(self.dtype)

    def expected(self, given: list[np.ndarray], me: int, unchanged: np.ndarray) -> np.ndarray:
        """A member's values behind the call."""
        if self.kind == "all_reduce" or (self.kind == "reduce" and me == self.root):
            return self.of(given)
        if self.kind == "reduce_scatter":
            return self.of(given)[me * self.per : (me + 1) * self.per]
        before = {"scan": me + 1, "exclusive_scan": me}.get(self.kind, 0)
        return self.of(given[:before]) if before else unchanged

    def options(self, me: int, channel: int) -> dict[str, Any]:
        options: dict[str, Any] = {"op": np.add if self.op == "own" else self.op, "channel": channel}
        if self.op == "premulsum":
            options["factor"] = _factor(me)
        if self.kind == "reduce":
            options["root"] = self.root
        if self.kind == "exclusive_scan":
            options["exclusive"] = True
        return options


def _factor(member: int) -> int:
    return member % 3


def _better(op: str, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    better = second["value"] < first["value"] if op == "minloc" else second["value"] > first["value"]
    tie = (second["value"] == first["value"]) & (second["index"] < first["index"])
    return np.where(better | tie, second, first)


def _some_type_and_op(turn: Turn) -> tuple[Any, str]:
    """An element type and a reduction that it has."""
    dice, kind = turn.dice, turn.dice.random()
    if kind < 0.1:
        return np.dtype(dice.choice(PAIRS)), dice.choice(("minloc", "maxloc"))
    if kind < 0.2:
        return np.dtype("?"), dice.choice(("min", "max", "band", "bor", "bxor"))
    if kind < 0.3:
        return np.dtype(dice.choice(COMPLEX)), dice.choice(("sum", "prod"))
    if kind < 0.6:
        return np.dtype(dice.choice(FLOATS)), dice.choice(("sum", "sum", "prod", "min", "max", "avg", "own"))
    return np.dtype(dice.choice(INTEGERS)), dice.choice((*REDUCTIONS, "premulsum", "own"))


def _some_reduction(turn: Turn, ranks: list[int]) -> Reduction:
    dice, size, (dtype, op) = turn.dice, len(ranks), _some_type_and_op(turn)
    kind = dice.choice(KINDS)
    if op == "avg" and size & (size - 1):
        op = "sum"  # the quotient would be rounded
    if op == "own" and turn.world.device != "host":
        op = "sum"
    shares = size if kind == "reduce_scatter" else 1
    per = max(1, turn.some_bytes(400_000) // dtype.itemsize // shares)
    in_place = dice.random() < 0.4 and kind != "reduce_scatter"
    return Reduction(kind, dtype, op, per, dice.randrange(size), in_place, ranks)


def reduction(turn: Turn, of: Any, ranks: list[int]) -> None:
    one, me = _some_reduction(turn, ranks), ranks.index(turn.rank)
    memories = [turn.some_memory(kernels=True) for _ in range(2)]
    mine = turn.array(np.zeros(one.given, one.dtype), memories[0])
    out = mine if one.in_place else turn.array(np.zeros(one.per, one.dtype), memories[1])
    arrays, method = (mine,) if one.in_place else (mine, out), one.kind.removeprefix("exclusive_")
    options, asked = one.options(me, turn.channel), turn.dice.choice(ALGORITHMS)
    options["algorithm"] = allowed(functools.partial(getattr(of.explain, method), *arrays, **options), asked)
    before = one.values(turn, one.per, "before")

    def given(time: int, member: int) -> np.ndarray:
        return one.values(turn, one.given, time, ranks[member])

    def prepare(time: int) -> None:
        turn.fill(out, before)
        turn.fill(mine, given(time, me))

    def verify(time: int) -> None:
        unchanged = given(time, me) if one.in_place else before
        expected = one.expected([given(time, member) for member in range(len(ranks))], me, unchanged)
        turn.check(out, expected, f"{one} by {options}")

    turn.several(lambda stream: getattr(of, method)(*arrays, stream=stream, **options), prepare, verify)
