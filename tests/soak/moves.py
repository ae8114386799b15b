"""Collectives that move: each a table of the bytes that every member gives, and of those that it has behind the call."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from .turn import Turn
from .ways import ALGORITHMS, allowed

KINDS = ("broadcast", "all_gather", "gather", "scatter", "all_to_all", "all_gather_v", "all_to_all_v")
TYPES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "?")


@dataclass(frozen=True)
class Move:
    """The call, equal on every member."""

    kind: str
    dtype: np.dtype[Any]
    count: int  # elements of a part; of the kinds whose parts differ, about so many
    root: int
    in_place: bool
    ranks: list[int]

    @property
    def size(self) -> int:
        return len(self.ranks)

    def part(self, source: int, dest: int) -> int:
        """Elements that one member has for another."""
        if self.kind.endswith("_v"):
            return self.count * ((source * 7 + (dest * 3 if self.kind == "all_to_all_v" else 0)) % 5) // 4
        return self.count

    def given(self, member: int) -> int:
        """Elements of a member's array."""
        if self.kind in ("scatter", "all_to_all", "all_to_all_v"):
            return sum(self.part(member, dest) for dest in range(self.size))
        return self.part(member, 0)

    def got(self, me: int) -> int:
        """Elements of a member's `out`."""
        if self.kind in ("broadcast", "scatter"):
            return self.count
        return sum(self.part(source, me) for source in range(self.size))

    def values(self, turn: Turn, time: int, member: int) -> np.ndarray:
        return turn.numbers_of(self.given(member), self.dtype, time, self.ranks[member])

    def expected(self, turn: Turn, time: int, me: int, before: np.ndarray) -> np.ndarray:
        if self.kind == "gather" and me != self.root:
            return before
        sources = [self.root] if self.kind in ("broadcast", "scatter") else range(self.size)
        parts = []
        for source in sources:
            deals = self.kind in ("scatter", "all_to_all", "all_to_all_v")
            start = sum(self.part(source, dest) for dest in range(me)) if deals else 0
            parts.append(self.values(turn, time, source)[start : start + self.part(source, me)])
        return np.concatenate(parts)

    def counts(self, me: int) -> tuple[list[int], ...]:
        """The arguments behind the arrays."""
        arriving = [self.part(source, me) for source in range(self.size)]
        if self.kind == "all_to_all_v":
            return [self.part(me, dest) for dest in range(self.size)], arriving
        return (arriving,) if self.kind == "all_gather_v" else ()


def _some_move(turn: Turn, ranks: list[int]) -> Move:
    dice, dtype = turn.dice, np.dtype(turn.dice.choice(TYPES))
    kind, count = dice.choice(KINDS), turn.some_bytes(200_000) // dtype.itemsize
    in_place = kind == "broadcast" or (kind == "all_to_all" and dice.random() < 0.3)
    return Move(kind, dtype, count, dice.randrange(len(ranks)), in_place, ranks)


def move(turn: Turn, of: Any, ranks: list[int]) -> None:
    one, me = _some_move(turn, ranks), ranks.index(turn.rank)
    memories, asked = [turn.some_memory(kernels=True) for _ in range(2)], turn.dice.choice(ALGORITHMS)
    mine = turn.array(np.zeros(one.given(me), one.dtype), memories[0])
    out = mine if one.in_place else turn.array(np.zeros(one.got(me), one.dtype), memories[1])
    arrays: tuple[Any, ...] = (mine, *(() if one.in_place else (out,)), *one.counts(me))
    options: dict[str, Any] = {"channel": turn.channel}
    if one.kind in ("broadcast", "gather", "scatter"):
        options["root"] = one.root
    if not one.kind.endswith("_v"):
        if asked == "copy" and "numpy" in memories:
            asked = "auto"  # it needs outputs that peers can address
        options["algorithm"] = allowed(functools.partial(getattr(of.explain, one.kind), *arrays, **options), asked)
    before = turn.numbers_of(one.got(me), one.dtype, "before")

    def prepare(time: int) -> None:
        turn.fill(out, before)
        turn.fill(mine, one.values(turn, time, me))

    def verify(time: int) -> None:
        turn.check(out, one.expected(turn, time, me, before), f"{one} by {options}")

    turn.several(lambda stream: getattr(of, one.kind)(*arrays, stream=stream, **options), prepare, verify)
