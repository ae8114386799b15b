"""Errors in Python of ranks that do not call the same collective, with and without `collective_check`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from memories import DEVICES, for_kernels

import onstream as ons


@pytest.mark.parametrize("device", DEVICES)
def test_checking_names_who_calls_something_else(device: str) -> None:
    def body(world: ons.World) -> None:
        odd = world.rank == 1
        values = for_kernels(world, np.ones(3))
        with pytest.raises(ons.InvalidArgumentError, match="rank 1: all_reduce of 3 float64 sum"):
            world.all_reduce(values[: 3 if odd else 2])
        with pytest.raises(ons.InvalidArgumentError, match="rank 1: broadcast of 2 float64, root 1"):
            world.broadcast(values[:2], root=1 if odd else 0)
        assert world.all_reduce(values[:2]).tolist() == [3, 3]  # nothing is broken

    ons.run_threads(3, body, device=device, timeout_s=20, collective_check="on")


MOVES: dict[str, Callable[[ons.World, np.ndarray, np.ndarray], Any]] = {
    "broadcast of 6": lambda world, mine, _: world.broadcast(mine),
    "all_gather of 6": lambda world, mine, every: world.all_gather(mine, every),
    "gather of 6": lambda world, mine, every: world.gather(mine, every if world.rank == 0 else None),
    "scatter of 6": lambda world, mine, every: world.scatter(every if world.rank == 0 else None, mine),
    "all_to_all of 2": lambda world, mine, _: world.all_to_all(mine),
    "all_gather_v of": lambda world, mine, every: world.all_gather_v(mine, every, [6, 6, 6]),
    "all_to_all_v of": lambda world, mine, every: world.all_to_all_v(mine, every, [2] * 3, [2] * 3),
}


@pytest.mark.parametrize("words", MOVES)
def test_checking_names_the_element_types_of_every_move(words: str) -> None:
    move = MOVES[words]

    def body(world: ons.World) -> None:
        for theirs, mine in (("float32", "int32"), ("complex64", "float64"), ("float16", "bool"), ("uint8", "int8")):
            dtype = mine if world.rank == 1 else theirs
            told = rf"rank 0: {words} {theirs}[^\n]*\n  rank 1: {words.replace('of 6', 'of [0-9]+')} "
            with pytest.raises(ons.InvalidArgumentError, match=told):
                move(world, np.zeros(6, dtype), np.zeros(18, dtype))
        for same in ("float32", "bool", "U3", "f4, f4", ">f8"):
            move(world, np.zeros(6, same), np.zeros(18, same))

    ons.run_threads(3, body, device="host", timeout_s=20, collective_check="on")


def test_checking_tells_an_output_of_bytes() -> None:
    def body(world: ons.World) -> None:
        every = np.zeros(16, "uint8") if world.rank == 1 else np.zeros(4, "float32")
        with pytest.raises(ons.InvalidArgumentError, match="rank 1: all_gather of 8 uint8"):
            world.all_gather(np.zeros(2, "float32"), every)
        # All the same: the bytes are moved as they are.
        assert world.all_gather(np.full(1, 1.0), np.zeros(16, "uint8")).view("float64").tolist() == [1.0, 1.0]
        with pytest.raises(ons.InvalidArgumentError, match="of float64, but `out` of int64; nothing is converted"):
            world.all_gather(np.full(2, 1.0), np.zeros(4, "int64"))
        bare = bytearray(8)
        world.all_gather(np.full(1, world.rank, "uint32"), bare)
        assert bytes(bare) == bytes([0, 0, 0, 0, 1, 0, 0, 0])

    ons.run_threads(2, body, device="host", timeout_s=20, collective_check="on")


def test_checking_passes_over_arrays_that_a_rank_does_not_use() -> None:
    def body(world: ons.World) -> None:
        mine, nothing = np.full(2, world.rank, "float32"), np.empty(0)  # nothing of float64
        every = np.zeros(4, "float32") if world.rank == 0 else nothing
        world.gather(mine, every)
        world.scatter(every, mine)
        hood = world.neighbourhood(sources=[1 - world.rank], destinations=[1 - world.rank])
        if world.rank == 0:
            hood.all_to_all_v(nothing, every, [0], [4])
        else:
            hood.all_to_all_v(np.arange(4, dtype="float32"), nothing, [4], [0])
        assert every.tolist() == ([0, 1, 2, 3] if world.rank == 0 else [])

    ons.run_threads(2, body, device="host", timeout_s=20, collective_check="on")


@pytest.mark.parametrize("check", ["off", "on"])
def test_moves_of_slices_bools_and_odd_addresses_work_with_and_without_checking(check: str) -> None:
    def body(world: ons.World) -> None:
        rank, size = world.rank, world.size
        buffer = np.full(12, -1)
        buffer[3 * rank : 3 * rank + 3] = rank
        world.all_gather(buffer[3 * rank : 3 * rank + 3], buffer[: 3 * size])  # in place
        assert buffer.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, -1, -1, -1]
        assert world.broadcast(np.array([rank == 2, True]), root=2).tolist() == [True, True]
        odd = np.zeros(17, "uint8")[1:].view("float64")
        odd[:] = rank
        assert world.broadcast(odd, root=1).tolist() == [1, 1]
        halves = np.array([(1, 2.5)] * 3, dtype="i4, f8")
        assert world.all_to_all(halves).tolist() == [(1, 2.5)] * 3
        out = np.zeros(6, "int16")
        world.all_gather_v(np.full(rank + 1, rank, "int16"), out, [1, 2, 3], offsets=[5, 3, 0])
        assert out.tolist() == [2, 2, 2, 1, 1, 0]

    ons.run_threads(3, body, device="host", timeout_s=20, collective_check=check)


def test_without_checking_moves_are_of_bytes() -> None:
    def body(world: ons.World) -> None:
        got = world.broadcast(np.ones(2, "float32" if world.rank == 0 else "int32"))
        assert got.tobytes() == np.ones(2, "float32").tobytes()

    ons.run_threads(2, body, device="host", timeout_s=20)


def test_small_ones_that_differ_are_refused_without_checking() -> None:
    all_through = threading.Barrier(3)  # a call that returns late would find the world failed by the next

    def body(world: ons.World) -> None:
        world.all_reduce(np.zeros(2))
        all_through.wait(timeout=60)
        with pytest.raises(ons.Error, match="calls another collective, or the same with another count"):
            world.all_reduce(np.zeros(3 if world.rank == 1 else 2))

    ons.run_threads(3, body, device="host", timeout_s=60)


@pytest.mark.parametrize("check", ["off", "on"])
def test_a_rank_without_elements_gives_empty_arrays_of_any_type(check: str) -> None:
    def body(world: ons.World) -> None:
        send, receive = [[0, 2, 0], [1, 0, 0], [0, 0, 0]][world.rank], [[0, 1, 0], [2, 0, 0], [0, 0, 0]][world.rank]
        out = np.zeros(sum(receive), "f4" if world.rank < 2 else "i8")
        world.all_to_all_v(np.full(sum(send), world.rank + 1, out.dtype), out, send, receive)
        assert (out == 2 - world.rank).all()
        ring = world.neighbourhood(sources=[(world.rank - 1) % 3], destinations=[(world.rank + 1) % 3])
        gives, gets = [2, 0, 0][world.rank], [0, 2, 0][world.rank]
        out = np.zeros(gets, "f4" if world.rank < 2 else "i8")
        ring.all_to_all_v(np.ones(gives, out.dtype), out, [gives], [gets])
        assert out.sum() == gets

    ons.run_threads(3, body, device="host", timeout_s=10, collective_check=check)
