"""Deadlines that pass: the rank that waited gets a timeout from the first call to tell it, and where it waited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rank_threads import until_it_fails

import onstream as ons


@pytest.mark.parametrize("wait", ["stream", "world", "collective", "plan", "sync", "copy"])
def test_a_wait_of_ones_own_that_passed_its_deadline_is_a_timeout(wait: str) -> None:
    def rank(world: ons.World) -> None:
        stream, other, team = world.stream(), 1 - world.rank, world.split(0)
        gathered = world.empty(16)
        plan = world.plan("jacobi").send(np.zeros(4), other).recv(np.zeros(4), other).build()
        world.all_reduce(np.ones(8))
        world.all_gather(np.ones(8), gathered, algorithm="copy")
        world.barrier()
        if world.rank == 1:
            until_it_fails(world)
            for call in (world.check, stream.synchronize, world.synchronize, lambda: world.all_reduce(np.ones(8))):
                with pytest.raises(ons.AbortedError):
                    call()
            return
        if wait in ("stream", "world"):
            world.recv(bytearray(8), 1, stream=stream)
        calls: dict[str, Callable[[], Any]] = {
            "stream": stream.synchronize,
            "world": world.synchronize,
            "collective": lambda: world.all_reduce(np.ones(8)),
            "plan": plan.launch,
            "sync": team.sync,
            "copy": lambda: world.all_gather(np.ones(8), gathered, algorithm="copy"),
        }
        with pytest.raises(ons.TimeoutError, match=r"(passed its deadline of|did not come within) 5 s \(timeout_s\)"):
            calls[wait]()
        with pytest.raises(ons.AbortedError):  # it had failed before
            world.check()

    ons.run_threads(2, rank, device="host", timeout_s=5)


@pytest.mark.parametrize("call", ["check", "barrier", "send", "isend", "collective", "launch"])
def test_the_first_call_that_tells_of_ones_own_deadline_is_a_timeout(call: str) -> None:
    """On the stream, whose own synchronize() nobody calls."""

    def rank(world: ons.World) -> None:
        stream, other = world.stream(), 1 - world.rank
        plan = world.plan("jacobi").send(np.zeros(4), other).recv(np.zeros(4), other).build()
        world.all_reduce(np.ones(8))
        if world.rank == 0:
            world.recv(bytearray(8), 1, stream=stream)
        until_it_fails(world)
        calls: dict[str, Callable[[], Any]] = {
            "check": world.check,
            "barrier": world.barrier,
            "send": lambda: world.send(b"1", other),
            "isend": lambda: world.isend(b"1", other, stream=stream),
            "collective": lambda: world.all_reduce(np.ones(8)),
            "launch": lambda: plan.launch(stream),
        }
        told = "rank 0: recv of 8 B from rank 1 with tag 0 passed its deadline of 1 s"
        with pytest.raises(ons.TimeoutError if world.rank == 0 else ons.AbortedError, match=told):
            calls[call]()
        for again in calls.values():
            with pytest.raises(ons.AbortedError, match=told):
                again()

    ons.run_threads(2, rank, device="host", timeout_s=1)


@pytest.mark.parametrize("where", ["stream", "host", "context"])
def test_a_wait_for_a_word_in_vain_says_where_it_looked_and_for_what(where: str) -> None:
    def rank(world: ons.World) -> None:
        stream, segment = world.stream(), world.segment(64)
        context, array = world.context(), world.heap(4096).zeros(8, "u8")
        told = r"word of 8 B to be at least 3 \(at byte 24 of a segment of 64 B\)"
        world.barrier()
        if where == "context":
            told = r"word of 8 B to be at least 3 \(at byte \d+ of a segment of \d+ B\)"
        if world.rank == 1:
            until_it_fails(world)
            with pytest.raises(ons.AbortedError, match=f"rank 0: .*{told} passed its deadline of 1 s"):
                world.check()
            return
        if where == "stream":
            segment.wait(offset=24, value=3, stream=stream)
        calls: dict[str, Callable[[], Any]] = {
            "stream": stream.synchronize,
            "host": lambda: segment.wait(offset=24, value=3, stream="host"),
            "context": lambda: context.wait(array[2:3], 3),
        }
        with pytest.raises(ons.TimeoutError, match=f"{told} passed its deadline of 1 s"):
            calls[where]()

    ons.run_threads(2, rank, device="host", timeout_s=1)
