"""`await` of requests: the event loop goes on meanwhile, and a task that stops to wait leaves the request intact."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from rank_threads import LONG_S, pair, pattern, run

import onstream as ons
from onstream import awaiting


def in_loop(body: Callable[[ons.World], Awaitable[Any]]) -> Callable[[ons.World], Any]:
    async def bounded(world: ons.World) -> Any:
        return await asyncio.wait_for(body(world), LONG_S)

    return lambda world: asyncio.run(bounded(world))


@pytest.mark.parametrize("nbytes", [8, 100_000, 5_000_000])
def test_an_awaited_message_arrives_and_gives_its_bytes(nbytes: int) -> None:
    async def body(world: ons.World) -> None:
        peer = 1 - world.rank
        room = np.zeros(nbytes + 8, "u1")
        arriving, sent = world.irecv(room, peer), world.isend(pattern(nbytes, world.rank), peer)
        assert await asyncio.gather(arriving, sent) == [nbytes, nbytes]
        assert (room[:nbytes] == pattern(nbytes, peer)).all()
        assert (arriving.done(), await arriving) == (True, nbytes)

    run(2, in_loop(body))


def test_other_tasks_run_while_one_awaits_a_message() -> None:
    async def receive(world: ons.World) -> None:
        box = bytearray(3)
        waiting = asyncio.ensure_future(_bytes_of(world.irecv(box, 1)))
        for _ in range(50):
            await asyncio.sleep(0.001)
            assert not waiting.done()
        world.send(b"go", 1)
        assert await waiting == 3
        assert box == b"now"

    def send(world: ons.World) -> None:
        world.recv(bytearray(2), 0)
        world.send(b"now", 0)

    pair(in_loop(receive), send)


async def _bytes_of(request: ons.Request) -> int:
    return await request


def test_many_awaited_requests_of_every_rank() -> None:
    async def body(world: ons.World) -> None:
        others = [rank for rank in range(world.size) if rank != world.rank]
        boxes = {(rank, tag): np.zeros(4, "i4") for rank in others for tag in range(20)}
        requests = [world.irecv(box, rank, tag=tag) for (rank, tag), box in boxes.items()]
        requests += [
            world.isend(np.full(4, 100 * world.rank + tag, "i4"), rank, tag=tag) for tag in range(20) for rank in others
        ]
        assert await asyncio.gather(*requests) == [16] * len(requests)
        assert all((box == 100 * rank + tag).all() for (rank, tag), box in boxes.items())

    run(3, in_loop(body))


@pytest.mark.parametrize("nbytes", [4, 2_000_000])
def test_a_cancelled_task_leaves_its_request_under_way(nbytes: int) -> None:
    async def receive(world: ons.World) -> None:
        box = np.zeros(nbytes, "u1")
        request = world.irecv(box, 1)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(_bytes_of(request), 0.05)
        assert not request.done()
        world.barrier()
        assert await request == nbytes
        assert (box == pattern(nbytes)).all()

    def send(world: ons.World) -> None:
        world.barrier()
        world.send(pattern(nbytes), 0)

    pair(in_loop(receive), send)


def test_an_awaited_message_that_ends_badly_raises() -> None:
    async def receive(world: ons.World) -> None:
        short, good = world.irecv(bytearray(2), 1), world.irecv(bytearray(4), 1, tag=1)
        results = await asyncio.gather(short, good, return_exceptions=True)
        assert isinstance(results[0], ons.TruncatedError)
        assert results[1] == 4
        assert short.done()
        with pytest.raises(ons.TruncatedError):
            await short

    def send(world: ons.World) -> None:
        world.send(b"long", 0)
        world.send(b"good", 0, tag=1)

    pair(in_loop(receive), send)


def test_an_await_ends_at_the_deadline_and_the_message_may_come_later() -> None:
    async def receive(world: ons.World) -> None:
        box = bytearray(4)
        request = world.irecv(box, 1, tag=6)
        with pytest.raises(ons.TimeoutError, match=r"recv of 4 B from rank 1 with tag 6.* has not ended in 0.3 s"):
            await request
        world.send(b"x", 1)
        request.wait()
        assert box == b"late"

    def send(world: ons.World) -> None:
        arriving = world.irecv(bytearray(1), 0)
        limit = time.monotonic() + LONG_S
        while not arriving.test():
            assert time.monotonic() < limit
            time.sleep(0.001)
        world.send(b"late", 0, tag=6)

    pair(in_loop(receive), send, timeout_s=0.3)


def test_an_await_raises_when_the_world_fails() -> None:
    async def receive(world: ons.World) -> None:
        with pytest.raises(ons.AbortedError, match="the end of it"):
            await world.irecv(bytearray(4), 1)

    def fail(world: ons.World) -> None:
        time.sleep(0.02)
        world.abort("the end of it")

    pair(in_loop(receive), fail)


def test_the_next_event_loop_awaits_as_the_first_did() -> None:
    def body(world: ons.World) -> None:
        for number in range(3):
            box = bytearray(1)
            request = world.irecv(box, 0, tag=number)
            world.send(b"x", 0, tag=number)
            assert in_loop(lambda _, request=request: _bytes_of(request))(world) == 1

    run(1, body)


def test_an_interrupt_in_a_look_leaves_the_other_tasks_of_the_loop_waiting() -> None:
    loop, looks = asyncio.new_event_loop(), 0

    def interrupts() -> bool:
        nonlocal looks
        looks += 1
        if looks == 2:
            raise KeyboardInterrupt
        return looks > 2

    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(awaiting.until(interrupts))
        begin = time.monotonic()
        loop.run_until_complete(asyncio.wait_for(awaiting.until(lambda: time.monotonic() > begin + 0.01), LONG_S))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
