"""The bench harness: statistics, cases, verdicts, tables and reading of programs; and one short real run."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onstream.bench import bars, message, mpi, peers, programs, table
from onstream.bench.cases import (
    GIB,
    MAX_BYTES,
    MODES,
    SUBMISSIONS,
    Case,
    bytes_from,
    case_of,
    cases_of,
    choices_from,
    sizes_from,
)
from onstream.bench.samples import quantile, summarize
from onstream.errors import Error, InvalidArgumentError, TimeoutError, UnsupportedError

ROOT = Path(__file__).resolve().parents[2]
CASE = Case("ping-pong", "host", 8, 10, 1)


def readme_tool() -> Any:
    spec = importlib.util.spec_from_file_location("readme_table", ROOT / "tools" / "readme_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- statistics ---


def test_quantiles_interpolate_between_neighbours() -> None:
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert quantile([1.0, 2.0, 3.0, 4.0, 5.0], 0.25) == 2.0
    assert quantile([7.0], 0.9) == 7.0
    assert quantile([1.0, 2.0], 1.0) == 2.0


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=30), st.floats(0, 1))
def test_a_quantile_lies_within_the_values(values: list[float], fraction: float) -> None:
    assert min(values) <= quantile(values, fraction) * (1 + 1e-12)
    assert quantile(values, fraction) <= max(values) * (1 + 1e-12)


def test_a_disturbed_round_weighs_no_more_than_another() -> None:
    calm = [[1e-6, 1e-6, 1e-6]] * 3
    summary = summarize([*calm, [9e-6] * 50, [9e-6] * 50])
    assert summary.median_s == 1e-6
    assert summary.max_s == 9e-6
    assert summary.p75_s == 9e-6
    assert (summary.rounds, summary.samples) == (5, 109)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_a_sample_that_is_no_time_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="positive number of seconds"):
        summarize([[1e-6, bad]])


def test_no_values_have_no_quantile() -> None:
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


# --- cases ---


def test_sizes_are_read_in_powers_of_1024() -> None:
    assert [bytes_from(text) for text in ("0", "8", "8B", "64KiB", "64k", "1 MiB", "256m")] == [
        0, 8, 8, 65536, 65536, 2**20, 2**28
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "-8", "1.5k", "8 potatoes", "KiB", "9999999999999999999999", "2GiB"])
def test_a_size_that_is_none_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"is not a size|is larger than"):
        bytes_from(text)


@given(st.text(max_size=20))
def test_any_text_is_a_size_or_an_error(text: str) -> None:
    try:
        size = bytes_from(text)
    except InvalidArgumentError:
        return
    assert 0 <= size <= MAX_BYTES


def test_an_unknown_mode_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InvalidArgumentError, match=r"pong-ping.*ping-pong, pipelined, bidirectional"):
        choices_from("ping-pong,pong-ping", MODES, "--modes")


@pytest.mark.parametrize("device", ["host", "cuda"])
def test_every_case_has_work_in_it(device: str) -> None:
    for quick in (True, False):
        for case in cases_of(device, MODES, SUBMISSIONS, (0, 8, 2**20, 2**28), quick=quick):
            assert case.iterations >= 1
            assert case.window >= 1
            assert case.submission == "captured" or case.mode != "ping-pong" or case.window == 1
            assert case.submission != "host" or case.mode not in ("ring", "ring-plan", "separate", "aggregated")


def test_a_sweep_goes_from_a_byte_to_a_gibibyte_on_a_gpu() -> None:
    sizes = sizes_from("sweep", "cuda")
    assert (sizes[0], sizes[-1]) == (1, GIB)
    assert list(sizes) == sorted(set(sizes))
    assert sizes_from("sweep", "host")[-1] == 64 * 2**20
    assert sizes_from("8,64k,8", "host") == (8, 65536)
    assert sizes_from("", "host") == ()


def test_a_captured_ring_has_more_steps_in_a_graph_than_a_machine_has_gpus() -> None:
    assert case_of("cuda", "ring", "captured", GIB).window >= 8


def test_a_captured_ping_pong_puts_many_round_trips_in_one_graph() -> None:
    case = case_of("cuda", "ping-pong", "captured", 8)
    assert case.window == 100
    assert case.iterations * case.window >= 1000


# --- results that are made up ---


def row(who: str, mode: str, submission: str, size: int, median_s: float, memory: str = "device") -> dict[str, Any]:
    return {
        "who": who, "memory": memory, "path": "auto", "mode": mode, "submission": submission, "bytes": size,
        "iterations": 1, "window": 64, "median_s": median_s, "min_s": median_s, "p25_s": median_s, "p75_s": median_s,
        "max_s": 2 * median_s, "rounds": 5, "samples": 50, "bytes_per_s": size / median_s,
        "messages_per_s": 1 / median_s, "rounds_median_s": [median_s] * 5,
    }  # fmt: skip


def made_up(rows: list[dict[str, Any]], kind: str = "host", device: str = "A CPU (2 cores)") -> dict[str, Any]:
    result = {
        "schema": 1, "kind": "message", "device_kind": kind, "device": device, "ranks": "2 processes",
        "settings": {"rounds": 5, "samples": 10}, "peers_missing": {},
        "environment": {"cpu": "A CPU", "cores": 2, "load_1min": 0.1, "date": "2026-01-02T03:04:05+00:00", "git": {"commit": "c" * 40}},
        "onstream": {"library": "onstream 0.1.0", "build_type": "Release"},
        "peers": {"openmpi": {"library": "Open MPI v5.0.11, package"}}, "rows": rows,
    }  # fmt: skip
    result["verdicts"] = bars.judge(result)
    return result


def test_latency_is_judged_against_the_better_peer() -> None:
    peers_rows = [
        row("openmpi", "ping-pong", "host", 8, 200e-9, "host"),
        row("mpich", "ping-pong", "host", 8, 700e-9, "host"),
    ]
    ours = row("onstream", "ping-pong", "host", 8, 190e-9)
    slower = row("onstream", "ping-pong", "host", 8, 210e-9, "host")
    first, second = made_up([ours, slower, *peers_rows])["verdicts"]
    assert (first["holds"], first["against"], first["memory"]) == (True, "openmpi", "device")
    assert (second["holds"], second["memory"]) == (False, "host")
    assert second["value"] == pytest.approx(1.05)


def test_bandwidth_is_judged_the_other_way_round() -> None:
    peer = row("mpich", "pipelined", "host", 2**20, 60e-6, "host")
    faster, slower = (row("onstream", "pipelined", "host", 2**20, seconds) for seconds in (30e-6, 61e-6))
    assert made_up([faster, peer])["verdicts"][0]["value"] == pytest.approx(2.0)
    assert made_up([faster, peer])["verdicts"][0]["holds"]
    assert not made_up([slower, peer])["verdicts"][0]["holds"]


def test_without_peers_no_bar_against_peers_is_judged() -> None:
    result = made_up([row("onstream", "ping-pong", "host", 8, 1e-9)])
    assert result["verdicts"] == []
    assert "no bar was stated" in table.verdict_lines(result)[0]


def test_gpu_bars_are_judged_on_the_hardware_they_were_stated_for() -> None:
    rows = [row("onstream", "ping-pong", "captured", 8, 1.8e-6), row("onstream", "ping-pong", "captured", 2**28, 1e-3)]
    on_h200 = made_up(rows, "cuda", "NVIDIA H200")["verdicts"]
    assert [(verdict["bytes"], verdict["holds"]) for verdict in on_h200] == [(8, True), (2**28, False)]
    assert on_h200[1]["value"] == pytest.approx(2**28 / 1e-3 / 1e9)
    assert made_up(rows, "cuda", "NVIDIA T4")["verdicts"] == []


def test_a_bar_of_a_ring_is_met_by_messages_or_a_plan_whichever_is_faster() -> None:
    rows = [row("onstream", "ring", "captured", 8, 3e-6), row("onstream", "ring-plan", "captured", 8, 2.5e-6)]
    (verdict,) = made_up(rows, "cuda", "NVIDIA H200")["verdicts"]
    assert (verdict["holds"], verdict["via"], verdict["value"]) == (True, "ring-plan", pytest.approx(2.5))


def test_a_message_rate_is_judged_in_millions_a_second() -> None:
    (slow,) = made_up([row("onstream", "aggregated", "captured", 8, 51e-9)], "cuda", "NVIDIA H200")["verdicts"]
    (fast,) = made_up([row("onstream", "aggregated", "captured", 8, 49e-9)], "cuda", "NVIDIA H200")["verdicts"]
    assert (slow["holds"], fast["holds"]) == (False, True)
    assert slow["value"] == pytest.approx(1e3 / 51)


def test_a_forced_path_or_a_cap_answers_only_the_bars_that_ask_for_it() -> None:
    forced = {**row("onstream", "ping-pong", "captured", 2**28, 2**28 / 380e9), "path": "copy"}
    capped = {**row("onstream", "ping-pong", "captured", 2**28, 2**28 / 370e9), "max_blocks": 16}
    verdicts = made_up([forced, capped], "cuda", "NVIDIA H200")["verdicts"]
    assert [(one["path"], one["max_blocks"], one["holds"]) for one in verdicts] == [
        ("copy", None, False),
        ("auto", 16, True),
    ]
    lines = table.verdict_lines(made_up([forced, capped], "cuda", "NVIDIA H200"))
    assert "path copy" in lines[0]
    assert "at most 16 blocks" in lines[1]


def test_the_terminal_table_names_mode_submission_memory_and_spread() -> None:
    result = made_up([
        row("onstream", "ping-pong", "captured", 65536, 5.5e-6),
        row("openmpi", "pipelined", "host", 2**20, 50e-6, "host"),
    ])  # fmt: skip
    text = "\n".join(table.lines_of(result))
    assert "onstream: ping-pong (half a round trip), stream-ordered, captured in a graph, device memory" in text
    assert "Open MPI: pipelined (window of 64), the host waits for each, host memory" in text
    assert "64 KiB     5.50 us" in text
    assert "11.00 us" in text  # the maximum
    assert "20.97 GB/s" in text


def test_a_run_on_a_busy_machine_says_so() -> None:
    result = made_up([row("onstream", "ping-pong", "host", 8, 1e-6)])
    assert not any("busy" in line for line in table.lines_of(result))
    result["environment"]["load_1min"] = 3.5
    assert "load 3.5 on 2 cores" in table.lines_of(result)[1]


def test_the_readme_table_has_a_column_for_each_library_and_memory() -> None:
    result = made_up([
        row("onstream", "ping-pong", "host", 8, 90e-9),
        row("onstream", "pipelined", "host", 2**20, 20e-6),
        row("openmpi", "ping-pong", "host", 8, 100e-9, "host"),
        row("onstream", "bidirectional", "host", 8, 1e-6),
        row("onstream", "ping-pong", "host", 12345, 1e-6),
    ])  # fmt: skip
    assert table.markdown_of(result, "bench/results/x.json") == [
        "Messages between 2 processes on A CPU, 2 cores, 2026-01-02: median of 5 rounds of 10 samples; commit "
        "cccccccccc, Open MPI 5.0.11 ([all figures](bench/results/x.json)).",
        "",
        "| mode | submission | size | onstream, device memory | Open MPI, host memory |",
        "|---|---|---|---|---|",
        "| ping-pong, one way | the host waits for each | 8 B | 90 ns | 100 ns |",
        "| pipelined | the host waits for each | 1 MiB | 52.43 GB/s | - |",
    ]


def test_the_readme_table_tells_bars_what_was_reached_and_who_was_not_there() -> None:
    result = made_up(
        [
            row("onstream", "ring", "captured", 8, 3e-6),
            row("onstream", "ring-plan", "captured", 8, 2e-6),
            row("nccl", "ring", "captured", 8, 6e-6),
            {**row("onstream", "ping-pong", "captured", 2**28, 2**28 / 300e9), "path": "copy"},
        ],
        "cuda",
        "NVIDIA H200",
    )
    result["peers_missing"] = {"nvshmem": "there is no libnvshmem_host.so.3\nmore words"}
    lines = table.markdown_of(result, "bench/results/x.json")
    assert "| mode | submission | size | onstream, device memory | NCCL, device memory |" in lines
    assert "| ring | stream-ordered, captured in a graph | 8 B | 3.00 us | 6.00 us |" in lines
    assert "| 8 B latency, ring-plan captured | <= 2.6 us | 2 us |  |" in lines
    assert "| 256 MiB bandwidth, ping-pong captured, path copy | >= 390 GB/s | 300 GB/s | missed |" in lines
    assert lines[-1] == "Not in this run: NVSHMEM (there is no libnvshmem_host.so.3)."


def test_a_file_of_another_schema_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgumentError, match=r"old\.json is no result"):
        table.markdown_of({"schema": 0, "kind": "message"}, "old.json")


# --- README ---


def test_the_newest_result_of_each_device_goes_into_readme(tmp_path: Path) -> None:
    tool = readme_tool()
    folder = tmp_path / "bench" / "results"
    folder.mkdir(parents=True)
    for name, date, device in (
        ("a", "2026-02-01", "CPU 1"),
        ("b", "2026-01-01", "CPU 1"),
        ("c", "2025-01-01", "CPU 2"),
    ):
        result = made_up([row("onstream", "ping-pong", "host", 8, 1e-7)], device=device)
        result["environment"]["date"] = date
        (folder / f"{name}-message.json").write_text(json.dumps(result))
    assert [file.name for file, _ in tool.newest(tmp_path)] == ["a-message.json", "c-message.json"]
    text = tool.with_section(f"# x\n{tool.BEGIN}\nold\n{tool.END}\nend\n", tool.section(tmp_path))
    assert "old" not in text
    assert text.count("| mode |") == 2
    assert text.endswith(f"{tool.END}\nend\n")
    assert tool.with_section(text, tool.section(tmp_path)) == text


def test_a_readme_without_markers_is_an_error() -> None:
    with pytest.raises(ValueError, match="bench:begin"):
        readme_tool().with_section("# nothing", "table")


def test_readme_is_in_step_with_the_committed_results() -> None:
    readme = ROOT / "README.md"
    if not readme.exists():
        pytest.skip("there is no README.md")
    tool = readme_tool()
    text = readme.read_text()
    assert text == tool.with_section(text, tool.section(ROOT)), "run: .venv/bin/python tools/readme_table.py"


def test_committed_results_say_how_they_were_come_by() -> None:
    files = sorted((ROOT / "bench" / "results").glob("*-message*.json"))
    if not files:
        pytest.skip("no results are committed under bench/results")
    for file in files:
        check_committed(json.loads(file.read_text()))


def check_committed(result: dict[str, Any]) -> None:
    where = result["environment"]
    for fact in ("date", "cpu", "kernel", "cores"):
        assert where[fact], fact
    assert where["git"]["commit"]
    assert result["command"].startswith("onstream ")
    assert result["onstream"]["compiler"]
    assert result["onstream"]["build_type"] == "Release"
    assert {parameter["name"] for parameter in result["onstream"]["parameters"]} >= {"ll_max_bytes", "timeout_s"}
    assert result["verdicts"] == bars.judge(result)
    for one in result["rows"]:
        assert one["min_s"] <= one["p25_s"] <= one["p75_s"] <= one["max_s"]
        assert len(one["rounds_median_s"]) == result["settings"]["rounds"]


# --- programs ---


def program(code: str) -> programs.Program:
    return programs.Program("a program", (sys.executable, "-c", code))


LINE = json.dumps(
    {"mode": "ping-pong", "submission": "host", "bytes": 8, "iterations": 10, "window": 1, "samples_s": [1e-6]}
)


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


def test_half_a_line_is_an_error() -> None:
    with pytest.raises(Error, match="no JSON"):
        programs.read("x", '{"mode": "ping')


def test_a_program_that_hangs_is_ended_at_the_limit() -> None:
    with pytest.raises(TimeoutError, match=r"within 0\.5 s"):
        programs.run(program("import threading; threading.Event().wait()"), [CASE], 1, timeout_s=0.5)


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler (cc, gcc)")
def test_a_peer_that_cannot_be_installed_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONSTREAM_OFFLINE", raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    with pytest.raises(UnsupportedError, match=r"(?s)installing mpich==.*--vs none"):
        mpi.prepare(mpi.MPIS["mpich"], ROOT / "bench" / "mpi_peer.c", tmp_path)
    assert list(tmp_path.iterdir()) == []


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


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler (cc, gcc)")
def test_offline_no_peer_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONSTREAM_OFFLINE", "1")
    with pytest.raises(UnsupportedError, match=r"mpich==.*ONSTREAM_OFFLINE forbids"):
        mpi.prepare(mpi.MPIS["mpich"], ROOT / "bench" / "mpi_peer.c", tmp_path)


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


# --- the real thing ---


@pytest.mark.parametrize("threads", [False, True], ids=["processes", "threads"])
def test_a_quick_run_measures_every_mode_and_checks_its_data(tmp_path: Path, threads: bool) -> None:
    settings = message.Settings(modes=MODES, sizes=(0, 8, 65536), rounds=1, samples=2, threads=threads, quick=True)
    result = message.measure(settings)
    everywhere, rings, spread = 3 * 3 * 3, 2 * 2 * 3, 2 * 2 * 1  # modes, submissions, sizes
    assert len(result["rows"]) == (everywhere + rings + spread) * 2  # memories
    assert all(one["median_s"] > 0 for one in result["rows"])
    file = tmp_path / "folder" / "message.json"
    message.write(result, file)
    assert json.loads(file.read_text())["onstream"]["device_kind"] == "host"
    assert table.lines_of(result)


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


# --- peers ---


def test_peers_that_need_a_gpu_are_named_with_the_reason_where_there_is_none() -> None:
    settings = message.Settings(
        modes=("ping-pong",), submissions=("eager",), sizes=(8,), memories=("device",), rounds=1, samples=1,
        quick=True, vs=("nccl", "nvshmem"),
    )  # fmt: skip
    result = message.measure(settings)
    assert set(result["peers_missing"]) == {"nccl", "nvshmem"}
    text = "\n".join(table.verdict_lines(result))
    assert "without NCCL: NCCL moves messages between GPUs, and the device is host" in text
    assert "without NVSHMEM: " in text


@pytest.mark.parametrize("library", ["nccl", "nvshmem"])
def test_a_library_that_lacks_a_function_is_named_with_it(library: str) -> None:
    libc = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so" in line)
    own = programs.message_program("host", options=("--library", library, "--file", libc))
    with pytest.raises(Error, match=rf"{re.escape(libc)} has no function"):
        programs.run(own, [Case("ring", "eager", 8, 1, 1)], 1)


def stand_in(library: str, ranks: int = 2) -> programs.Program:
    """The driver of a library that needs a GPU, over a stand-in that does not."""
    file = programs.build_folder() / "tests" / "native" / f"libstand_in_{library}.so"
    if not file.exists():
        pytest.skip(f"there is no {file.name}; build with ONSTREAM_TESTS=ON (make build does)")
    return programs.message_program("host", ranks=ranks, options=("--library", library, "--file", str(file)))


@pytest.mark.parametrize("library", ["nccl", "nvshmem"])
def test_every_case_of_a_gpu_library_moves_the_right_data_again_and_again(library: str) -> None:
    cases = [
        case
        for case in cases_of("host", MODES, ("eager", "captured"), (0, 8, 4096, 65536), window=8, quick=True)
        if peers.PEERS[library].has(case)
    ]
    cases = [replace(case, iterations=3) for case in cases]  # an odd number of replays, so that sets change places
    output = programs.run(stand_in(library), cases, 4, 60)
    assert set(output.samples_s) == set(cases)
    assert all(len(samples) == 4 for samples in output.samples_s.values())


@pytest.mark.parametrize("library", ["nccl", "nvshmem"])
def test_a_gpu_librarys_ring_goes_round_many_ranks(library: str) -> None:
    cases = [Case("ring", "eager", 8, 5, 1), Case("ring", "captured", 4096, 3, 8)]
    output = programs.run(stand_in(library, ranks=3), cases, 2, 60)
    assert output.heading["ranks"] == 3
    assert set(output.samples_s) == set(cases)


def test_a_captured_ring_of_nvshmem_needs_as_many_steps_as_ranks() -> None:
    with pytest.raises(Error, match="rings of at least 3 steps in a graph, the case has 2"):
        programs.run(stand_in("nvshmem", ranks=3), [Case("ring", "captured", 8, 2, 2)], 1, 60)


def test_what_nvshmem_has_not_is_refused_with_words() -> None:
    with pytest.raises(Error, match="NVSHMEM has no operations that are prepared and posted together"):
        programs.run(stand_in("nvshmem"), [Case("aggregated", "eager", 8, 2, 4)], 1, 60)


def test_a_peer_that_ends_early_is_named_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(_job: peers.Job) -> programs.Program:
        return programs.Program("mpich", (sys.executable, "-c", f"print('{LINE}'); raise SystemExit('out of luck')"))

    monkeypatch.setitem(peers.PEERS, "mpich", replace(peers.PEERS["mpich"], prepare=prepare))
    settings = message.Settings(
        modes=("ping-pong",), submissions=("host",), sizes=(8,), memories=("device",), rounds=2, samples=1,
        quick=True, vs=("mpich",),
    )  # fmt: skip
    result = message.measure(settings)
    assert "round 1" in result["peers_missing"]["mpich"]
    assert "out of luck" in result["peers_missing"]["mpich"]
    assert next(one for one in result["rows"] if one["who"] == "onstream")["rounds"] == 2


def test_vs_is_read_and_misread_with_the_known_names() -> None:
    assert peers.names_from("nccl,nccl,nvshmem", "cuda") == ("nccl", "nvshmem")
    assert peers.names_from("none", "cuda") == ()
    assert set(peers.names_from("mpi", "host")) >= {"openmpi", "mpich"}
    assert peers.names_from("auto", "cuda")[:2] == ("nccl", "nvshmem")
    with pytest.raises(InvalidArgumentError, match=r"'lam'; there are auto, none, mpi, nccl"):
        peers.names_from("lam", "host")


def test_no_peer_gets_a_case_that_it_has_not() -> None:
    def has(name: str, mode: str, submission: str) -> bool:
        return peers.PEERS[name].has(Case(mode, submission, 8, 1, 1))

    assert has("nccl", "aggregated", "captured")
    assert not has("nccl", "ring-plan", "captured")
    assert not has("nvshmem", "separate", "eager")  # nothing would hold the sender back
    assert not has("nvshmem", "bidirectional", "captured")
    assert has("nvshmem", "ring", "captured")
    assert not has("mpich", "aggregated", "host")


def test_a_library_is_found_beside_the_loaders_path_and_else_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libmade_up.so.7").touch()
    with pytest.raises(mpi.PeerMissing, match=r"no libmade_up\.so\.7.*pip install made-up"):
        peers.find_library("made_up", "libmade_up.so.7", "made-up")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{tmp_path}")
    assert peers.find_library("made_up", "libmade_up.so.7", "made-up") == str(tmp_path / "libmade_up.so.7")


def test_wrong_cases_end_the_native_program_with_a_reason() -> None:
    own = programs.message_program("host", threads=True)
    with pytest.raises(Error, match="MODE is 'ping-pang'; there are ping-pong, pipelined, bidirectional, ring"):
        programs.run(own, [Case("ping-pang", "host", 8, 1, 1)], 1)
