"""The benches beside messages: paths, aggregation, ping-kernel-pong, start-up; and the script that runs them all."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from onstream.bench import (
    aggregation,
    am,
    applications,
    collective,
    lines,
    message,
    mpi,
    one_sided,
    paths,
    ping_kernel_pong,
    programs,
    report,
    results,
    startup,
    upc,
)
from onstream.bench.cases import Case
from onstream.bench.commands import bench_app
from onstream.errors import Error, InvalidArgumentError, UnsupportedError

ROOT = Path(__file__).resolve().parents[2]


def measured_paths() -> dict[str, Any]:
    settings = paths.Settings(
        kinds=("device", "host"), paths=("auto", "ll", "store", "load", "copy"), sizes=(8, 65536), samples=1, quick=True
    )
    return paths.measure(settings)


@pytest.fixture(scope="module")
def paths_result() -> dict[str, Any]:
    return measured_paths()


def test_every_pair_of_memories_is_measured_on_every_path_that_works(paths_result: dict[str, Any]) -> None:
    assert paths.pairs_of(paths_result) == [
        ("device", "device"),
        ("device", "host"),
        ("host", "device"),
        ("host", "host"),
    ]
    table = paths.table_of(paths_result, ("device", "device"))
    assert set(table[8]) == {"auto", "ll", "store", "load", "copy"}
    assert set(table[65536]) == {"auto", "store", "load", "copy"}
    paths.check(paths_result)


def test_a_path_that_cannot_work_has_the_librarys_reason(paths_result: dict[str, Any]) -> None:
    (too_large,) = (one for one in paths.reasons_of(paths_result, ("device", "device")))
    assert (too_large["path"], too_large["from_bytes"]) == ("ll", 65536)
    assert re.match(r"path ll carries at most \d+ B here, the message has 65536 B", too_large["why"])
    text = "\n".join(lines.lines_of_any(paths_result))
    assert "no ll from 64 KiB on: path ll carries at most" in text
    assert "destroy this world" not in text


def test_the_crossover_is_where_another_path_becomes_the_fastest() -> None:
    rows = [
        {"source": "device", "target": "device", "bytes": size, "path": path, "median_s": seconds}
        for size, path, seconds in (
            (8, "ll", 1.0), (8, "store", 2.0), (8, "auto", 0.5), (64, "ll", 2.0), (64, "store", 2.5),
            (4096, "store", 3.0), (4096, "copy", 9.0), (2**20, "store", 9.0), (2**20, "copy", 8.0),
        )
    ]  # fmt: skip
    assert paths.crossovers_of({"rows": rows}, ("device", "device")) == [(8, "ll"), (4096, "store"), (2**20, "copy")]
    assert paths.crossovers_of({"rows": rows}, ("device", "host")) == []


def test_what_automatic_choice_cannot_carry_is_an_error() -> None:
    failed = {"source": "pinned", "target": "host", "path": "auto", "from_bytes": 8, "why": "out of luck"}
    with pytest.raises(Error, match="from pinned to host memory failed without a forced path: out of luck"):
        paths.check({"reasons": [failed]})


def test_the_bench_knows_every_path_of_the_library() -> None:
    rules = (ROOT / "src" / "onstream" / "base" / "parameter_rules.inc").read_text()
    choice = re.search(r'ONSTREAM_CHOICE\(path, "([^"]+)"\)', rules)
    assert choice is not None
    assert tuple(choice[1].split()) == message.PATHS


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"device": "tpu"}, "device: unknown tpu"),
        ({"kinds": ("disk",)}, "kinds: unknown disk; there are device"),
        ({"paths": ("warp",)}, "paths: unknown warp; there are auto"),
        ({"submission": "host"}, "submission: unknown host; there are eager, captured"),
    ],
)
def test_paths_settings_that_cannot_work_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        paths.measure(paths.Settings(**changes))


def test_a_group_that_fails_leaves_the_next_ones_alone() -> None:
    case = Case("ping-pong", "eager", 65536, 2, 1)
    words = ("--samples", "1", "--path", "ll", str(case), "--then", "--path", "store", str(case))
    finished = programs.execute(programs.message_program("host"), words, 60)
    rows = programs.rows_of("bench_message", finished.out)
    assert finished.error is None
    assert [row["group"] for row in rows if "group" in row] == [0, 1]
    assert [row["bytes"] for row in rows if "samples_s" in row] == [65536]
    assert len([row for row in rows if "error" in row]) == 1


def test_of_one_world_alone_the_reason_is_told_too() -> None:
    settings = paths.Settings(kinds=("host",), paths=("memop",), sizes=(8,), samples=1, quick=True)
    (one,) = paths.measure(settings)["reasons"]
    assert one["why"].startswith("plan 'bench' cannot be built: rank 0 op 0: send of 8 B to rank 1")


def test_when_every_group_fails_the_program_fails() -> None:
    case = Case("ping-pong", "eager", 65536, 2, 1)
    words = ("--samples", "1", "--path", "ll", str(case), "--then", "--path", "net", str(case))
    finished = programs.execute(programs.message_program("host"), words, 60)
    assert finished.error is not None
    assert "path net leads to ranks of other hosts" in str(finished.error)


def test_aggregation_tells_the_gain_of_each_count_and_submission() -> None:
    settings = message.Settings(memories=("device",), sizes=(8,), rounds=1, samples=1, quick=True)
    result = aggregation.measure(settings, counts=(1, 8))
    gains = [(one["submission"], one["count"]) for one in result["gains"]]
    assert sorted(gains) == [("captured", 1), ("captured", 8), ("eager", 1), ("eager", 8)]
    for one in result["gains"]:
        assert one["gain"] == pytest.approx(one["separate_s"] / one["aggregated_s"])
    assert any("all at once" in line for line in lines.lines_of_any(result))


def test_a_way_that_was_not_measured_has_no_gain() -> None:
    row = {"who": "onstream", "mode": "aggregated", "submission": "eager", "bytes": 8, "window": 4, "median_s": 1e-6}
    assert aggregation.gains_of([row]) == []
    (gain,) = aggregation.gains_of([row, {**row, "mode": "separate", "median_s": 4e-6}])
    assert gain["gain"] == pytest.approx(4.0)


def test_ping_kernel_pong_times_every_way_and_the_cpu_of_each() -> None:
    settings = ping_kernel_pong.Settings(kernel_us=(0, 200), batches=2, steps_per_batch=5, samples=2)
    rows = ping_kernel_pong.measure(settings)["rows"]
    assert [(row["kernel_us"], row["way"]) for row in rows] == [
        (kernel_us, way) for kernel_us in (0, 200) for way in ("synchronous", "ordered", "captured", "kernel")
    ]
    assert all(row["gain"] == 1.0 for row in rows if row["way"] == "synchronous")
    kernels = 2 * 10 - 1  # rank 0 does not wait for the other's last one
    assert all(row["median_s"] >= kernels * 200e-6 / 10 for row in rows if row["kernel_us"] == 200)
    assert all(row["thread_cpu_s"] >= 0 and row["process_cpu_s"] > 0 for row in rows if row["kernel_us"] == 200)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"steps_per_batch": 65}, "65 receives are posted at once, and a tag holds 64"),
        ({"batches": 3, "batches_inflight": 2}, "--batches 3 is no multiple of --batches-inflight 2"),
        ({"bytes": 4}, "--bytes is '4', not a number from 8"),
        ({"kernel_us": (-1,)}, "--kernel-us is '-1', not a number from 0"),
    ],
)
def test_a_ping_kernel_pong_that_cannot_work_says_why(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(Error, match=re.escape(text)):
        ping_kernel_pong.measure(ping_kernel_pong.Settings(samples=1, **changes))


def test_a_quick_ping_kernel_pong_has_a_tenth_of_the_batches_in_whole_flights() -> None:
    assert [ping_kernel_pong.quick_batches(*counts) for counts in ((20, 2), (100, 3), (5, 4), (1, 1))] == [2, 9, 4, 1]


@pytest.mark.parametrize("bench", ["ping-kernel-pong", "startup"])
def test_every_bench_has_a_quick_run(bench: str, tmp_path: Path) -> None:
    file = tmp_path / "folder" / "result.json"
    command = [sys.executable, "-m", "onstream", "bench", bench, "--quick", "--json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    result = results.load(file, lines.KINDS)
    assert result["settings"]["quick"]
    assert {"batches": 2, "samples": 3}.items() <= result["settings"].items() or result["settings"]["samples"] == 1
    assert not re.search("^(holds|MISSED)", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("bench", [am, upc])
def test_what_is_not_installed_is_told_before_anything_is_measured(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def installed() -> Path:
        raise UnsupportedError("the bench programs are not part of an installed onstream")

    monkeypatch.setattr(programs, "build_folder", installed)
    said: list[str] = []
    with pytest.raises(UnsupportedError, match="not part of an installed onstream"):
        bench.measure(bench.Settings(quick=True), said.append)
    assert said == []


def test_the_help_says_what_page_html_writes_and_that_folders_are_made() -> None:
    plots = ("message", "paths", "collective", "report")
    for command in bench_app.registered_commands:
        assert command.name is not None
        assert command.callback is not None
        said = get_args(inspect.get_annotations(command.callback, eval_str=True)["html"])[1].help
        kind = "plots and tables" if command.name in plots else "tables"
        assert said == f"Writes a page with {kind} there; makes the folder if there is none."


def test_startup_tells_seconds_and_bytes_and_judges_them() -> None:
    result = startup.measure(startup.Settings(ranks=(1, 4), samples=2))
    one, four = result["rows"]
    assert (one["ranks"], four["ranks"]) == (1, 4)
    assert 0 < four["start_s"] < 30
    assert four["device_bytes"] > one["device_bytes"] > 0
    assert len(four["samples_s"]) == 2
    (verdict,) = result["verdicts"]
    assert (verdict["quantity"], verdict["ranks"]) == ("start_s", 4)
    assert any("start-up, world of 4" in line for line in lines.short_of(result))
    assert lines.short_of(result)[-1] == (
        "not run (the case is not in this run): device memory of each rank, world of 8"
    )


def test_setup_bars_are_below_not_at_their_limit() -> None:
    rows = [{"ranks": 8, "device_bytes": 32 * 2**20, "start_s": 1.0}, {"ranks": 4, "start_s": 0.49, "device_bytes": 1}]
    verdicts = {one["quantity"]: one["holds"] for one in startup.judge({"rows": rows})}
    assert verdicts == {"device_bytes": False, "start_s": True}
    assert "MISSED device memory of each rank, world of 8: 32 MiB (bar: < 32" in "\n".join(
        lines.setup_verdict(one, {"settings": {"quick": False}}) for one in startup.judge({"rows": rows})
    )


# --- one-sided ---


@pytest.fixture(scope="module")
def one_sided_result() -> dict[str, Any]:
    return one_sided.measure(one_sided.Settings(samples=2, quick=True))


def test_one_sided_measures_every_case_directly_and_some_through_the_proxy(one_sided_result: dict[str, Any]) -> None:
    rows = one_sided_result["rows"]
    assert {row["case"] for row in rows if row["path"] == "auto"} == set(one_sided.TITLES)
    staged = {"stream-put-signal", "host-put-quiet", "idle-get", "busy-get"}
    assert {row["case"] for row in rows if row["path"] == "stage"} == staged
    assert all(0 < row["min_s"] <= row["median_s"] for row in rows)
    text = "\n".join(lines.lines_of_any(one_sided_result))
    assert "get from a rank whose kernel and CPU are busy" in text


def test_of_many_ranks_one_sided_measures_barriers() -> None:
    result = one_sided.measure(one_sided.Settings(ranks=3, samples=1, quick=True))
    assert {row["case"] for row in result["rows"]} == {"stream-barrier", "host-barrier"}


def test_a_one_sided_case_that_is_unknown_is_told_those_that_are() -> None:
    program = programs.Program("bench_one_sided", programs.as_ranks(programs.native("bench_one_sided"), 2, ()))
    finished = programs.execute(program, ("--device", "host", "host-pull"), 60)
    assert finished.error is not None
    assert "unknown case host-pull; there are kernel-put-wait" in str(finished.error)


# --- UPC ---


@pytest.fixture(scope="module")
def upc_result() -> dict[str, Any]:
    if shutil.which("cc") is None:
        pytest.skip("the UPC programs are compiled with cc, and there is none")
    return upc.measure(upc.Settings(size=64, samples=1, quick=True))


def test_upc_measures_both_ways_and_a_busy_target_by_the_proxy_too(upc_result: dict[str, Any]) -> None:
    rows = upc_result["rows"]
    assert {row["case"] for row in rows} == set(upc.TITLES)
    assert {row["bytes"] for row in rows if row["case"] == "memput"} == {4**power for power in range(12)}
    assert {row["path"] for row in rows if row["case"] == "busy-memget"} == {"auto", "stage"}
    assert all(0 < row["min_s"] <= row["median_s"] for row in rows)
    assert {one["case"] for one in upc_result["gains"]} == {"memput", "memget", "busy-memget", "matmul"}
    text = "\n".join(lines.lines_of_any(upc_result))
    assert "upc_memget from a thread that multiplies" in text
    assert "gain" not in text  # of a quick run
    slow = {**upc_result, "settings": {**upc_result["settings"], "quick": False}}
    assert re.search(r"gain\n(.*\d\.\d\dx\n)", "\n".join(lines.lines_of_any(slow)))


def test_a_upc_program_that_cannot_run_says_why() -> None:
    program = programs.Program("upc_latency", programs.as_ranks(upc.compiled("upc_latency"), 1, ()))
    finished = programs.execute(program, ("--device", "host"), 60)
    assert "upc_latency: wants 2 threads" in str(finished.error)


@pytest.fixture
def programs_result(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Of runs that did not happen: NCCL wins one row, MPI another."""
    starts = {who: applications.Start((who,), {}) for who in ("onstream", "nccl", "mpi")}

    def rows(
        _settings: object, application: applications.Application, start: object, _file: str
    ) -> list[dict[str, Any]]:
        if application.name == "jacobi":
            return [{"program": "jacobi", "case": "alone", "columns": 128, "step_us": 9.0}]
        if application.name == "heat":
            ways = {"halo": 10.0, "plan": 6.0} if start is starts["onstream"] else {"messages": 9.0, "persistent": 8.0}
            return [
                {"program": "heat", "case": way, "columns": 128, "check": 2.0, "step_us": us}
                for way, us in ways.items()
            ]
        captured_us = 1.0 if start is starts["nccl"] else 3.0
        row = {"program": "nccl_groups", "case": "ring", "bytes": 8, "call_us": 2.0, "captured_us": captured_us}
        return [row] if application.name == "nccl_groups" else []

    def whose(_settings: object, application: applications.Application, _libraries: object) -> dict[str, Any]:
        peers = {"nccl": ("nccl",), "own": (), "python": ("mpi",)}[application.kind]
        return {who: starts[who] for who in ("onstream", *peers)}

    monkeypatch.setattr(applications, "_run", rows)
    monkeypatch.setattr(applications, "_starts", whose)
    monkeypatch.setattr(applications, "_libraries", lambda _settings: ({}, {}))
    return applications.measure(applications.Settings(rounds=2))


def test_programs_put_the_rows_first_that_a_peer_wins(programs_result: dict[str, Any]) -> None:
    assert [(row["program"], row["case"], row["figure"], row["ratio"]) for row in programs_result["rows"]] == [
        ("nccl_groups", "ring", "captured_us", pytest.approx(3.0)),
        ("heat", "halo", "step_us", pytest.approx(1.25)),
        ("nccl_groups", "ring", "call_us", pytest.approx(1.0)),
        ("jacobi", "alone", "step_us", None),
        ("heat", "plan", "step_us", pytest.approx(0.75)),
    ]
    text = list(applications.lines_of(programs_result))
    assert [line for line in text if line.endswith("slower")] == [text[3], text[4]]


def test_programs_that_come_to_different_numbers_are_refused() -> None:
    samples = applications.Samples()
    heat = next(one for one in applications.APPLICATIONS if one.name == "heat")
    row = {"program": "heat", "case": "halo", "columns": 128, "check": 2.0, "step_us": 1.0}
    samples.keep(heat, row, "onstream")
    with pytest.raises(Error, match="heat of 128²: mpi, persistent, comes to 2.1, not to 2.0"):
        samples.keep(heat, {**row, "case": "persistent", "check": 2.1}, "mpi")


def test_programs_say_which_peer_is_missing_and_why() -> None:
    with pytest.raises(InvalidArgumentError, match="--vs is 'ucx'"):
        applications.names_from("ucx", "host")
    assert applications.names_from("auto", "host") == ("mpi",)
    assert applications.names_from("auto", "cuda") == ("nccl",)
    try:
        result = applications.measure(applications.Settings(quick=True, vs=("nccl",)))
    except UnsupportedError as why:
        pytest.skip(str(why))  # a build with CUDA, on a machine with GPUs
    assert "needs GPUs" in result["missing"]["nccl"]
    assert {row["program"] for row in result["rows"]} == set(applications.TITLES)
    assert all(row["ratio"] is None for row in result["rows"])


def test_every_kind_of_result_has_a_page_and_lines(
    tmp_path: Path,
    paths_result: dict[str, Any],
    one_sided_result: dict[str, Any],
    upc_result: dict[str, Any],
    programs_result: dict[str, Any],
) -> None:
    small = message.Settings(
        modes=("ping-pong", "ring", "ring-plan"), sizes=(0, 8, 4096), rounds=1, samples=1, quick=True
    )
    every = [
        message.measure(small),
        paths_result,
        aggregation.measure(message.Settings(memories=("device",), rounds=1, samples=1, quick=True), counts=(2,)),
        ping_kernel_pong.measure(ping_kernel_pong.Settings(kernel_us=(0,), batches=2, samples=1)),
        startup.measure(startup.Settings(ranks=(2,), samples=1)),
        one_sided_result,
        collective.measure(collective.Settings(ranks=2, kinds=("all_reduce",), sizes=(8, 64), rounds=1, quick=True)),
        upc_result,
        am.measure(am.Settings(samples=1, quick=True)),
        programs_result,
    ]
    assert {result["kind"] for result in every} == set(report.SECTIONS) == set(lines.KINDS)
    for number, result in enumerate(every):
        results.write(result, tmp_path / f"{number}.json")
        assert lines.short_of(result)
        result["environment"] |= {"load_1min": 3.5, "cores": 2}
        assert "busy before the run (load 3.5 on 2 cores)" in lines.lines_of_any(result)[1]
        assert "busy before the run (load 3.5 on 2 cores)" in report.page([result])
    again = [results.load(tmp_path / f"{number}.json", lines.KINDS) for number in range(len(every))]
    report.write(again, tmp_path / "folder" / "page.html")
    page = (tmp_path / "folder" / "page.html").read_text()
    for title in (
        "Messages",
        "Paths",
        "Aggregation",
        "UPC",
        "Ping-kernel-pong",
        "Start-up and memory",
        "One-sided",
        "Collectives",
    ):
        assert f"<h2>{title}</h2>" in page


@pytest.mark.skipif(shutil.which("timeout") is None, reason="no timeout command")
def test_the_gpu_script_runs_its_parts_within_its_limit_and_names_what_it_left_out(tmp_path: Path) -> None:
    build = programs.build_folder()
    variables = {"DEVICE": "host", "QUICK": "1", "VS": "none", "LIMIT_S": "60", "BUILD": str(build)}
    done = subprocess.run(
        [str(ROOT / "tools" / "gpu_bench.sh"), str(tmp_path)],
        env={**os.environ, **variables, "PARTS": "headline startup"},
        capture_output=True, text=True, timeout=90,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["headline.json", "page.html", "startup.json"]
    assert "start-up, world of 4" in done.stdout
    short = subprocess.run(
        [str(ROOT / "tools" / "gpu_bench.sh"), str(tmp_path)],
        env={**os.environ, **variables, "LIMIT_S": "2", "PARTS": "paths"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert short.returncode == 1
    assert "paths: no time was left" in short.stdout


def test_collectives_are_measured_and_checked_with_nccls_columns() -> None:
    settings = collective.Settings(
        ranks=3, kinds=("all_reduce", "all_to_all", "scan", "barrier"), sizes=(8, 4096), rounds=1, samples=2, quick=True
    )
    result = collective.measure(settings)
    assert {(row["kind"], row["bytes"], row["type"]) for row in result["rows"]} == {
        ("all_reduce", 8, "float32"), ("all_reduce", 8, "float64"), ("all_reduce", 8, "int64"),
        ("all_reduce", 4096, "float32"), ("all_to_all", 24, "float32"), ("all_to_all", 4104, "float32"),
        ("scan", 8, "float32"), ("scan", 8, "float64"), ("scan", 8, "int64"), ("scan", 4096, "float32"),
        ("barrier", 0, "float32"),
    }  # fmt: skip
    assert all(row["wrong"] == ("-" if row["kind"] == "barrier" else 0) for row in result["rows"])
    first = result["rows"][0]
    assert first["bus_bytes_per_s"] == pytest.approx(first["algorithm_bytes_per_s"] * 4 / 3, rel=1e-4)  # 2 (n - 1) / n
    text = "\n".join(lines.lines_of_any(result))
    assert "busbw" in text
    assert any(line.split()[-1:] == ["ll"] for line in text.splitlines())
    assert "Collectives" in report.page([result])
    assert "bus bandwidth" in report.page([result])


def test_what_the_bench_does_not_look_at_is_not_called_right() -> None:
    case = "{}:float32:{}:host:48:1:1"
    named = [case.format(kind, op) for kind, op in (("scan", "sum"), ("all_reduce", "max"), ("all_gather", "max"))]
    start = programs.as_ranks(programs.native("bench_collective"), 3, ("--device", "host", "--samples", "1"))
    finished = programs.execute(programs.Program("bench_collective", start), named, 60)
    rows = [row for row in programs.rows_of("bench_collective", finished.out) if "case" in row]
    assert [(row["case"], row["checked"], row["wrong"]) for row in rows] == [
        (named[0], True, 0), (named[1], False, 0), (named[2], True, 0),
    ]  # fmt: skip


# One element of every result of the last rank, and of those of the first one that only the root has, is another.
WRONG_MPI = """
#include <mpi.h>
static int off_by_one(int result, void* out, int is_float, int last) {
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (is_float && rank == (last ? size - 1 : 0)) *(float*)out += 1;
  return result;
}
#define WRONG(NAME, TAKES, GIVES, OUT, LAST) \\
  int MPI_##NAME TAKES { return off_by_one(PMPI_##NAME GIVES, OUT, type == MPI_FLOAT, LAST); }
#define FROM const void *in, void *out, int count, MPI_Datatype type
#define MOVES const void *in, int count, MPI_Datatype type, void *out, int theirs, MPI_Datatype other
WRONG(Allreduce, (FROM, MPI_Op op, MPI_Comm c), (in, out, count, type, op, c), out, 1)
WRONG(Scan, (FROM, MPI_Op op, MPI_Comm c), (in, out, count, type, op, c), out, 1)
WRONG(Reduce_scatter_block, (FROM, MPI_Op op, MPI_Comm c), (in, out, count, type, op, c), out, 1)
WRONG(Reduce, (FROM, MPI_Op op, int root, MPI_Comm c), (in, out, count, type, op, root, c), out, 0)
WRONG(Bcast, (void *out, int count, MPI_Datatype type, int root, MPI_Comm c), (out, count, type, root, c), out, 1)
WRONG(Allgather, (MOVES, MPI_Comm c), (in, count, type, out, theirs, other, c), out, 1)
WRONG(Alltoall, (MOVES, MPI_Comm c), (in, count, type, out, theirs, other, c), out, 1)
WRONG(Scatter, (MOVES, int root, MPI_Comm c), (in, count, type, out, theirs, other, root, c), out, 1)
WRONG(Gather, (MOVES, int root, MPI_Comm c), (in, count, type, out, theirs, other, root, c), out, 0)
"""


@pytest.mark.parametrize("preloaded", [False, True])
def test_what_mpi_gives_is_looked_at(tmp_path: Path, preloaded: bool) -> None:
    settings = collective.Settings(ranks=3, kinds=collective.KINDS, sizes=(96,), types=("float32",), quick=True)
    try:
        peer = collective._peer("mpi-here", settings, collective.cases_of(settings.resolved()))
    except mpi.PeerMissing as error:
        pytest.skip(str(error))
    if preloaded:
        source, wrong = tmp_path / "wrong.c", tmp_path / "libwrong.so"
        source.write_text(WRONG_MPI)
        subprocess.run(["mpicc", "-shared", "-fPIC", str(source), "-o", str(wrong)], check=True, timeout=60)
        peer = replace(peer, program=replace(peer.program, environment={"LD_PRELOAD": str(wrong)}))
    peer.cases = [replace(case, iterations=1) for case in peer.cases]
    assert collective._run(peer, replace(settings, samples=1)) is None
    rows = {case.kind: collective._row(peer, case)["wrong"] for case in peer.cases}
    assert rows == {kind: "-" if kind == "barrier" else int(preloaded) for kind in collective.KINDS}


def test_a_bar_of_collectives_is_judged_against_the_better_peer() -> None:
    def row(who: str, seconds: float) -> dict[str, Any]:
        return {
            "who": who, "kind": "all_reduce", "type": "float32", "bytes": 8, "submission": "host", "median_s": seconds,
            "bus_bytes_per_s": 1.0,
        }  # fmt: skip

    rows = [row("onstream", 2e-6), row("openmpi", 4e-6), row("mpich", 3e-6)]
    (verdict,) = collective.judge({"device_kind": "host", "device": "a CPU", "ranks": 4, "rows": rows})
    assert verdict["against"] == "mpich"
    assert verdict["holds"]
    assert verdict["value"] == pytest.approx(2 / 3)
    rows[0]["median_s"] = 5e-6
    assert not collective.judge({"device_kind": "host", "device": "a CPU", "ranks": 4, "rows": rows})[0]["holds"]


def test_bars_of_collectives_without_a_verdict_are_told_and_a_quick_run_has_none() -> None:
    ours = {
        "who": "onstream", "kind": "all_reduce", "type": "float32", "bytes": 8, "submission": "host", "median_s": 2e-6,
        "bus_bytes_per_s": 1.0,
    }  # fmt: skip
    result: dict[str, Any] = {
        "device_kind": "host", "device": "a CPU", "ranks": 4, "rows": [ours], "settings": {"quick": False},
        "peers_missing": {},
    }  # fmt: skip
    result["verdicts"] = collective.judge(result)
    assert lines.collective_verdicts(result) == [
        "not run (what it is compared with is not in this run): all_reduce 8 B float32, host",
        "not run (the case is not in this run): all_reduce 1 MiB float32, host; all_to_all 1 MiB float32, host",
    ]
    result["rows"].append({**ours, "who": "mpich", "median_s": 4e-6})
    result["verdicts"] = collective.judge(result)
    assert lines.collective_verdicts(result)[0].startswith("holds  all_reduce 8 B")
    result["settings"]["quick"] = True
    assert lines.collective_verdicts(result)[0].startswith("quick run, no verdict: holds all_reduce 8 B")
    assert lines.collective_verdicts({**result, "device_kind": "cuda", "verdicts": []})[0] == (
        "not run (the case is not in this run): all_gather 1 GiB float32, captured; "
        "reduce_scatter 1 GiB float32, captured; broadcast 1 GiB float32, captured"
    )
