"""A native bench program: how it is found, started and read.

A program is given cases and prints JSON lines: one heading, then one a case with its raw samples. It runs in a process
group of its own and is ended, with all its ranks, when it passes the time limit.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ..errors import Error, TimeoutError, UnsupportedError
from .cases import Case
from .results import command_of

OnLine = Callable[[str], None]

RUN_TIMEOUT_S = 540.0
KILL_AFTER_S = 5.0
OWN_WORD = re.compile(
    r"(?:^|\] )(?:bench_\w+|upc_\w+|mpi_peer|mpi_one_sided|mpi_collectives|torch_collectives): "
)  # how our native programs begin a failure; it goes on in lines that are indented
RANK_WORD = re.compile(r"\[\d+\] ")  # the launcher's prefix of a rank's last lines, which it repeats


@dataclass(frozen=True)
class Program:
    name: str
    start: tuple[str, ...]  # the command, up to the options of the program itself
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Output:
    heading: dict[str, Any]
    samples_s: dict[Case, list[float]]
    error: Error | None = None  # why the program ended early; the cases that it had finished are here
    reason: str = ""  # the same in the library's own words alone, if rank 0 had them


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


def source_folder(family: str) -> Path:
    """The folder of bench/ with the programs of a family: "message", "collective", "one_sided", "compat" or "programs"."""
    return Path(__file__).resolve().parents[3] / "bench" / family


def native(name: str) -> Path:
    """A bench program of the build folder."""
    program = build_folder() / "bench" / name
    if not program.exists():
        raise UnsupportedError(f"there is no {program}; build with ONSTREAM_BENCH=ON (make build does)")
    return program


def as_ranks(program: Path, ranks: int, options: tuple[str, ...]) -> tuple[str, ...]:
    """The command that starts a native program as so many processes."""
    return (sys.executable, "-m", "onstream", "run", "-n", str(ranks), "--no-prefix", str(program), *options)


def message_program(
    device: str, *, ranks: int = 2, options: tuple[str, ...] = (), threads: bool = False, name: str = "onstream"
) -> Program:
    """bench_message as processes, or as two threads of one."""
    program = native("bench_message")
    everything = ("--device", device, *options)
    if threads:
        return Program(name, (str(program), *everything, "--threads"))
    return Program(name, as_ranks(program, ranks, everything))


def run(program: Program, cases: list[Case], samples: int, timeout_s: float = RUN_TIMEOUT_S) -> Output:
    """One round. Throws when the program fails, passes the limit, or leaves a case out."""
    output = attempt(program, cases, samples, timeout_s)
    if output.error is not None:
        raise output.error
    return output


def attempt(
    program: Program, cases: list[Case], samples: int, timeout_s: float = RUN_TIMEOUT_S, on_line: OnLine | None = None
) -> Output:
    """One round that may end early."""
    finished = execute(program, ("--samples", str(samples), *map(str, cases)), timeout_s, on_line)
    heading, samples_s = read(program.name, finished.out)
    said = [row["error"] for row in rows_of(program.name, finished.out) if "error" in row]
    error = finished.error
    missing = [str(case) for case in cases if not samples_s.get(case)]
    if error is None and missing:
        error = Error(f"{program.name} printed no samples of {', '.join(missing)}")
    return Output(heading, samples_s, error, reason_of(said[-1]) if said else "")


@dataclass(frozen=True)
class Finished:
    out: str
    error: Error | None


class _Reader(threading.Thread):
    """Takes in one stream of a program as it comes, to its end."""

    def __init__(self, stream: IO[str], on_line: OnLine | None = None) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self._on_line = on_line
        self._lines: list[str] = []
        self.start()

    def run(self) -> None:
        with self._stream:
            for line in self._stream:
                self._lines.append(line)
                if self._on_line is not None:
                    self._on_line(line)

    def text(self) -> str:
        """All of it. It does not wait for processes that the program left running with the stream open."""
        self.join(KILL_AFTER_S)
        return "".join(self._lines)


def told(command: Sequence[str], most: int = 16) -> str:
    """A command by its first words, as nobody reads a hundred cases."""
    left = len(command) - most
    return command_of(command[:most]) + (f" and {left} words more" if left > 0 else "")


def execute(
    program: Program, arguments: tuple[str, ...], timeout_s: float = RUN_TIMEOUT_S, on_line: OnLine | None = None
) -> Finished:
    """Runs the program to its end, or to the time limit; a failure is in the answer.

    on_line gets every line of its standard output when it comes, in another thread.
    """
    command = [*program.start, *arguments]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, **program.environment},
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    reading_out, reading_err = _Reader(process.stdout, on_line), _Reader(process.stderr)
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        _end(process)
        out, err = reading_out.text(), reading_err.text()
        said = f"; it said: {failure_of(err)}" if err.strip() else ""
        text = f"{program.name} did not finish within {timeout_s:g} s: {told(command)}{said}"
        return Finished(out, TimeoutError(text))
    except BaseException:  # Ctrl-C
        _end(process)
        reading_out.text()
        raise
    out, err = reading_out.text(), reading_err.text()
    if process.returncode != 0:
        return Finished(out, Error(f"{program.name} failed with status {process.returncode}: {failure_of(err or out)}"))
    return Finished(out, None)


def read(name: str, text: str) -> tuple[dict[str, Any], dict[Case, list[float]]]:
    """The program's standard output. Lines that are not JSON objects are other libraries' words and are passed over."""
    heading: dict[str, Any] = {}
    samples_s: dict[Case, list[float]] = {}
    for row in rows_of(name, text):
        if "samples_s" in row:
            case = Case(row["mode"], row["submission"], row["bytes"], row["iterations"], row["window"])
            samples_s[case] = row["samples_s"]
        elif "error" not in row:
            heading.update(row)
    return heading, samples_s


def rows_of(name: str, text: str) -> list[dict[str, Any]]:
    rows = []
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise Error(f"{name} printed a line that is no JSON ({error}): {line[:200]}") from error
    return rows


def failure_of(text: str) -> str:
    """The reason in a program's output: its own error line if there is one, else the last lines."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    own: list[list[str]] = []
    within = False
    for line in lines:
        said = RANK_WORD.sub("", line, count=1)
        begins = OWN_WORD.search(line) is not None
        within = begins or (within and said.startswith(" "))
        if begins:
            own.append([])
        if within:
            own[-1].append(said)
    words = [line for word in own[-4:] for line in word]
    return "\n".join(dict.fromkeys(words)) or "\n".join(lines[-12:]) or "it said nothing"


def reason_of(text: str) -> str:
    """The cause alone of a library's error, in one line: rank 0 may have it in another rank's words."""
    cause = text.removeprefix("the world has failed: aborted: ")
    return " ".join(cause.split(" to go on")[0].split())


def _end(process: subprocess.Popen[str]) -> None:
    """Ends the program's process group, gently first, and reaps it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(KILL_AFTER_S)
            return
