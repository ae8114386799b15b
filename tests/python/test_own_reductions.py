"""Reductions of a program's own, functions of two numpy arrays: in order, checked, and failures that are told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs import lines_of, run_job
from rank_threads import run

import onstream as ons


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

    run(3, body, timeout_s=20)


LEAVES_A_CIRCLE = """
import numpy as np, onstream as ons
world = ons.init()
world.all_reduce(np.ones(4), op=lambda a, b: a + b)
raise RuntimeError("the only story")
"""


def test_a_program_that_ends_with_a_function_in_use_tells_only_its_own_story() -> None:
    ended = subprocess.run([sys.executable, "-c", LEAVES_A_CIRCLE], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert ended.stderr.strip().endswith("RuntimeError: the only story")
    assert "nanobind" not in ended.stderr


def test_what_a_function_raises_fails_the_world() -> None:
    def body(world: ons.World) -> None:
        def fails(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            raise ValueError("no sum of these")

        told = r"own reduction threw on rank .: ValueError: no sum of these \(.*test_own_reductions.py:\d+\)"
        with pytest.raises(ons.Error, match=told):
            world.all_reduce(np.zeros(2), op=fails)

    run(2, body, timeout_s=20)


def test_ctrl_c_within_a_function_is_raised_by_the_call(tmp_path: Path) -> None:
    program = """
import os, signal
import numpy as np
import onstream as ons

w = ons.init(timeout_s=20)

def interrupted(a, b):
    if w.rank == 0: os.kill(os.getpid(), signal.SIGINT)
    return a + b

try:
    while True: w.all_reduce(np.ones(2), op=interrupted)
except KeyboardInterrupt:
    print(w.rank, "interrupted", flush=True)
except ons.AbortedError as error:
    print(w.rank, "heard", "KeyboardInterrupt" in str(error) or "interrupted" in str(error), flush=True)
"""
    ended = run_job(tmp_path, 2, program)
    assert sorted(lines_of(ended)) == ["0 interrupted", "1 heard True"], ended.err


@pytest.mark.parametrize(
    ("op", "told"),
    [
        (lambda _a, _b: None, "the reduction returned None for two arrays of shape"),
        (lambda a, _b: a.sum(), r"the reduction returned an array of shape \(\) for two arrays of shape"),
        (lambda a, b: a @ b, r"an array of shape \(\) for two arrays of shape \(4,\): it gets all elements in a row"),
        (lambda a, b: a / b, "Cannot cast .* from dtype..float64.. to dtype..int32.."),
    ],
)
def test_what_a_function_returns_has_to_fit(op: Any, told: str) -> None:
    def body(world: ons.World) -> None:
        with pytest.raises(ons.Error, match=told):
            world.all_reduce(np.ones((2, 2), dtype=np.int32), op=op)

    run(2, body, timeout_s=20)
