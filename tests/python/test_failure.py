"""Failure is a value: a death, a missing message or an abort reaches every rank in time, and life goes on."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs import run_job
from memories import DEVICES

import onstream as ons

DEATH = """
    import json, os, signal, sys, time
    import onstream as ons

    world = ons.init(device="host")
    rank = world.rank
    box = bytearray(64)
    stream = world.stream()
    if rank == 2:
        for peer in (0, 1):
            world.recv(box, peer)
        os.kill(os.getpid(), signal.SIGKILL)
    world.send(b"go", 2)
    started = time.monotonic()
    try:
        HOW
    except ons.Error as error:
        told = {"type": type(error).__name__, "text": str(error), "after_s": time.monotonic() - started}
    told["reason"] = world.failure().reason
    world.close()
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as again:
        again.send(b"alive", 0)
        told["again"] = again.recv(bytearray(5), 0)
    with open(f"rank{rank}.json", "w") as out:
        json.dump(told, out)
"""

WAYS = {
    "recv": "world.recv(box, 2, lane=5)",
    "wait": "world.irecv(box, 2, lane=5).wait()",
    "stream": "world.recv(box, 2, lane=5, stream=stream); stream.synchronize()",
    "large send": "world.send(bytes(10**6), 2, lane=5)",
    "barrier": "world.barrier()",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_killed_rank_is_named_within_two_seconds(way: str, tmp_path: Path) -> None:
    outcome = run_job(tmp_path, 3, DEATH.replace("HOW", WAYS[way]))
    assert outcome.code != 0
    for rank in (0, 1):
        told = json.loads((tmp_path / f"rank{rank}.json").read_text())
        assert told["type"] == "AbortedError"
        assert "rank 2" in told["reason"]
        assert "rank 2" in told["text"]
        if way in ("recv", "wait", "large send"):
            assert "lane 5" in told["text"]
        assert told["after_s"] < 2
        assert told["again"] == 5


def test_a_rank_that_raises_tells_the_others(tmp_path: Path) -> None:
    outcome = run_job(
        tmp_path,
        2,
        """
        import onstream as ons

        world = ons.init(device="host")
        if world.rank == 1:
            raise KeyError("the real cause")
        world.recv(bytearray(8), 1)
        """,
    )
    assert outcome.code != 0
    assert "rank 1 ended by KeyError: 'the real cause'" in outcome.out + outcome.err


@pytest.mark.parametrize("device", DEVICES)
def test_a_missing_message_ends_at_the_deadline_naming_itself(device: str) -> None:
    def rank(world: ons.World) -> str | None:
        if world.rank == 1:
            while world.failure() is None:
                pass
            with pytest.raises(ons.AbortedError, match="recv of 24 B from rank 1 on lane 4"):
                world.recv(bytearray(1), 0, lane=9)
            return None
        started = time.monotonic()
        with pytest.raises(ons.TimeoutError) as caught:
            world.recv(bytearray(24), 1, lane=4)
        assert 0.2 < time.monotonic() - started < 5
        return str(caught.value)

    text = ons.run_threads(2, rank, device=device, timeout_s=0.5)[0]
    assert text is not None
    assert "rank 0: recv of 24 B from rank 1 on lane 4" in text


def test_a_cycle_of_sends_is_told_by_name() -> None:
    def rank(world: ons.World) -> str:
        with pytest.raises((ons.TimeoutError, ons.AbortedError)) as caught:
            world.send(np.zeros(10**6, "u1"), 1 - world.rank)
        return str(caught.value)

    stories = ons.run_threads(2, rank, device="host", timeout_s=0.7)
    for story in stories:
        assert "these waits form a cycle: rank 0 send of 1000000 B to rank 1 on lane 0 -> rank 1 send" in story


def test_an_abort_drains_streams_and_tells_everyone() -> None:
    def rank(world: ons.World) -> tuple[str, Any]:
        stream = world.stream()
        for lane in range(10):
            world.recv(bytearray(8), 1 - world.rank, lane=lane, stream=stream)
        world.barrier()
        if world.rank == 1:
            world.abort("the cat")
        started = time.monotonic()
        with pytest.raises(ons.AbortedError, match="the cat"):
            stream.synchronize()
        assert time.monotonic() - started < 5
        with pytest.raises(ons.AbortedError, match="the cat"):
            world.send(b"x", 1 - world.rank)
        with pytest.raises(ons.AbortedError, match="the cat"):
            world.check()
        failure = world.failure()
        assert failure is not None
        return failure.reason, [str(fault) for fault in failure.faults]

    for reason, _ in ons.run_threads(2, rank, device="host"):
        assert "the cat" in reason


def test_a_world_without_failure_has_none() -> None:
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world:
        assert world.failure() is None
        assert world.take_faults() == []
        world.check()


def test_faults_of_streams_are_values() -> None:
    def rank(world: ons.World) -> None:
        if world.rank == 0:
            world.send(b"0123456789", 1, lane=3)
            return
        stream = world.stream()
        world.recv(bytearray(4), 0, lane=3, stream=stream)
        while not stream.idle:
            pass
        (fault,) = world.take_faults()
        assert (fault.rank, fault.status, fault.op) == (1, "truncated", "recv")
        assert (fault.peer, fault.lane, fault.nbytes) == (0, 3, 4)
        assert "10 B" in str(fault)
        assert world.take_faults() == []

    ons.run_threads(2, rank, device="host")


def test_every_error_is_an_onstream_error_and_pythons_own() -> None:
    import builtins

    assert issubclass(ons.InvalidArgumentError, ValueError)
    assert issubclass(ons.TimeoutError, builtins.TimeoutError)
    assert issubclass(ons.SystemError, OSError)
    for name in ("Unsupported", "Aborted", "Closed", "Truncated", "Misused", "InvalidArgument", "Timeout", "System"):
        assert issubclass(getattr(ons, f"{name}Error"), ons.Error)


LEAVING = """
    import sys, time
    import onstream as ons

    world = ons.init(device="host", timeout_s=30)
    if world.rank == 1:
        world.send(b"the last", 0)
        sys.exit(CODE)
    world.recv(bytearray(8), 1)
    started = time.monotonic()
    try:
        WAIT
    except ons.Error as error:
        print("told:", error, "after", round(time.monotonic() - started, 2), "s", file=sys.stderr, flush=True)
        assert time.monotonic() - started < 3
        raise
"""


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("wait", ["world.recv(bytearray(10), 1)", "world.barrier()", "world.send(bytes(10**6), 1)"])
def test_waiting_for_a_rank_that_ended_normally_ends_at_once(code: int, wait: str, tmp_path: Path) -> None:
    outcome = run_job(tmp_path, 2, LEAVING.replace("CODE", str(code)).replace("WAIT", wait), timeout_s=20)
    assert outcome.code in ({1} if code == 0 else {1, 3})
    told = next(line for line in outcome.err.splitlines() if "told:" in line)
    assert "rank 1" in told
    assert "left the world" in outcome.err


def test_a_with_block_left_by_a_successful_exit_is_no_failure(tmp_path: Path) -> None:
    outcome = run_job(
        tmp_path,
        2,
        """
        import atexit, os, sys, time

        atexit.register(lambda: open(f"rank{rank}.gone", "w").close())  # runs after the world's own end
        import onstream as ons

        with ons.init(device="host") as world:
            rank = world.rank
            if rank == 1:
                sys.exit(0)
            deadline = time.monotonic() + 20
            while not os.path.exists("rank1.gone"):
                assert time.monotonic() < deadline
            world.check()
        """,
    )
    assert outcome.code == 0, outcome.err
    assert "failed" not in outcome.err
