"""Numbers in another byte order than the machine's: nothing puts them where they would be read in the machine's own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rank_threads import run

import onstream as ons

OWN, OTHER = "<>" if sys.byteorder == "little" else "><"
PAIR = [("x", "f8"), ("n", "i4")]


def theirs(code: str = "f8", count: int = 1) -> np.ndarray:
    return np.ones(count, OTHER + code)


def structured(order: str) -> np.ndarray:
    return np.zeros(1, [("x", order + "f8"), ("n", order + "i4")])


def swapped_plan(world: ons.World, add: Callable[[ons.PlanBuilder, Any], Any]) -> Any:
    segment = world.segment(64)
    try:
        return add(world.plan(), segment)
    finally:
        segment.free()


MOVES: list[Callable[[Any, Any, Any], Any]] = [
    lambda w, a, b: w.all_gather(a, b),
    lambda w, a, b: w.gather(a, b),
    lambda w, a, b: w.scatter(a, b),
    lambda w, a, b: w.all_to_all(a, b),
    lambda w, a, b: w.all_gather_v(a, b, [1]),
    lambda w, a, b: w.all_to_all_v(a, b, [1], [1]),
    lambda w, a, b: w.explain.all_gather(a, b),
    lambda w, a, b: w.plan().collectives().all_gather(a, b),
    lambda w, a, b: w.plan().collectives().all_to_all_v(a, b, [1], [1]),
    lambda w, a, b: w.neighbourhood([1], periodic=True).all_gather(a, b),
    lambda w, a, b: w.neighbourhood([1], periodic=True).all_to_all(np.repeat(a, 2), b),
    lambda w, a, b: w.neighbourhood([1], periodic=True).all_to_all_v(np.repeat(a, 2), np.repeat(b, 2), [1, 1], [1, 1]),
    lambda w, a, b: w.neighbourhood(sources=[0], destinations=[0]).all_gather(a, b),
]
# Pairs of input and output: scalars of all kinds, and fields.
ARRAYS: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
    (theirs, lambda: np.zeros(1)),
    (lambda: np.ones(1), theirs),
    (lambda: memoryview(theirs()), lambda: np.zeros(1)),
    (lambda: theirs("i2"), lambda: np.zeros(1, "i2")),
    (lambda: theirs("c16"), lambda: np.zeros(1, "c16")),
    (lambda: theirs("f4"), lambda: np.zeros(1, "i4")),
    (lambda: np.zeros(1, OTHER + "M8[s]"), lambda: np.zeros(1, "M8[s]")),
    (lambda: np.zeros(1, OTHER + "U2"), lambda: np.zeros(1, "U2")),
    (lambda: structured(OTHER), lambda: structured("=")),
    (lambda: np.zeros(1, [("m", OTHER + "f4", 3)]), lambda: np.zeros(1, [("m", "f4", 3)])),
]


@pytest.mark.parametrize("move", MOVES)
def test_moves_between_two_orders_are_refused(move: Callable[[Any, Any, Any], Any]) -> None:
    def body(world: ons.World) -> None:
        out = np.zeros(2) if move in MOVES[9:11] else np.zeros(1)
        with pytest.raises(ons.InvalidArgumentError, match=r"whose bytes are in another order; nothing is converted"):
            move(world, theirs(), out)
        assert not out.any()

    run(1, body)


@pytest.mark.parametrize("make", ARRAYS)
def test_arrays_of_two_orders_are_refused(make: tuple[Callable[[], Any], Callable[[], Any]]) -> None:
    def body(world: ons.World) -> None:
        with pytest.raises(ons.InvalidArgumentError, match="in another order"):
            world.all_gather(make[0](), make[1]())

    run(1, body)


def test_arrays_of_one_order_and_bytes_are_moved() -> None:
    def body(world: ons.World) -> None:
        for array, out in (
            (theirs(), np.zeros(1, OTHER + "f8")),
            (np.ones(1), np.zeros(1, f"{OWN}f8")),
            (np.ones(1, "=f8"), np.zeros(1)),
            (np.ones(8, "|u1"), np.zeros(1)),
            (theirs().view("u1"), np.zeros(1)),
            (structured(OTHER), structured(OTHER)),
            (structured(OWN), np.zeros(1, PAIR)),
            (theirs(), bytearray(8)),
        ):
            world.all_gather(array, out)
            assert bytes(out) == bytes(array)

    run(1, body)


REFUSED: list[tuple[Callable[[ons.World], Any], str]] = [
    (lambda w: w.all_reduce(theirs()), "cannot reduce"),
    (lambda w: w.all_reduce(theirs(), np.zeros(1)), "cannot reduce"),
    (lambda w: w.all_reduce(np.ones(1), theirs()), "cannot reduce"),
    (lambda w: w.all_reduce(theirs(), np.zeros(1), op=np.add), "the array is of"),
    (lambda w: w.all_reduce(np.ones(1), theirs(), op=np.add), "the array is of"),
    (lambda w: w.all_reduce(structured(OTHER), op="maxloc"), "cannot reduce"),
    (lambda w: w.heap(4096).zeros(1).put(theirs(), 0), "in another order"),
    (lambda w: w.heap(4096).zeros(1).get(theirs(), 0), "in another order"),
    (lambda w: w.heap(4096).zeros(1, OTHER + "f8").put(np.ones(1), 0), "in another order"),
    (lambda w: w.context().put(w.heap(4096).zeros(1), theirs(), 0), "in another order"),
    (lambda w: w.context().get(theirs(), w.heap(4096).zeros(1), 0), "in another order"),
    (lambda w: w.heap(4096).zeros(1, OTHER + "i8").signal(0), "a signal is"),
    (lambda w: w.heap(4096).zeros(1, OTHER + "i8").wait(0), "words are integers"),
    (lambda w: w.heap(4096).zeros(1, OTHER + "i8").atomic("add", 0, value=1), "words are integers"),
    (lambda w: w.context().fetch_add(w.heap(4096).zeros(1, OTHER + "i8"), 1, 0), "words are integers"),
    (lambda w: w.context().wait(theirs("i8"), 1), "words are integers"),
    (lambda w: w.heap(4096).zeros(1, "i8").atomic("fetch", 0, old=theirs("i8"), stream=w.stream()), "another order"),
    (lambda w: w.heap(4096).zeros(2, "i8").wait_any(0, found=theirs("i8"), stream=w.stream()), "`found` is of"),
    (lambda w: w.heap(4096).zeros(2, "i8").wait_any(0, found=np.zeros(1), stream=w.stream()), "`found` is of float64"),
    (
        lambda w: (
            w.heap(4096)
            .zeros(2, "i8")
            .wait_some(0, found=np.zeros(1, "i8"), indices=theirs("i8", 2), stream=w.stream())
        ),
        "`indices` is of",
    ),
    (lambda w: swapped_plan(w, lambda p, s: p.put(s.peer(0, "f8")[:1], theirs(), 0)), "in another order"),
    (lambda w: swapped_plan(w, lambda p, s: p.get(theirs(), s.peer(0, "f8")[:1], 0)), "in another order"),
    (lambda w: swapped_plan(w, lambda p, s: p.signal(s.peer(0, OTHER + "i8")[:1], 0)), "a counter is"),
    (lambda w: swapped_plan(w, lambda p, s: p.wait(s.local(OTHER + "i8")[:1], compare="ge")), "words are integers"),
    (
        lambda w: swapped_plan(w, lambda p, s: p.atomic("add", s.peer(0, "i8")[:1], 0, value=1, old=theirs("i8"))),
        "in another order",
    ),
    (lambda w: w.plan().send(theirs(), 0).recv(np.zeros(1), 0).build(), "float64"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_what_would_be_read_in_another_order_is_refused(call: Callable[[ons.World], Any], words: str) -> None:
    def body(world: ons.World) -> None:
        with pytest.raises(ons.InvalidArgumentError, match=words):
            call(world)

    run(1, body)


def test_halos_of_two_orders_are_refused() -> None:
    def body(world: ons.World) -> None:
        with pytest.raises(ons.InvalidArgumentError, match="float64"):
            world.halo(np.zeros(6, (OTHER if world.rank else OWN) + "f8"), grid=[2])

    run(2, body)
