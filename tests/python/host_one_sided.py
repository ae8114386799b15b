"""Bodies of ranks on several hosts: one-sided ops and barriers, for test_several_hosts.py."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import onstream as ons


def neighbours(world: ons.World) -> tuple[int, int]:
    return (world.rank + 1) % world.size, (world.rank - 1) % world.size


def puts_of_all_sizes(world: ons.World) -> None:
    """To the next rank, with a signal: by the host, on a stream, captured; read back by a get."""
    right, left = neighbours(world)
    stream = world.stream()
    segment = world.segment((1 << 20) + 64)
    step = 0
    for nbytes in (1, 8, 4096, 65536, 65537, 1 << 20):
        source = np.empty(nbytes, np.uint8)
        with world.capture(stream) as graph:
            segment.put(source, right, offset=64, signal=0, stream=stream)
        for put in (
            lambda source=source: segment.put(source, right, offset=64, signal=0),
            lambda source=source: segment.put(source, right, offset=64, signal=0, stream=stream),
            lambda graph=graph: graph.launch(stream=stream),
            lambda graph=graph: graph.launch(stream=stream),
        ):
            step += 1
            source[:] = np.arange(nbytes) * 7 + step + world.rank
            put()
            segment.wait(offset=0, value=step)
            expected = (np.arange(nbytes) * 7 + step + left).astype(np.uint8)
            assert np.array_equal(segment.local()[64 : 64 + nbytes], expected)
            world.synchronize(stream)
            back = np.zeros(nbytes, np.uint8)
            segment.get(back, right, offset=64)
            assert np.array_equal(back, source)
            world.barrier()
    segment.free()


def tickets_and_words(world: ons.World) -> None:
    """Atomics of all ranks on one word, from two threads each; a word that is swapped and compared."""
    rounds = 50
    segment = world.segment(64)
    drawn: list[int] = []

    def draw() -> None:
        for _ in range(rounds):
            drawn.append(segment.atomic("add", 0, offset=0, value=1))

    threads = [threading.Thread(target=draw) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everybodys = np.empty(2 * rounds * world.size)
    world.all_gather(np.array(drawn, float), everybodys)
    assert sorted(everybodys) == list(range(2 * rounds * world.size))
    world.barrier()
    if world.rank == world.size - 1:
        assert segment.atomic("compare_swap", 0, offset=8, value=5, expected=1) == 0
        assert segment.atomic("compare_swap", 0, offset=8, value=5, expected=0) == 0
        assert segment.atomic("swap", 0, offset=8, value=9) == 5
        assert segment.atomic("fetch", 0, offset=8) == 9
        segment.signal(0, offset=16, value=3, op="set")
    if world.rank == 0:
        segment.wait(offset=16, value=3, compare="eq")
    world.barrier()


def columns_and_contexts(world: ons.World) -> None:
    """Strided puts of symmetric arrays; ops of a context, deferred and fetched; barriers of its teams."""
    right, left = neighbours(world)
    heap = world.heap(1 << 20)
    field, flags = heap.zeros((16, 8)), heap.zeros(4, "u8")
    field[:, 2].put(np.arange(16.0) + 100 * world.rank, right, signal=flags[0])
    flags[0].wait(1)
    assert np.array_equal(field.local()[:, 2], np.arange(16.0) + 100 * left)
    row = np.zeros(16)
    field[:, 2].get(row, right)
    assert np.array_equal(row, np.arange(16.0) + 100 * world.rank)
    world.barrier()
    context = world.context()
    for i in range(20):
        context.put_later(field[1], np.full(8, float(i)), right)
        context.fence()
        context.signal(flags[1], right)
        context.wait(flags[1], i + 1)
        assert (field.local()[1] == i).all()
        context.barrier()
    assert context.fetch_add(flags[2], 2, right) == 0
    context.quiet()
    context.barrier()
    assert flags.local()[2] == 2
    halves = world.split(world.rank % 2, 0)
    for _ in range(10):
        context.barrier(halves)
        halves.sync()
    heap.close()


def barriers_of_streams(world: ons.World) -> None:
    """Each rank's word is seen by all behind a barrier on the stream, also in a graph; many splits take the same words."""
    stream = world.stream()
    segment = world.segment(8 * world.size)
    mine = np.zeros(1, "u8")
    with world.capture(stream) as graph:
        for rank in range(world.size):
            segment.put(mine, rank, offset=8 * world.rank, stream=stream)
        world.barrier(stream=stream)
    for step in range(1, 6):
        mine[0] = step
        graph.launch(stream=stream)
        world.synchronize(stream)
        assert (segment.local().view("u8") == step).all()
        world.barrier()
    for i in range(80):  # more than there are words for
        team = world.split(0, -world.rank if i % 2 else world.rank)
        team.sync()
        team.barrier(stream=stream)
        world.synchronize(stream)
    world.barrier()


def places_that_no_rank_has(world: ons.World) -> None:
    segment = world.segment(64)
    far = next(rank for rank in range(world.size) if not segment.direct(rank))
    with pytest.raises(ons.UnsupportedError, match=f"rank {far} is on another host; put, get and signals reach it"):
        segment.peer(far)
    with pytest.raises(ons.InvalidArgumentError, match="16 B at offset 56 are not within the 64 B"):
        segment.put(np.zeros(2), far, offset=56)
    with pytest.raises(ons.InvalidArgumentError, match="rank 99 does not exist"):
        segment.put(np.zeros(1), 99)
    world.barrier()


EVERYTHING = [
    puts_of_all_sizes,
    tickets_and_words,
    columns_and_contexts,
    barriers_of_streams,
    places_that_no_rank_has,
]
