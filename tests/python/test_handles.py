"""Collectives that are started: handles, their order, their errors, and the event loop that awaits them."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs import run_ranks
from rank_threads import LONG_S, pair, run

import onstream as ons


def until_done(handle: ons.Handle) -> None:
    limit = time.monotonic() + LONG_S
    while not handle.done():
        assert time.monotonic() < limit, f"{handle!r} does not end"
        time.sleep(0.001)


def ones(count: int = 4) -> np.ndarray:
    return np.ones(count)


def starts(world: Any) -> dict[str, tuple[ons.Handle, np.ndarray]]:
    """Each collective, and its result."""
    size, mine, start = world.size, world.rank, world.start
    each, total = np.arange(size), size * (size - 1) / 2
    full = np.full(3, float(mine))
    row = np.arange(size) + 10.0 * mine
    counts, no_out = [3] * size, np.zeros(3 * size)
    return {
        "all_reduce": (start.all_reduce(full.copy()), np.full(3, total)),
        "reduce": (start.reduce(full.copy(), np.zeros(3), root=0), np.full(3, total if mine == 0 else 0)),
        "scan": (start.scan(full.copy()), np.full(3, mine * (mine + 1) / 2)),
        "reduce_scatter": (start.reduce_scatter(row.copy(), np.zeros(1)), [size * mine + 10 * total]),
        "broadcast": (start.broadcast(full.copy(), root=1), np.ones(3)),
        "all_gather": (start.all_gather(full, np.zeros(3 * size)), np.repeat(each, 3)),
        "gather": (start.gather(full, no_out, root=0), np.repeat(each, 3) if mine == 0 else 0),
        "scatter": (start.scatter(row, np.zeros(1), root=1), [10 + mine]),
        "all_to_all": (start.all_to_all(row.copy()), mine + 10.0 * each),
        "all_gather_v": (start.all_gather_v(full, np.zeros(3 * size), counts), np.repeat(each, 3)),
        "function": (start.all_reduce(full.copy(), op=np.maximum), np.full(3, size - 1)),
    }


@pytest.mark.parametrize("size", [2, 3])
def test_every_collective_starts_and_ends_in_the_order_of_the_calls(size: int) -> None:
    def body(world: ons.World) -> None:
        for team in (world, world.team(range(world.size))):
            started = starts(team)
            plain = world.all_reduce(ones())
            assert (plain == size).all()
            for name, (handle, expected) in reversed(started.items()):
                assert (handle.wait() == expected).all(), name
                assert handle.done()
            barrier = team.start.barrier()
            assert barrier.wait() is None

    run(size, body)


def test_numbers_and_neighbours_have_handles_too() -> None:
    def body(world: ons.World) -> None:
        start = world.start
        handles = [start.all_reduce(1.5), start.reduce(np.int32(2), root=0), start.broadcast(world.rank + 7, root=1)]
        assert [handle.wait() for handle in handles] == [3.0, 4 if world.rank == 0 else None, 8]
        assert isinstance(start.all_reduce(2).wait(), int)
        hood = world.neighbourhood([world.size], periodic=True)
        mine, counts = np.full(2, world.rank), [2, 2]
        other = [1 - world.rank] * 4
        assert hood.start.all_gather(mine, np.zeros(4, "i8")).wait().tolist() == other
        assert hood.start.all_to_all(np.repeat(mine, 2), np.zeros(4, "i8")).wait().tolist() == other
        sent = hood.start.all_to_all_v(np.repeat(mine, 2), np.zeros(4, "i8"), counts, counts)
        assert sent.wait().tolist() == other

    run(2, body)


def test_a_handle_tells_its_state_and_done_does_not_block() -> None:
    def late(world: ons.World) -> None:
        world.all_reduce(ones())  # a channel's first waits for the hosts
        world.recv(bytearray(1), 0)
        world.all_reduce(ones())

    def early(world: ons.World) -> None:
        array = world.all_reduce(ones()) / 2
        handle = world.start.all_reduce(array)
        assert not handle.done()
        assert repr(handle) == "<Handle: all_reduce, under way>"
        world.send(b"x", 1)
        until_done(handle)
        assert handle.wait() is array
        assert handle.wait() is array
        assert repr(handle) == "<Handle: all_reduce, ended>"
        assert (array == 2).all()

    pair(early, late)


def test_teams_that_overlap_may_start_in_any_order() -> None:
    def body(world: ons.World) -> None:
        teams = [world.team([0, 1]) for _ in range(2)]
        order = teams if world.rank == 0 else teams[::-1]
        handles = {id(team): team.start.all_reduce(np.full(2, 1.0 + teams.index(team))) for team in order}
        assert [handles[id(team)].wait()[0] for team in teams] == [2, 4]

    run(2, body)


def test_a_dropped_handle_still_takes_part_and_its_stream_serves_again() -> None:
    def body(world: ons.World) -> None:
        for _ in range(100):
            world.start.all_reduce(np.ones(1000))
        gc.collect()
        assert world.start.all_reduce(1).wait() == 2
        for _ in range(20):
            world.start.all_reduce(1).wait()
        assert len(world._lent_streams) <= 101

    run(2, body)


def test_handles_are_awaited_beside_other_tasks() -> None:
    async def waits(world: ons.World) -> list[Any]:
        ticks = world.all_reduce(0)

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        async def value(handle: ons.Handle) -> Any:
            return await handle

        world.barrier()
        ticking = asyncio.ensure_future(tick())
        if world.rank == 1:
            await asyncio.sleep(0.1)
        started = world.start.all_reduce(3)
        if world.rank == 0:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(value(started), 0.02)
        both = await asyncio.wait_for(asyncio.gather(value(started), value(world.start.all_reduce(4.5))), LONG_S)
        ticking.cancel()
        assert world.rank == 1 or ticks > 5
        return both

    assert run(2, lambda world: asyncio.run(waits(world))) == [[6, 9.0]] * 2


def test_a_handle_raises_the_failure_of_its_world_each_time() -> None:
    def wait(world: ons.World) -> None:
        world.all_reduce(1)
        handle = world.start.all_reduce(ones())
        world.send(b"x", 1)
        for _ in range(2):
            with pytest.raises(ons.AbortedError, match="no more"):
                handle.wait()
        assert handle.done()
        assert repr(handle) == "<Handle: all_reduce, ended: AbortedError>"

        async def again() -> None:
            await handle

        with pytest.raises(ons.AbortedError, match="no more"):
            asyncio.run(again())

    def fail(world: ons.World) -> None:
        world.all_reduce(1)
        world.recv(bytearray(1), 0)
        world.abort("no more")

    pair(wait, fail)


def test_a_rank_that_never_starts_it_is_told_at_the_deadline() -> None:
    def wait(world: ons.World) -> None:
        world.all_reduce(1)
        handle = world.start.all_reduce(ones())
        with pytest.raises(ons.TimeoutError):
            handle.wait()

    def idle(world: ons.World) -> None:
        world.all_reduce(1)
        limit = time.monotonic() + LONG_S
        while world.failure() is None and time.monotonic() < limit:
            time.sleep(0.01)

    pair(wait, idle, timeout_s=0.3)


def test_wrong_starts_are_refused_by_name() -> None:
    def body(world: ons.World) -> None:
        stream = world.stream()
        with pytest.raises(ons.InvalidArgumentError, match=r"start.all_reduce: stream=.* has a stream of its own"):
            world.start.all_reduce(ones(), stream=stream)
        with pytest.raises(ons.InvalidArgumentError, match="a neighbourhood is made by all ranks together"):
            world.start.neighbourhood([1])
        with pytest.raises(ons.InvalidArgumentError, match="all_gather: `out` has 8 bytes, but needs 32"):
            world.start.all_gather(ones(), np.zeros(1))
        with world.capture(stream):
            with pytest.raises(ons.UnsupportedError, match=r"start.all_reduce: this thread captures a stream"):
                world.start.all_reduce(ones())
            world.all_reduce(ones())
        assert world.start.all_reduce(5).wait() == 5
        assert repr(world.start).startswith("<Started: <World")

    run(1, body)


def test_close_waits_for_handles_that_nobody_waited_for() -> None:
    arrays = [np.ones(1000) for _ in range(2)]

    def body(world: ons.World) -> None:
        handle = world.start.all_reduce(arrays[world.rank])
        world.close()
        assert handle.done()

    run(2, body)
    assert all((array == 2).all() for array in arrays)


def start_and_await(world: ons.World) -> None:
    world.all_reduce(0)
    handles = [world.start.all_reduce(np.full(1000, float(number))) for number in range(10)]

    async def total() -> float:
        return sum([(await handle)[-1] for handle in handles])

    assert asyncio.run(asyncio.wait_for(total(), LONG_S)) == 45 * world.size


def test_ranks_that_are_processes_start_and_await(tmp_path: Path) -> None:
    run_ranks(tmp_path, 3, [start_and_await], device="host")


def test_threads_may_wait_for_one_handle_of_a_number() -> None:
    def body(world: ons.World) -> None:
        handle = world.start.all_reduce(1.0 + world.rank)
        results: list[Any] = []
        threads = [threading.Thread(target=lambda: results.append(handle.wait())) for _ in range(4)]
        if world.rank == 1:
            time.sleep(0.05)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [3.0] * 4

    run(2, body)


def test_a_fault_of_another_op_is_raised_once_and_is_not_the_end_of_the_collective() -> None:
    def body(world: ons.World) -> None:
        stream = world.stream()
        if world.rank == 0:
            world.send(np.ones(4), 1, stream=stream)
        else:
            world.recv(np.zeros(1), 0, stream=stream)
        while not stream.idle:
            time.sleep(0.001)
        handle = world.start.all_reduce(np.ones(2))
        with pytest.raises(ons.TruncatedError, match="recv of 8 B from rank 0|does not fit its receive of 8 B"):
            handle.wait()
        assert (handle.wait() == 2).all()

    run(2, body)
