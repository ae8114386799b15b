"""Collectives from Python: arrays and element types in and out, streams and graphs, teams, and errors that help."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs import run_job

import onstream as ons


def on_threads(size: int, body: Callable[[ons.World], None]) -> None:
    ons.run_threads(size, body, device="host", timeout_s=20)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float16", "float32", "float64", "complex64"])
def test_all_reduce_sums_numpy_arrays_in_place_and_beside(dtype: str) -> None:
    def body(world: ons.World) -> None:
        mine = (np.arange(50) % 3 + world.rank).astype(dtype)
        expected = sum((np.arange(50) % 3 + rank).astype(dtype) for rank in range(world.size))
        out = np.zeros_like(mine)
        assert world.all_reduce(mine, out) is out
        np.testing.assert_array_equal(out, expected)
        assert world.all_reduce(mine) is mine
        np.testing.assert_array_equal(mine, expected)

    on_threads(3, body)


def test_reductions_have_numpys_results() -> None:
    def body(world: ons.World) -> None:
        values = [np.arange(10) * (rank + 1) % 7 for rank in range(world.size)]
        mine = values[world.rank]
        for op, reference in [("min", np.min), ("max", np.max), ("prod", np.prod), ("bor", np.bitwise_or.reduce)]:
            np.testing.assert_array_equal(world.all_reduce(mine.copy(), op=op), reference(values, axis=0))
        np.testing.assert_array_equal(world.scan(mine.copy()), sum(values[: world.rank + 1]))
        before = world.scan(mine.copy(), exclusive=True)
        np.testing.assert_array_equal(before, sum(values[: world.rank]) if world.rank else mine)
        scaled = world.all_reduce(mine.copy(), op="premulsum", factor=world.rank + 1)
        np.testing.assert_array_equal(scaled, sum((rank + 1) * one for rank, one in enumerate(values)))
        only = world.reduce(mine.copy(), root=1)
        np.testing.assert_array_equal(only, sum(values) if world.rank == 1 else mine)
        part = np.zeros(5, dtype=mine.dtype)
        world.reduce_scatter(mine, part)
        np.testing.assert_array_equal(part, sum(values)[5 * world.rank : 5 * world.rank + 5])

    on_threads(2, body)


def test_minloc_takes_pairs_of_value_and_index() -> None:
    def body(world: ons.World) -> None:
        pairs = np.zeros(4, dtype=[("value", "f8"), ("index", "i8")])
        pairs["value"] = [3, 1, 2, 0.5 * world.rank]
        pairs["index"] = world.rank
        world.all_reduce(pairs, op="minloc")
        assert pairs["index"].tolist() == [0, 0, 0, 0]
        pairs["value"] = [world.rank, -world.rank, 5, 5]
        pairs["index"] = world.rank
        world.all_reduce(pairs, op="maxloc")
        assert pairs["index"].tolist() == [2, 0, 0, 0]

    on_threads(3, body)


def test_moves_bring_arrays_of_any_type_where_they_belong() -> None:
    def body(world: ons.World) -> None:
        rank, size = world.rank, world.size
        mine = np.array([f"rank {rank}", "x"], dtype="U8")
        everything = np.zeros(2 * size, dtype="U8")
        world.all_gather(mine, everything)
        assert everything.tolist() == [word for r in range(size) for word in (f"rank {r}", "x")]
        world.gather(mine, everything if rank == 1 else None, root=1)
        back = np.zeros(2, dtype="U8")
        world.scatter(everything if rank == 1 else None, back, root=1)
        assert back.tolist() == mine.tolist()
        assert world.broadcast(np.full(3, rank), root=2).tolist() == [2, 2, 2]
        table = np.array([[10 * rank + to] for to in range(size)])
        assert world.all_to_all(table, np.zeros_like(table)).ravel().tolist() == [10 * r + rank for r in range(size)]
        assert world.all_to_all(table).ravel().tolist() == [10 * r + rank for r in range(size)]

    on_threads(3, body)


def test_counts_may_differ() -> None:
    def body(world: ons.World) -> None:
        rank, size = world.rank, world.size
        mine = np.full(rank + 1, rank, dtype="int32")
        counts = [r + 1 for r in range(size)]
        out = np.zeros(sum(counts), dtype="int32")
        world.all_gather_v(mine, out, counts)
        assert out.tolist() == [r for r in range(size) for _ in range(r + 1)]
        send = [rank + to for to in range(size)]
        receive = [r + rank for r in range(size)]
        source = np.repeat(np.arange(size), send) + 100 * rank
        target = np.zeros(sum(receive), dtype=source.dtype)
        world.all_to_all_v(source, target, send, receive)
        assert target.tolist() == [100 * r + rank for r in range(size) for _ in range(r + rank)]

    on_threads(3, body)


def test_a_captured_all_reduce_is_replayed() -> None:
    def body(world: ons.World) -> None:
        values = world.zeros(4, "int64")
        values[:] = 1
        stream = world.stream()
        with world.capture(stream) as graph:
            world.all_reduce(values)
            world.barrier(stream=stream)
        for _ in range(5):
            graph.launch(stream)
        world.synchronize(stream)
        assert values.tolist() == [3**5] * 4

    on_threads(3, body)


@pytest.mark.parametrize("algorithm", ["direct", "copy", "ring"])
def test_moves_can_be_asked_for_by_algorithm_eager_and_captured(algorithm: str) -> None:
    def body(world: ons.World) -> None:
        mine = world.zeros(1000, "int32")
        every = world.zeros(1000 * world.size, "int32")
        stream = world.stream()
        world.all_gather(mine, every, algorithm=algorithm)
        with world.capture(stream) as graph:
            world.all_gather(mine, every, algorithm=algorithm)
        for value in (5, 7):
            mine[:] = value + world.rank
            graph.launch(stream)
            world.synchronize(stream)
            assert every.tolist() == [value + rank for rank in range(world.size) for _ in range(1000)]
            world.barrier()

    on_threads(3, body)


def test_a_copy_to_memory_that_peers_cannot_address_says_so_on_every_rank() -> None:
    def body(world: ons.World) -> None:
        with pytest.raises(ons.Error, match="algorithm copy cannot, as of rank 0"):
            world.all_gather(np.zeros(4), np.zeros(12), algorithm="copy")
        world.barrier()

    on_threads(3, body)


def test_teams_have_collectives_of_their_own() -> None:
    def body(world: ons.World) -> None:
        team = world.team([0, 2] if world.rank != 1 else [])
        if world.rank == 1:
            assert team.rank == -1
        else:
            assert team.ranks == [0, 2]
            assert team.rank == world.rank // 2
            assert team.all_reduce(np.array([world.rank + 1])).tolist() == [4]
            team.barrier()

    on_threads(3, body)


def test_ranks_of_processes_agree(tmp_path: Path) -> None:
    outcome = run_job(
        tmp_path,
        4,
        """
        import numpy as np
        import onstream as ons

        with ons.init(device="host", collective_group=2) as world:
            for count in (1, 1000, 300_000):
                plain = np.full(count, world.rank + 1.0)
                shared = world.zeros(count)
                shared[:] = world.rank + 1
                assert (world.all_reduce(plain) == 10).all() and (world.all_reduce(shared) == 10).all()
                parts = np.repeat(np.arange(4) + 10 * world.rank, count)
                got = world.all_to_all(parts)
                assert (got == np.repeat(10 * np.arange(4) + world.rank, count)).all()
                for algorithm in ("direct", "ring", "tree", "halving_doubling", "hierarchical"):
                    plain[:] = shared[:] = world.rank + 1
                    assert (world.all_reduce(plain, algorithm=algorithm) == 10).all()
                    assert (world.all_reduce(shared, algorithm=algorithm) == 10).all()
                every = world.zeros(4 * count)
                for algorithm in ("direct", "ring", "copy", "halving_doubling", "hierarchical"):
                    shared[:] = world.rank
                    world.all_gather(shared, every, algorithm=algorithm)
                    assert (every == np.repeat(np.arange(4), count)).all()
                    every[:] = 0
                    world.barrier()
            print("rank", world.rank, "agrees")
        """,
    )
    assert outcome.code == 0, outcome.err
    assert outcome.out.count("agrees") == 4


def test_a_deterministic_reduction_refuses_what_adds_in_another_order() -> None:
    def body(world: ons.World) -> None:
        mine = np.sin(np.arange(100, dtype="f4") * 13 + world.rank)
        first = world.all_reduce(mine.copy(), deterministic=True)
        for algorithm in ("lines", "two_shot", "wide", "direct"):
            again = world.all_reduce(mine.copy(), algorithm=algorithm, deterministic=True)
            assert again.tobytes() == first.tobytes()
        calls: list[tuple[str, Callable[..., Any]]] = [
            ("ring", world.all_reduce),
            ("tree", world.reduce),
            ("halving_doubling", lambda array, **options: world.reduce_scatter(array, np.empty(25, "f4"), **options)),
            ("hierarchical", world.all_reduce),
        ]
        for algorithm, call in calls:
            with pytest.raises(ons.InvalidArgumentError, match=f"algorithm {algorithm} cannot: it adds in the order"):
                call(mine.copy(), algorithm=algorithm, deterministic=True)
            if algorithm != "halving_doubling":
                call(np.arange(100), algorithm=algorithm, deterministic=True)
        np.testing.assert_array_equal(world.scan(np.arange(4), deterministic=True), np.arange(4) * (world.rank + 1))

    ons.run_threads(4, body, device="host", timeout_s=20, collective_group=2)


def test_what_cannot_work_is_told() -> None:
    def body(world: ons.World) -> None:
        with pytest.raises(ons.InvalidArgumentError, match="bor has no meaning for float64"):
            world.all_reduce(np.zeros(2), op="bor")
        with pytest.raises(ons.InvalidArgumentError, match="there is no reduction 'plus'"):
            world.all_reduce(np.zeros(2), op="plus")
        with pytest.raises(ons.InvalidArgumentError, match="contiguous"):
            world.all_reduce(np.zeros((4, 4))[:, 1])
        with pytest.raises(ons.InvalidArgumentError, match="`out` has 16 bytes, but needs 32"):
            world.all_gather(np.zeros(2), np.zeros(2))
        with pytest.raises(ons.InvalidArgumentError, match="of float64, but `out` of int64"):
            world.all_reduce(np.zeros(2), np.zeros(2, dtype="int64"))
        with pytest.raises(ons.InvalidArgumentError, match="cannot be dealt to 2 ranks"):
            world.all_to_all(np.zeros(3))
        with pytest.raises(ons.InvalidArgumentError, match="cannot reduce elements of str"):
            world.all_reduce(np.array(["word"]))
        with pytest.raises(ons.InvalidArgumentError, match="root 5 does not exist"):
            world.broadcast(np.zeros(2), root=5)
        with pytest.raises(ons.InvalidArgumentError, match="no algorithm 'magic'"):
            world.all_reduce(np.zeros(2), algorithm="magic")
        with pytest.raises(ons.InvalidArgumentError, match="read-only"):
            world.broadcast(b"constant")
        assert "us predicted" in world.explain_all_reduce(np.zeros(2))
        world.barrier()

    on_threads(2, body)


def test_a_rank_that_does_not_come_is_named() -> None:
    def body(world: ons.World) -> None:
        world.all_reduce(np.zeros(2))
        if world.rank == 0:
            with pytest.raises(ons.Error, match="all_reduce of 16 B, waiting for rank 1"):
                world.all_reduce(np.zeros(2))
        else:
            deadline = time.monotonic() + 20
            while world.failure() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            assert "waiting for rank 1" in str(world.failure())

    ons.run_threads(2, body, device="host", timeout_s=1)


def test_checking_names_who_calls_something_else() -> None:
    def body(world: ons.World) -> None:
        odd = world.rank == 1
        with pytest.raises(ons.InvalidArgumentError, match="rank 1: all_reduce of 3 float64 sum"):
            world.all_reduce(np.zeros(3 if odd else 2))
        with pytest.raises(ons.InvalidArgumentError, match="rank 1: broadcast of 16 uint8, root 1"):
            world.broadcast(np.zeros(2), root=1 if odd else 0)
        assert world.all_reduce(np.ones(2)).tolist() == [3, 3]  # nothing is broken

    ons.run_threads(3, body, device="host", timeout_s=20, collective_check="on")


def test_small_ones_that_differ_are_refused_without_checking() -> None:
    all_through = threading.Barrier(3)  # a call that returns late would find the world failed by the next

    def body(world: ons.World) -> None:
        world.all_reduce(np.zeros(2))
        all_through.wait(timeout=60)
        with pytest.raises(ons.Error, match="calls another collective, or the same with another count"):
            world.all_reduce(np.zeros(3 if world.rank == 1 else 2))

    ons.run_threads(3, body, device="host", timeout_s=60)


def test_a_function_reduces_in_the_order_of_the_ranks() -> None:
    def after(first: np.ndarray, second: np.ndarray) -> Any:  # of maps x -> a x + b, which do not commute
        out = second.copy()
        out["a"], out["b"] = first["a"] * second["a"], first["a"] * second["b"] + first["b"]
        return out

    def body(world: ons.World) -> None:
        maps = np.zeros(3, dtype=[("a", "i8"), ("b", "i8")])
        maps["a"], maps["b"] = world.rank + 2, np.arange(3)
        out = np.zeros_like(maps)
        world.all_reduce(maps, out, op=after)
        assert out["a"].tolist() == [24] * 3
        assert out["b"].tolist() == [0, 1 + 2 + 6, 2 * (1 + 2 + 6)]
        values = np.full(2, float(world.rank + 1))
        assert world.scan(values, op=lambda a, b: a * b).tolist() == [[1, 2, 6][world.rank]] * 2
        stream = world.stream()
        world.all_reduce(values, op=np.maximum, stream=stream)
        world.synchronize(stream)
        assert values.tolist() == [6, 6]
        with pytest.raises(ons.InvalidArgumentError, match="needs numpy arrays, not bytearray"):
            world.all_reduce(bytearray(8), op=np.add)

    on_threads(3, body)


def test_what_a_function_raises_fails_the_world() -> None:
    def body(world: ons.World) -> None:
        def fails(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            raise ValueError("no sum of these")

        with pytest.raises(ons.Error, match="reduction of its own threw on rank .: ValueError: no sum of these"):
            world.all_reduce(np.zeros(2), op=fails)

    on_threads(2, body)
