"""The work of ranks in processes, for test_processes.py: each function is one rank of two, and checks every value that
it gets.

`memory` is a kind of memory of memories.py. Only onstream itself orders anything here: a rank waits only for its own
work, and barriers stand only where ranks use each other's memory without the other taking part.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from memories import LIBRARIES, MEMORIES, array_of, fill, values_of

import onstream as ons

GHOST = -1.0  # in the ghost cells before an exchange


def pattern(nbytes: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, nbytes, dtype="u1")


def holds(world: ons.World, array: Any, values: np.ndarray) -> bool:
    return values_of(world, array).tobytes() == values.tobytes()


def ways_to_run(world: ons.World, enqueue: Callable[[Any], Any]) -> Iterator[Callable[[], Any]]:
    """Eager by default, with the host waiting, and on a stream; then captured, and replayed twice."""
    stream = world.stream()
    yield lambda: enqueue(None)
    yield lambda: enqueue("host")
    yield lambda: enqueue(stream)
    with world.capture(stream) as graph:
        enqueue(None)
    yield graph.launch
    yield graph.launch


# --- messages ---


def one_after_the_other(world: ons.World, mine: Any, came: Any, stream: Any) -> None:
    peer = 1 - world.rank
    if world.rank == 0:
        world.send(mine, peer, stream=stream)
    world.recv(came, peer, stream=stream)
    if world.rank == 1:
        world.send(mine, peer, stream=stream)


def posted(world: ons.World, mine: Any, came: Any, stream: Any) -> None:
    peer = 1 - world.rank
    arriving = world.irecv(came, peer, tag=1, stream=stream)
    leaving = world.isend(mine, peer, tag=1, stream=stream)
    arriving.wait()
    leaving.wait()


def both_at_once(world: ons.World, mine: Any, came: Any, stream: Any) -> None:
    world.sendrecv(mine, 1 - world.rank, came, 1 - world.rank, tag=2, stream=stream)


def messages(world: ons.World, memory: str) -> None:
    for exchange in (one_after_the_other, posted, both_at_once):
        for nbytes in (0, 8, 5000, 1 << 20):
            check_messages(world, memory, exchange, nbytes)


def messages_between_unlike_memories(world: ons.World) -> None:
    kinds = [*MEMORIES, "managed", *(LIBRARIES if world.device != "host" else [])]
    for ours, nbytes in itertools.product(itertools.combinations(kinds, 2), (8, 5000, 300_000)):
        check_messages(world, ours[world.rank], posted, nbytes)


def check_messages(world: ons.World, memory: str, exchange: Callable[..., None], nbytes: int) -> None:
    nothing = np.zeros(nbytes, "u1")
    mine, came = (array_of(world, nothing, memory) for _ in range(2))
    for turn, run in enumerate(ways_to_run(world, lambda stream: exchange(world, mine, came, stream))):
        fill(world, mine, pattern(nbytes, 2 * turn + world.rank))
        fill(world, came, nothing)
        run()
        world.synchronize()
        expected = pattern(nbytes, 2 * turn + 1 - world.rank)
        assert holds(world, came, expected), f"{nbytes} bytes, {exchange.__name__}, way {turn}"


# --- collectives ---


@dataclass(frozen=True)
class Call:
    """A collective of two ranks that give n elements each."""

    run: Callable[..., Any]  # run(world, mine, out, stream=...)
    # The result of a rank, from both ranks' inputs; None: nothing comes to this rank, and `out` stays as it is.
    expected: Callable[[list[np.ndarray], int], Any]
    in_place: bool = False
    gets: Callable[[int], int] = lambda n: n  # elements that `out` has


def total(given: list[np.ndarray], rank: int) -> np.ndarray:
    sums: np.ndarray = given[0] + given[1]
    return sums


def half(values: np.ndarray, rank: int) -> np.ndarray:
    return values[: len(values) // 2] if rank == 0 else values[len(values) // 2 :]


def halves_of_both(given: list[np.ndarray], rank: int) -> np.ndarray:
    return np.concatenate([half(one, rank) for one in given])


CALLS = {
    "all_reduce": Call(lambda world, mine, out, **options: world.all_reduce(mine, out, **options), total),
    "all_reduce in place": Call(
        lambda world, mine, out, **options: world.all_reduce(mine, **options), total, in_place=True
    ),
    "largest": Call(
        lambda world, mine, out, **options: world.all_reduce(mine, out, op="max", **options),
        lambda given, rank: np.maximum(*given),
    ),
    "reduce": Call(
        lambda world, mine, out, **options: world.reduce(mine, out, root=1, **options),
        lambda given, rank: total(given, rank) if rank == 1 else None,
    ),
    "reduce in place": Call(
        lambda world, mine, out, **options: world.reduce(mine, root=1, **options),
        lambda given, rank: total(given, rank) if rank == 1 else None,
        in_place=True,
    ),
    "scan": Call(
        lambda world, mine, out, **options: world.scan(mine, out, **options),
        lambda given, rank: given[0] if rank == 0 else total(given, rank),
    ),
    "scan in place": Call(
        lambda world, mine, out, **options: world.scan(mine, **options),
        lambda given, rank: given[0] if rank == 0 else total(given, rank),
        in_place=True,
    ),
    "exclusive scan": Call(
        lambda world, mine, out, **options: world.scan(mine, out, exclusive=True, **options),
        lambda given, rank: None if rank == 0 else given[0],
    ),
    "reduce_scatter": Call(
        lambda world, mine, out, **options: world.reduce_scatter(mine, out, **options),
        lambda given, rank: half(total(given, rank), rank),
        gets=lambda n: n // 2,
    ),
    "broadcast": Call(
        lambda world, mine, out, **options: world.broadcast(mine, root=1, **options),
        lambda given, rank: given[1],
        in_place=True,
    ),
    "all_gather": Call(
        lambda world, mine, out, **options: world.all_gather(mine, out, **options),
        lambda given, rank: np.concatenate(given),
        gets=lambda n: 2 * n,
    ),
    "gather": Call(
        lambda world, mine, out, **options: world.gather(mine, out, root=1, **options),
        lambda given, rank: np.concatenate(given) if rank == 1 else None,
        gets=lambda n: 2 * n,
    ),
    "scatter": Call(
        lambda world, mine, out, **options: world.scatter(mine, out, root=1, **options),
        lambda given, rank: half(given[1], rank),
        gets=lambda n: n // 2,
    ),
    "all_to_all": Call(lambda world, mine, out, **options: world.all_to_all(mine, out, **options), halves_of_both),
    "all_to_all in place": Call(
        lambda world, mine, out, **options: world.all_to_all(mine, **options), halves_of_both, in_place=True
    ),
}


def numbers(n: int, dtype: str, turn: int, rank: int) -> np.ndarray:
    """Small integers, whose sums every type has exactly."""
    return ((np.arange(n) * (rank + 2) + turn) % 11).astype(dtype)


def check_call(world: ons.World, name: str, n: int, dtype: str, memory: str) -> None:
    call = CALLS[name]
    mine = array_of(world, np.zeros(n, dtype), memory)
    out = mine if call.in_place else array_of(world, np.zeros(call.gets(n), dtype), memory)
    ways = ways_to_run(world, lambda stream: call.run(world, mine, out, stream=stream))
    for turn, run in enumerate(ways):
        given = [numbers(n, dtype, turn, rank) for rank in range(world.size)]
        before = given[world.rank] if call.in_place else np.full(call.gets(n), 99).astype(dtype)
        fill(world, out, before)
        fill(world, mine, given[world.rank])
        run()
        world.synchronize()
        expected = call.expected(given, world.rank)
        expected = before if expected is None else expected.astype(dtype)
        assert holds(world, out, expected), f"{name} of {n} {dtype}, way {turn}"


def collectives(world: ons.World, memory: str) -> None:
    for name in CALLS:
        for n, dtype in ((2, "i8"), (2, "f2"), (5000, "f4"), (5000, "f8"), (300_000, "f4")):
            check_call(world, name, n, dtype, memory)


def collectives_of_unequal_parts(world: ons.World, memory: str) -> None:
    for n in (1, 700, 100_000):
        check_unequal(world, memory, [[n, n + 3], [n + 1, 2 * n]])


def check_unequal(world: ons.World, memory: str, counts: list[list[int]]) -> None:
    """counts: how many elements each rank deals to each."""
    rank = world.rank
    gets = [line[rank] for line in counts]
    mine = array_of(world, np.zeros(sum(counts[rank]), "i4"), memory)
    every = array_of(world, np.zeros(sum(map(sum, counts)), "i4"), memory)
    dealt = array_of(world, np.zeros(sum(gets), "i4"), memory)

    def enqueue(stream: Any) -> None:
        world.all_gather_v(mine, every, [sum(line) for line in counts], stream=stream)
        world.all_to_all_v(mine, dealt, counts[rank], gets, stream=stream)

    for turn, run in enumerate(ways_to_run(world, enqueue)):
        given = [numbers(sum(line), "i4", turn, giver) for giver, line in enumerate(counts)]
        fill(world, mine, given[rank])
        for out in (every, dealt):
            fill(world, out, np.zeros(out.shape, "i4"))
        run()
        world.synchronize()
        assert holds(world, every, np.concatenate(given)), f"{counts}, way {turn}"
        cut = [np.split(one, [line[0]])[rank] for one, line in zip(given, counts, strict=True)]
        assert holds(world, dealt, np.concatenate(cut)), f"{counts}, way {turn}"


def algorithms(world: ons.World, memory: str) -> None:
    """Algorithms that have to be asked for."""
    for name in ("simple", "ring", "tree", "halving_doubling", "copy"):
        check_algorithm(world, memory, name)


def check_algorithm(world: ons.World, memory: str, name: str) -> None:
    n = 60_000
    mine = array_of(world, np.zeros(n, "f4"), memory)
    every = array_of(world, np.zeros(2 * n, "f4"), memory)
    gathers, reduces = name != "tree", name != "copy"

    def enqueue(stream: Any) -> None:
        if gathers:
            world.all_gather(mine, every, algorithm=name, stream=stream)
        if reduces:
            world.all_reduce(mine, algorithm=name, stream=stream)

    for turn, run in enumerate(ways_to_run(world, enqueue)):
        given = [numbers(n, "f4", turn, rank) for rank in range(2)]
        fill(world, mine, given[world.rank])
        fill(world, every, np.zeros(2 * n, "f4"))
        run()
        world.synchronize()
        assert not gathers or holds(world, every, np.concatenate(given)), f"{name}, way {turn}"
        assert not reduces or holds(world, mine, given[0] + given[1]), f"{name}, way {turn}"


def channels_in_opposite_orders(world: ons.World, memory: str) -> None:
    """Each rank starts first the op that the other starts last, each on its own stream: two channels, then five."""
    n = 10**6
    arrays = [array_of(world, np.zeros(n, "f4"), memory) for _ in range(5)]
    streams = [world.stream() for _ in arrays]
    for count in (2, 5):
        order = range(count) if world.rank == 0 else reversed(range(count))
        starts = [channel for channel in order for _ in range(3)]
        for channel, array in enumerate(arrays[:count]):
            world.all_reduce(array, channel=channel, stream="host")  # the channel is made
            fill(world, array, numbers(n, "f4", channel, world.rank))
        for channel in starts:
            world.all_reduce(arrays[channel], algorithm="simple", channel=channel, stream=streams[channel])
        world.synchronize()
        for channel, array in enumerate(arrays[:count]):
            both = numbers(n, "f4", channel, 0) + numbers(n, "f4", channel, 1)
            assert holds(world, array, 4 * both), f"channel {channel} of {count}"  # twice both, and that twice


def neighbours(world: ons.World, memory: str) -> None:
    hood = world.neighbourhood((2,), periodic=True)
    assert hood.sources == [1 - world.rank] * 2
    for n in (1, 400, 300_000):
        check_neighbours(world, memory, hood, n)


def check_neighbours(world: ons.World, memory: str, hood: ons.Neighbourhood, n: int) -> None:
    mine, faces = (array_of(world, np.zeros(2 * n), memory) for _ in range(2))
    every = array_of(world, np.zeros(4 * n), memory)

    def enqueue(stream: Any) -> None:
        hood.all_to_all(mine, faces, stream=stream)
        hood.all_gather(mine, every, stream=stream)

    for turn, run in enumerate(ways_to_run(world, enqueue)):
        fill(world, mine, np.repeat(100.0 * turn + 10 * world.rank + np.arange(2), n))
        fill(world, faces, np.zeros(2 * n))
        fill(world, every, np.zeros(4 * n))
        run()
        world.synchronize()
        lower = np.full(n, 100.0 * turn + 10 * (1 - world.rank))
        # The lower neighbour's data is the part that it sent to its upper one.
        assert holds(world, faces, np.concatenate([lower + 1, lower])), f"{n}, way {turn}"
        assert holds(world, every, np.concatenate([lower, lower + 1] * 2)), f"{n}, way {turn}"


# --- segments ---

BYTES, WORD = 300_000, 1 << 19  # the size of a put to offset 64, and the offset of the first word


def puts_and_gets_of_the_host(world: ons.World, kind: str, memory: str) -> None:
    peer = 1 - world.rank
    segment = world.segment(1 << 20, kind=kind)
    mine, back = (array_of(world, np.zeros(BYTES, "u1"), memory) for _ in range(2))
    for turn in range(1, 4):
        fill(world, mine, pattern(BYTES, 2 * turn + world.rank))
        segment.put(mine, peer, offset=64, signal=WORD, value=turn, op="set", stream="host")
        segment.signal(peer, offset=WORD + 8, value=2)
        segment.wait(offset=WORD, value=turn)
        for rank in (world.rank, peer):  # the data that came, and the data put there
            segment.get(back, rank, offset=64, stream="host")
            assert holds(world, back, pattern(BYTES, 2 * turn + 1 - rank))
        segment.wait(offset=WORD + 8, value=2 * turn, compare="eq")
        world.barrier()


def puts_and_gets_of_a_stream(world: ons.World, kind: str, memory: str) -> None:
    peer = 1 - world.rank
    segment = world.segment(1 << 20, kind=kind)
    mine, back = (array_of(world, np.zeros(BYTES, "u1"), memory) for _ in range(2))
    stream = world.stream()
    world.barrier(stream=stream)  # the first one allocates the resources that a capture uses

    def enqueue() -> None:
        segment.put(mine, peer, offset=64, signal=WORD, stream=stream)
        segment.wait(offset=WORD, value=1, stream=stream)
        segment.get(back, world.rank, offset=64, stream=stream)
        world.barrier(stream=stream)

    with world.capture(stream) as graph:
        enqueue()
    for turn, run in enumerate([enqueue, graph.launch, graph.launch]):
        fill(world, mine, pattern(BYTES, 2 * turn + world.rank))
        run()
        stream.synchronize()
        assert holds(world, back, pattern(BYTES, 2 * turn + peer)), f"way {turn}"
        assert segment.atomic("swap", world.rank, offset=WORD, value=0) == 1
        world.barrier()


def atomics(world: ons.World, kind: str, memory: str) -> None:
    segment = world.segment(64, kind=kind)
    for _ in range(50):
        segment.atomic("add", 0, offset=8, value=3)
    segment.atomic("or", 0, offset=16, value=1 << world.rank, width=4)
    world.barrier()
    if world.rank == 1:
        assert segment.atomic("swap", 0, offset=24, value=7) == 0
        assert segment.atomic("compare_swap", 0, offset=24, value=9, expected=7) == 7
    world.barrier()
    fetched = [segment.atomic("fetch", 0, offset=8 * word, width=4 if word == 2 else 8) for word in (1, 2, 3)]
    assert fetched == [300, 3, 9]
    world.barrier()  # the segment ends with this function


# --- plans ---


def a_plan_of_every_op(world: ons.World, memory: str) -> None:
    """A message between strided arrays, a put, and signals that tell of it; a float that is swapped."""
    peer = 1 - world.rank
    segment = world.segment(1024)
    put, counter = segment.array(16), segment.array(1, "u8", offset=512)
    mine, came = (array_of(world, np.zeros((6, 8), "f4"), memory) for _ in range(2))
    source, back = (array_of(world, np.zeros(16), memory) for _ in range(2))
    builder = world.plan("all").send(mine[:, 2:5], peer).recv(came.T[:3], peer).put(put, source, peer)
    flag, real = segment.array(1, "i8", offset=520), segment.array(1, "f4", offset=528)
    builder.signal(counter, peer).wait(counter).signal(flag, peer, value=-3, op="set").wait(flag, value=0, compare="lt")
    plan = builder.atomic("swap", real, peer, value=0.5).build()
    assert [op.kind for op in plan.ops] == ["send", "recv", "put", "signal", "wait", "signal", "wait", "atomic"]
    table = np.arange(48, dtype="f4").reshape(6, 8)
    for turn, run in enumerate(ways_to_run(world, plan.launch)):
        fill(world, mine, table + 100 * turn + world.rank)
        fill(world, came, np.zeros((6, 8), "f4"))
        fill(world, source, np.arange(16.0) + 10 * turn + world.rank)
        run()
        world.synchronize()
        expected = np.zeros((6, 8), "f4")
        expected.T[:3] = (table + 100 * turn + peer)[:, 2:5].reshape(3, 6)
        assert holds(world, came, expected), f"way {turn}"
        segment.get(back, world.rank, stream="host")
        assert holds(world, back, np.arange(16.0) + 10 * turn + peer), f"way {turn}"
        world.barrier()  # the peer puts here again
    assert segment.atomic("fetch", world.rank, offset=512) == 5
    assert flag.atomic("fetch", world.rank) == -3
    assert real.atomic("fetch", world.rank) == 0.5


def a_halo(world: ons.World, memory: str) -> None:
    """A global array of 8 x 10 cells, 4 x 10 on each rank."""
    inside, rank = (slice(1, -1), slice(1, -1)), world.rank
    local = array_of(world, np.zeros((6, 12)), memory)
    for periodic in (False, True):
        plan = world.halo(local, ghost=1, grid=(2, 1), periodic=periodic, corners=True)
        for turn, run in enumerate(ways_to_run(world, plan.launch)):
            whole = np.arange(80.0).reshape(8, 10) + 1000 * turn
            padded = np.pad(whole, 1, mode="wrap") if periodic else np.pad(whole, 1, constant_values=GHOST)
            expected = padded[4 * rank : 4 * rank + 6]
            before = np.full((6, 12), GHOST)
            before[inside] = expected[inside]
            fill(world, local, before)
            world.barrier()  # a neighbour that is ahead fills these cells
            run()
            world.synchronize()
            assert holds(world, local, np.ascontiguousarray(expected)), f"periodic {periodic}, way {turn}"
