"""Grids of ranks, and null: the peer that is nobody."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs import run_ranks
from onstream.cartesian import Cartesian
from rank_threads import run

import onstream as ons

# --- null ---


def exchange_on_a_line(world: ons.World) -> None:
    """The ends of a line, every way to send: no rank asks whether it has a neighbour."""
    source, dest = world.cartesian([0]).shift(0)
    mine = np.full(3, float(world.rank))
    for came in (np.full(3, -1.0), np.full(30_000, -1.0)):
        mine = np.full(came.size, float(world.rank))
        expected, nbytes = (-1.0, 0) if source is ons.null else (world.rank - 1.0, came.nbytes)
        assert world.sendrecv(mine, dest, came, source, tag=1) == nbytes
        assert (came == expected).all()
        came[:] = -1
        posted = [world.irecv(came, source), world.isend(mine, dest)]
        world.wait_all(posted)
        assert posted[0].received == nbytes
        assert (came == expected).all()
        came[:] = -1
        stream = world.stream()
        world.sendrecv(mine, dest, came, source, stream=stream)
        stream.synchronize()
        assert (came == expected).all()
        came[:] = -1
        plan = world.plan().send(mine, dest).recv(came, source).build()
        plan.launch()
        assert (came == expected).all()
        assert world.sendrecv_replace(mine, dest, source) == nbytes
        assert (mine == (world.rank if source is ons.null else expected)).all()


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_ends_of_a_line_send_to_null(size: int) -> None:
    run(size, exchange_on_a_line)


def test_the_ends_of_a_line_of_processes(tmp_path: Path) -> None:
    run_ranks(tmp_path, 3, [exchange_on_a_line])


def test_messages_to_null_do_nothing_at_once() -> None:
    def body(world: ons.World) -> None:
        array = np.ones(4)
        assert world.send(array, ons.null) is None
        assert world.recv(array, ons.null, tag=3, stream="host") == 0
        assert world.sendrecv(array, ons.null, array, ons.null) == 0
        for request in (world.isend(array, peer=ons.null, tag=2), world.irecv(array, ons.null)):
            assert isinstance(request, ons.Request)
            assert request.test()
            request.wait()
            assert (request.received, request.peer, request.nbytes) == (0, ons.null, 32)
        assert repr(world.isend(array, ons.null, tag=2)) == "<Request: send to null with tag 2, which is no message>"
        assert (array == 1).all()
        stream = world.stream()
        with world.capture(stream) as graph:
            world.send(array, ons.null)
            world.all_reduce(array)
        graph.launch()
        stream.synchronize()

    run(1, body)


def test_null_is_one_and_no_rank() -> None:
    for one in (pickle.loads(pickle.dumps(ons.null)), copy.deepcopy(ons.null)):
        assert one is ons.null
    assert repr(ons.null) == str(ons.null) == "onstream.null"
    assert ons.null == -1

    def body(world: ons.World) -> None:
        for call in (
            lambda: world.send(np.ones(1), -1),
            lambda: world.send(np.ones(1), 1 - 2**31),
            lambda: world.broadcast(np.ones(1), root=ons.null),
        ):
            with pytest.raises(ons.InvalidArgumentError, match="-1 does not exist"):
                call()

    run(1, body)


MISTAKES: list[tuple[Callable[[ons.World], Any], str]] = [
    (lambda w: w.send(np.ma.ones(4), ons.null), "data and mask"),
    (lambda w: w.send(3, ons.null), "onstream cannot address a builtins.int"),
    (lambda w: w.recv(b"1234", ons.null), "read-only"),
    (lambda w: w.send(np.ones(1), ons.null, tag="1"), "tag is '1'"),
    (lambda w: w.isend(np.ones(1), ons.null, path=3), "path is 3"),
    (lambda w: w.send(np.ones(1), ons.null, 3), "send"),
    (lambda w: w.send(np.ones(1), ons.null, lane=3), "lane"),
    (lambda w: w.irecv(peer=ons.null), "array"),
    (lambda w: w.sendrecv(np.ones(1), ons.null), "recv"),
    (lambda w: w.plan().send(3, ons.null), "onstream cannot address"),
    (lambda w: w.sendrecv_replace(np.ones(4)[::2], 0, 0), "contiguous"),
    (lambda w: w.sendrecv_replace(b"12", 0, 0), "read-only"),
    (lambda w: w.sendrecv_replace(np.ones(2), 0, 1), "rank 1 does not exist"),
]


@pytest.mark.parametrize(("call", "told"), MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes_with_null_are_told(call: Callable[[ons.World], Any], told: str) -> None:
    def body(world: ons.World) -> None:
        with pytest.raises((TypeError, ons.InvalidArgumentError), match=told):
            call(world)

    run(1, body)


def test_a_closed_world_has_no_messages_to_null_either() -> None:
    world = run(1, lambda world: world)[0]
    with pytest.raises(ons.ClosedError, match="this world is closed"):
        world.send(np.ones(1), ons.null)


def test_a_ring_passes_its_arrays_on_in_place() -> None:
    def body(world: ons.World) -> None:
        source, dest = world.cartesian([world.size], periodic=True).shift(0, 1)
        for dtype, count in (("u1", 5), ("f8", 100_000), ("c8", 0)):
            array = np.full(count, world.rank, dtype)
            assert world.sendrecv_replace(array, dest, source, tag=5) == array.nbytes
            assert (array == source).all()
        short = np.zeros(2, "u1")
        world.sendrecv_replace(short, world.rank, world.rank)
        if world.rank == 0:
            with pytest.raises(ons.TruncatedError):
                world.sendrecv_replace(short, ons.null, 1)
        elif world.rank == 1:
            world.send(np.zeros(3, "u1"), 0)  # so few run ahead of their receive

    run(3, body)


# --- grids ---


@pytest.mark.parametrize(
    ("size", "dims", "filled"),
    [
        (6, [0, 0], (3, 2)),
        (7, [0, 0], (7, 1)),
        (12, [0, 0], (4, 3)),
        (24, [0, 0, 0], (4, 3, 2)),
        (16, [0, 0], (4, 4)),
        (12, [0, 2, 0], (3, 2, 2)),
        (8, [2, 4], (2, 4)),
        (1, [0, 0, 0], (1, 1, 1)),
        (36, [0, 0, 0], (4, 3, 3)),
        (5, [0], (5,)),
        (1, [], ()),
    ],
)
def test_zeros_are_filled_in(size: int, dims: list[int], filled: tuple[int, ...]) -> None:
    assert Cartesian(0, size, dims, False).dims == filled


def test_places_and_neighbours_are_those_of_every_rank() -> None:
    size, dims, periodic = 12, (3, 4), (False, True)
    for rank in range(size):
        grid = Cartesian(rank, size, dims, periodic)
        row, column = divmod(rank, 4)
        assert (grid.rank, grid.size, grid.periodic) == (rank, size, periodic)
        assert grid.coords == (row, column) == grid.coords_of(rank)
        assert grid.rank_of((row, column)) == rank
        assert grid.rank_of((row, column - 4)) == rank
        up = rank - 4 if row > 0 else ons.null
        down = rank + 4 if row < 2 else ons.null
        ring = (row * 4 + (column - 1) % 4, row * 4 + (column + 1) % 4)
        assert grid.neighbours == [(up, down), ring]
        assert (up is ons.null) == (grid.neighbours[0][0] is ons.null)
        assert grid.shift(0) == (up, down)
        assert grid.shift(0, -1) == (down, up)
        assert grid.shift(1, 6) == (row * 4 + (column - 6) % 4, row * 4 + (column + 6) % 4)
        assert grid.shift(0, 3) == (ons.null, ons.null)
        assert grid.shift(0, 0) == (rank, rank)
        assert all(grid.rank_of(grid.coords_of(other)) == other for other in range(size))
    assert Cartesian(0, size, dims, periodic).rank_of((-1, 0)) is ons.null


def test_worlds_and_teams_make_grids() -> None:
    def body(world: ons.World) -> None:
        grid = world.cartesian((0, 0), periodic=True)
        assert math.prod(grid.dims) == world.size == 4
        assert repr(grid) == f"<Cartesian: rank {world.rank} at {grid.coords} of (2, 2), periodic (True, True)>"
        half = world.split(world.rank % 2)
        assert half.cartesian([2]).coords == (half.rank,)
        hood = world.neighbourhood(grid.dims, periodic=grid.periodic)
        assert hood.sources == [rank for pair in grid.neighbours for rank in pair]
        nobody = world.team([0]) if world.rank == 0 else world.team([])
        if world.rank != 0:
            with pytest.raises(ons.InvalidArgumentError, match="cartesian: this rank is not in the team"):
                nobody.cartesian([1])

    run(4, body)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Cartesian(0, 4, [3, 0], False), r"dims \[3, 0\] cannot hold 4 ranks: 3 does not divide them"),
        (lambda: Cartesian(0, 4, [3, 1], False), r"dims \[3, 1\] cannot hold 4 ranks: they have room for 3"),
        (lambda: Cartesian(0, 4, [-2, -2], False), r"dims \[-2, -2\] has a negative entry"),
        (lambda: Cartesian(0, 4, 2, False), "dims is 2 of type int, but must be a sequence"),
        (lambda: Cartesian(0, 4, ["4"], False), "dims is '4'"),
        (lambda: Cartesian(0, 4, [2, 2], [True]), r"periodic=\[True\] has 1 values for 2 dimensions"),
        (lambda: Cartesian(0, 4, [2, 2], "no"), "periodic is 'no'"),
        (lambda: Cartesian(0, 4, [2, 2], False).shift(2), "axis 2 does not exist; the grid has 2 dimensions"),
        (lambda: Cartesian(0, 4, [2, 2], False).shift(0, 0.5), "displacement is 0.5"),
        (lambda: Cartesian(0, 4, [2, 2], False).coords_of(4), "rank 4 does not exist; the grid has ranks 0 to 3"),
        (lambda: Cartesian(0, 4, [2, 2], False).rank_of([1]), r"coords \[1\] has 1 values for a grid of \(2, 2\)"),
        (lambda: Cartesian(0, 4, [2, 2], False).rank_of([1, "0"]), "coords is '0'"),
    ],
    ids=range(12),
)
def test_grids_that_cannot_be_are_refused(make: Callable[[], Any], told: str) -> None:
    with pytest.raises((TypeError, ons.InvalidArgumentError), match=told):
        make()
