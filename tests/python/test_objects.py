"""Python objects between ranks: the values, the memory of arrays, bounds, and mistakes of one rank that others survive."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs import run_ranks
from rank_threads import run

import onstream as ons


class Unpicklable:
    def __reduce__(self) -> Any:
        raise RuntimeError("it has a lock")


class NotHere:
    """It can be pickled, and not unpickled."""

    def __reduce__(self) -> Any:
        return _refuse, ()


def _refuse() -> None:
    raise KeyError("no such module")


THINGS: list[Any] = [
    None,
    7,
    "text",
    {"a": [1, 2.5, (None, b"bytes")]},
    np.arange(10.0),
    np.zeros(0),
    np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    np.arange(100)[::3],
    np.array(3.5),
    [np.full(300_000, 2.0), {"mask": np.ones(5, bool)}, "x" * 10_000],
    np.array([("x", 1)], dtype=[("name", "U4"), ("n", "i2")]),
]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)
    return type(a) is type(b) and a == b


def send_all(world: ons.World) -> None:
    for number, thing in enumerate(THINGS):
        if world.rank == 0:
            world.send_object(thing, 1, tag=number % 3)
        elif world.rank == 1:
            assert same(world.recv_object(0, tag=number % 3), thing)


def collect_all(world: ons.World) -> None:
    last, mine = world.size - 1, world.rank
    for thing in THINGS:
        assert same(world.broadcast_object(thing if mine == last else None, root=last), thing)
    everyone = [{"rank": rank, "values": np.full(1000 * rank, rank)} for rank in range(world.size)]
    assert same(world.all_gather_object(everyone[mine]), everyone)
    gathered = world.gather_objects(everyone[mine], root=last)
    assert same(gathered, everyone) if mine == last else gathered is None
    assert same(world.scatter_objects(everyone if mine == last else None, root=last), everyone[mine])
    assert same(world.scatter_objects(tuple(everyone) if mine == 0 else None), everyone[mine])


def on_teams(world: ons.World) -> None:
    half = world.split(world.rank % 2)
    assert half.all_gather_object(("rank", world.rank)) == [("rank", rank) for rank in half.ranks]
    assert half.broadcast_object(world.rank) == half.ranks[0]
    assert half.scatter_objects(list("ab")) == "ab"[half.rank]
    assert half.gather_objects(world.rank, root=1) == (half.ranks if half.rank == 1 else None)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_objects_come_as_they_were_sent(size: int) -> None:
    def body(world: ons.World) -> None:
        if size > 1:
            send_all(world)
        collect_all(world)

    run(size, body)


def test_teams_have_the_collectives_of_objects() -> None:
    run(4, on_teams)


def test_processes_send_objects(tmp_path: Path) -> None:
    run_ranks(tmp_path, 4, [send_all, collect_all, on_teams])


def test_the_pickle_has_no_bytes_of_arrays() -> None:
    from onstream.parcels import pack

    array = np.arange(1 << 18)
    parcel = pack("test", {"a": array, "text": "x"})
    assert parcel.front.nbytes < 1000
    assert [buffer.ctypes.data for buffer in parcel.buffers] == [array.ctypes.data]
    assert parcel.nbytes == array.nbytes + parcel.front.nbytes


def test_arrays_that_came_may_be_written_and_are_aligned() -> None:
    def body(world: ons.World) -> None:
        odd = [np.arange(3, dtype="u1"), np.arange(5.0), b"123"]
        odd[0].flags.writeable = False
        came = [world.broadcast_object(odd), *world.all_gather_object(odd)]
        if world.rank == 0:
            world.send_object(odd, 1)
        else:
            came.append(world.recv_object(0))
            came.pop(0)
            for bytes_of, values, _ in came:
                assert same(bytes_of, odd[0])
                assert values.flags.aligned
                values += 1

    run(2, body)


def test_an_object_that_is_too_large_is_refused_before_there_is_room_for_it_and_the_next_is_intact() -> None:
    def body(world: ons.World) -> None:
        if world.rank == 0:
            for thing in (np.zeros(3 << 20, "u1"), "x" * (2 << 20), "y" * 100, "good"):
                world.send_object(thing, 1)
            world.send(np.full(1, 5.0), 1)
            return
        for least in (3 << 20, 2 << 20, 100):
            with pytest.raises(
                ons.TruncatedError,
                match=r"recv_object: rank 0 sends an object of \d+ bytes, but this rank takes 99 at most",
            ) as told:
                world.recv_object(0, max_bytes=99)
            assert least < int(str(told.value).split("max_bytes=")[1]) < least + 500
        assert world.recv_object(0) == "good"
        number = np.zeros(1)
        assert world.recv(number, 0) == 8
        assert number[0] == 5

    run(2, body)


def test_the_bound_is_the_objects_bytes() -> None:
    from onstream.parcels import pack

    size = pack("", "abc").nbytes

    def body(world: ons.World) -> None:
        for bound in (size, size - 1):
            if world.rank == 0:
                world.send_object("abc", 1)
            elif bound == size:
                assert world.recv_object(0, max_bytes=bound) == "abc"
            else:
                with pytest.raises(ons.TruncatedError, match=f"of {size} bytes, but this rank takes {bound}"):
                    world.recv_object(0, max_bytes=bound)

    run(2, body)


def test_every_rank_of_a_collective_hears_that_an_object_is_too_large_for_one() -> None:
    def body(world: ons.World) -> None:
        big, mine = np.zeros(5000, "u1"), world.rank
        told = "rank 0 sends an object of 5... bytes, but rank 2 takes 4000 at most"
        small = {"max_bytes": 4000} if mine == 2 else {}
        with pytest.raises(ons.TruncatedError, match=f"broadcast_object: {told}"):
            world.broadcast_object(big, **small)
        with pytest.raises(ons.TruncatedError, match=f"gather_objects: {told}"):
            world.gather_objects(big if mine == 0 else 1, root=2, **small)
        with pytest.raises(ons.TruncatedError, match=f"all_gather_object: {told}"):
            world.all_gather_object(big if mine == 0 else 1, **small)
        with pytest.raises(ons.TruncatedError, match=f"scatter_objects: {told}"):
            world.scatter_objects([1, 2, big] if mine == 0 else None, **small)
        assert world.all_gather_object(mine) == [0, 1, 2]  # all ranks are in step

    run(3, body)


def test_an_object_that_cannot_be_pickled_raises_before_anything_is_sent() -> None:
    def body(world: ons.World) -> None:
        bad, mine = Unpicklable(), world.rank
        why = "an object of type Unpicklable cannot be pickled: RuntimeError: it has a lock"
        if mine == 0:
            with pytest.raises(ons.InvalidArgumentError, match=f"send_object: {why}"):
                world.send_object(bad, 1)
            world.send_object("good", 1)
        elif mine == 1:
            assert world.recv_object(0) == "good"
        calls = [
            lambda: world.broadcast_object(bad if mine == 1 else None, root=1),
            lambda: world.gather_objects(bad if mine == 1 else 0),
            lambda: world.all_gather_object(bad if mine == 1 else 0),
            lambda: world.scatter_objects([0, bad, 0] if mine == 1 else None, root=1),
        ]
        for call in calls:
            with pytest.raises(ons.InvalidArgumentError, match=why) as told:
                call()
            assert ("(on rank 1)" in str(told.value)) == (mine != 1)
        assert world.all_gather_object(mine) == [0, 1, 2]

    run(3, body)


def test_an_object_that_cannot_be_unpickled_raises_where_it_came_alone() -> None:
    def body(world: ons.World) -> None:
        bad, mine = NotHere(), world.rank
        why = "the object of rank 1 cannot be unpickled here: KeyError: 'no such module'"
        if mine == 1:
            world.send_object(bad, 0)
            assert world.broadcast_object(bad, root=1) is bad
            assert world.gather_objects(bad) is None
            assert world.scatter_objects([bad, 3], root=1) == 3
            world.send_object("good", 0)
        else:
            for call in (
                lambda: world.recv_object(1),
                lambda: world.broadcast_object(None, root=1),
                lambda: world.gather_objects(0),
                lambda: world.scatter_objects(None, root=1),
            ):
                with pytest.raises(ons.InvalidArgumentError, match=why) as told:
                    call()
                assert isinstance(told.value.__cause__, KeyError)
            assert world.recv_object(1) == "good"
        assert world.all_gather_object(mine) == [0, 1]

    run(2, body)


def test_a_message_that_is_no_object_is_told_and_the_next_is_intact() -> None:
    def body(world: ons.World) -> None:
        if world.rank == 0:
            world.send(np.zeros(3), 1, tag=4)
            with pytest.raises(ons.TruncatedError):
                world.send(np.zeros(100_000), 1, tag=4)
            world.send_object("good", 1, tag=4)
            return
        for _ in range(2):
            with pytest.raises(ons.InvalidArgumentError, match="rank 0 sent a message with tag 4 that is no object"):
                world.recv_object(0, tag=4)
        assert world.recv_object(0, tag=4) == "good"

    run(2, body)


def test_ranks_that_make_different_calls_are_told() -> None:
    def body(world: ons.World) -> None:
        with pytest.raises(
            ons.InvalidArgumentError, match="rank 0 calls gather_objects of root 0, but rank 1 .* of root 1"
        ):
            world.gather_objects(1, root=world.rank)
        with pytest.raises(
            ons.InvalidArgumentError, match="rank 0 calls broadcast_object of root 0, but rank 1 all_gather_object"
        ):
            world.broadcast_object(1) if world.rank == 0 else world.all_gather_object(1)
        assert world.all_gather_object(2) == [2, 2]

    run(2, body)


def test_wrong_arguments_are_named() -> None:
    def body(world: ons.World) -> None:
        for bound, told in ((-1, "max_bytes is -1"), (2**63, "max_bytes is"), ("1", "max_bytes is '1'")):
            with pytest.raises((TypeError, ons.InvalidArgumentError), match=told):
                world.recv_object(0, max_bytes=bound)
            with pytest.raises((TypeError, ons.InvalidArgumentError), match=told):
                world.all_gather_object(0, max_bytes=bound)
        with pytest.raises(ons.InvalidArgumentError, match="root 1 does not exist"):
            world.broadcast_object(0, root=1)
        with pytest.raises(ons.InvalidArgumentError, match="rank 7 does not exist"):
            world.send_object(0, 7)
        with pytest.raises(ons.InvalidArgumentError, match="gives 2 objects to 1 ranks"):
            world.scatter_objects([1, 2])
        with pytest.raises(ons.InvalidArgumentError, match="of type int, but must be a sequence of 1 objects"):
            world.scatter_objects(3)

    run(1, body)


def test_a_receive_whose_sender_never_comes_ends_at_the_deadline() -> None:
    def body(world: ons.World) -> None:
        if world.rank == 1:
            begin = time.monotonic()
            with pytest.raises((ons.TimeoutError, ons.AbortedError)):
                world.recv_object(0)
            assert time.monotonic() - begin < 30
        else:
            limit = time.monotonic() + 30
            while world.failure() is None and time.monotonic() < limit:
                time.sleep(0.01)

    with pytest.raises(ons.Error):
        run(2, lambda world: (body(world), world.check()), timeout_s=0.3)


def test_an_object_comes_from_any_source_and_none_from_null() -> None:
    def body(world: ons.World) -> None:
        if world.rank > 0:
            world.send_object((world.rank, np.full(300_000, world.rank)), 0, tag=4)
        else:
            heard = [world.recv_object(ons.any_source, tag=4) for _ in range(2)]
            assert sorted(rank for rank, _ in heard) == [1, 2]
            assert all((array == rank).all() for rank, array in heard)
        world.send_object("nobody hears it", ons.null, tag=4)
        assert world.recv_object(ons.null, tag=4) is None
        world.barrier()
        if world.rank == 1:
            world.send(b"x" * 100, 0, tag=4)
            world.send_object("whole", 0, tag=4)
        elif world.rank == 0:
            with pytest.raises(ons.InvalidArgumentError, match="rank 1 sent a message with tag 4 that is no object"):
                world.recv_object(ons.any_source, tag=4)
            assert world.recv_object(ons.any_source, tag=4) == "whole"

    run(3, body)
