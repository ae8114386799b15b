"""Each case of each native test program (tests/native/<folder>/<name>.cpp) is one row here, with a time limit.

A case runs in a process of its own, and that process leads a group, so ranks it forked end with it. Most cases wait
for much of their time, so some run at once: the rows that come next are under way while one is looked at.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import ROOT, build_folder

LIMIT_S = 240  # for one case; sanitizers and two cores that others use too included
# A case keeps about half a core busy. One GPU runs the kernels of one process at a time.
AT_ONCE = 1 if Path("/dev/nvidia0").exists() else min(len(os.sched_getaffinity(0)), 7) + 2
SKIPPED = 77  # kAllSkipped of tests/native/support/check.hpp; the line after "skipped" gives the reason


def programs() -> list[Path]:
    """The sources of the programs, each in a folder of tests/native; stand_ins has libraries."""
    native = ROOT / "tests" / "native"
    return sorted(file for file in native.rglob("*.cpp") if file.parent != native / "stand_ins")


def program_of(source: Path) -> Path:
    return build_folder() / "tests" / "native" / f"test_{source.stem}"


def rows() -> list[object]:
    """(program, case) of all programs; a source that was not built is one row, which fails with the reason."""
    found: list[object] = []
    for source in programs():
        program = program_of(source)
        if not program.exists():
            found.append(pytest.param(program, None, id=source.stem))
            continue
        listed = subprocess.run([program, "--list"], capture_output=True, text=True, timeout=LIMIT_S, check=True)
        found += [pytest.param(program, case, id=f"{source.stem}-{case}") for case in listed.stdout.split()]
    return found


_HALT = "halt_on_error=1:abort_on_error=0"
# Read once: pytest changes its own for each test, while cases are started in other threads.
ENVIRONMENT = dict(
    os.environ,
    ASAN_OPTIONS=f"{_HALT}:detect_stack_use_after_return=1",
    UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1",
    TSAN_OPTIONS=f"{_HALT}:second_deadlock_stack=1:die_after_fork=0",
)


class Cases:
    """Runs cases in the order given, AT_ONCE of them at a time, whether their rows have come or not."""

    def __init__(self, cases: list[tuple[Path, str]]) -> None:
        self._lock = threading.Lock()
        self._running: set[int] = set()
        self._closed = False
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._results = {case: self._pool.submit(self._run, *case) for case in cases}

    def result(self, program: Path, case: str) -> tuple[int, str]:
        """Exit status and output of a case. Blocks until it has ended."""
        return self._results[program, case].result()

    def close(self) -> None:
        """Ends the programs that still run."""
        with self._lock:
            self._closed = True
            for group in self._running:
                end_group(group)
        self._pool.shutdown(cancel_futures=True)

    def _run(self, program: Path, case: str) -> tuple[int, str]:
        with self._lock:
            if self._closed:
                return -signal.SIGKILL, ""
            process = start(program, case)
            self._running.add(process.pid)
        try:
            return await_end(process)
        finally:
            with self._lock:
                self._running.remove(process.pid)
                end_group(process.pid)


def start(program: Path, case: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [program, case],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=ENVIRONMENT,
        start_new_session=True,
    )


def await_end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit status and output. Ends the case's whole process group at the limit."""
    try:
        output, _ = process.communicate(timeout=LIMIT_S)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return -signal.SIGKILL, output + f"\nran past {LIMIT_S} s and was ended"


def end_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.fixture(scope="module")
def cases(request: pytest.FixtureRequest) -> Iterator[Cases]:
    """The cases of this run's rows."""
    rows = [item.callspec.params for item in request.session.items if item.path == Path(__file__)]
    cases = Cases([(row["program"], row["case"]) for row in rows if row["case"] is not None])
    yield cases
    cases.close()


@pytest.mark.limit(LIMIT_S + 20)
@pytest.mark.parametrize(("program", "case"), rows())
def test_native(cases: Cases, program: Path, case: str | None) -> None:
    if case is None:
        pytest.fail(f"{program} is not built; run `make build`, or set ONSTREAM_BUILD to another build folder")
    status, output = cases.result(program, case)
    if status == SKIPPED:
        pytest.skip(output.strip().splitlines()[-2].strip())
    assert status == 0, f"{program} {case} ended with status {status}\n{output[-8000:]}"
