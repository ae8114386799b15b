"""Jobs of real processes for tests, run as several ranks by `onstream run`, with a deadline: a program's text, or functions
that each rank calls with its world.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOON_S = 60.0

# A rank of run_ranks(). Each function is over on all ranks before the next one begins.
RANK = """
import sys
sys.path.insert(0, {tests!r})
import onstream as ons
import {module}

with ons.init(**{parameters!r}) as world:
    for name in {names!r}:
        getattr({module}, name)(world, *{arguments!r})
        world.barrier()
print("rank", world.rank, "is right")
"""


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


def lines_of(ended: Outcome) -> list[str]:
    """The lines that the ranks printed, without the ranks before them."""
    return [line.partition("] ")[2] for line in ended.out.splitlines()]


def run_job(folder: Path, size: int, program: str, *, options: tuple[str, ...] = (), timeout_s: float = 60) -> Outcome:
    """Runs the program's text in `folder` as `size` ranks. Fails the test if it is not over in time."""
    script = folder / "program.py"
    script.write_text(textwrap.dedent(program))
    command = [sys.executable, "-m", "onstream", "run", "-n", str(size), *options, sys.executable, str(script)]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout_s)
    return Outcome(ended.returncode, ended.stdout, ended.stderr)


def run_ranks(
    folder: Path,
    size: int,
    bodies: Iterable[Callable[..., None]],
    *arguments: Any,
    timeout_s: float = 100,
    **parameters: Any,
) -> None:
    """Calls body(world, *arguments) for each of these functions of one module, on `size` ranks, in worlds of these
    parameters. Fails the test unless every rank comes to its end.
    """
    modules, names = zip(*((body.__module__, body.__name__) for body in bodies), strict=True)
    assert len(set(modules)) == 1
    tests = str(Path(__file__).parent)
    program = RANK.format(
        tests=tests, module=modules[0], names=names, arguments=arguments, parameters={"timeout_s": 60, **parameters}
    )
    outcome = run_job(folder, size, program, timeout_s=timeout_s)
    assert outcome.code == 0, outcome.err
    assert outcome.out.count("is right") == size


def state_of(pid: int) -> str:
    """A process's state as ps shows it; X where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def wait_for(event: str, holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < limit, event
        time.sleep(0.01)


def wait_until_gone(pids: Iterable[int]) -> None:
    every = list(pids)
    wait_for(f"all of {every} end", lambda: all(state_of(pid) in "ZX" for pid in every))
