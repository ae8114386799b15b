"""Ranks as threads of this process, for tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import onstream as ons

PATHS = ["auto", "stage"]  # peers' memory is reached directly; by the owner's proxy
LONG_S = 30  # for events that happen at once where cores are free


def run(size: int, body: Callable[[ons.World], Any], **parameters: Any) -> list[Any]:
    return ons.run_threads(size, body, **{"device": "host", "timeout_s": 10, **parameters})


def pair(first: Callable[[ons.World], Any], second: Callable[[ons.World], Any], **parameters: Any) -> list[Any]:
    """Runs one function a rank in a world of two."""
    parameters.setdefault("device", "host")
    return ons.run_threads(2, lambda world: (first, second)[world.rank](world), **parameters)


def pattern(nbytes: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, nbytes, dtype="u1")


def until_it_fails(world: ons.World) -> None:
    limit = time.monotonic() + LONG_S
    while world.failure() is None:
        assert time.monotonic() < limit, "the world has not failed"
        time.sleep(0.01)


def take_faults_until(world: ons.World, count: int) -> list[Any]:
    """The faults told by the time that there are `count`: the peer's word about a send comes soon, not with a barrier."""
    deadline = time.monotonic() + LONG_S
    told: list[Any] = []
    while len(told) < count and time.monotonic() < deadline:
        told.extend(world.take_faults())
        time.sleep(0.001)
    return told
