"""Collectives of single numbers: the result is a number of the type that was given."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs import run_ranks
from rank_threads import run, until_it_fails

import onstream as ons

NUMBERS: list[tuple[list[Any], str, Any]] = [
    ([1, 2, 3], "sum", 6),
    ([2**62, 5, -7], "max", 2**62),
    ([-(2**63), 2**63 - 1, 0], "min", -(2**63)),
    ([1.5, -2.0, 4.25], "sum", 3.75),
    ([1.5, 2.5, 0.5], "max", 2.5),
    ([1 + 2j, 3 - 1j, 0j], "sum", 4 + 1j),
    ([True, False, True], "band", False),
    ([False, True, False], "bor", True),
    ([np.float32(0.5), np.float32(1), np.float32(2)], "prod", np.float32(1)),
    ([np.uint8(200), np.uint8(100), np.uint8(0)], "sum", np.uint8(44)),
    ([np.uint64(2**64 - 1), np.uint64(0), np.uint64(1)], "max", np.uint64(2**64 - 1)),
    ([np.bool_(True), np.bool_(True), np.bool_(False)], "bxor", np.bool_(False)),
    ([np.complex64(1j), np.complex64(1), np.complex64(0)], "sum", np.complex64(1 + 1j)),
    ([np.float16(1), np.float16(2), np.float16(0.5)], "min", np.float16(0.5)),
]


def reduce_all(world: ons.World) -> None:
    for given, op, expected in NUMBERS:
        mine = given[world.rank]
        for result in (
            world.all_reduce(mine, op=op),
            world.all_reduce(mine, op=op, deterministic=True),
            world.all_reduce(mine, op=op, stream="host"),
        ):
            assert type(result) is type(expected)
            assert result == expected
        at_root = world.reduce(mine, root=1, op=op)
        assert (type(at_root), at_root) == (type(expected), expected) if world.rank == 1 else at_root is None
        last = world.scan(mine, op=op)
        assert type(last) is type(expected)
        assert last == (expected if world.rank == 2 else last)
        from_last = world.broadcast(mine, root=2)
        assert type(from_last) is type(expected)
        assert from_last == given[2]
    assert world.scan(world.rank + 1) == [1, 3, 6][world.rank]
    assert world.scan(world.rank + 1, exclusive=True) == [1, 1, 3][world.rank]
    assert world.all_reduce(1.0, op="premulsum", factor=world.rank) == 3.0
    assert world.all_reduce(world.rank, op=lambda a, b: np.maximum(a, b)) == 2


def test_a_number_of_the_type_that_was_given_comes_back() -> None:
    run(3, reduce_all)


def test_numbers_between_processes(tmp_path: Path) -> None:
    run_ranks(tmp_path, 3, [reduce_all])


def test_teams_reduce_numbers_and_arrays_of_no_dimensions_stay_arrays() -> None:
    def body(world: ons.World) -> None:
        assert world.split(world.rank % 2).all_reduce(world.rank) == (2 if world.rank % 2 == 0 else 4)
        array = np.array(1.5)
        assert world.all_reduce(array) is array
        assert array == 6.0

    run(4, body)


def test_ranks_that_give_other_types_are_told() -> None:
    for call in (lambda w, x: w.all_reduce(x), lambda w, x: w.broadcast(x), lambda w, x: w.scan(x)):

        def body(world: ons.World, call: Any = call) -> None:
            with contextlib.suppress(ons.Error):  # a rank that has sent its part may have ended the call
                call(world, 1.5 if world.rank == 0 else 1)
            until_it_fails(world)
            assert "the same with another count, type," in str(world.failure())

        with pytest.raises(ons.Error):
            run(2, lambda world, body=body: (body(world), world.check()))


def test_numbers_that_cannot_be_reduced_are_told() -> None:
    def body(world: ons.World) -> None:
        for number in (2**63, -(2**63) - 1, 10**30):
            with pytest.raises(ons.InvalidArgumentError, match=f"all_reduce: {number} is beyond int64"):
                world.all_reduce(number)
            with pytest.raises(ons.InvalidArgumentError, match=f"broadcast: {number} is beyond int64"):
                world.broadcast(number)
        with pytest.raises(ons.InvalidArgumentError, match="all_reduce: a sum of bools is no bool"):
            world.all_reduce(True)
        with pytest.raises(ons.InvalidArgumentError, match="reduce: of a number the result is returned; give no `out`"):
            world.reduce(1, np.zeros(1))
        with pytest.raises(ons.InvalidArgumentError, match="all_reduce: of a number .* takes no stream"):
            world.all_reduce(1, stream=world.stream())
        with pytest.raises(ons.InvalidArgumentError, match="there is no reduction 'mean'"):
            world.all_reduce(1, op="mean")
        with pytest.raises(ons.InvalidArgumentError, match="all_reduce: a plan needs an array"):
            world.plan().collectives().all_reduce(1)
        with pytest.raises(ons.InvalidArgumentError, match="broadcast: a plan needs an array"):
            world.plan().collectives().broadcast(1)
        for thing in ("1", None, b"1", np.str_("1")):
            with pytest.raises((TypeError, ons.InvalidArgumentError)):
                world.all_reduce(thing)

    run(1, body)


def test_explain_takes_numbers_too() -> None:
    def body(world: ons.World) -> None:
        assert world.explain.all_reduce(1.5, op="max") == world.explain.all_reduce(np.array(1.5), op="max")
        assert "broadcast of 1 int64 on 2 ranks" in world.explain.broadcast(3)
        assert world.all_reduce(1) == 2  # nothing of it ran

    run(2, body)


def test_a_captured_stream_takes_no_number() -> None:
    def body(world: ons.World) -> None:
        stream, array = world.stream(), np.ones(1)
        with world.capture(stream) as graph:
            world.all_reduce(array)
            assert world.all_reduce(2) == 4  # the call blocks, and is not captured
        graph.launch()
        stream.synchronize()
        assert array[0] == 2

    run(2, body)
