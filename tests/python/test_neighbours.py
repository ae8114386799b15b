"""Collectives along the edges of a neighbourhood, from Python: grids and graphs, threads and processes, streams and graphs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from jobs import run_job
from memories import DEVICES, for_kernels

import onstream as ons


def on_threads(size: int, body: Callable[[ons.World], None], device: str = "host") -> None:
    ons.run_threads(size, body, device=device, timeout_s=20)


@pytest.mark.parametrize("device", DEVICES)
def test_a_grid_exchanges_its_faces(device: str) -> None:
    def body(world: ons.World) -> None:
        hood = world.neighbourhood((2, 3), periodic=(False, True))
        assert hood.sources == hood.destinations
        if world.rank == 0:
            assert hood.sources == [-1, 3, 2, 1]
        mine = for_kernels(world, 10 * world.rank + np.arange(4))
        out = for_kernels(world, np.full(4, -1))
        assert hood.all_to_all(mine, out) is out
        # The lower neighbour's data is the part that it sent to its upper one.
        assert out.tolist() == [-1 if rank < 0 else 10 * rank + (i ^ 1) for i, rank in enumerate(hood.sources)]
        everything = for_kernels(world, np.full((4, 2), -1.5))
        hood.all_gather(for_kernels(world, np.array([world.rank, 0.5])), everything)
        assert everything.tolist() == [[-1.5, -1.5] if rank < 0 else [rank, 0.5] for rank in hood.sources]

    on_threads(6, body, device)


@pytest.mark.parametrize("device", DEVICES)
def test_a_graph_may_have_counts_of_its_own(device: str) -> None:
    def body(world: ons.World) -> None:
        def integers(*values: int) -> np.ndarray:
            return for_kernels(world, np.array(values, dtype="int32"))

        # Everybody to rank 0, twice to itself, and rank 0 back to rank 1.
        if world.rank == 0:
            hood = world.neighbourhood(sources=[0, 1, 0, 2], destinations=[0, 0, 1])
            out = integers(*[0] * 8)
            hood.all_to_all_v(integers(*range(6)), out, [1, 2, 3], [1, 1, 2, 2], receive_offsets=[0, 2, 3, 6])
            assert out.tolist() == [0, 0, 11, 1, 2, 0, 20, 21]
        elif world.rank == 1:
            hood = world.neighbourhood(sources=[0], destinations=[0])
            out = integers(0, 0, 0)
            hood.all_to_all_v(integers(10, 11), out, [1], [3], send_offsets=[1])
            assert out.tolist() == [3, 4, 5]
        else:
            hood = world.neighbourhood(destinations=[0])
            hood.all_to_all_v(integers(20, 21), integers(), [2], [])
        assert "Neighbourhood: from" in repr(hood)

    on_threads(3, body, device)


@pytest.mark.parametrize("device", DEVICES)
def test_neighbours_exchange_on_a_stream_and_in_a_graph(device: str) -> None:
    def body(world: ons.World) -> None:
        hood = world.neighbourhood((3,), periodic=True)
        mine, out = (for_kernels(world, np.zeros(2)) for _ in range(2))
        stream = world.stream()
        hood.all_to_all(mine, out, stream=stream)
        with world.capture(stream) as graph:
            hood.all_to_all(mine, out)
        lower, upper = hood.sources
        for replay in range(3):
            world.synchronize(stream)
            mine[:] = (world.rank + replay, world.rank - replay)
            graph.launch(stream)
            world.synchronize(stream)
            assert out.tolist() == [lower - replay, upper + replay]

    on_threads(3, body, device)


@pytest.mark.parametrize("device", DEVICES)
def test_a_plan_exchanges_with_the_neighbours_behind_its_other_operations(device: str) -> None:
    def body(world: ons.World) -> None:
        hood = world.neighbourhood((3,), periodic=True)
        lower, upper = hood.sources
        mine, came, ghosts, total, last = (for_kernels(world, np.zeros(2)) for _ in range(5))
        both, counted = for_kernels(world, np.zeros((2, 2))), for_kernels(world, np.zeros(3))
        builder = world.plan("step").send(mine, upper).recv(came, lower)
        exchange = builder.collectives(hood)
        assert exchange.sources == hood.sources
        assert exchange.all_to_all(came, ghosts) is ghosts
        exchange.all_gather(came, both)
        exchange.all_to_all_v(came, counted, [1, 2], [2, 1], send_offsets=[0, 0], algorithm="simple")
        builder.collectives().all_reduce(ghosts, total)
        # Made for the plan alone: one way round.
        builder.collectives().neighbourhood(sources=[lower], destinations=[upper]).all_to_all(came, last)
        plan = builder.build()
        kinds = ["neighbour_all_to_all", "neighbour_all_gather", "neighbour_all_to_all_v", "all_reduce"]
        assert [op.kind for op in plan.ops] == ["send", "recv", *kinds, "neighbour_all_to_all"]
        assert f"neighbour_all_gather, to ranks {lower} {upper}" in plan.explain()
        assert "simple, as asked for" in plan.explain()
        stream = world.stream()
        with world.capture(stream) as graph:
            plan.launch(stream)
        for turn in range(6):
            mine[:] = (10 * world.rank + turn, 10 * world.rank - turn)
            world.barrier()
            if turn % 3 == 0:
                plan.launch()
            else:
                plan.launch(stream) if turn % 3 == 1 else graph.launch(stream)
                world.synchronize(stream)
            # Rank r has the data of rank r - 1.
            below = [[10 * ((rank - 1) % 3) + turn, 10 * ((rank - 1) % 3) - turn] for rank in range(3)]
            assert came.tolist() == below[world.rank]
            assert ghosts.tolist() == [below[lower][1], below[upper][0]]
            assert both.tolist() == [below[lower], below[upper]]
            assert counted.tolist() == [*below[lower], below[upper][0]]
            assert total.tolist() == [30 - 3 * turn, 30 + 3 * turn]
            assert last.tolist() == below[lower]
            world.barrier()

    on_threads(3, body, device)


def test_what_a_plan_cannot_exchange_is_told_on_every_rank() -> None:
    def body(world: ons.World) -> None:
        hood = world.neighbourhood((2,), periodic=True)
        length = 2 + world.rank
        builder = world.plan("lengths")
        builder.collectives(hood).all_gather(np.zeros(length), np.zeros(2 * length))
        with pytest.raises(
            ons.InvalidArgumentError, match=r"neighbourhood \d+: rank 0 gives rank 1 16 16 B, which expects 24 24 B"
        ):
            builder.build()
        builder = world.plan("kinds")
        exchange = builder.collectives(hood)
        (exchange.all_gather if world.rank == 0 else exchange.all_to_all)(
            np.zeros(2), np.zeros(4 if world.rank == 0 else 2)
        )
        with pytest.raises(
            ons.InvalidArgumentError, match=r"neighbour_all_gather of .* does not meet rank 1 .*all_to_all"
        ):
            builder.build()
        with pytest.raises(ons.InvalidArgumentError, match="on the stream of each launch"):
            exchange.all_to_all(np.zeros(2), np.zeros(2), stream=world.stream())
        with pytest.raises(ons.InvalidArgumentError, match="no algorithm two_shot along edges"):
            exchange.all_to_all(np.zeros(2), np.zeros(2), algorithm="two_shot")
        with pytest.raises(ons.InvalidArgumentError, match="3 elements cannot be dealt to 2 destinations"):
            hood.all_to_all(np.zeros(3), np.zeros(3))
        with pytest.raises(ons.InvalidArgumentError, match="`out` has 8 bytes, but needs 16"):
            exchange.all_gather(np.zeros(1), np.zeros(1))

    on_threads(2, body)


def test_ranks_of_processes_exchange_with_their_neighbours(tmp_path: Path) -> None:
    outcome = run_job(
        tmp_path,
        4,
        """
        import numpy as np
        import onstream as ons

        with ons.init(device="host") as world:
            hood = world.neighbourhood((2, 2), periodic=True)
            for count in (1, 400, 300_000):
                for make in (np.zeros, world.zeros):  # memory that is this process's own, and shared memory
                    mine, out = make(4 * count), make(4 * count)
                    mine[:] = np.repeat(10 * world.rank + np.arange(4), count)
                    hood.all_to_all(mine, out)
                    expected = [10 * rank + (i ^ 1) for i, rank in enumerate(hood.sources)]
                    assert (out == np.repeat(expected, count)).all()
                    builder = world.plan()
                    builder.collectives(hood).all_to_all(mine, out)
                    plan = builder.build()
                    for _ in range(3):
                        out[:] = 0
                        plan.launch()
                        assert (out == np.repeat(expected, count)).all()
            print("rank", world.rank, "is right")
        """,
    )
    assert outcome.code == 0, outcome.err
    assert outcome.out.count("is right") == 4


def test_checking_names_the_element_types_at_both_ends_of_an_edge() -> None:
    def body(world: ons.World) -> None:
        hood = world.neighbourhood((2,), periodic=True)
        mine = np.zeros(4, "float32" if world.rank == 0 else "int32")
        every = np.zeros(8, mine.dtype)
        told = "rank 1 sends neighbour_{0} of int32: {1}; rank 0 expects neighbour_{0} of float32: {1}"
        with pytest.raises(ons.InvalidArgumentError, match=told.format("all_gather", "4 4")):
            hood.all_gather(mine, every)
        with pytest.raises(ons.InvalidArgumentError, match=told.format("all_to_all", "2 2")):
            hood.all_to_all(mine, mine.copy())
        with pytest.raises(ons.InvalidArgumentError, match=told.format("all_to_all_v", "2 2")):
            hood.all_to_all_v(mine, mine.copy(), [2, 2], [2, 2])
        builder = world.plan("types")
        builder.collectives(hood).all_to_all(mine, mine.copy())
        with pytest.raises(ons.InvalidArgumentError, match="neighbour_all_to_all of int32"):
            builder.build()
        ones = np.full(2, world.rank == 0)
        assert hood.all_to_all(ones, ones.copy()).tolist() == [world.rank == 1] * 2
        bare = bytearray(32)
        hood.all_to_all_v(np.full(4, 1.0), bare, [1, 3], [24, 8])
        assert np.frombuffer(bare).tolist() == [1.0] * 4

    ons.run_threads(2, body, device="host", timeout_s=20, collective_check="on")


def test_what_does_not_fit_along_edges_is_told() -> None:
    def body(world: ons.World) -> None:
        with pytest.raises(
            ons.InvalidArgumentError, match="rank 1 sends along 0 edges to rank 0, which receives along 1"
        ):
            world.neighbourhood(sources=[1] if world.rank == 0 else [])
        with pytest.raises(ons.InvalidArgumentError, match="a grid of 3 has no place"):
            world.neighbourhood((3,))
        with pytest.raises(ons.InvalidArgumentError, match="not both"):
            world.neighbourhood((2,), sources=[0])
        hood = world.neighbourhood((2,), periodic=True)
        with pytest.raises(ons.InvalidArgumentError, match="3 elements cannot be dealt to 2 destinations"):
            hood.all_to_all(np.zeros(3, dtype="int8"), np.zeros(4, dtype="int8"))
        with pytest.raises(ons.InvalidArgumentError, match="`out` has 8 bytes, but needs 16"):
            hood.all_gather(np.zeros(1), np.zeros(1))
        with pytest.raises(ons.InvalidArgumentError, match="contiguous"):
            hood.all_gather(np.zeros((2, 2))[:, 0], np.zeros(4))
        with pytest.raises(ons.InvalidArgumentError, match="no algorithm two_shot along edges"):
            hood.all_gather(np.zeros(1), np.zeros(2), algorithm="two_shot")
        length = 16 if world.rank == 0 else 24
        with pytest.raises(ons.Error, match="at the other end of the edge, gives"):
            hood.all_gather(np.zeros(length), np.zeros(2 * length))

    ons.run_threads(2, body, device="host", timeout_s=60)


@pytest.mark.parametrize("device", DEVICES)
def test_an_exchange_of_the_same_arrays_with_other_counts_is_another(device: str) -> None:
    def body(world: ons.World) -> None:
        peer = 1 - world.rank
        hood = world.neighbourhood(sources=[peer, peer], destinations=[peer, peer])
        mine = for_kernels(world, 100.0 * world.rank + np.arange(6))
        theirs = 100.0 * peer + np.arange(6)
        out = for_kernels(world, np.zeros(6))
        # The first and the third have the sums of the second and the fourth.
        for counts, offsets in [
            ((2, 4), (0, 2)),
            ((4, 2), (0, 4)),
            ((3, 3), (3, 0)),
            ((3, 3), (0, 3)),
            ((0, 1), (0, 5)),
        ] * 3:
            out[:] = -1
            assert (
                hood.all_to_all_v(mine, out, counts, list(counts), send_offsets=offsets, receive_offsets=offsets) is out
            )
            expected = np.full(6, -1.0)
            for count, at in zip(counts, offsets, strict=True):
                expected[at : at + count] = theirs[at : at + count]
            assert out.tolist() == expected.tolist()

    on_threads(2, body, device)


def test_an_exchange_reads_its_arrays_anew_each_time() -> None:
    def body(world: ons.World) -> None:
        peer = 1 - world.rank
        hood = world.neighbourhood(sources=[peer], destinations=[peer])
        for value in range(20):
            mine, out = np.full(64, value + 0.5 * world.rank), np.zeros(64)  # often at the addresses of the last
            (hood.all_gather if value % 2 else hood.all_to_all)(mine, out)
            assert set(out) == {value + 0.5 * peer}

    on_threads(2, body)


def test_counts_that_an_exchange_cannot_have_are_named() -> None:
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world:
        hood = world.neighbourhood(sources=[0], destinations=[0])
        array, out = np.zeros(4), np.zeros(4)
        for send, receive, text in [
            ([-1], [1], r"send_counts has a negative entry: \[-1\]"),
            ([1], [2**70], "receive_counts|too large|reach"),
            ([2**61], [1], "`array` has 32 bytes, but counts and offsets reach"),
            ([1], [5], "`out` has 32 bytes, but counts and offsets reach 40"),
            ([1, 1], [1], "send_counts has 2 entries"),
        ]:
            for _ in range(2):  # also once a good one is known
                with pytest.raises((ons.InvalidArgumentError, OverflowError), match=text):
                    hood.all_to_all_v(array, out, send, receive)
                hood.all_to_all_v(array, out, [1], [1])
        with pytest.raises(TypeError):
            hood.all_to_all_v(array, out, [1.5], [1])
