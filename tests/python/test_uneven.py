"""Collectives of parts of different lengths, counted in rows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs import run_ranks
from rank_threads import run, until_it_fails

import onstream as ons

COUNTS = [[1], [3, 0], [0, 0], [2, 5, 0, 1], [1000, 0, 1, 70_000]]
ROWS: list[tuple[int, ...]] = [(), (3,), (2, 2)]


def numbers(rows: int, row: tuple[int, ...], rank: int) -> np.ndarray:
    values: np.ndarray = np.arange(rows * int(np.prod(row)), dtype="f8") + 1000 * rank
    return values.reshape(rows, *row)


def move_all(world: ons.World, counts: list[int], **options: Any) -> None:
    mine, root = world.rank, world.size - 1
    for row in ROWS:
        parts = [numbers(count, row, rank) for rank, count in enumerate(counts)]
        whole, own = np.concatenate(parts), np.zeros((counts[mine], *row))
        every = np.zeros_like(whole)
        if mine == root:
            assert world.gather_v(parts[mine], every, counts, root=root, **options) is every
        else:
            assert world.gather_v(parts[mine], root=root, **options) is None
        if mine == root:
            world.scatter_v(whole, own, counts, root=root, **options)
        else:
            world.scatter_v(None, own, root=root, **options)
        came, back = np.zeros_like(whole), np.zeros_like(whole)
        world.all_gather_v(parts[mine], came, counts, **options)
        # Every rank sends its whole part to rank 0, as gather_v does.
        send = [counts[mine], *[0] * (world.size - 1)]
        world.all_to_all_v(parts[mine], back, send, counts if mine == 0 else [0] * world.size, **options)
        world.synchronize()
        if mine == root:
            np.testing.assert_array_equal(every, whole)
        np.testing.assert_array_equal(own, parts[mine])
        np.testing.assert_array_equal(came, whole)
        np.testing.assert_array_equal(back, whole if mine == 0 else 0 * whole)


def reduce_all(world: ons.World, counts: list[int], **options: Any) -> None:
    for row in ROWS:
        given = [numbers(sum(counts), row, rank) for rank in range(world.size)]
        begin = sum(counts[: world.rank])
        here = slice(begin, begin + counts[world.rank])
        for op, expected in (("sum", sum(given)), ("max", np.max(given, axis=0))):
            out = np.full((counts[world.rank], *row), -1.0)
            mine = given[world.rank].copy()
            assert world.reduce_scatter_v(mine, out, counts, op=op, **options) is out
            world.synchronize()
            np.testing.assert_array_equal(out, expected[here])
            np.testing.assert_array_equal(mine, given[world.rank])


def in_processes(world: ons.World) -> None:
    for counts in COUNTS:
        if len(counts) == world.size:
            move_all(world, counts)
            reduce_all(world, counts)


@pytest.mark.parametrize("check", ["off", "on"])
@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_every_rank_gets_its_rows(counts: list[int], check: str) -> None:
    def body(world: ons.World) -> None:
        move_all(world, counts)
        move_all(world, counts, stream=world.stream())
        reduce_all(world, counts)
        reduce_all(world, counts, stream="host", deterministic=True)

    run(len(counts), body, collective_check=check)


def test_rows_between_processes(tmp_path: Path) -> None:
    run_ranks(tmp_path, 4, [in_processes])


def test_offsets_are_rows_and_the_gaps_stay() -> None:
    def body(world: ons.World) -> None:
        mine, out = numbers(2, (3,), world.rank), np.full((6, 3), -1.0)
        if world.rank == 1:
            world.gather_v(mine, out, [2, 2], root=1, offsets=[4, 1])
            np.testing.assert_array_equal(out[4:], numbers(2, (3,), 0))
            np.testing.assert_array_equal(out[1:3], mine)
            assert (out[[0, 3]] == -1).all()
            world.scatter_v(out, mine, [2, 2], root=1, offsets=[0, 4])
        else:
            world.gather_v(mine, root=1)
            world.scatter_v(None, mine, root=1)
            np.testing.assert_array_equal(mine, [[-1] * 3, [1000, 1001, 1002]])

    run(2, body)


def test_a_neighbourhood_counts_rows_too() -> None:
    def body(world: ons.World) -> None:
        hood = world.neighbourhood(sources=[1 - world.rank], destinations=[1 - world.rank])
        for row in ROWS:
            mine, came = numbers(2 + world.rank, row, world.rank), np.zeros((5, *row))
            counts = [2 + world.rank], [3 - world.rank]
            hood.all_to_all_v(mine, came, *counts, receive_offsets=[1])
            np.testing.assert_array_equal(came[1 : 4 - world.rank], numbers(3 - world.rank, row, 1 - world.rank))
            assert (came[0] == 0).all()

    run(2, body)


def test_teams_plans_and_graphs_have_them() -> None:
    counts = [1, 3]

    def body(world: ons.World) -> None:
        half = world.split(world.rank // 2)
        total, part = np.zeros(4), np.zeros(counts[half.rank])
        builder = world.plan().use_path("auto")
        ops = builder.collectives(half)
        mine = np.full(counts[half.rank], 1.0 + world.rank)
        ops.gather_v(mine, total, counts)
        ops.reduce_scatter_v(np.arange(4.0), part, counts)
        plan = builder.build()
        stream = world.stream()
        with world.capture(stream) as graph:
            plan.launch()
        for run_once in (plan.launch, graph.launch):
            total[...], part[...] = 0, 0
            run_once()
            stream.synchronize()
            if half.rank == 0:
                first = world.rank + 1.0
                np.testing.assert_array_equal(total, [first, first + 1, first + 1, first + 1])
            np.testing.assert_array_equal(part, [0] if half.rank == 0 else [2, 4, 6])

    run(4, body)


def test_explain_tells_of_each() -> None:
    def body(world: ons.World) -> None:
        explain = world.explain
        assert explain.gather_v(np.zeros(1), np.zeros(3), [1, 2]).startswith("all_to_all_v on 2 ranks: ")
        assert explain.reduce_scatter_v(np.zeros(3), np.zeros(1), [1, 2]).count("reduce of ") == 2

    ons.run_threads(2, lambda world: body(world) if world.rank == 0 else None, device="host")


MISTAKES: list[tuple[Callable[[ons.World], Any], str]] = [
    (lambda w: w.gather_v(np.zeros(2), np.zeros(2), [3]), r"gather_v: `out` has 16 bytes, but counts and offsets reach 24"),
    (lambda w: w.gather_v(np.zeros(2), np.zeros(3), [3]), r"gather_v: `array` has 2 elements, but counts\[0\] is 3"),
    (lambda w: w.gather_v(np.zeros(2), np.zeros(2)), "gather_v: the root needs `out` and `counts`"),
    (lambda w: w.gather_v(np.zeros(2), None, [2]), "gather_v: the root needs `out` and `counts`"),
    (lambda w: w.gather_v(np.zeros(2), np.zeros(2), [1, 1]), "gather_v: 2 counts for 1 ranks"),
    (lambda w: w.gather_v(np.zeros(2), np.zeros(2), [-2]), "counts has a negative entry"),
    (lambda w: w.gather_v(np.zeros(2), np.zeros(2), [2], root=1), "root 1 does not exist"),
    (lambda w: w.gather_v(np.zeros(2), np.zeros(2, "f4"), [2]), "reach 16"),
    (lambda w: w.gather_v(np.zeros(2), np.zeros(4, "f4"), [2]), "of float64, but `out` of float32; nothing is converted"),
    (lambda w: w.gather_v(np.zeros((2, 3)), np.zeros((3, 2)), [2]), r"shape \(2, 3\)\) has 24 bytes, but one of `out`"),
    (lambda w: w.scatter_v(None, np.zeros(2)), "scatter_v: the root needs an array and `counts`"),
    (lambda w: w.scatter_v(np.zeros(2), np.zeros(1), [2]), r"scatter_v: `out` has 1 elements, but counts\[0\] is 2"),
    (lambda w: w.scatter_v(np.zeros(2), np.zeros(3), [3]), "scatter_v: `array` has 16 bytes, but .* reach 24"),
    (lambda w: w.scatter_v(np.zeros(2), np.zeros(2), ["2"]), "counts is '2'"),
    (lambda w: w.reduce_scatter_v(np.zeros(2), np.zeros(3), [3]), r"the array has 2 elements, but counts \[3\] have 3"),
    (lambda w: w.reduce_scatter_v(np.zeros((2, 2)), np.zeros((1, 2)), [2]), r"`out` has 1 rows, but counts\[0\] is 2"),
    (lambda w: w.reduce_scatter_v(np.zeros(2), np.zeros(2, "i8"), [2]), "the array is of float64, but `out` of int64"),
    (lambda w: w.reduce_scatter_v(np.zeros(()), np.zeros(1), [1]), "the array has 1 elements"),
    (lambda w: w.reduce_scatter_v(np.zeros(2), np.zeros(2), [2], op="mean"), "there is no reduction 'mean'"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "told"), MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes_are_told_by_name(call: Callable[[ons.World], Any], told: str) -> None:
    def body(world: ons.World) -> None:
        with pytest.raises((TypeError, ons.InvalidArgumentError), match=told):
            call(world)

    run(1, body)


def gather_differs(world: ons.World) -> None:
    world.gather_v(np.zeros(3), np.zeros(4), [3, 1]) if world.rank == 0 else world.gather_v(np.zeros(2))


def scatter_differs(world: ons.World) -> None:
    world.scatter_v(np.zeros(4), np.zeros(3), [3, 1]) if world.rank == 0 else world.scatter_v(None, np.zeros(2))


def reduce_differs(world: ons.World) -> None:
    counts = [3, 1] if world.rank == 0 else [2, 2]
    world.reduce_scatter_v(np.zeros(4), np.zeros(counts[world.rank]), counts)


@pytest.mark.parametrize("call", [gather_differs, scatter_differs, reduce_differs])
def test_ranks_whose_counts_differ_are_told(call: Callable[[ons.World], None]) -> None:
    def body(world: ons.World) -> None:
        with contextlib.suppress(ons.Error):
            call(world)
        until_it_fails(world)
        world.check()

    with pytest.raises(ons.Error, match=r"\d B|another count"):
        run(2, body)
