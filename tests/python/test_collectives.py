"""Collectives from Python: arrays and element types in and out, streams and graphs, teams, and errors that help."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs import run_job
from memories import DEVICES, for_kernels

import onstream as ons


def on_threads(size: int, body: Callable[[ons.World], None], device: str = "host") -> None:
    ons.run_threads(size, body, device=device, timeout_s=20)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("device", DEVICES)
def test_all_reduce_sums_numpy_arrays_in_place_and_beside(device: str, dtype: str) -> None:
    def body(world: ons.World) -> None:
        mine = for_kernels(world, (np.arange(50) % 3 + world.rank).astype(dtype))
        expected = sum((np.arange(50) % 3 + rank).astype(dtype) for rank in range(world.size))
        out = for_kernels(world, np.zeros(50, dtype))
        assert world.all_reduce(mine, out) is out
        np.testing.assert_array_equal(out, expected)
        assert world.all_reduce(mine) is mine
        np.testing.assert_array_equal(mine, expected)

    on_threads(3, body, device)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "bfloat16"])
def test_narrow_floats_are_added_as_floats_and_rounded_once(name: str) -> None:
    narrow = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    dtype = getattr(narrow, name)
    large = 2.0 ** (narrow.finfo(dtype).nmant + 1)  # beside it 1 is half of the spacing between values
    values = [np.array([large if rank == 0 else 1] * 20 + [rank] * 20, dtype) for rank in range(4)]
    wide = np.array(values, dtype="float32")
    rounded_each_time = values[0] + values[1] + values[2] + values[3]
    assert (rounded_each_time != wide.sum(axis=0).astype(dtype))[:20].all()

    def body(world: ons.World) -> None:
        for algorithm in ("ll", "two_shot", "simple", "ring"):
            total = world.all_reduce(values[world.rank].copy(), algorithm=algorithm)
            assert total.dtype == dtype
            np.testing.assert_array_equal(total, wide.sum(axis=0).astype(dtype))
        np.testing.assert_array_equal(
            world.all_reduce(values[world.rank].copy(), op="max"), wide.max(axis=0).astype(dtype)
        )
        part = np.zeros(10, dtype)
        world.reduce_scatter(values[world.rank], part, op="avg")
        at = 10 * world.rank
        np.testing.assert_array_equal(part, wide.mean(axis=0).astype(dtype)[at : at + 10])
        gathered = np.zeros((world.size, 40), dtype)
        world.all_gather(values[world.rank], gathered)
        np.testing.assert_array_equal(gathered, values)

    on_threads(4, body)


@pytest.mark.parametrize("device", DEVICES)
def test_reductions_have_numpys_results(device: str) -> None:
    def body(world: ons.World) -> None:
        values = [np.arange(10) * (rank + 1) % 7 for rank in range(world.size)]
        mine = values[world.rank]

        def copy() -> np.ndarray:
            return for_kernels(world, mine)

        for op, reference in [("min", np.min), ("max", np.max), ("prod", np.prod), ("bor", np.bitwise_or.reduce)]:
            np.testing.assert_array_equal(world.all_reduce(copy(), op=op), reference(values, axis=0))
        np.testing.assert_array_equal(world.scan(copy()), sum(values[: world.rank + 1]))
        before = world.scan(copy(), exclusive=True)
        np.testing.assert_array_equal(before, sum(values[: world.rank]) if world.rank else mine)
        scaled = world.all_reduce(copy(), op="premulsum", factor=world.rank + 1)
        np.testing.assert_array_equal(scaled, sum((rank + 1) * one for rank, one in enumerate(values)))
        only = world.reduce(copy(), root=1)
        np.testing.assert_array_equal(only, sum(values) if world.rank == 1 else mine)
        part = for_kernels(world, np.zeros(5, mine.dtype))
        world.reduce_scatter(copy(), part)
        np.testing.assert_array_equal(part, sum(values)[5 * world.rank : 5 * world.rank + 5])

    on_threads(2, body, device)


@pytest.mark.parametrize("device", DEVICES)
def test_minloc_takes_pairs_of_value_and_index(device: str) -> None:
    def body(world: ons.World) -> None:
        pairs = for_kernels(world, np.zeros(4, dtype=[("value", "f8"), ("index", "i8")]))
        pairs["value"] = [3, 1, 2, 0.5 * world.rank]
        pairs["index"] = world.rank
        world.all_reduce(pairs, op="minloc")
        assert pairs["index"].tolist() == [0, 0, 0, 0]
        pairs["value"] = [world.rank, -world.rank, 5, 5]
        pairs["index"] = world.rank
        world.all_reduce(pairs, op="maxloc")
        assert pairs["index"].tolist() == [2, 0, 0, 0]

    on_threads(3, body, device)


@pytest.mark.parametrize("device", DEVICES)
def test_moves_bring_arrays_of_any_type_where_they_belong(device: str) -> None:
    def body(world: ons.World) -> None:
        rank, size = world.rank, world.size
        mine = for_kernels(world, np.array([f"rank {rank}", "x"], dtype="U8"))
        everything = for_kernels(world, np.zeros(2 * size, dtype="U8"))
        world.all_gather(mine, everything)
        assert everything.tolist() == [word for r in range(size) for word in (f"rank {r}", "x")]
        world.gather(mine, everything if rank == 1 else None, root=1)
        back = for_kernels(world, np.zeros(2, dtype="U8"))
        world.scatter(everything if rank == 1 else None, back, root=1)
        assert back.tolist() == mine.tolist()
        assert world.broadcast(for_kernels(world, np.full(3, rank)), root=2).tolist() == [2, 2, 2]
        table = for_kernels(world, np.array([[10 * rank + to] for to in range(size)]))
        dealt = for_kernels(world, np.zeros((size, 1), table.dtype))
        assert world.all_to_all(table, dealt).ravel().tolist() == [10 * r + rank for r in range(size)]
        assert world.all_to_all(table).ravel().tolist() == [10 * r + rank for r in range(size)]

    on_threads(3, body, device)


@pytest.mark.parametrize("device", DEVICES)
def test_counts_may_differ(device: str) -> None:
    def body(world: ons.World) -> None:
        rank, size = world.rank, world.size
        mine = for_kernels(world, np.full(rank + 1, rank, dtype="int32"))
        counts = [r + 1 for r in range(size)]
        out = for_kernels(world, np.zeros(sum(counts), dtype="int32"))
        world.all_gather_v(mine, out, counts)
        assert out.tolist() == [r for r in range(size) for _ in range(r + 1)]
        send = [rank + to for to in range(size)]
        receive = [r + rank for r in range(size)]
        source = for_kernels(world, np.repeat(np.arange(size), send) + 100 * rank)
        target = for_kernels(world, np.zeros(sum(receive), dtype=source.dtype))
        world.all_to_all_v(source, target, send, receive)
        assert target.tolist() == [100 * r + rank for r in range(size) for _ in range(r + rank)]

    on_threads(3, body, device)


@pytest.mark.parametrize("device", DEVICES)
def test_a_move_of_the_same_arrays_with_other_counts_is_another(device: str) -> None:
    def body(world: ons.World) -> None:
        mine = for_kernels(world, 10 * world.rank + np.arange(4))
        out = for_kernels(world, np.zeros(8, dtype=int))
        for first, second in [(1, 3), (3, 1), (2, 2), (1, 3)] * 3:
            out[:] = -1
            counts = (first, second)  # for rank 0, and for rank 1, from both
            own = counts[world.rank]
            world.all_to_all_v(mine, out, counts, [own, own])
            begin = 0 if world.rank == 0 else first
            parts = [10 * rank + begin + i for rank in range(2) for i in range(own)]
            assert out.tolist() == parts + [-1] * (8 - len(parts))

    on_threads(2, body, device)


@pytest.mark.parametrize("device", DEVICES)
def test_a_captured_all_reduce_is_replayed(device: str) -> None:
    def body(world: ons.World) -> None:
        values = world.zeros(4, "int64", kind="pinned")
        values[:] = 1
        stream = world.stream()
        with world.capture(stream) as graph:
            world.all_reduce(values)
            world.barrier(stream=stream)
        for _ in range(5):
            graph.launch(stream)
        world.synchronize(stream)
        assert values.tolist() == [3**5] * 4

    on_threads(3, body, device)


# On GPUs ranks of `copy` have one each (test_processes.py): a stream that waits may keep another rank's of its queue.
ALGORITHMS = [(device, name) for device in DEVICES for name in ("simple", "ring")]


@pytest.mark.parametrize(("device", "algorithm"), [("host", "copy"), *ALGORITHMS])
def test_moves_can_be_asked_for_by_algorithm_eager_and_captured(device: str, algorithm: str) -> None:
    def body(world: ons.World) -> None:
        mine = world.zeros(1000, "int32", kind="pinned")
        every = world.zeros(1000 * world.size, "int32", kind="pinned")
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

    on_threads(3, body, device)


def test_a_copy_to_memory_that_peers_cannot_address_says_so_on_every_rank() -> None:
    def body(world: ons.World) -> None:
        with pytest.raises(ons.Error, match="algorithm copy cannot, as of rank 0"):
            world.all_gather(np.zeros(4), np.zeros(12), algorithm="copy")
        world.barrier()

    on_threads(3, body)


@pytest.mark.parametrize("device", DEVICES)
def test_teams_have_collectives_of_their_own(device: str) -> None:
    def body(world: ons.World) -> None:
        team = world.team([0, 2] if world.rank != 1 else [])
        if world.rank == 1:
            assert team.rank == -1
        else:
            assert team.ranks == [0, 2]
            assert team.rank == world.rank // 2
            assert team.all_reduce(for_kernels(world, np.array([world.rank + 1]))).tolist() == [4]
            team.barrier()

    on_threads(3, body, device)


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
                for algorithm in ("simple", "ring", "tree", "halving_doubling", "hierarchical"):
                    plain[:] = shared[:] = world.rank + 1
                    assert (world.all_reduce(plain, algorithm=algorithm) == 10).all()
                    assert (world.all_reduce(shared, algorithm=algorithm) == 10).all()
                every = world.zeros(4 * count)
                for algorithm in ("simple", "ring", "copy", "halving_doubling", "hierarchical"):
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
        for algorithm in ("ll", "two_shot", "ll128", "simple"):
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


@pytest.mark.parametrize(
    ("dtype", "factor", "text"),
    [
        ("int32", 0.5, "the factor is 0.5, but elements of int32 are multiplied by integers"),
        ("int32", float("nan"), "elements of int32 are multiplied by integers"),
        ("int64", float("inf"), "elements of int64 are multiplied by integers"),
        ("int64", 2j, "but factors are real"),
        ("int8", 200, "the factor is 200, which no int8 is: they go from -128 to 127"),
        ("uint16", -1, "which no uint16 is: they go from 0 to 65535"),
        ("uint64", 2**64, "which no uint64 is"),
        ("complex64", 2j, "the factor is 2j, but factors are real"),
        ("complex128", np.complex64(1 + 1j), "but factors are real"),
        ("float32", 2j, "but factors are real"),
        ("float32", 1e39, r"the factor is 1e\+39, which is too large for float32"),
        pytest.param("float64", 10**400, "too large for float64", id="float64-longer than any"),
        ("float64", "twice", "the factor is 'twice', but must be a number"),
    ],
)
def test_a_factor_that_elements_cannot_be_multiplied_by_is_refused(dtype: str, factor: Any, text: str) -> None:
    def body(world: ons.World) -> None:
        for call in (world.all_reduce, world.reduce, world.scan):
            with pytest.raises(ons.InvalidArgumentError, match=text):
                call(np.ones(4, dtype), op="premulsum", factor=factor)
        with pytest.raises(ons.InvalidArgumentError, match=text):
            world.reduce_scatter(np.ones(4, dtype), np.ones(2, dtype), op="premulsum", factor=factor)

    on_threads(2, body)


@pytest.mark.parametrize(
    ("dtype", "factor", "expected"),
    [
        ("int32", 2.0, 4),
        ("int8", np.int64(-3), -6),
        ("uint64", 2**63 + 1, 2),
        ("int64", -(2**62), -(2**63)),
        ("float16", 0.5, 1),
        ("float64", 1e300, 2e300),
        ("complex64", 1.5, 3),
        ("complex64", 2 + 0j, 4),
    ],
)
def test_a_factor_has_the_kind_of_the_elements(dtype: str, factor: Any, expected: Any) -> None:
    def body(world: ons.World) -> None:
        assert world.all_reduce(np.ones(3, dtype), op="premulsum", factor=factor).tolist() == [expected] * 3

    on_threads(2, body)


def test_bools_are_reduced_to_bools_or_refused() -> None:
    def body(world: ons.World) -> None:
        mine = np.array([True, world.rank == 0, False])
        for op, expected in (("min", [1, 0, 0]), ("max", [1, 1, 0]), ("band", [1, 0, 0]), ("bor", [1, 1, 0])):
            assert world.all_reduce(mine.copy(), op=op).tolist() == expected
        got = world.all_reduce(mine.copy(), op="bxor")
        assert got.dtype == bool
        assert got.view("uint8").tolist() == [0, 1, 0]
        for op in ("sum", "prod", "avg", "premulsum", "minloc", "maxloc"):
            with pytest.raises(ons.InvalidArgumentError, match=f"a {op} of bools is no bool; take bor"):
                world.all_reduce(mine.copy(), op=op)
        with pytest.raises(ons.InvalidArgumentError, match="of uint8, but `out` of bool"):
            world.all_reduce(np.ones(3, "uint8"), mine.copy())
        with pytest.raises(ons.InvalidArgumentError, match="a sum of bools is no bool"):
            world.explain.all_reduce(mine)
        assert world.all_reduce(mine, op=np.logical_or).tolist() == [True, True, False]

    on_threads(2, body)


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
        for move in (
            lambda: world.all_gather(np.zeros(2), np.zeros(8, "float32")),
            lambda: world.all_to_all(np.zeros(2), np.zeros(2, "int64")),
            lambda: world.all_gather_v(np.zeros(1), np.zeros(4, "float32"), [1, 1]),
            lambda: world.neighbourhood((2,), periodic=True).all_to_all(np.zeros(2), np.zeros(2, "int64")),
        ):
            with pytest.raises(ons.InvalidArgumentError, match="of float64, but `out` of .*; nothing is converted"):
                move()
        world.all_to_all(np.zeros(2), np.zeros(16, "uint8"))  # bytes are anything
        with pytest.raises(ons.InvalidArgumentError, match="cannot reduce elements of str"):
            world.all_reduce(np.array(["word"]))
        with pytest.raises(ons.InvalidArgumentError, match="root 5 does not exist"):
            world.broadcast(np.zeros(2), root=5)
        with pytest.raises(ons.InvalidArgumentError, match="no algorithm 'magic'"):
            world.all_reduce(np.zeros(2), algorithm="magic")
        with pytest.raises(ons.InvalidArgumentError, match="read-only"):
            world.broadcast(b"constant")
        world.barrier()

    on_threads(2, body)


def test_what_a_call_would_take_is_told_and_nothing_runs() -> None:
    def body(world: ons.World) -> None:
        if world.rank == 1:  # no other rank needs to ask
            explain = world.explain
            few, many, two = np.zeros(2), np.zeros(10**6), np.zeros((2, 2))
            assert explain.all_reduce(few).startswith("all_reduce of 2 float64 on 2 ranks: ll, ")
            assert explain.all_reduce(many).startswith("all_reduce of 1000000 float64 on 2 ranks: simple, ")
            assert "us predicted" in explain.all_reduce(few, op="max", algorithm="ring")
            assert explain.reduce(few, root=1).startswith("reduce of 2 float64")
            assert explain.scan(few, exclusive=True).startswith("exclusive_scan of 2 float64")
            assert explain.reduce_scatter(two, few).startswith("reduce_scatter of 2 float64")
            assert explain.all_to_all(two, two.copy()).startswith("all_to_all of 16 B on 2 ranks")
            assert explain.all_gather(few, two).startswith("all_gather of 16 B")
            assert explain.gather(few, two, root=1).startswith("gather of 16 B")
            assert explain.scatter(two, few, root=1).startswith("scatter of 16 B")
            assert explain.broadcast(few, algorithm="tree").startswith("broadcast of 16 B on 2 ranks: tree, ")
            assert "simple" in explain.all_gather_v(few, np.zeros(5), [3, 2])
            assert "simple" in explain.all_to_all_v(np.zeros(3), np.zeros(3), [1, 2], [1, 2])
            assert explain.all_to_all_v(np.zeros(3), np.zeros(3), [1, 2], [1, 2]).startswith(
                "all_to_all_v on 2 ranks: "
            )
            assert explain.barrier().startswith("barrier on 2 ranks: ll, ")
            assert "behind all_gather of 16 B" in explain.all_reduce(few, op=np.maximum)
            with pytest.raises(ons.InvalidArgumentError, match="band has no meaning for float64"):
                explain.all_reduce(few, op="band")
            with pytest.raises(ons.InvalidArgumentError, match="algorithm tree cannot: it is for"):
                explain.all_gather(few, two, algorithm="tree")
        world.barrier()

    on_threads(2, body)


@pytest.mark.parametrize("device", DEVICES)
def test_a_rank_that_does_not_come_is_named(device: str) -> None:
    def body(world: ons.World) -> None:
        values = for_kernels(world, np.zeros(2))
        world.all_reduce(values)
        if world.rank == 0:
            with pytest.raises(ons.Error, match="all_reduce of 16 B, waiting for rank 1"):
                world.all_reduce(values)
        else:
            deadline = time.monotonic() + 20
            while world.failure() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            assert "waiting for rank 1" in str(world.failure())

    ons.run_threads(2, body, device=device, timeout_s=1 if device == "host" else 3)


def test_a_factor_is_for_premulsum_alone() -> None:
    def body(world: ons.World) -> None:
        for op in ("sum", np.add):
            with pytest.raises(ons.InvalidArgumentError, match="`factor` is for op='premulsum'"):
                world.all_reduce(np.ones(2), op=op, factor=5)

    on_threads(2, body)


@pytest.mark.parametrize("device", DEVICES)
def test_ranks_may_come_to_the_first_calls_of_channels_in_different_orders(device: str) -> None:
    def body(world: ons.World) -> None:
        everywhere = sum(range(world.size))
        channels = list(range(world.size))  # the first meeting makes all
        arrays = [for_kernels(world, np.full(3, 10.0 * channel + world.rank)) for channel in channels]
        streams = [world.stream() for _ in channels]
        for turn in channels:
            channel = (turn + world.rank) % world.size
            world.all_reduce(arrays[channel], channel=channel, stream=streams[channel])
        for channel in channels:
            streams[channel].synchronize()
            assert list(arrays[channel]) == [10.0 * channel * world.size + everywhere] * 3

    ons.run_threads(3, body, device=device, timeout_s=30)


def test_calls_by_copy_of_different_channels_are_not_mixed() -> None:
    def body(world: ons.World) -> None:
        mine, every = np.full(1000, float(world.rank)), np.zeros(3000)
        for channel in (0, 1):
            world.all_gather(mine, every, channel=channel)
        world.all_gather(mine, every, channel=1 if world.rank == 1 else 0, algorithm="copy", stream=world.stream())

    with pytest.raises((ons.TimeoutError, ons.AbortedError), match="its host has not called it"):
        ons.run_threads(3, body, device="host", timeout_s=8)


def test_pairs_in_another_order_of_fields_or_bytes_are_refused() -> None:
    swapped = np.dtype({"names": ["v", "i"], "formats": ["f4", "i4"], "offsets": [4, 0]})

    def body(world: ons.World) -> None:
        for dtype in (np.dtype([("v", ">i4"), ("i", ">i4")]), swapped):
            with pytest.raises(ons.InvalidArgumentError, match="cannot reduce elements of"):
                world.all_reduce(np.zeros(1, dtype), op="minloc")

    ons.run_threads(1, body, device="host")


def test_parts_that_would_overlap_or_differ_from_their_counts_are_refused() -> None:
    def body(world: ons.World) -> None:
        with pytest.raises(ons.InvalidArgumentError, match=r"this rank gives 1 elements, but counts\[\d\] is 2"):
            world.all_gather_v(np.zeros(1), np.zeros(4), [2, 2])
        with pytest.raises(ons.InvalidArgumentError, match="from rank 1 and from rank 0 overlaps in the output"):
            world.all_gather_v(np.zeros(2), np.zeros(4), [2, 2], offsets=[1, 0])
        out = np.zeros(4)
        world.all_gather_v(np.full(2 * world.rank, 5.0), out, [0, 2], offsets=[1, 0])  # nothing overlaps nothing
        assert out.tolist() == [5, 5, 0, 0]

    ons.run_threads(2, body, device="host", timeout_s=10)


# NaN in element `holder` of that rank, and -0 behind it: the answer does not depend on which rank has them.
@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("code", ["f2", "f4", "f8"])
def test_a_nan_or_a_zero_of_any_rank_has_one_answer_on_all(code: str, op: str) -> None:
    algorithms = ["auto", "ll", "two_shot", "ll128", "simple"]

    def body(world: ons.World) -> list[bytes]:
        mine = np.full(world.size, world.rank + 1.0)
        zeros = np.zeros(world.size)
        mine[world.rank], zeros[world.rank] = -np.nan, -0.0
        both = np.concatenate([mine, zeros]).astype(code)
        team = world.team(list(range(world.size - 1)) if world.rank < world.size - 1 else [world.rank])
        found = [world.all_reduce(both.copy(), op=op, algorithm=algorithm).tobytes() for algorithm in algorithms]
        part = team.all_reduce(both.copy(), op=op)
        if team.size > 1:
            assert np.isnan(part[: team.size]).all()
            assert np.signbit(part[world.size :]).tolist() == [True, False, False]
        return found

    every = ons.run_threads(3, body, device="host", timeout_s=20)
    answers = {answer for answers in every for answer in answers}
    assert len(answers) == 1
    result = np.frombuffer(answers.pop(), code)
    assert np.isnan(result[:3]).all()
    assert not np.signbit(result[:3]).any()
    assert np.signbit(result[3:]).tolist() == [True, False, False]
