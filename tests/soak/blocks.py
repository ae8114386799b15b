"""The families by name, and blocks of them one after the other in one world."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from typing import Any

import onstream as ons

from .collectives import collectives
from .forks import forks
from .halos import halos
from .messages import messages, streams
from .one_sided import one_sided
from .plans import plans
from .teams import neighbourhoods, teams
from .turn import Turn, Wrong


def worlds(turn: Turn) -> None:
    """Another world of the same ranks beside the first one, and both are used."""
    turn.world.barrier()
    limits = {"timeout_s": turn.deadline_s, "bootstrap_timeout_s": turn.deadline_s}  # a rank may end before it starts
    with ons.init(launch=turn.world.launch, device=turn.world.device, **limits) as other:
        for part in range(turn.dice.randint(1, 3)):
            inner = turn.fork(part)
            family = inner.dice.choice((messages, streams, collectives, one_sided))
            family(inner.inside(other) if inner.dice.random() < 0.7 else inner)


BLOCKS: dict[str, Callable[[Turn], None]] = {
    "messages": messages,
    "streams": streams,
    "plans": plans,
    "halos": halos,
    "collectives": collectives,
    "teams": teams,
    "neighbourhoods": neighbourhoods,
    "one_sided": one_sided,
    "worlds": worlds,
    "forks": forks,
}
ENDLESS_S = 120  # within which a disturbance has ended blocks without end
IN_THREADS = ("messages", "streams", "collectives")  # whose hosts meet nowhere but in channels of their own


def turns(names: tuple[str, ...], name: str, count: int | None, make: Callable[..., Turn]) -> None:
    """Runs `count` blocks, or blocks without end; make(family=..., name=..., dice=...) gives the turn of each."""
    numbers: Any = itertools.count() if count is None else range(count)
    until = time.monotonic() + ENDLESS_S
    for number in numbers:
        if count is None and time.monotonic() > until:
            raise Wrong(f"nothing failed in {ENDLESS_S:g} s")
        dice = random.Random(f"{name}.{number}")
        family = dice.choice(names)
        BLOCKS[family](make(family=family, name=f"{name}.{number}.{family}", dice=dice))
