"""The end of a world tells of failures that no call has told: work on streams that failed."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import lines_of, run_job

# Rank 0's stream has a receive that no send matches, or that is too small, and no call looks at the stream.
LOST = "box = np.full(1, 7.0)\nif w.rank == 0: w.recv(box, 1, stream=s)"
CUT = """
if w.rank == 0: w.recv(np.zeros(1), 1, stream=s)
else: w.send(np.zeros(5), 0)
"""

HEAD = """
import sys
import numpy as np
import onstream as ons

w = ons.init(timeout_s=1.5)
s = w.stream()
"""


# Rank 1 closes at once, which a wait for it may hear of before its deadline.
@pytest.mark.parametrize(
    ("work", "errors", "words"),
    [(LOST, ("TimeoutError", "AbortedError"), "recv of 8 B"), (CUT, ("TruncatedError",), "40 B")],
    ids=("lost", "cut"),
)
def test_close_raises_what_went_wrong_with_work_on_a_stream(
    work: str, errors: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    program = f"""{HEAD}{work}
try:
    w.close()
    print(w.rank, "closed", flush=True)
except ons.Error as error:
    print(w.rank, type(error).__name__, str(error).splitlines()[0], flush=True)
w.close()
"""
    ended = run_job(tmp_path, 2, program)
    lines = sorted(lines_of(ended))
    assert lines[0].split()[:2] in [["0", error] for error in errors], ended.out
    assert words in lines[0]
    assert lines[1] == "1 closed"


@pytest.mark.parametrize("end", ["", "sys.exit()", "w = None"])
def test_a_program_whose_work_on_a_stream_failed_does_not_end_as_if_it_were_well(end: str, tmp_path: Path) -> None:
    ended = run_job(tmp_path, 2, HEAD + LOST + "\n" + end)
    assert ended.code == 1
    assert "recv of 8 B from rank 1" in ended.err


def test_a_with_block_raises_it_too(tmp_path: Path) -> None:
    program = f"""{HEAD}
with w:
    if w.rank == 0: w.recv(np.zeros(1), 1, stream=s)
print(w.rank, "came here", flush=True)
"""
    ended = run_job(tmp_path, 2, program)
    assert ended.code == 1
    assert lines_of(ended) == ["1 came here"]
    assert "recv of 8 B from rank 1" in ended.err


def test_close_is_silent_about_what_a_call_has_told(tmp_path: Path) -> None:
    program = f"""{HEAD}{LOST}
try:
    s.synchronize()
except ons.Error:
    print("told", flush=True)
w.close()
print("closed", flush=True)
"""
    ended = run_job(tmp_path, 2, program)
    assert ended.code == 0, ended.err
    assert sorted(lines_of(ended)) == ["closed", "closed", "told"]


def test_close_is_silent_about_the_end_that_this_rank_made_itself(tmp_path: Path) -> None:
    program = f"""{HEAD}{LOST}
if w.rank == 0:
    w.abort("I give up")
w.close()
print("closed", flush=True)
"""
    ended = run_job(tmp_path, 2, program)
    assert ended.code == 0, ended.err
    assert lines_of(ended) == ["closed", "closed"]


# The stream that the graph runs on: its own, another of the world, one of another world on the same device.
@pytest.mark.parametrize("where", ["s", "w.stream()", "ons.init(timeout_s=5).stream()"])
def test_close_waits_for_launches_of_a_graph(where: str, tmp_path: Path) -> None:
    program = f"""{HEAD}
import time
held = {where}
box = np.zeros(100000)
with w.capture(s) as graph:
    if w.rank == 0: w.send(np.full(box.size, 3.0), 1)
    else: w.recv(box, 0)
if w.rank == 0: time.sleep(0.5)
graph.launch(held)
w.close()
print(w.rank, box.sum(), flush=True)
"""
    ended = run_job(tmp_path, 2, program)
    assert ended.code == 0, ended.err
    assert sorted(lines_of(ended)) == ["0 0.0", "1 300000.0"]


def test_close_raises_what_went_wrong_in_the_launch_of_a_graph(tmp_path: Path) -> None:
    program = f"""{HEAD}
with w.capture(s) as graph:
    if w.rank == 0: w.recv(np.zeros(1), 1)
    else: w.send(np.zeros(5), 0)
graph.launch()
try:
    w.close()
    print(w.rank, "closed", flush=True)
except ons.Error as error:
    print(w.rank, type(error).__name__, flush=True)
"""
    ended = run_job(tmp_path, 2, program)
    assert sorted(lines_of(ended)) == ["0 TruncatedError", "1 closed"]


def test_an_exit_status_of_the_program_stays(tmp_path: Path) -> None:
    ended = run_job(tmp_path, 2, HEAD + LOST + "\nsys.exit(3 if w.rank == 0 else 0)")
    assert ended.code == 3
