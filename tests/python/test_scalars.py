"""Numbers and flags of calls: a call refuses any other value by name, and converts nothing silently."""

from __future__ import annotations

import decimal
import fractions
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rank_threads import run

import onstream as ons

NO_INTEGERS = ["0", b"0", 0.0, 0.5, True, False, math.nan, 0j, None, np.float32(0), np.bool_(False), [0], "x"]
INTEGERS = [0, np.int8(0), np.uint64(0), np.array(0), np.array(0, "u1")]

INTEGER_ARGUMENTS: dict[str, Callable[[ons.World, Any], Any]] = {
    "root of broadcast": lambda w, n: w.broadcast(np.ones(1), root=n),
    "root of reduce": lambda w, n: w.reduce(np.ones(1), root=n),
    "root of gather": lambda w, n: w.gather(np.ones(1), np.zeros(1), root=n),
    "root of scatter": lambda w, n: w.scatter(np.ones(1), np.zeros(1), root=n),
    "channel": lambda w, n: w.all_reduce(np.ones(1), channel=n),
    "counts": lambda w, n: w.all_gather_v(np.ones(0), np.zeros(1), [n]),
    "offsets": lambda w, n: w.all_gather_v(np.ones(1), np.zeros(1), [1], offsets=[n]),
    "send_counts": lambda w, n: w.all_to_all_v(np.ones(1), np.zeros(1), [n], [0]),
    "receive_counts": lambda w, n: w.all_to_all_v(np.ones(1), np.zeros(1), [0], [n]),
    "peer": lambda w, n: w.sendrecv(np.ones(1), n, np.zeros(1), 0),
    "source": lambda w, n: w.sendrecv(np.ones(1), 0, np.zeros(1), n),
    "tag": lambda w, n: w.sendrecv(np.ones(1), 0, np.zeros(1), 0, tag=n),
    "tag of a plan": lambda w, n: w.plan().send(np.ones(1), 0, tag=n),
    "peer of a plan": lambda w, n: w.plan().send(np.ones(1), n),
    "ghost": lambda w, n: w.halo(np.ones(3), ghost=n, grid=[1]),
    "ranks of a team": lambda w, n: w.team([n]),
    "colour": lambda w, n: w.split(0 if n is None else n) if n is not None else w.team(["0"]),
    "key": lambda w, n: w.split(0, n),
    "member": lambda w, n: w.world_rank(n),
    "rank of a put": lambda w, n: w.heap(4096).zeros(1).put(np.ones(1), n),
    "value of a signal": lambda w, n: w.heap(4096).zeros(1, "i8").signal(0, value=n),
    "value of an atomic": lambda w, n: w.heap(4096).zeros(1, "i8").atomic("add", 0, value=n),
    "value of a wait": lambda w, n: w.heap(4096).zeros(1, "i8").wait(n),
    "offset": lambda w, n: w.segment(64).get(np.zeros(1), 0, offset=n),
    "index": lambda w, n: w.heap(4096).zeros(1)[n] if n is not None else w.segment(None),
    "sources": lambda w, n: w.neighbourhood(sources=[n], destinations=[0]),
}


@pytest.mark.parametrize("name", INTEGER_ARGUMENTS)
def test_what_is_no_integer_is_refused(name: str) -> None:
    def body(world: ons.World) -> None:
        for value in NO_INTEGERS:
            if name == "ghost" and value == [0]:
                continue  # one for each dimension
            with pytest.raises((TypeError, IndexError, ons.InvalidArgumentError), match="integer"):
                INTEGER_ARGUMENTS[name](world, value)
        for value in INTEGERS:
            INTEGER_ARGUMENTS[name](world, value)

    run(1, body)


NO_FACTORS = [
    "2",
    "x",
    b"2",
    True,
    False,
    np.bool_(True),
    np.str_("2"),
    None,
    [2],
    np.ones(2),
    2j,
    1 + 2j,
    np.array("2"),
]
FACTORS = [2, 2.0, np.float32(2), np.float16(2), np.int8(2), np.array(2.0), np.array(2), 2 + 0j, np.complex64(2),
           fractions.Fraction(2), decimal.Decimal(2), np.longdouble(2)]  # fmt: skip


@pytest.mark.parametrize("code", ["f4", "f8", "c16", "i4"])
def test_a_factor_is_a_number(code: str) -> None:
    def body(world: ons.World) -> None:
        for factor in NO_FACTORS:
            with pytest.raises(ons.InvalidArgumentError, match="the factor is"):
                world.all_reduce(np.ones(1, code), op="premulsum", factor=factor)  # type: ignore[arg-type]
            if factor is not None:
                with pytest.raises(ons.InvalidArgumentError, match="`factor` is for op='premulsum'"):
                    world.all_reduce(np.ones(1, code), factor=factor)  # type: ignore[arg-type]
        for factor in FACTORS:
            assert world.all_reduce(np.ones(1, code), op="premulsum", factor=factor)[0] == 2  # type: ignore[arg-type]

    run(1, body)


def test_factors_of_integers_are_whole() -> None:
    def body(world: ons.World) -> None:
        for factor in (2.5, math.nan, math.inf, np.float32(0.5), fractions.Fraction(1, 2)):
            with pytest.raises(ons.InvalidArgumentError, match="are multiplied by integers"):
                world.all_reduce(np.ones(1, "i4"), op="premulsum", factor=factor)  # type: ignore[arg-type]
        assert math.isnan(world.all_reduce(np.ones(1), op="premulsum", factor=math.nan)[0])

    run(1, body)


FLAGS: dict[str, Callable[[ons.World, Any], Any]] = {
    "deterministic": lambda w, flag: w.all_reduce(np.ones(1), deterministic=flag),
    "exclusive": lambda w, flag: w.scan(np.ones(1), exclusive=flag),
    "periodic": lambda w, flag: w.neighbourhood([1], periodic=flag),
    "periodic of a list": lambda w, flag: w.neighbourhood([1], periodic=[flag]),
    "periodic of a halo": lambda w, flag: w.halo(np.ones(3), grid=[1], periodic=flag),
    "corners": lambda w, flag: w.halo(np.ones(3), grid=[1], corners=flag),
}


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_is_true_or_false(name: str) -> None:
    def body(world: ons.World) -> None:
        for value in ("no", "", 2, 0.5, math.nan, None):
            with pytest.raises(TypeError, match="must be True or False"):
                FLAGS[name](world, value)
        for value in (True, False, 0, 1, np.bool_(True), np.int8(1)):
            FLAGS[name](world, value)

    run(1, body)


def test_words_of_floats_are_numbers() -> None:
    def body(world: ons.World) -> None:
        word = world.heap(4096).zeros(1, "f8")
        for value in ("1", True, 1j, None, [1.0], np.bool_(True)):
            with pytest.raises(TypeError, match="value is .* but must be a number"):
                word.atomic("swap", 0, value=value)
        for value in (1, 1.0, np.float32(1), np.array(1.0)):
            word.atomic("swap", 0, value=value)
            assert word.atomic("fetch", 0) == 1

    run(1, body)


def test_entries_of_leave_out_are_bools_or_integers() -> None:
    def body(world: ons.World) -> None:
        words = world.heap(4096).zeros(2, "i8")
        for wrong in (["0", "0"], [0.0, 0.5], [None, 1]):
            with pytest.raises(TypeError, match="leave_out has entries of"):
                words.wait_any(0, leave_out=wrong)
        assert words.wait_any(0, leave_out=[True, 0]) == 1

    run(1, body)


@pytest.mark.parametrize(
    "wrong",
    [{"timeout_s": "x"}, {"timeout_s": True}, {"timeout_s": math.nan}, {"timeout_s": 1j}, {"timeout_s": -1},
     {"tags": 2.5}, {"tags": True}, {"tags": "many"}, {"collective_check": True}, {"tags": math.inf}],
)  # fmt: skip
def test_parameters_of_another_type_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ons.InvalidArgumentError, match=f"the parameter {next(iter(wrong))} is "):
        ons.run_threads(1, lambda _: None, **{"device": "host", **wrong})


def test_a_bool_is_no_stream() -> None:
    def body(world: ons.World) -> None:
        for value in (True, False, "x", 1.5):
            with pytest.raises((TypeError, ons.InvalidArgumentError), match="stream"):
                world.all_reduce(np.ones(1), stream=value)

    run(1, body)


@pytest.mark.parametrize("number", [10**20, -(10**20), 2**31])
def test_a_rank_tag_or_channel_that_no_number_holds_is_named(number: int) -> None:
    def rank(world: ons.World) -> None:
        calls = {
            "root": lambda: world.broadcast(np.zeros(1), root=number),
            "channel": lambda: world.all_reduce(np.zeros(1), channel=number),
            "a rank": lambda: world.team([number]),
            "peer": lambda: world.plan("p").send(np.zeros(1), number),
            "tag": lambda: world.plan("p").send(np.zeros(1), 0, tag=number),
        }
        for name, call in calls.items():
            with pytest.raises(ons.InvalidArgumentError, match=f"{name} {number} does not exist"):
                call()

    ons.run_threads(1, rank, device="host")
