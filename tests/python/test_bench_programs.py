"""The bench: its native programs are read, quoted, and ended in time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench_results import CASE, LINE
from onstream.bench import programs
from onstream.errors import Error, TimeoutError


def program(code: str) -> programs.Program:
    return programs.Program("a program", (sys.executable, "-c", code))


def test_a_program_is_read_past_the_words_of_other_libraries() -> None:
    output = programs.run(program(f"print('a warning'); print('{{\"library\": \"L 1\"}}'); print('{LINE}')"), [CASE], 1)
    assert output.heading == {"library": "L 1"}
    assert output.samples_s == {CASE: [1e-6]}


def test_a_case_without_samples_is_named() -> None:
    with pytest.raises(Error, match="no samples of ping-pong:host:8:10:1"):
        programs.run(program("print('{}')"), [CASE], 1)


def test_a_failing_program_is_quoted() -> None:
    with pytest.raises(Error, match=r"status 3: the reason"):
        programs.run(program("import sys; print('the reason', file=sys.stderr); sys.exit(3)"), [CASE], 1)


def test_a_reason_of_several_lines_is_quoted_whole_and_once() -> None:
    said = (
        "onstream[0] error: the world failed:\n    rank 0: why\nbench_message: cannot be built:\n  rank 0: why\n"
        "bench_message: cannot be built:\n  rank 0: why\nonstream run: rank 0 ended\n"
        "[0] bench_message: cannot be built:\n[0]   rank 0: why\n"
    )
    assert programs.failure_of(said) == "bench_message: cannot be built:\n  rank 0: why"
    assert programs.reason_of("the world has failed: aborted: cannot be built:   rank 0: why") == (
        "cannot be built: rank 0: why"
    )


def test_what_a_program_says_of_its_failure_is_no_part_of_its_heading() -> None:
    row = '{"error": "the world has failed: aborted: out of  luck"}'
    output = programs.attempt(
        program(f'print(\'{{"library": "L 1"}}\'); print({row!r}); raise SystemExit(1)'), [CASE], 1
    )
    assert output.heading == {"library": "L 1"}
    assert output.reason == "out of luck"


def test_half_a_line_is_an_error() -> None:
    with pytest.raises(Error, match="no JSON"):
        programs.read("x", '{"mode": "ping')


def test_a_program_that_hangs_is_ended_at_the_limit() -> None:
    with pytest.raises(TimeoutError, match=r"within 0\.5 s"):
        programs.run(program("import threading; threading.Event().wait()"), [CASE], 1, timeout_s=0.5)


def test_a_time_limit_over_the_command_ends_its_programs_too(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    waits = f"import os, pathlib, threading; pathlib.Path({str(file)!r}).write_text(f'{{os.getpid()}} '); threading.Event().wait()"
    code = (
        "import sys\nfrom onstream.bench import commands, programs\ncommands.end_programs_on_sigterm()\n"
        f"programs.execute(programs.Program('x', (sys.executable, '-c', {waits!r})), (), 60)\n"
    )
    command = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 30
    while not (file.exists() and file.read_text().endswith(" ")):
        assert time.monotonic() < deadline, "the program did not start"
        assert command.poll() is None
        time.sleep(0.01)
    command.terminate()
    assert command.wait(timeout=30) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)
