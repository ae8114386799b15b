"""The bench: the judged rows, the tables of the terminal and of README, and the committed results."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from bench_results import made_up, row
from onstream.bench import bars, lines, report, table
from onstream.errors import InvalidArgumentError

ROOT = Path(__file__).resolve().parents[2]


def readme_tool() -> Any:
    spec = importlib.util.spec_from_file_location("readme_table", ROOT / "tools" / "readme_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


def test_a_missed_bar_says_where_the_time_goes_and_one_that_holds_does_not() -> None:
    def told(latency_s: float) -> str:
        rows = [row("onstream", "ping-pong", "captured", 8192, latency_s)]
        return next(line for line in table.verdict_lines(made_up(rows, "cuda", "NVIDIA H200")) if "8 KiB" in line)

    assert told(2.6e-6).endswith(f"; where it goes: {bars.LINES}")
    assert "where it goes" not in told(2.3e-6)


def test_bandwidth_is_judged_the_other_way_round() -> None:
    peer = row("mpich", "pipelined", "host", 2**20, 60e-6, "host")
    faster, slower = (row("onstream", "pipelined", "host", 2**20, seconds) for seconds in (30e-6, 61e-6))
    assert made_up([faster, peer])["verdicts"][0]["value"] == pytest.approx(2.0)
    assert made_up([faster, peer])["verdicts"][0]["holds"]
    assert not made_up([slower, peer])["verdicts"][0]["holds"]


def test_without_peers_no_bar_against_peers_is_judged() -> None:
    result = made_up([row("onstream", "ping-pong", "host", 8, 1e-9)])
    assert result["verdicts"] == []
    assert table.verdict_lines(result) == [
        "not run (what it is compared with is not in this run): 8 B latency, ping-pong host",
        "not run (the case is not in this run): 1 MiB bandwidth, pipelined host",
    ]


def test_the_readme_table_tells_bars_that_were_not_run_where_none_was_judged() -> None:
    result = made_up([row("onstream", "ping-pong", "host", 8, 1e-9)])
    assert table.markdown_of(result, "x.json")[-1] == (
        "Bars not run (the case is not in this run): 1 MiB bandwidth, pipelined host."
    )


def test_where_no_bar_was_stated_that_is_told() -> None:
    result = made_up([row("onstream", "ping-pong", "captured", 8, 1e-6)], "cuda", "NVIDIA T4")
    assert table.verdict_lines(result) == ["no bar was stated for this device"]


def test_a_bar_that_was_not_run_is_told_for_each_way_it_is_judged() -> None:
    result = made_up([row("onstream", "ring-plan", "captured", 8, 2.5e-6)], "cuda", "NVIDIA H200")
    without = [(bar.bytes, mode) for bar, mode, _ in bars.not_run(result) if bar.mode == "ring"]
    assert without[0] == (8, "ring")
    assert (8, "ring-plan") not in without
    holds, told = table.verdict_lines(result)
    assert holds.startswith("holds  8 B latency, ring-plan")
    assert "; 256 MiB bandwidth, ping-pong captured, path memop; " in told
    assert len(bars.not_run(result)) == told.count("; ") + 1


def test_a_quick_run_gives_no_verdict_that_looks_like_one() -> None:
    rows = [row("onstream", "ring", "captured", 8, 3e-6), row("onstream", "ring-plan", "captured", 8, 2e-6)]
    result = made_up(rows, "cuda", "NVIDIA H200")
    result["settings"]["quick"] = True
    missed, held, *_ = table.verdict_lines(result)
    assert missed.startswith("quick run, no verdict: missed 8 B latency, ring captured")
    assert held.startswith("quick run, no verdict: holds 8 B latency, ring-plan captured")
    assert '<li class="holds">' not in report.page([result])
    assert '<li class="missed">' not in report.page([result])
    assert "| <= 2.6 us | 2 us | quick run, no verdict |" in "\n".join(table.markdown_of(result, "x.json"))


def test_gpu_bars_are_judged_on_the_hardware_they_were_stated_for() -> None:
    rows = [row("onstream", "ping-pong", "captured", 8, 1.8e-6), row("onstream", "ping-pong", "captured", 2**28, 1e-3)]
    on_h200 = made_up(rows, "cuda", "NVIDIA H200")["verdicts"]
    assert [(verdict["bytes"], verdict["holds"]) for verdict in on_h200] == [(8, True), (2**28, False)]
    assert on_h200[1]["value"] == pytest.approx(2**28 / 1e-3 / 1e9)
    assert made_up(rows, "cuda", "NVIDIA T4")["verdicts"] == []


def test_a_ring_is_judged_by_messages_and_by_a_plan() -> None:
    rows = [row("onstream", "ring", "captured", 8, 3e-6), row("onstream", "ring-plan", "captured", 8, 2.5e-6)]
    verdicts = made_up(rows, "cuda", "NVIDIA H200")["verdicts"]
    assert [(one["via"], one["holds"], one["value"]) for one in verdicts] == [
        ("ring", False, pytest.approx(3.0)),
        ("ring-plan", True, pytest.approx(2.5)),
    ]


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
    assert not any("busy" in line for line in lines.lines_of_any(result))
    assert "busy" not in report.page([result])
    result["environment"]["load_1min"] = 3.5
    assert "load 3.5 on 2 cores" in lines.lines_of_any(result)[1]
    assert '<p class="warning">This machine was busy before the run (load 3.5 on 2 cores)' in report.page([result])


def test_the_readme_table_has_a_column_for_each_library_and_memory() -> None:
    result = made_up([
        row("onstream", "ping-pong", "host", 8, 90e-9),
        row("onstream", "pipelined", "host", 2**20, 20e-6),
        row("openmpi", "ping-pong", "host", 8, 100e-9, "host"),
        row("onstream", "bidirectional", "host", 8, 1e-6),
        row("onstream", "ping-pong", "host", 12345, 1e-6),
    ])  # fmt: skip
    lines = table.markdown_of(result, "bench/results/x.json")
    figures, bars_of_it = lines[:6], lines[6:]
    assert figures == [
        "Messages between 2 processes on A CPU, 2 cores, 2026-01-02: median of 5 rounds of 10 samples; commit "
        "cccccccccc, Open MPI 5.0.11 ([all figures](bench/results/x.json)).",
        "",
        "| mode | submission | size | onstream, device memory | Open MPI, host memory |",
        "|---|---|---|---|---|",
        "| ping-pong, one way | the host waits for each | 8 B | 90 ns | 100 ns |",
        "| pipelined | the host waits for each | 1 MiB | 52.43 GB/s | - |",
    ]
    assert bars_of_it[:3] == ["", "| what | bar | reached | |", "|---|---|---|---|"]
    assert bars_of_it[3].endswith("| <= 1 x the better peer | 0.9 x Open MPI |  |")


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
    assert "Not in this run: NVSHMEM." in lines
    assert lines[-1].startswith("Bars not run (the case is not in this run): 8 B latency, ping-pong captured; ")


def test_a_file_of_another_schema_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgumentError, match=r"old\.json is no result"):
        table.markdown_of({"schema": 0, "kind": "message"}, "old.json")


def test_the_newest_result_of_a_device_goes_into_readme_and_of_each_into_the_pages(tmp_path: Path) -> None:
    tool = readme_tool()
    folder = tmp_path / "bench" / "results"
    folder.mkdir(parents=True)
    for name, date, device in (
        ("a", "2026-02-01", "CPU 1"),
        ("b", "2026-01-01", "CPU 1"),
        ("c", "2025-01-01", "CPU 2"),
    ):
        result = made_up([row("onstream", "ping-pong", "host", 8, 1e-7, "host")], device=device)
        result["environment"]["date"] = date
        (folder / f"{name}-message.json").write_text(json.dumps(result))
    assert [file.name for file, _ in tool.newest(tmp_path)] == ["a-message.json", "c-message.json"]
    text = tool.with_section(f"# x\n{tool.BEGIN}\nold\n{tool.END}\nend\n", tool.section(tmp_path))
    assert "old" not in text
    assert text.count("| A CPU, 2 cores, the host waits for each | 8 B | 100 ns | - | - | - |") == 1
    pages = tool.pages(tmp_path)
    assert list(pages) == ["message.md"]
    assert pages["message.md"].count("| mode |") == 2
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


def test_the_pages_of_figures_are_in_step_with_the_committed_results() -> None:
    pages = readme_tool().pages(ROOT)
    folder = ROOT / "docs" / "figures"
    assert {name: (folder / name).read_text() for name in pages} == pages, "run: .venv/bin/python tools/readme_table.py"
    assert {file.name for file in folder.glob("*.md")} == {*pages, "index.md"}
    assert "## NVIDIA H200" in pages["startup.md"]


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
