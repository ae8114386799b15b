"""A native bench program: how it is found, started and read.

A program is given cases and prints JSON lines: one heading, then one a case with its raw samples. It runs in a process
group of its own and is ended, with all its ranks, when it passes the time limit.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import Error, TimeoutError, UnsupportedError
from .cases import Case

RUN_TIMEOUT_S = 540.0
KILL_AFTER_S = 5.0


@dataclass(frozen=True)
class Program:
    name: str
    start: tuple[str, ...]  # the command, up to the options of the program itself
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Output:
    heading: dict[str, Any]
    samples_s: dict[Case, list[float]]


def build_folder() -> Path:
    """The CMake tree that this package was imported from. Throws where onstream was installed without one."""
    from .. import _core

    folder = Path(_core.__file__).resolve().parents[2]
    if not (folder / "CMakeCache.txt").exists():
        raise UnsupportedError(
            "the bench programs are not part of an installed onstream; clone the repository, `make build`, and run "
            ".venv/bin/onstream bench there"
        )
    return folder


def source_folder() -> Path:
    """bench/ of the repository."""
    return Path(__file__).resolve().parents[3] / "bench"


def message_program(device: str, memory: str, path: str, *, threads: bool) -> Program:
    """onstream's own program as two processes, or as two threads of one."""
    native = build_folder() / "bench" / "bench_message"
    if not native.exists():
        raise UnsupportedError(f"there is no {native}; build with ONSTREAM_BENCH=ON (make build does)")
    options = ("--device", device, "--memory", memory, "--path", path)
    if threads:
        return Program("onstream", (str(native), *options, "--threads", str(_free_port())))
    launcher = (sys.executable, "-m", "onstream", "run", "-n", "2", "--no-prefix")
    return Program("onstream", (*launcher, str(native), *options))


def run(program: Program, cases: list[Case], samples: int, timeout_s: float = RUN_TIMEOUT_S) -> Output:
    """One round. Throws when the program fails, passes the limit, or leaves a case out."""
    command = [*program.start, "--samples", str(samples), *map(str, cases)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **program.environment},
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _end(process)
        raise TimeoutError(f"{program.name} did not finish within {timeout_s:g} s: {' '.join(command)}") from None
    except BaseException:  # Ctrl-C
        _end(process)
        raise
    if process.returncode != 0:
        raise Error(f"{program.name} failed with status {process.returncode}: {failure_of(err or out)}")
    return read(program.name, out, cases)


def read(name: str, text: str, cases: list[Case]) -> Output:
    """The program's standard output. Lines that are not JSON objects are other libraries' words and are passed over."""
    heading: dict[str, Any] = {}
    samples_s: dict[Case, list[float]] = {}
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise Error(f"{name} printed a line that is no JSON ({error}): {line[:200]}") from error
        if "samples_s" in row:
            case = Case(row["mode"], row["submission"], row["bytes"], row["iterations"], row["window"])
            samples_s[case] = row["samples_s"]
        else:
            heading.update(row)
    missing = [str(case) for case in cases if not samples_s.get(case)]
    if missing:
        raise Error(f"{name} printed no samples of {', '.join(missing)}")
    return Output(heading, samples_s)


def failure_of(text: str) -> str:
    """The last lines of what a program said, where the reason stands."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-12:]) or "it said nothing"


def _end(process: subprocess.Popen[str]) -> None:
    """Ends the program's process group, gently first, and reaps it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=KILL_AFTER_S)
            return


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
