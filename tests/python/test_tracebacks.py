"""Tracebacks: short ones, and those of many ranks as one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

import pytest
from onstream.launcher import relay
from onstream.launcher.tracebacks import Tracebacks, names_of

import onstream as ons
from onstream import tracebacks

MISTAKE = """
import numpy as np, onstream as ons
def solve(world):
    world.all_reduce(np.ones(3), op="maxx")
"""
JOB = MISTAKE + "solve(ons.init(device='host'))\n"
THREADS = MISTAKE + "ons.run_threads(4, solve, device='host')\n"


def run(program: str, *launch: str, **variables: str) -> list[str]:
    """The lines of standard error of a program that fails."""
    ended = subprocess.run(
        [sys.executable, *launch, *([sys.executable] if launch else []), "-c", program],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 1, ended.stderr
    return ended.stderr.splitlines()


def job(size: int, program: str, **variables: str) -> list[str]:
    return run(program, "-m", "onstream", "run", "-n", str(size), **variables)


def test_a_mistake_of_all_ranks_is_told_once_without_our_frames() -> None:
    # The ranks meet before one fails: else some hear of the failure within init().
    lines = job(4, MISTAKE + "world = ons.init(device='host')\nworld.barrier()\nsolve(world)\n")
    told = "onstream.errors.InvalidArgumentError: there is no reduction 'maxx'"
    assert sum(told in line for line in lines) <= 2
    assert any(line.startswith("[ranks ") and told in line for line in lines)
    assert not any("collectives.py" in line for line in lines)
    assert lines[-1].endswith("Its last lines on standard error are those above.")


def test_full_tracebacks_are_there_for_those_who_ask() -> None:
    lines = job(3, JOB, ONSTREAM_TRACEBACK="full")
    assert sum(line.endswith("Traceback (most recent call last):") for line in lines) >= 3
    assert any("collectives.py" in line for line in lines)
    assert not any("[ranks" in line for line in lines)


@pytest.mark.parametrize("full", [False, True])
def test_ranks_as_threads_hide_our_frames_too(full: bool) -> None:
    lines = run(THREADS, **({"ONSTREAM_TRACEBACK": "full"} if full else {}))
    assert any(line.endswith("in solve") for line in lines)
    assert any("threads.py" in line for line in lines) == full
    assert any("collectives.py" in line for line in lines) == full


def test_the_programs_own_hook_stays() -> None:
    hook = "import sys\nsys.excepthook = lambda *of: print('mine', of[0].__name__, file=sys.stderr)\n"
    assert "mine InvalidArgumentError" in run(hook + JOB)


def test_the_rank_where_it_began_is_last_and_others_stand_apart() -> None:
    program = """
import sys, time
import os
rank = int(os.environ["ONSTREAM_RANK"])
if rank == 1:
    time.sleep(0.1)
raise ValueError("mine is 1" if rank == 1 else "the world has failed: rank 1 ended by ValueError")
"""
    lines = job(4, program)
    heads = [line for line in lines if "Traceback" in line]
    assert heads == ["[ranks 0, 2-3] Traceback (most recent call last):", "[1] Traceback (most recent call last):"]
    assert lines[-2] == "[1] ValueError: mine is 1"
    assert lines[-1].startswith("onstream run: rank 1 ended with code 1")


def test_a_traceback_of_a_program_that_goes_on_is_shown_soon() -> None:
    program = """
import sys, time, traceback
try:
    1 / 0
except ZeroDivisionError:
    traceback.print_exc()
    print("and on it goes", file=sys.stderr, flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-m", "onstream", "run", "-n", "1", sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as going:
        assert going.stderr is not None
        lines = []
        while not lines or "and on it goes" not in lines[-1]:
            lines.append(going.stderr.readline())
            assert lines[-1], lines
        assert going.poll() is None
        assert lines[0] == "[0] Traceback (most recent call last):\n"
        going.communicate(timeout=60)
        assert going.returncode == 0


def test_without_prefixes_every_rank_writes_as_it_does() -> None:
    program = "raise ValueError('no')"
    lines = run(program, "-m", "onstream", "run", "--no-prefix", "-n", "3")
    assert lines.count("ValueError: no") == 3


def test_ranks_are_named_in_runs() -> None:
    assert [names_of(ranks) for ranks in ([3], [0, 1, 2], [5, 0, 1, 3], [])] == ["3", "0-2", "0-1, 3, 5", ""]


def test_lines_before_a_traceback_go_out_at_once_and_those_behind_it_stay_behind() -> None:
    sink, screen, kept = io.BytesIO(), relay.Screen(), Tracebacks()
    sources = [
        relay.Source(None, sink, screen, f"[{rank}] ".encode(), deque(), rank=rank, tracebacks=kept) for rank in (0, 1)
    ]
    for source in sources:
        source.take(b"a warning\nTraceback (most recent call last):\nError: x\n")
        source.release()
        source.take(b"later\nlast without an end")
        source.release()
        source.finish()
    assert sink.getvalue() == b"[0] a warning\n[1] a warning\n"
    assert kept.due is not None
    assert kept.due <= time.monotonic() + 1.0
    kept.release(0)
    assert sink.getvalue().decode().splitlines()[2:] == [
        f"[ranks 0-1] {line}"
        for line in ("Traceback (most recent call last):", "Error: x", "later", "last without an end")
    ]
    assert list(sources[1].tail or ())[-1] == b"last without an end"
    assert (screen.source, screen.lines, kept.due) == (sources[0], 4, None)


def raised(action: object) -> BaseException:
    try:
        exec(compile(str(action), str(Path(ons.__file__).parent / "collectives.py"), "exec"), {"ons": ons})
    except BaseException as error:
        return error
    raise AssertionError("it did not raise")


def test_mistakes_of_the_package_itself_keep_their_frames() -> None:
    def files(error: BaseException) -> list[str]:
        frames, found = tracebacks.shortened(error, error.__traceback__), []
        while frames is not None:
            found.append(Path(frames.tb_frame.f_code.co_filename).name)
            frames = frames.tb_next
        return found

    assert files(raised("raise ons.Error('told')")) == ["test_tracebacks.py"]
    assert files(raised("{}['key']")) == ["test_tracebacks.py", "collectives.py"]
