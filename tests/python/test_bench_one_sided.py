"""The bench of one-sided ops: the verdicts of its bars on a run, and the peers beside it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from onstream.bench import lines, one_sided, peers, programs, report
from onstream.bench.cases import KIB, MIB

ENVIRONMENT = {"cpu": "A CPU", "cores": 2, "load_1min": 0.1, "date": "2026-01-02T03:04:05+00:00", "git": None}


def row(case: str, submission: str, size: int, *rounds_s: float, who: str = "onstream", **more: Any) -> dict[str, Any]:
    middle = sorted(rounds_s)[len(rounds_s) // 2]
    path = "auto" if who == "onstream" else ""
    return {
        "case": case, "submission": submission, "bytes": size, "who": who, "path": path, "median_s": middle,
        "min_s": middle, "p25_s": middle, "p75_s": middle, "max_s": middle, "rounds": len(rounds_s),
        "samples": 10 * len(rounds_s), "rounds_median_s": list(rounds_s), **more,
    }  # fmt: skip


def made_up(rows: list[dict[str, Any]], kind: str = "host", device: str = "A CPU", ranks: int = 2) -> dict[str, Any]:
    result = {
        "schema": 1, "kind": "one_sided", "command": "onstream bench one_sided", "device_kind": kind, "device": device,
        "ranks": ranks, "settings": {"rounds": 3, "samples": 10}, "environment": ENVIRONMENT, "rows": rows,
        "peers_missing": {},
    }  # fmt: skip
    result["verdicts"] = one_sided.judge(result)
    return result


def test_gpu_bars_are_judged_on_their_hardware_with_their_number_of_ranks() -> None:
    rows = [
        row("kernel-put-wait", "kernel", 8, 0.9e-6),
        row("kernel-line-wait", "kernel", 8, 1.1e-6),
        row("kernel-put-signal", "kernel", 64 * KIB, 3.1e-6),
        row("grid-put", "eager", 256 * MIB, 256 * MIB / 366e9),
        row("stream-put-signal", "captured", 8, 2.0e-6),
        row("stream-put-beside", "captured", 8, 1.8e-6),
        row("stream-put-signal", "captured", 16 * MIB, 48e-6),
        row("stream-barrier", "captured", 0, 2.1e-6),
    ]
    two = made_up(rows, "cuda", "NVIDIA H200")["verdicts"]
    assert [(one["case"], one["bytes"], one["holds"]) for one in two] == [
        ("kernel-put-wait", 8, True),
        ("kernel-line-wait", 8, False),
        ("kernel-put-signal", 64 * KIB, False),
        ("grid-put", 256 * MIB, True),
        ("stream-put-signal", 8, False),
        ("stream-put-beside", 8, True),
        ("stream-put-signal", 16 * MIB, True),
    ]
    assert two[3]["value"] == pytest.approx(366)
    (four,) = made_up(rows, "cuda", "NVIDIA H200", ranks=4)["verdicts"]
    assert (four["case"], four["holds"], four["value"]) == ("stream-barrier", True, pytest.approx(2.1))
    assert made_up(rows, "cuda", "NVIDIA T4")["verdicts"] == []
    assert made_up(rows, "host")["verdicts"] == []


def test_memory_of_a_peer_may_cost_more_than_ones_own_by_what_that_strays() -> None:
    own = row("own-put", "host", 8, 1.00e-9, p75_s=1.05e-9)
    (within,) = made_up([row("host-put", "host", 8, 1.04e-9), own])["verdicts"]
    (beyond,) = made_up([row("host-put", "host", 8, 1.06e-9), own])["verdicts"]
    assert (within["holds"], within["value"]) == (True, pytest.approx(1.04))
    assert (beyond["holds"], beyond["within"]) == (False, pytest.approx(1.05))
    noisy = row("own-put", "host", 8, 1.00e-9, p75_s=2e-9)
    (excused,) = made_up([row("host-put", "host", 8, 1.2e-9), noisy])["verdicts"]
    assert (excused["holds"], excused["within"]) == (False, pytest.approx(1.1))
    text = "\n".join(lines.one_sided_verdicts(made_up([row("host-put", "host", 8, 1.06e-9), own])))
    assert "MISSED store to peer() 8 B, host: 1.06 x (bar: <= 1, or its spread: 1.050); 1.1 ns against 1 ns, " in text


def test_a_peers_figure_is_beaten_without_an_allowance() -> None:
    rows = [
        row("host-put-signal", "host", 8, 101e-9),
        row("host-put-quiet", "host", 8, 20e-9),
        row("host-put-signal", "host", 8, 300e-9, who="openmpi"),
        row("host-put-quiet", "host", 8, 100e-9, who="openmpi", p75_s=200e-9),
    ]
    trip, alike, quiet = made_up(rows)["verdicts"]
    assert [(one["against"], one["holds"]) for one in (trip, alike, quiet)] == [
        (("openmpi", "host-put-quiet"), False),
        (("openmpi", "host-put-signal"), True),
        (("openmpi", "host-put-quiet"), True),
    ]
    assert (trip["within"], trip["value"]) == (1.0, pytest.approx(1.01))
    missed = lines.one_sided_verdicts(made_up(rows))[0]
    assert missed.endswith(f"; where it goes: {one_sided.STORE}")


def test_a_quick_run_gives_no_verdict_that_looks_like_one() -> None:
    result = made_up([row("host-put", "host", 8, 1e-9), row("own-put", "host", 8, 1e-9)])
    assert lines.one_sided_verdicts(result)[0].startswith("holds ")
    result["settings"]["quick"] = True
    assert lines.one_sided_verdicts(result)[0].startswith("quick run, no verdict: holds store to peer() 8 B, host")
    assert '<li class="holds">' not in report.page([result])


def test_without_the_peer_nothing_is_judged_against_it_and_the_reason_is_told() -> None:
    result = made_up([row("host-put-signal", "host", 8, 1e-9)])
    result["peers_missing"] = {"openmpi": "out of luck"}
    assert lines.one_sided_verdicts(result)[1] == (
        "not run (what it is compared with is not in this run): "
        "put_signal and wait by hosts 8 B, host, against Open MPI, put and quiet by a host; "
        "put_signal and wait by hosts 8 B, host, against Open MPI, put_signal and wait by hosts"
    )
    assert lines.one_sided_verdicts(result)[-1] == "without Open MPI: out of luck"


def test_a_round_that_missed_the_bar_is_told_even_where_the_median_holds() -> None:
    result = made_up([row("stream-barrier", "captured", 0, 2.1e-6, 2.1e-6, 2.5e-6)], "cuda", "NVIDIA H200", ranks=4)
    (verdict,) = result["verdicts"]
    assert (verdict["holds"], verdict["rounds"], verdict["rounds_held"]) == (True, 3, 2)
    (line,) = lines.one_sided_verdicts(result)
    assert line == "holds  barrier on streams, captured: 2.10 us (bar: <= 2.2); in 2 of 3 rounds"
    missed = made_up([row("stream-barrier", "captured", 0, 2.1e-6, 2.3e-6, 2.5e-6)], "cuda", "NVIDIA H200", ranks=4)
    assert lines.one_sided_verdicts(missed)[0].startswith("MISSED barrier on streams, captured: 2.30 us")
    assert line in lines.lines_of_any(result)
    assert '<li class="missed">barrier on streams, captured: 2.30 us' in report.page([missed])


def test_results_from_before_there_were_bars_are_judged_when_they_are_told() -> None:
    old = made_up([row("grid-put", "eager", 256 * MIB, 1e-3)], "cuda", "NVIDIA H200")
    del old["verdicts"], old["settings"]["rounds"], old["rows"][0]["rounds_median_s"]
    missed, told = lines.one_sided_verdicts(old)
    assert missed == "MISSED put_signal by a whole grid 256 MiB, eager: 268.44 GB/s (bar: >= 365)"
    assert told.startswith("not run (the case is not in this run): put and wait of a word in a kernel 8 B, kernel; ")


def stand_in() -> str:
    """A library that does the work of NVSHMEM's host library on the host device."""
    file = programs.build_folder() / "tests" / "native" / "libstand_in_nvshmem.so"
    if not file.exists():
        pytest.skip(f"there is no {file.name}; build with ONSTREAM_TESTS=ON (make build does)")
    return str(file)


@pytest.mark.parametrize("ranks", [2, 3])
def test_nvshmem_has_barriers_and_between_two_messages(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_sided, "_nvshmem", lambda settings: one_sided.nvshmem_over(stand_in(), settings))
    settings = one_sided.Settings(ranks=ranks, rounds=2, samples=1, quick=True, vs=("nvshmem",))
    result = one_sided.measure(settings)
    assert result["peers_missing"] == {}
    theirs = [row for row in result["rows"] if row["who"] == "nvshmem"]
    wanted = {("stream-barrier", how, 0) for how in ("eager", "captured")}
    if ranks == 2:
        sizes = (8, 64 * KIB, 16 * MIB)
        wanted |= {("stream-put-signal", how, size) for how in ("eager", "captured") for size in sizes}
    assert {(row["case"], row["submission"], row["bytes"]) for row in theirs} == wanted
    assert all(row["rounds"] == 2 for row in result["rows"])


def test_a_peer_that_ends_early_is_named_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    program = programs.Program("mpich", (sys.executable, "-c", "raise SystemExit('out of luck')"))
    monkeypatch.setattr(one_sided, "_mpi", lambda _settings, name: one_sided.Contender(name, program, ()))
    result = one_sided.measure(one_sided.Settings(ranks=3, rounds=2, samples=1, quick=True, vs=("mpich",)))
    assert "it ended early in round 1" in result["peers_missing"]["MPICH"]
    assert "out of luck" in result["peers_missing"]["MPICH"]
    assert all(one["rounds"] == 2 for one in result["rows"])


def test_no_round_is_begun_that_would_end_after_the_budget() -> None:
    settings = one_sided.Settings(ranks=3, rounds=50, samples=1, quick=True)
    result = one_sided.measure(replace(settings, budget_s=1e-3))
    assert result["settings"]["rounds"] == 1
    assert all(one["rounds"] == 1 for one in result["rows"])


def test_what_is_not_between_hosts_or_gpus_is_missing_with_the_reason(tmp_path: Path) -> None:
    result = one_sided.measure(one_sided.Settings(ranks=3, rounds=1, samples=1, quick=True, vs=("nvshmem", "openmpi")))
    assert "works between GPUs, and the device is host" in result["peers_missing"]["nvshmem"]
    assert "between 2 ranks, not 3" in result["peers_missing"]["openmpi"]
    report.write([result], tmp_path / "page.html")
    assert peers.TITLES["openmpi"] in (tmp_path / "page.html").read_text()
