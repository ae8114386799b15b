"""A Turn: one block of an episode as one rank sees it, with its dice, its values and its judge.

The dice fall the same on every rank, so a block draws from them nothing that depends on its rank; values are a function of
the block and of names such as (turn, source). Families are functions of a Turn.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from memories import LIBRARIES, array_of, fill, values_of

import onstream as ons

MOST = 2 << 20  # bytes of one message
_TABLE = np.random.default_rng(7).integers(0, 256, MOST + (1 << 20), dtype="u1")
_EDGES = (0, 8, 64, 128, 256, 1024, 4096, 8192, 12280, 16384, 32768, 65536, 131072)  # near which paths change


class Wrong(Exception):
    """A result that is not the one that the seed says."""


@dataclass
class Score:
    """The checks of a rank, by family. For the self-test one check expects a wrong value."""

    checked: Counter[str] = field(default_factory=Counter)
    spoilt_at: int | None = None

    def spoils(self) -> bool:
        return self.spoilt_at is not None and sum(self.checked.values()) > self.spoilt_at


@dataclass
class Turn:
    world: ons.World
    dice: random.Random
    name: str  # of the block, with the episode's seed
    family: str
    score: Score
    tags: Sequence[int] = range(62)
    channel: int = 0
    deadline_s: float = 10
    size: int = 0
    rank: int = 0

    def __post_init__(self) -> None:
        self.size, self.rank = self.world.size, self.world.rank

    def inside(self, world: ons.World) -> Turn:
        """The same turn in another world."""
        return replace(self, world=world)

    def fork(self, name: Any) -> Turn:
        """A part of the turn with dice of its own: ranks that do not take part have thrown as often afterwards."""
        inner = f"{self.name}.{name}"
        return replace(self, name=inner, dice=random.Random(inner))

    # --- values ---

    def bytes_of(self, nbytes: int, *names: Any) -> np.ndarray:
        """The bytes that have this name in this block, on every rank."""
        start = zlib.crc32(repr((self.name, names)).encode()) % (1 << 20)
        return _TABLE[start : start + nbytes]

    def numbers_of(self, count: int, dtype: Any, *names: Any) -> np.ndarray:
        """Whole numbers from 0 to 10, whose sums every type has exactly."""
        return (self.bytes_of(count, *names) % 11).astype(dtype)

    def some_bytes(self, most: int = MOST) -> int:
        kind = self.dice.random()
        if kind < 0.5:
            size = self.dice.choice(_EDGES) + self.dice.choice((-1, 0, 0, 1, 7))
        elif kind < 0.85:
            size = self.dice.randint(0, 1 << 15)
        else:
            size = int(2 ** self.dice.uniform(12, 21))
        return max(0, min(size, most))

    def some_tag(self) -> int:
        return self.dice.choice(self.tags)

    # --- memory ---

    def some_memory(self, *, kernels: bool = False, peers: bool = False) -> str:
        """A kind of memory; if asked, one that kernels of the device, or those of other processes, reach."""
        kinds = ["pinned", "device"] if peers else ["numpy", "pinned", "device"]
        if self.world.device != "host":
            kinds = ["pinned", "managed", *LIBRARIES] if kernels else [*kinds, "managed", *LIBRARIES]
        return self.dice.choice(kinds)

    def array(self, values: np.ndarray, memory: str) -> Any:
        return array_of(self.world, values, memory)

    def fill(self, array: Any, values: np.ndarray) -> None:
        fill(self.world, array, values)

    # --- the judge ---

    def check(self, array: Any, expected: np.ndarray, what: str) -> None:
        """Raises Wrong unless the array has the expected bytes."""
        wanted = np.ascontiguousarray(expected).tobytes()
        self.score.checked[self.family] += 1
        if self.score.spoils() and wanted:
            wanted = bytes([wanted[0] ^ 1]) + wanted[1:]
            self.score.spoilt_at = None
        got = np.ascontiguousarray(values_of(self.world, array)).tobytes()
        if got != wanted:
            raise Wrong(f"{self.name} on rank {self.rank} of {self.size}: {what}: {_difference(got, wanted)}")

    def check_number(self, got: Any, expected: Any, what: str) -> None:
        self.score.checked[self.family] += 1
        if got != expected:
            raise Wrong(f"{self.name} on rank {self.rank} of {self.size}: {what} is {got!r}, not {expected!r}")

    # --- ways to run ---

    def several(
        self,
        enqueue: Callable[[Any], Any],
        prepare: Callable[[int], None],
        verify: Callable[[int], None],
        *,
        ways: Sequence[str] = ("plain", "host", "stream", "graph"),
    ) -> None:
        """Enqueues some times in one of the ways there are; each time prepare(time) comes before, verify(time) behind."""
        way, times = self.dice.choice(ways), self.dice.randint(1, 3)
        stream = self.world.stream() if way in ("stream", "graph") else None
        graph = None
        if way == "graph":
            with self.world.capture(stream) as graph:
                enqueue(stream)
            times += 1
        for time in range(times):
            prepare(time)
            if graph is not None:
                graph.launch()
            else:
                enqueue("host" if way == "host" else stream)
            if stream is not None:
                stream.synchronize()
            elif self.world.device != "host":
                self.world.synchronize()
            verify(time)


def _difference(got: bytes, wanted: bytes) -> str:
    if len(got) != len(wanted):
        return f"{len(got)} bytes, not {len(wanted)}"
    differ = np.flatnonzero(np.frombuffer(got, "u1") != np.frombuffer(wanted, "u1"))
    first = int(differ[0])
    return (
        f"{len(differ)} of {len(wanted)} bytes differ, from byte {first} to {int(differ[-1])}; there "
        f"{got[first : first + 8].hex()} instead of {wanted[first : first + 8].hex()}"
    )
