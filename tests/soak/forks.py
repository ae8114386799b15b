"""Forked children beside the ranks: no ranks themselves, they end while their parents' world goes on."""

from __future__ import annotations

import gc
import os
import time

import numpy as np

import onstream as ons

from .messages import messages
from .turn import Turn, Wrong

REFUSED = 42  # the code of a child that was told so
CHILD_S = 20.0  # in which a child ends


def forks(turn: Turn) -> None:
    stream, pinned = turn.world.stream(), turn.world.zeros(1000, kind="pinned")
    child = os.fork()
    if child == 0:
        _be_a_child(turn.world, stream, pinned)
    messages(turn)
    turn.check_number(_code_of(child), REFUSED, "the code of a forked child, whose world is closed")


def _be_a_child(world: ons.World, stream: ons.Stream, pinned: np.ndarray) -> None:
    code = 1
    try:
        gc.collect()
        pinned += 1
        for call in (world.barrier, stream.synchronize, lambda: world.send(pinned, 0)):
            try:
                call()
            except ons.ClosedError:
                code = REFUSED
            else:
                code = 2
                break
    finally:
        os._exit(code)


def _code_of(child: int) -> int:
    until = time.monotonic() + CHILD_S
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid == child:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise Wrong(f"a forked child did not end within {CHILD_S:g} s")
