"""`onstream bench message`: short real runs, and settings that cannot work."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from onstream.bench import message, programs, results, table
from onstream.bench.cases import MODES, Case
from onstream.bench.progress import Progress
from onstream.errors import Error, InvalidArgumentError


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"device": "tpu"}, "device is 'tpu'; there are host, cuda"),
        ({"path": "warp"}, "unknown warp"),
        ({"rounds": 0}, "rounds is 0"),
        ({"vs": ("lam",)}, "unknown lam; there are nccl, nvshmem, mpi-here, openmpi, mpich"),
        ({"ranks": 1}, "ranks is 1"),
        ({"ranks": 4, "modes": ("ping-pong",)}, "ping-pong are between 2 ranks, not 4"),
        ({"ranks": 4, "modes": ("ring",), "threads": True}, "threads are two"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        message.Settings(**changes).resolved()


@pytest.mark.parametrize("threads", [False, True], ids=["processes", "threads"])
def test_a_quick_run_measures_every_mode_and_checks_its_data(tmp_path: Path, threads: bool) -> None:
    settings = message.Settings(modes=MODES, sizes=(0, 8, 65536), rounds=1, samples=2, threads=threads, quick=True)
    result = message.measure(settings)
    everywhere, rings, spread = 3 * 3 * 3, 2 * 2 * 3, 2 * 2 * 1  # modes, submissions, sizes
    assert len(result["rows"]) == (everywhere + rings + spread) * 2  # memories
    assert all(one["median_s"] > 0 for one in result["rows"])
    file = tmp_path / "folder" / "message.json"
    results.write(result, file)
    assert json.loads(file.read_text())["onstream"]["device_kind"] == "host"
    assert table.lines_of(result)


def test_what_was_asked_for_and_there_is_no_case_of_is_told() -> None:
    said: list[str] = []
    wanted = message.Settings(
        modes=("ping-pong", "ring"), submissions=("host",), sizes=(8,), rounds=1, samples=1, quick=True
    )
    rows = message.measure(wanted, said.append)["rows"]
    assert {row["mode"] for row in rows} == {"ping-pong"}
    assert [line for line in said if "left out" in line] == ["left out, as onstream has no such case: ring, host"]
    assert message.Settings(modes=("ring",)).without_cases() == []


def test_a_ring_runs_with_any_number_of_ranks() -> None:
    result = message.measure(message.Settings(ranks=3, sizes=(8, 65536), rounds=1, samples=2, quick=True))
    assert {one["mode"] for one in result["rows"]} == {"ring", "ring-plan"}
    assert result["onstream"]["ranks"] == 3


def test_a_cap_and_a_path_reach_the_library() -> None:
    settings = message.Settings(
        modes=("ping-pong",), submissions=("eager",), sizes=(65536,), memories=("device",), path="copy", max_blocks=3,
        rounds=1, samples=1, quick=True,
    )  # fmt: skip
    result = message.measure(settings)
    (one,) = result["rows"]
    assert (one["path"], one["max_blocks"]) == ("copy", 3)
    values = {parameter["name"]: parameter["value"] for parameter in result["onstream"]["parameters"]}
    assert values["max_blocks"] == "3"
    assert result["onstream"]["path"] == "copy"


def test_the_headline_is_the_cases_that_bars_were_stated_for() -> None:
    contenders = message.own_contenders(message.Settings(device="cuda", headline=True).resolved())
    kinds = [(one.variant.path, one.variant.max_blocks) for one in contenders]
    assert kinds == [("auto", None), ("copy", None), ("memop", None), ("auto", 16)]
    assert {case.mode for case in contenders[0].cases} == {"ping-pong", "ring", "ring-plan", "aggregated"}
    assert [case.bytes for case in contenders[1].cases] == [2**28]
    assert [case.bytes for case in contenders[2].cases] == [2**28]


def test_every_mode_runs_along_path_memop_which_only_plans_have() -> None:
    settings = message.Settings(
        modes=("ping-pong", "pipelined", "bidirectional", "ring", "ring-plan"), submissions=("eager", "captured"),
        sizes=(8, 65536), memories=("device",), path="memop", rounds=1, samples=1, quick=True,
    )  # fmt: skip
    rows = message.measure(settings)["rows"]
    assert {(row["mode"], row["submission"], row["bytes"]) for row in rows} == {
        (mode, submission, size)
        for mode in settings.modes
        for submission in settings.submissions
        for size in settings.sizes
    }


def test_a_forced_path_is_measured_as_far_as_it_carries_and_the_rest_is_named() -> None:
    said: list[str] = []
    settings = message.Settings(
        modes=("ping-pong",), submissions=("eager", "captured"), sizes=(65536, 8), memories=("device",), path="ll",
        rounds=2, samples=1, quick=True,
    )  # fmt: skip
    result = message.measure(settings, said.append)
    message.check(result)
    assert {(row["submission"], row["bytes"], row["rounds"]) for row in result["rows"]} == {
        ("eager", 8, 2), ("captured", 8, 2),
    }  # fmt: skip
    assert [(one["submission"], one["bytes"]) for one in result["cases_missing"]] == [
        ("eager", 65536),
        ("captured", 65536),
    ]
    (line,) = (line for line in table.lines_of(result) if line.startswith("no ping-pong"))
    what = "ping-pong {}, device memory, path ll, from 64 KiB on"
    assert line.startswith(f"no {what.format('eager')}; {what.format('captured')}: path ll carries at most ")
    assert sum(line.startswith("failed: path ll") for line in said) == 2  # not tried again in the second round


def test_memory_that_a_path_cannot_carry_is_named_and_the_other_measured() -> None:
    settings = message.Settings(
        modes=("ping-pong",), submissions=("captured",), sizes=(65536,), memories=("host", "device"), path="memop",
        rounds=1, samples=1, quick=True,
    )  # fmt: skip
    result = message.measure(settings)
    assert [row["memory"] for row in result["rows"]] == ["device"]
    assert result["onstream"]["from"] == "device"
    (missing,) = result["cases_missing"]
    assert missing["memory"] == "host"
    assert re.match(r"plan 'bench' cannot be built: rank 0 op 0: send of 65536 B .* plain host memory$", missing["why"])
    with pytest.raises(Error, match="the sender cannot reach the destination: plain host memory"):
        message.measure(replace(settings, memories=("host",)))


def test_path_memop_is_asked_by_default_for_what_it_has() -> None:
    said: list[str] = []
    result = message.measure(
        message.Settings(modes=("ping-pong",), sizes=(8,), path="memop", rounds=1, samples=1, quick=True), said.append
    )
    assert {(row["submission"], row["memory"]) for row in result["rows"]} == {
        ("eager", "device"), ("captured", "device"),
    }  # fmt: skip
    assert result["cases_missing"] == []
    assert [line for line in said if line.startswith("left out")] == [
        "left out, as path memop is of plans, on streams, into memory that the sender reaches: submission host, memory host"
    ]
    with pytest.raises(InvalidArgumentError, match="leave no case"):
        message.measure(message.Settings(submissions=("host",), path="memop"))


def test_what_fails_without_a_forced_path_is_an_error_behind_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("ping-pong", "host", 8, 10, 1)

    def one_of_two(
        _program: programs.Program, cases: list[Case], *_more: Any
    ) -> programs.Output:  # as one whose second case goes wrong
        heading = {"device_kind": "host", "device": "a CPU", "library": "onstream", "build_type": "Release"}
        return programs.Output(heading, {cases[0]: [1e-6]}, Error("status 1"), "out of luck")

    monkeypatch.setattr(programs, "attempt", one_of_two)
    settings = message.Settings(
        modes=("ping-pong",), submissions=("host",), sizes=(8, 64), memories=("device",), rounds=3
    )
    result = message.measure(settings)
    assert [(row["bytes"], row["rounds"]) for row in result["rows"]] == [(case.bytes, 1)]
    assert any(line.startswith("no ping-pong host") for line in table.lines_of(result))
    with pytest.raises(Error, match="ping-pong host of 64 B failed: out of luck"):
        message.check(result)


def test_wrong_cases_end_the_native_program_with_a_reason() -> None:
    own = programs.message_program("host", threads=True)
    with pytest.raises(Error, match="MODE is 'ping-pang'; there are ping-pong, pipelined, bidirectional, ring"):
        programs.run(own, [Case("ping-pang", "host", 8, 1, 1)], 1)


@pytest.mark.parametrize(("number", "by"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "Ctrl-C")])
def test_a_run_that_is_stopped_keeps_what_it_has_measured(tmp_path: Path, number: int, by: str) -> None:
    file, page = tmp_path / "some.json", tmp_path / "some.html"
    options = [
        "--modes",
        "ping-pong",
        "--submissions",
        "host,eager",
        "--memory",
        "host",
        "--sizes",
        "8",
        "--samples",
        "2",
    ]
    command = [sys.executable, "-m", "onstream", "bench", "message", *options, "--vs", "none", "--rounds", "1000"]
    with subprocess.Popen(
        [*command, "--json", str(file), "--html", str(page)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as bench:
        assert bench.stderr is not None
        assert bench.stderr.readline() == "2000 cases: 1000 round(s) of onstream\n"
        while not bench.stderr.readline().startswith("round 2 of 1000"):
            assert bench.poll() is None
        bench.send_signal(number)
        out, err = bench.communicate(timeout=60)
    assert bench.returncode == 128 + number, err
    assert "Traceback" not in err
    warning = re.compile(rf"This run was stopped by {by} after \d+ of 2000 cases\.")
    assert warning.search(out)
    assert "ping-pong" in out
    assert warning.search(page.read_text())
    result = json.loads(file.read_text())
    assert {row["submission"] for row in result["rows"]} == {"host", "eager"}
    assert 2 <= result["stopped"]["cases"] < 2000


def test_the_time_left_is_told_now_and_then() -> None:
    said: list[str] = []
    seconds = iter([0.0, 1.0, 2.0, 30.0, 31.0, 60.0, 61.0])
    progress = Progress(10, said.append, lambda: next(seconds))
    for _ in range(4):
        progress.case_done()
    progress.leave_out(4)
    progress.case_done()
    assert said == ["3 of 10 cases, about 1 min 10 s left", "5 of 6 cases, about 12 s left"]
    progress.case_done()  # the last: there is nothing left to tell
    assert len(said) == 2
