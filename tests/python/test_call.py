"""World.call(): functions in the order of a stream's work, in graphs too; their errors, and the world's end."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from rank_threads import LONG_S, pair, run

import onstream as ons


def test_a_function_runs_between_the_ops_of_a_stream() -> None:
    def body(world: ons.World) -> None:
        stream, peer = world.stream(), 1 - world.rank
        mine, theirs, seen = np.full(4, world.rank + 1.0), np.zeros(4), []

        def double(array: np.ndarray, *, by: float) -> str:
            array *= by
            seen.append(threading.get_ident())
            return "dropped"

        world.call(double, mine, by=2, stream=stream)
        world.sendrecv(mine, peer, theirs, peer, stream=stream)
        world.call(double, theirs, by=10, stream=stream)
        world.all_reduce(theirs, stream=stream)
        stream.synchronize()
        assert (theirs == 60).all()
        assert len(seen) == 2

    run(2, body)


def test_a_captured_function_runs_at_each_launch_and_numpy_in_the_block_once() -> None:
    def body(world: ons.World) -> None:
        stream, step, once = world.stream(), np.zeros(1), np.zeros(1)

        def count(array: np.ndarray) -> None:
            array += 1

        with world.capture(stream) as graph:
            world.call(count, step)
            once += 1
            world.all_reduce(step)
        del count
        gc.collect()
        assert (step[0], once[0]) == (0, 1)
        for _ in range(3):
            graph.launch()
        stream.synchronize()
        assert (step[0], once[0]) == (2 + 4 + 8, 1)

    run(2, body)


def test_a_function_lives_as_long_as_its_stream_needs_it_and_no_longer() -> None:
    class Kept:
        def __call__(self) -> None:
            called.append(1)

    called: list[int] = []

    def body(world: ons.World) -> None:
        stream = world.stream()
        one = Kept()
        gone = weakref.ref(one)
        world.call(one, stream=stream)
        del one
        stream.synchronize()
        gc.collect()
        assert gone() is None
        one = Kept()
        gone = weakref.ref(one)
        with world.capture(stream) as graph:
            world.call(one)
        del one
        graph.launch()
        stream.synchronize()
        assert gone() is not None
        del graph
        stream.synchronize()
        gc.collect()
        assert gone() is None

    run(1, body)
    assert called == [1, 1]


def test_an_exception_reaches_every_waiting_rank_and_names_the_function() -> None:
    words = r"on rank 0 the function .*bad_step of World.call\(\) raised ValueError: no such field .*test_call.py:\d+"

    def raising(world: ons.World) -> None:
        stream, later, go = world.stream(), [], threading.Event()
        world.all_reduce(1)

        def bad_step() -> None:
            assert go.wait(LONG_S)
            raise ValueError("no such field")

        world.call(bad_step, stream=stream)
        world.call(later.append, 1, stream=stream)
        world.all_reduce(np.ones(1), stream=stream)
        go.set()
        with pytest.raises(ons.AbortedError, match=words):
            stream.synchronize()
        assert later == []

    def waiting(world: ons.World) -> None:
        def reduce_twice() -> None:
            world.all_reduce(1)  # may end after rank 0's, and hear of the failure already
            world.all_reduce(np.ones(1))

        with pytest.raises(ons.AbortedError, match=words):
            reduce_twice()

    pair(raising, waiting, timeout_s=LONG_S)


def test_an_exception_is_raised_by_each_call_that_looks_for_failures() -> None:
    def body(world: ons.World) -> None:
        world.call(lambda: 1 / 0, stream=world.stream())
        for look in (world.synchronize, world.check, world.stream().synchronize):
            with pytest.raises(ons.AbortedError, match="<lambda> of World.call.* raised ZeroDivisionError"):
                look()

    run(1, body)


def test_an_exception_that_no_call_has_told_is_raised_by_close() -> None:
    def body(world: ons.World) -> None:
        world.call(lambda: 1 / 0, stream=world.stream())
        with pytest.raises(ons.AbortedError, match="<lambda> of World.call.* raised ZeroDivisionError"):
            world.close()

    run(1, body)


def test_an_exception_that_cannot_tell_its_text_is_told_all_the_same() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    def raises() -> None:
        raise Mute

    def body(world: ons.World) -> None:
        stream = world.stream()
        world.call(raises, stream=stream)
        with pytest.raises(
            ons.AbortedError, match="raises of World.call.* raised an exception whose text cannot be had"
        ):
            stream.synchronize()

    run(1, body)


def test_a_function_that_calls_onstream_is_told() -> None:
    def body(world: ons.World) -> None:
        stream, told = world.stream(), []

        def nested() -> None:
            for call in (stream.synchronize, world.barrier, world.close, lambda: world.send(b"x", 0)):
                try:
                    call()
                except ons.UnsupportedError as error:
                    told.append(str(error))

        world.call(nested, stream=stream)
        stream.synchronize()
        assert len(told) == 4
        assert all("enqueue the op behind the call" in text for text in told)
        world.barrier()

    run(1, body)


def test_wrong_calls_are_refused_by_name() -> None:
    def body(world: ons.World) -> None:
        with pytest.raises(TypeError, match="call: the function is 3 of type int, which cannot be called"):
            world.call(3)  # type: ignore[arg-type]
        for stream in (None, "host"):
            with pytest.raises(ons.InvalidArgumentError, match="call: print runs in the order of a stream"):
                world.call(print, stream=stream)
        world.close()
        with pytest.raises(ons.ClosedError):
            world.call(print, stream=None)

    run(1, body)


def test_close_waits_for_a_pending_function() -> None:
    done: list[Any] = []

    def body(world: ons.World) -> None:
        stream, go = world.stream(), threading.Event()
        world.call(go.wait, LONG_S, stream=stream)
        world.call(done.append, world.rank, stream=stream)
        threading.Timer(0.1, go.set).start()
        world.close()
        assert world.rank in done

    run(2, body)
