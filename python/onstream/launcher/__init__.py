"""`onstream run`: the ranks of a job on this machine, with their output, their signals and one exit code.

Every rank is a process in a process group of its own (rank.py), and meets the others at an abstract socket name, so no port is
taken and no file is left. Output goes out by whole lines (relay.py); signals go to all ranks (signals.py); when a rank fails,
the job ends (job.py). Ranks find the programs of this interpreter first on PATH. Needs nothing but the standard library:
python -m onstream.launcher -n 4 PROGRAM...
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from . import signals, standard
from .job import Given, Job

CODE_NOT_EXECUTABLE = 126
CODE_NOT_FOUND = 127


def run(
    size: int,
    command: list[str],
    *,
    output: str = "prefixed",
    env: dict[str, str] | None = None,
    grace_s: float = 5.0,
    timeout_s: float | None = None,
    called: str = "onstream run",
    descriptors: Sequence[int] = (),
) -> int:
    """Runs `command` as `size` ranks, blocks until all have ended, and returns the job's exit code.

    0 if every rank returned 0, else the code of the rank that failed first (128 + number for a signal), 124 after
    timeout_s, 126 or 127 if the program cannot be started. `env` is added to this process's environment.
    output: "prefixed", every line with its rank; "relayed", as it is, but through us, so that the job ends if its reader
    does; "own", standard output is the ranks' own. Signals are forwarded when called from the main thread. The
    launcher's own lines begin with `called`. descriptors: those of this process that the ranks get, 0 for rank 0 alone;
    without it nobody reads standard input.
    """
    if size < 1:
        raise ValueError(f"a job of {size} ranks cannot run; ask for 1 or more")
    if not command:
        raise ValueError("no program to run")
    job = Job(size, grace_s, timeout_s, called)
    with signals.answered(job.forward, job.stop):
        try:
            job.start(Given(command, env or {}, output, descriptors))
        except OSError as error:
            job.kill_all()
            job.say(_cannot_start(command[0], size, error))
            return CODE_NOT_FOUND if isinstance(error, FileNotFoundError) else CODE_NOT_EXECUTABLE
        try:
            return job.attend()
        finally:
            job.kill_all()


def _cannot_start(program: str, size: int, error: OSError) -> str:
    text = f"cannot start '{program}': {error.strerror}"
    if program.endswith(".py") and Path(program).is_file():
        return f"{text}: it is a Python script: onstream run -n {size} python {program}"
    if "/" not in program and Path(program).is_file():
        return f"{text} on the PATH; the one in this folder is ./{program}"
    return text


def main(arguments: list[str] | None = None) -> int:
    with standard.guarded("onstream run"):
        return _main(arguments)


def _main(arguments: list[str] | None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m onstream.launcher",
        description="Runs a program as several ranks, of which rank 0 alone reads standard input.",
    )
    parser.add_argument("-n", "--ranks", type=int, default=1, help="how many ranks")
    parser.add_argument("--no-prefix", dest="prefix", action="store_false", help="do not put the rank before each line")
    parser.add_argument("--grace-s", type=float, default=5.0, help="seconds for the other ranks when one has failed")
    parser.add_argument("--timeout-s", type=float, help="seconds after which the job is ended")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="PROGRAM ...", help="what every rank runs")
    options = parser.parse_args(arguments)
    if options.ranks < 1 or not options.command:
        parser.error("needs a number of ranks from 1 on and a program")
    return run(
        options.ranks,
        options.command,
        output="prefixed" if options.prefix else "own",
        grace_s=options.grace_s,
        timeout_s=options.timeout_s,
        descriptors=(0, *standard.inherited()),
    )
