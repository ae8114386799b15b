"""Segments from Python: addresses of peers, put, get, signals, waits, atomics and barriers; on hosts and on streams."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs import run_job
from memories import DEVICES

import onstream

SIZES = (1, 2, 4)


def run(size: int, body: Callable[[onstream.World], Any], **parameters: Any) -> list[Any]:
    return onstream.run_threads(size, body, **{"device": "host", "timeout_s": 10, **parameters})


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("path", ["auto", "stage"])
@pytest.mark.parametrize("size", SIZES)
def test_a_ring_of_puts_and_gets(size: int, path: str, device: str) -> None:
    def body(world: onstream.World) -> None:
        segment = world.segment(8 * 100, kind="pinned")
        right, left = (world.rank + 1) % size, (world.rank - 1) % size
        mine = np.arange(90, dtype="i8") + 1000 * world.rank
        segment.put(mine, right, offset=80)
        world.barrier()
        assert (segment.local("i8")[10:] == np.arange(90) + 1000 * left).all()
        back = np.empty_like(mine)
        segment.get(back, right, offset=80)
        assert (back == mine).all()
        world.barrier()

    run(size, body, path=path, device=device)


@pytest.mark.parametrize("device", DEVICES)
def test_a_wait_sees_what_was_put_before_the_signal(device: str) -> None:
    def body(world: onstream.World) -> None:
        segment = world.segment(4096 + 8, kind="pinned")
        other = 1 - world.rank
        for turn in range(1, 20):
            segment.put(np.full(4096, turn, "u1"), other, signal=4096, value=turn, op="set")
            segment.wait(offset=4096, value=turn)
            assert (segment.local()[:4096] == turn).all()
            world.barrier()

    run(2, body, device=device)


@pytest.mark.parametrize("device", DEVICES)
def test_streams_take_ops_and_barriers_and_graphs_replay_them(device: str) -> None:
    def body(world: onstream.World) -> int:
        segment = world.segment(64, kind="pinned")
        stream = world.stream()
        world.barrier(stream=stream)
        right = (world.rank + 1) % world.size
        with world.capture(stream) as graph:
            segment.signal(right, offset=0, value=2)
            world.barrier(stream=stream)
            segment.wait(offset=0, value=2, compare="ge")
        for _ in range(10):
            graph.launch(stream)
        world.synchronize(stream)
        return int(segment.local("u8")[0])

    assert run(3, body, device=device) == [20, 20, 20]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("path", ["auto", "stage"])
def test_atomics_of_all_ranks_lose_nothing(path: str, device: str) -> None:
    def body(world: onstream.World) -> tuple[int, ...]:
        segment = world.segment(64)
        for _ in range(20):
            segment.atomic("add", 0, offset=8, value=3)
        segment.atomic("or", 0, offset=16, value=1 << world.rank, width=4)
        world.barrier()
        if world.rank == 0:
            assert segment.atomic("swap", 1, offset=24, value=7) == 0
            assert segment.atomic("compare_swap", 1, offset=24, value=9, expected=7) == 7
        world.barrier()
        fetched = [segment.atomic("fetch", rank, offset=offset) for rank, offset in ((0, 8), (0, 16), (1, 24))]
        world.barrier()
        return tuple(fetched)

    assert run(2, body, path=path, device=device) == [(120, 3, 9)] * 2


def test_a_segment_shows_its_size_its_memory_and_its_end() -> None:
    def body(world: onstream.World) -> None:
        segment, other = world.segment(64, kind="pinned"), world.segment(8)
        assert (segment.kind, other.kind) == ("pinned", "device")
        assert repr(segment) == "<Segment: 64 bytes on each of 2 ranks, pinned memory>"
        segment.free()
        assert repr(segment) == "<Segment: freed>"
        world.close()
        assert repr(other) == "<Segment: its world is closed>"

    run(2, body)


def test_a_peer_that_is_not_reached_says_why() -> None:
    def body(world: onstream.World) -> None:
        segment = world.segment(64)
        other = 1 - world.rank
        assert segment.nbytes == 64
        assert segment.direct(world.rank)
        assert not segment.direct(other)
        assert segment.why_not(other) == "parameter path is stage"
        with pytest.raises(onstream.UnsupportedError, match="cannot load and store"):
            segment.peer(other)
        world.barrier()

    run(2, body, path="stage")


LETS_GO = """
    import onstream as ons

    with ons.init(device="host", path="{path}") as world:
        segment = world.segment(64)
        world.barrier()
        if world.rank == 0:
            del segment
        try:
            world.barrier()  # rank 1 may be through, and rank 0 told, while rank 0 is still here
            if world.rank == 1:
                print("it holds", segment.atomic("fetch", 0, offset=8), flush=True)
            world.barrier()
        except ons.AbortedError as error:
            print("rank", world.rank, "is told:", error, flush=True)
"""


def test_memory_that_is_mapped_outlives_its_owners_handle(tmp_path: Path) -> None:
    job = run_job(tmp_path, 2, LETS_GO.replace("{path}", "auto"))
    assert job.code == 0, job.err
    assert "it holds 0" in job.out


def test_a_proxy_tells_who_used_what_its_rank_has_let_go_of(tmp_path: Path) -> None:
    job = run_job(tmp_path, 2, LETS_GO.replace("{path}", "stage"))
    assert job.code == 0, job.err
    assert "it holds" not in job.out
    story = "an atomic fetch of a word of 8 B by rank 1 is for rank 0's part of segment"
    told = [line for line in job.out.splitlines() if "is told" in line]
    assert len(told) == 2, job.out
    assert all(story in line and "B and is no longer there" in line for line in told), job.out


def test_a_freed_segment_is_of_no_use() -> None:
    def body(world: onstream.World) -> None:
        segment = world.segment(64)
        world.barrier()
        segment.free()
        with pytest.raises(onstream.Error, match="was freed"):
            segment.put(np.zeros(8, "u1"), 0)
        with pytest.raises(onstream.Error, match="was freed"):
            segment.local()
        world.barrier()

    run(2, body)


WRONG = [
    ("segment.put(np.zeros(9, 'u1'), 1, offset=56)", "9 B at offset 56 are not within the 64 B"),
    ("segment.put(np.zeros(65, 'u1'), 1)", "65 B at offset 0 are not within the 64 B"),
    ("segment.put(np.zeros(8, 'u1'), 2)", "segment [0-9]+: rank 2 does not exist"),
    ("segment.put(np.zeros(8, 'u1'), 1, offset=2**63 - 4)", "are not within the 64 B"),
    ("segment.put(np.zeros((8, 2))[:, 0], 1)", "contiguous"),
    ("segment.get(mine, -1)", "rank -1"),
    ("segment.get(mine, 1, offset=57)", "8 B at offset 57 are not within the 64 B"),
    ("segment.put(np.zeros(8, 'u1'), 1, signal=60)", "8 B at offset 60"),
    ("segment.put(np.zeros(8, 'u1'), 1, signal=12)", "not aligned"),
    ("segment.put(np.zeros(8, 'u1'), 1, signal=56, op='sub')", "op='sub' is none of add, set"),
    ("segment.put(np.zeros(8, 'u1'), 1, signal=56, op='set', value=-1)", "which no uint64 is"),
    ("segment.signal(1, offset=4)", "not aligned"),
    ("segment.signal(1, offset=64)", "8 B at offset 64 are not within the 64 B"),
    ("segment.signal(2, offset=0)", "rank 2"),
    ("segment.signal(1, offset=0, op='sub')", "op='sub' is none of add, set"),
    ("segment.wait(offset=0, value=0, compare='near')", "compare='near' is none of eq"),
    ("segment.wait(offset=4, value=0)", "not aligned"),
    ("segment.wait(offset=64, value=0)", "8 B at offset 64 are not within the 64 B"),
    ("segment.atomic('nand', 1, offset=0)", "op='nand' is none of fetch"),
    ("segment.atomic('set', 1, offset=0, width=2)", "width=2"),
    ("segment.atomic('set', 1, offset=2, width=4)", "not aligned"),
    ("segment.atomic('set', 1, offset=61, width=4)", "4 B at offset 61 are not within the 64 B"),
    ("segment.atomic('set', 2, offset=0)", "rank 2"),
    ("segment.put(np.zeros(8, 'u1'), 1, offset='x')", "offset is 'x' of type str"),
]
ON_STREAMS = [(call[:-1] + ", stream=stream)", words) for call, words in WRONG if ".atomic(" not in call]


@pytest.mark.parametrize(("call", "words"), WRONG + ON_STREAMS)
def test_what_is_wrong_is_told_with_its_value_and_writes_nothing(call: str, words: str) -> None:
    def body(world: onstream.World) -> None:
        segment, mine = world.segment(64), np.full(8, 7, "u1")
        segment.local()[:] = 1 + world.rank
        world.barrier()
        names = {"segment": segment, "np": np, "mine": mine, "stream": world.stream()}
        with pytest.raises((onstream.Error, TypeError, ValueError), match=words.replace("(", r"\(")):
            eval(call, names)
        names["stream"].synchronize()
        world.barrier()
        assert (segment.local() == 1 + world.rank).all()
        assert (mine == 7).all()
        world.barrier()
        segment.put(mine, 1 - world.rank, offset=8)
        world.barrier()
        assert (segment.local()[8:16] == 7).all()
        world.barrier()

    run(2, body)


def test_a_wait_in_vain_ends_at_the_deadline() -> None:
    def body(world: onstream.World) -> None:
        segment = world.segment(64)
        with pytest.raises(onstream.Error, match="deadline"):
            segment.wait(offset=0, value=5, compare="eq")

    onstream.run_threads(1, body, device="host", timeout_s=1.5)
