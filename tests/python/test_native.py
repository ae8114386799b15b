"""Each case of each native test program (tests/native/*.cpp) is one row here, with a time limit.

A case runs in a process of its own, and that process leads a group, so ranks it forked end with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, build_folder

LIMIT_S = 100  # for one case; sanitizers and two busy cores included
SKIPPED = 77  # kAllSkipped of tests/native/check.hpp; the line after "skipped" says what is missing


def programs() -> list[Path]:
    return sorted(ROOT.glob("tests/native/*.cpp"))


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


def environment() -> dict[str, str]:
    halt = "halt_on_error=1:abort_on_error=0"
    return dict(
        os.environ,
        ASAN_OPTIONS=f"{halt}:detect_stack_use_after_return=1",
        UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1",
        TSAN_OPTIONS=f"{halt}:second_deadlock_stack=1:die_after_fork=0",
    )


def run_case(program: Path, case: str) -> tuple[int, str]:
    """Exit status and output. Ends the case's whole process group at the limit, and whatever it leaves behind."""
    process = subprocess.Popen(
        [program, case],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment(),
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=LIMIT_S)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return -signal.SIGKILL, output + f"\nran past {LIMIT_S} s and was ended"
    finally:
        end_group(process.pid)


def end_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.mark.parametrize(("program", "case"), rows())
def test_native(program: Path, case: str | None) -> None:
    if case is None:
        pytest.fail(f"{program} is not built; run `make build`, or set ONSTREAM_BUILD to another build folder")
    status, output = run_case(program, case)
    if status == SKIPPED:
        pytest.skip(output.strip().splitlines()[-2].strip())
    assert status == 0, f"{program} {case} ended with status {status}\n{output[-8000:]}"
