"""Collectives of worlds and teams over several hosts: each function is called by every rank with its world."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onstream as ons

TYPES = ["float64", "float16"]
COUNTS = [1, 60, 6000, 60000]  # a multiple of 2, 3, 4 and 5; above 8192 B an all_reduce goes in parts


def values(count: int, dtype: str, rank: int) -> np.ndarray:
    """Their sums depend on the order of additions."""
    return np.random.default_rng(rank).normal(size=count).astype(dtype)


def in_order(parts: list[np.ndarray]) -> np.ndarray:
    """The sum in the order of the ranks. The library adds float16 as floats."""
    wide = "float32" if parts[0].dtype == np.float16 else parts[0].dtype
    total = parts[0].astype(wide)
    for part in parts[1:]:
        total = total + part.astype(wide)
    return total.astype(parts[0].dtype)


def same(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(found, expected)


def check_all(on: Any, stream: Any = None) -> None:
    """Every kind, on a world or team. With a stream each call is waited for there."""
    rank, size = on.rank, on.size
    options = {} if stream is None else {"stream": stream}

    def ended(result: Any) -> Any:
        if stream is not None:
            stream.synchronize()
        return result

    for dtype in TYPES:
        for count in COUNTS:
            parts = [values(count, dtype, one) for one in range(size)]
            mine, total, out = parts[rank].copy(), in_order(parts), np.zeros(count, dtype)
            same(ended(on.all_reduce(mine, out, **options)), total)
            same(ended(on.all_reduce(mine.copy(), **options)), total)
            same(ended(on.all_reduce(mine.copy(), op="max", **options)), np.max(parts, axis=0))
            root = size - 1
            only = ended(on.reduce(mine.copy(), root=root, **options))
            same(only, total if rank == root else mine)
            same(ended(on.scan(mine.copy(), **options)), in_order(parts[: rank + 1]))
            before = ended(on.scan(mine.copy(), exclusive=True, **options))
            same(before, in_order(parts[:rank]) if rank else mine)
            same(ended(on.broadcast(mine.copy(), root=root, **options)), parts[root])
            everything = np.zeros((size, count), dtype)
            same(ended(on.all_gather(mine, everything, **options)), np.array(parts))
            gathered = np.zeros((size, count), dtype)
            ended(on.gather(mine, gathered if rank == root else None, root=root, **options))
            same(gathered, np.array(parts) if rank == root else np.zeros((size, count)))
            same(ended(on.scatter(everything if rank == 0 else None, out, **options)), parts[rank])
            tables = [values(count * size, dtype, 100 + one).reshape(size, count) for one in range(size)]
            dealt = np.array([table[rank] for table in tables])
            same(ended(on.all_to_all(tables[rank].copy(), np.zeros((size, count), dtype), **options)), dealt)
            same(ended(on.all_to_all(tables[rank].copy(), **options)), dealt)
            part = ended(on.reduce_scatter(tables[rank].copy(), np.zeros(count, dtype), **options))
            same(part, in_order(tables)[rank])
        lengths = [3 * one for one in range(size)]  # the first gives nothing
        row = np.zeros(sum(lengths), dtype)
        ended(on.all_gather_v(values(lengths[rank], dtype, rank), row, lengths, **options))
        same(row, np.concatenate([values(length, dtype, one) for one, length in enumerate(lengths)]))
        sent = np.repeat(np.arange(size), [rank + to for to in range(size)]).astype(dtype) + 10 * rank
        came = np.zeros(sum(rank + one for one in range(size)), dtype)
        counts = [rank + one for one in range(size)]
        ended(on.all_to_all_v(sent, came, counts, counts, **options))
        same(came, np.concatenate([np.full(rank + one, rank + 10 * one) for one in range(size)]).astype(dtype))
    on.barrier(**options)
    ended(None)


def a_world(world: ons.World) -> None:
    check_all(world)


def a_stream(world: ons.World) -> None:
    check_all(world, world.stream())


def teams(world: ons.World) -> None:
    local = world.launch.local_size
    within = world.split(world.rank // local)
    check_all(within)
    across = world.split(world.rank % local)
    check_all(across)
    backwards = world.team([] if world.rank == 0 else range(world.size - 1, 0, -1))
    if world.rank > 0:
        check_all(backwards)
    world.barrier()


def functions(world: ons.World) -> None:
    def after(first: np.ndarray, second: np.ndarray) -> Any:  # of maps x -> a x + b, which do not commute
        out = second.copy()
        out["a"], out["b"] = first["a"] * second["a"], first["a"] * second["b"] + first["b"]
        return out

    for count in (3, 3000):
        parts = []
        for rank in range(world.size):
            maps = np.zeros(count, dtype=[("a", "i8"), ("b", "i8")])
            maps["a"], maps["b"] = rank + 2, np.arange(count) + rank
            parts.append(maps)
        expected = parts[0]
        for part in parts[1:]:
            expected = after(expected, part)
        same(world.all_reduce(parts[world.rank].copy(), op=after), expected)
        wanted = parts[0]
        for part in parts[1 : world.rank + 1]:
            wanted = after(wanted, part)
        same(world.scan(parts[world.rank].copy(), op=after), wanted)


def graphs(world: ons.World) -> None:
    stream = world.stream()
    small, large = np.zeros(60), np.zeros(6000)
    everything = np.zeros((world.size, 60))
    with world.capture(stream) as graph:
        world.all_gather(small, everything)
        world.all_reduce(small)
        world.all_reduce(large)
        world.barrier(stream=stream)
    sums = world.size * (world.size - 1) / 2
    for turn in range(50):
        small[:] = world.rank + turn
        large[:] = world.rank - turn
        graph.launch()
        stream.synchronize()
        same(everything, np.repeat(np.arange(world.size) + turn, 60).reshape(world.size, 60))
        same(small, np.full(60, sums + world.size * turn))
        same(large, np.full(6000, sums - world.size * turn))


def sums_have_the_same_bits_everywhere(world: ons.World) -> None:
    for dtype in TYPES:
        for count in (60, 60000):
            total = world.all_reduce(values(count, dtype, world.rank))
            everywhere = np.zeros((world.size, count), dtype)
            world.all_gather(total, everywhere)
            bits = everywhere.view("u1")
            assert (bits == bits[0]).all()


def refused_calls(world: ons.World) -> None:
    with pytest.raises(
        ons.UnsupportedError, match="algorithm ring needs all ranks on one host; leave the algorithm out"
    ):
        world.all_reduce(np.zeros(60), algorithm="ring")
    assert "several hosts" in world.explain.all_reduce(np.zeros(60))
    assert "path net" in world.explain.all_reduce(np.zeros(60))


EVERYTHING = [a_world, a_stream, teams, functions, graphs, sums_have_the_same_bits_everywhere, refused_calls]
