"""Tracebacks of ranks on their way to the screen: kept for a moment, so that equal ones are written once.

One mistake in a program raises on every rank at about the same time. A traceback, and all that its rank writes behind it,
waits until the job ends, KEPT_S at most; then equal ones go out as one, with the ranks before it, and that of the rank
where the failure began is last. ONSTREAM_TRACEBACK=full in the environment turns this off.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .rank import LOGGED, TRACEBACK

if TYPE_CHECKING:
    from .relay import Source

KEPT_S = 1.0
MOST_KEPT = 1 << 20  # bytes of all ranks together


def wanted() -> bool:
    return os.environ.get("ONSTREAM_TRACEBACK") != "full"


def names_of(ranks: Sequence[int]) -> str:
    """0, 1, 2, 5 are 0-2, 5."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


@dataclass
class Tracebacks:
    """Those that are kept, by rank."""

    kept: dict[int, tuple[Source, list[bytes]]] = field(default_factory=dict)
    nbytes: int = 0
    due: float | None = None  # when they go out

    def take(self, source: Source, block: bytes) -> bytes:
        """Keeps the lines of a block from a traceback on, and gives back those before, which go out now."""
        start = 0
        if source.rank not in self.kept:
            start = 0 if block.startswith(TRACEBACK) else block.find(b"\n" + TRACEBACK) + 1
            if start == 0 and not block.startswith(TRACEBACK):
                return block
        lines = source.remember(block[start:])
        self.kept.setdefault(source.rank, (source, []))[1].extend(lines)
        self.nbytes += len(block) - start
        now = time.monotonic()
        self.due = now if self.nbytes > MOST_KEPT else self.due or now + KEPT_S
        return block[:start]

    def release(self, last: int | None) -> None:
        """Writes all of them, that of rank `last` at the end."""
        kept, self.kept, self.nbytes, self.due = self.kept, {}, 0, None
        groups: dict[bytes, list[int]] = {}
        for rank, (_, lines) in kept.items():
            groups.setdefault(_telling(lines), []).append(rank)
        for ranks in sorted(groups.values(), key=lambda ranks: last in ranks):
            source, lines = kept[last if last is not None and last in ranks else ranks[0]]
            prefix = source.prefix if len(ranks) == 1 else f"[ranks {names_of(ranks)}] ".encode()
            source.write(_telling(lines).split(b"\n"), prefix)


def _telling(lines: Sequence[bytes]) -> bytes:
    """Without the library's own line of the failure, which the traceback tells."""
    return b"\n".join(line for line in lines if not LOGGED.match(line))
