"""Messages between all pairs of ranks, of the same host or not: each function is called by every rank with its world."""

from __future__ import annotations

import random
import socket
import time
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from rank_threads import take_faults_until

import onstream as ons

# A message runs ahead in a ring, goes whole, or waits for its receive: the limits are 4 KiB and 64 KiB.
SIZES = [0, 8, 4096, 5120, 65536, 65537, 1 << 20, 10 << 20]
MIDDLE = SIZES[:-1]
SOON_S = 30.0


def message(nbytes: int, source: int, tag: int) -> np.ndarray:
    return (np.arange(nbytes, dtype="u4") * 7 + 31 * source + tag).astype("u1")


def check(box: np.ndarray, source: int, tag: int) -> None:
    np.testing.assert_array_equal(box, message(len(box), source, tag))


def peers(world: ons.World) -> list[int]:
    return [rank for rank in range(world.size) if rank != world.rank]


def sizes_between(world: ons.World, one: int, other: int) -> list[int]:
    """The largest only for one pair, as it takes long."""
    return SIZES if {one, other} == {0, world.size - 1} else MIDDLE


def blocking_calls(world: ons.World) -> None:
    for source, dest in permutations(range(world.size), 2):
        for tag, nbytes in enumerate(sizes_between(world, source, dest)):
            if world.rank == source:
                world.send(message(nbytes, source, tag), dest, tag=tag)
            elif world.rank == dest:
                box = np.zeros(nbytes, "u1")
                assert world.recv(box, source, tag=tag) == nbytes
                check(box, source, tag)


def _exchange(world: ons.World) -> tuple[list[Any], list[tuple[Any, np.ndarray, int, int]]]:
    """Starts everything to and from every peer."""
    receives = []
    for peer in peers(world):
        for tag, nbytes in enumerate(sizes_between(world, world.rank, peer)):
            box = np.zeros(nbytes, "u1")
            receives.append((world.irecv(box, peer, tag=tag), box, peer, tag))
    sends = [
        world.isend(message(nbytes, world.rank, tag), peer, tag=tag)
        for peer in peers(world)
        for tag, nbytes in enumerate(sizes_between(world, world.rank, peer))
    ]
    return sends, receives


def requests_that_are_waited_for(world: ons.World) -> None:
    sends, receives = _exchange(world)
    for request, box, peer, tag in receives:
        request.wait()
        assert request.received == len(box)
        check(box, peer, tag)
    for send in sends:
        send.wait()


def requests_that_are_polled(world: ons.World) -> None:
    sends, receives = _exchange(world)
    waiting = [*sends, *(request for request, *_ in receives)]
    limit = time.monotonic() + SOON_S
    while waiting:
        assert time.monotonic() < limit
        waiting = [one for one in waiting if not one.test()]
    for _, box, peer, tag in receives:
        check(box, peer, tag)


def rings_of_sendrecv(world: ons.World) -> None:
    after, before = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    for tag, nbytes in enumerate(MIDDLE):
        box = np.zeros(nbytes, "u1")
        assert world.sendrecv(message(nbytes, world.rank, tag), after, box, before, tag=tag) == nbytes
        check(box, before, tag)


def streams(world: ons.World) -> None:
    stream = world.stream()
    boxes = []
    for peer in peers(world):
        for tag, nbytes in enumerate(MIDDLE):
            box = np.zeros(nbytes, "u1")
            boxes.append((box, peer, tag))
            receive = world.irecv(box, peer, tag=tag, stream=stream)
            world.isend(message(nbytes, world.rank, tag), peer, tag=tag, stream=stream).wait()
            receive.wait()
    after, before = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    if world.rank % 2 == 0:
        world.send(message(100, world.rank, 9), after, tag=9, stream=stream)
    box = np.zeros(100, "u1")
    world.recv(box, before, tag=9, stream=stream)
    boxes.append((box, before, 9))
    if world.rank % 2 == 1:
        world.send(message(100, world.rank, 9), after, tag=9, stream=stream)
    stream.synchronize()
    for box, peer, tag in boxes:
        check(box, peer, tag)


def graphs_that_are_replayed(world: ons.World) -> None:
    after, before = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    stream = world.stream()
    sizes = [8, 5120, 65537]
    mine = [np.zeros(nbytes // 8, "f8") for nbytes in sizes]
    boxes = [np.zeros(nbytes // 8, "f8") for nbytes in sizes]
    with world.capture(stream) as graph:
        for tag, (source, box) in enumerate(zip(mine, boxes, strict=True)):
            world.sendrecv(source, after, box, before, tag=tag)
    for turn in range(50):
        for source in mine:
            source[:] = 1000 * world.rank + turn
        graph.launch()
        stream.synchronize()
        for box in boxes:
            assert (box == 1000 * before + turn).all()
    for _ in range(50):
        graph.launch()
    stream.synchronize()
    for box in boxes:
        assert (box == 1000 * before + 49).all()


def tags_in_mixed_order(world: ons.World) -> None:
    sizes = [(tag * 1777) % 9000 for tag in range(12)]
    orders = [random.Random(seed).sample(range(12), 12) for seed in range(2)]
    for peer in peers(world):
        boxes = [np.zeros(nbytes, "u1") for nbytes in sizes]
        receives = [world.irecv(boxes[tag], peer, tag=tag) for tag in orders[0]]
        sends = [world.isend(message(sizes[tag], world.rank, tag), peer, tag=tag) for tag in orders[1]]
        for request in [*receives, *sends]:
            request.wait()
        for tag, box in enumerate(boxes):
            check(box, peer, tag)


def messages_of_one_tag_stay_in_order(world: ons.World) -> None:
    sizes = [(number * 7919) % 70000 for number in range(40)]
    for peer in peers(world):
        boxes = [np.zeros(nbytes, "u1") for nbytes in sizes]
        receives = [world.irecv(box, peer, tag=5) for box in boxes]
        sends = [world.isend(message(nbytes, world.rank, number), peer, tag=5) for number, nbytes in enumerate(sizes)]
        for request in [*receives, *sends]:
            request.wait()
        for number, box in enumerate(boxes):
            check(box, peer, number)


def messages_larger_than_their_receives(world: ons.World) -> None:
    first, last = 0, world.size - 1
    for nbytes in (100, 5120, 65536, 65537, 1 << 20):
        if world.rank == first:
            if nbytes > 65536:
                with pytest.raises(ons.TruncatedError):
                    world.send(message(nbytes, first, 1), last, tag=1)
            else:  # it has ended before the receive: its fault comes later
                world.send(message(nbytes, first, 1), last, tag=1)
            world.send(message(nbytes, first, 2), last, tag=1)
            if nbytes <= 65536:
                (fault, *_) = take_faults_until(world, 1)
                assert (fault.status, fault.op, fault.peer, fault.nbytes) == ("truncated", "send", last, nbytes)
        elif world.rank == last:
            with pytest.raises(ons.TruncatedError, match=rf"{nbytes} B"):
                world.recv(np.zeros(24, "u1"), first, tag=1)
            box = np.zeros(nbytes, "u1")
            assert world.recv(box, first, tag=1) == nbytes
            check(box, first, 2)
        world.barrier()
    world.check()


def probed_messages(world: ons.World) -> None:
    for source, dest in permutations(range(world.size), 2):
        for tag, nbytes in enumerate(sizes_between(world, source, dest)):
            if world.rank == source:
                world.send(message(nbytes, source, tag), dest, tag=tag)
            elif world.rank == dest:
                found = world.probe(tag=tag)
                assert (found.peer, found.nbytes) == (source, nbytes)
                check(found.recv(), source, tag)
                assert world.iprobe(source, tag=tag) is None


def messages_of_any_source(world: ons.World) -> None:
    each = 20
    sends = [
        world.isend(message((number * 7919) % 70000, world.rank, number), peer, tag=7)
        for peer in peers(world)
        for number in range(each)
    ]
    numbers = dict.fromkeys(peers(world), 0)
    box = np.zeros(70000, "u1")
    for turn in range(each * len(numbers)):
        if turn % 2 == 0:
            found = world.recv(box, ons.any_source, tag=7)
            assert isinstance(found, ons.Message)
            source, nbytes = found.peer, found.nbytes
        else:
            request = world.irecv(box, ons.any_source, tag=7)
            assert world.wait_any([request]) == 0
            source, nbytes = request.peer, request.received
        assert nbytes == (numbers[source] * 7919) % 70000
        check(box[:nbytes], source, numbers[source])
        numbers[source] += 1
    assert set(numbers.values()) == {each}
    world.wait_all(sends)


def requests_of_which_any_may_end(world: ons.World) -> None:
    sends, receives = _exchange(world)
    waiting = [*sends, *(request for request, *_ in receives)]
    while waiting:
        for place in reversed(world.wait_some(waiting)):
            del waiting[place]
    for _, box, peer, tag in receives:
        check(box, peer, tag)


def task_farm(world: ons.World, tasks: int = 1000) -> None:
    """Rank 0 gives each task to the rank whose result has come; every rank has some."""
    if world.rank != 0:
        while (task := world.recv_new(0, dtype="i8")).size > 0:
            world.send(np.append(task, task[0] ** 2), 0, tag=1)
        return
    given, done = 0, np.full(tasks, -1)
    served = dict.fromkeys(peers(world), 0)
    for peer in served:
        world.send(np.array([given]), peer)
        given += 1
    box = np.zeros(2, "i8")
    for _ in range(tasks):
        result = world.recv(box, ons.any_source, tag=1)
        assert isinstance(result, ons.Message)
        done[box[0]] = box[1]
        served[result.peer] += 1
        world.send(np.array([given] if given < tasks else [], "i8"), result.peer)
        given += 1
    np.testing.assert_array_equal(done, np.arange(tasks) ** 2)
    assert min(served.values()) > 0


def explanations(world: ons.World) -> None:
    near, far = neighbours(world)
    for rank in far:
        told = world.explain.send(np.zeros(1000), rank)
        assert "take path net" in told
        assert f"rank {rank} is on another host" in told
    for rank in near:
        assert "path net" not in world.explain.send(np.zeros(1000), rank)


def neighbours(world: ons.World) -> tuple[list[int], list[int]]:
    """The other ranks of this host, and those of others, whose names have one letter."""
    names = bytearray(world.size)
    world.all_gather(socket.gethostname().encode(), names)
    near = [rank for rank in peers(world) if names[rank] == names[world.rank]]
    return near, [rank for rank in peers(world) if rank not in near]


def refused(text: str) -> Any:
    return pytest.raises(ons.UnsupportedError, match=text)


def refusals(world: ons.World) -> None:
    near, far = neighbours(world)
    other = far[0]
    for path in ("store", "load", "copy", "stage"):
        with refused(f"path {path} needs one host, and rank {other} is on another; leave the path out, or ask for net"):
            world.send(np.zeros(4), other, path=path)
    for rank in near:
        with refused(f"path net leads to ranks of other hosts, and rank {rank} shares this host"):
            world.send(np.zeros(4), rank, path="net")
    world.barrier()
    rings_of_sendrecv(world)


# Senders, or sizes, that the receiver does not know.
UNKNOWN = [probed_messages, messages_of_any_source, requests_of_which_any_may_end, task_farm]


def halos_and_plans(world: ons.World) -> None:
    """A column of blocks of which some neighbours share a host: by the host, on a stream, and captured."""
    size, rank = world.size, world.rank
    _, far = neighbours(world)
    block = np.zeros((6, 40))
    inside = block[1:-1, 1:-1]
    halo = world.halo(block, grid=[size, 1], ghost=1, periodic=[True, False], name="rows")
    assert ("path net" in str(halo.explain()) or " net " in str(halo.explain())) == any(
        neighbour in far for neighbour in ((rank + 1) % size, (rank - 1) % size)
    )
    stream = world.stream()
    with world.capture(stream) as graph:
        halo.launch(stream=stream)
    for step in range(6):
        block[:] = -1
        inside[:] = 1000 * step + 10 * rank + np.arange(4)[:, None]
        if (step + rank) % 3 == 0:
            halo.launch()
        elif (step + rank) % 3 == 1:
            halo.launch(stream=stream)
        else:
            graph.launch(stream=stream)
        world.synchronize(stream)
        np.testing.assert_array_equal(block[0, 1:-1], np.full(38, 1000.0 * step + 10 * ((rank - 1) % size) + 3))
        np.testing.assert_array_equal(block[-1, 1:-1], np.full(38, 1000.0 * step + 10 * ((rank + 1) % size)))
        assert (block[:, 0] == -1).all()
        assert (block[:, -1] == -1).all()
        world.barrier()
    columns = np.arange(60.0).reshape(6, 10) + 100 * rank
    come = np.zeros((size, 6))
    builder = world.plan("columns of everybody")
    for peer in peers(world):
        builder.send(columns[:, peer % 10], peer).recv(come[peer], peer)
    plan = builder.build()
    plan.launch()
    for peer in peers(world):
        np.testing.assert_array_equal(come[peer], 100 * peer + 10 * np.arange(6.0) + rank % 10)
    world.barrier()


EVERYTHING = [
    *UNKNOWN,
    halos_and_plans,
    blocking_calls,
    requests_that_are_waited_for,
    requests_that_are_polled,
    rings_of_sendrecv,
    streams,
    graphs_that_are_replayed,
    tags_in_mixed_order,
    messages_of_one_tag_stay_in_order,
    messages_larger_than_their_receives,
    explanations,
    refusals,
]
