"""Registered buffers: tests/compat/am.c for 1 to 5 ranks, over every way that memory is reached; and the bench."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, build_folder
from memories import DEVICES
from mpi_programs import call
from onstream.bench import am, lines, programs, report
from onstream.errors import InvalidArgumentError

pytestmark = pytest.mark.gpu

SOURCE = ROOT / "tests" / "compat" / "am.c"
LIMIT_S = 60
COMPILE_LIMIT_S = 120
SETTINGS = {"ONSTREAM_DEVICE": "host", "ONSTREAM_TIMEOUT_S": "20", "ONSTREAM_AM_EVENTS": "16"}
HARD = ("-g", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{ROOT / 'bench' / 'compat'}")
SHAPES = {1: "1x1x1", 2: "2x1x1", 3: "3x1x1", 4: "2x2x1", 5: "5x1x1"}


def library() -> Path:
    folder = build_folder() / "compat" / "am"
    assert (folder / "libonstream_am.so").exists(), f"there is no libonstream_am.so in {folder}"
    return folder


def run(ranks: int, *arguments: str, **settings: str) -> tuple[int, str]:
    program = am.compile_program(SOURCE, library(), library() / "tests" / "am", *HARD)
    variables = {**SETTINGS, **{f"ONSTREAM_{name.upper()}": value for name, value in settings.items()}}
    return call(list(programs.as_ranks(program, ranks, arguments)), LIMIT_S, variables)


def cases_together() -> list[str]:
    table = SOURCE.read_text().partition("together[] = {")[2].partition("};")[0]
    return re.findall(r"CASE\((\w+)\)", table)


def all_pass(ranks: int, **settings: str) -> None:
    status, output = run(ranks, **settings)
    assert status == 0, output[-6000:]
    assert re.findall(r"^passed (\w+)", output, re.MULTILINE) == cases_together()


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5])
def test_every_call(ranks: int) -> None:
    all_pass(ranks)


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.skipif("cuda" not in DEVICES, reason="there is no GPU")
@pytest.mark.parametrize("ranks", [2, 3])
def test_every_call_on_gpus(ranks: int) -> None:
    all_pass(ranks, device="cuda")


# A GPU's memory, and plain memory beside it, take this path: the owners' proxies copy.
@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
@pytest.mark.parametrize("settings", [{"path": "stage"}, {"attach": "off"}], ids=["stage", "attach-off"])
def test_every_call_over_proxies(settings: dict[str, str]) -> None:
    all_pass(2, **settings)


@pytest.mark.parametrize("ranks", SHAPES)
def test_the_torus_is_as_near_to_a_cube_as_the_ranks_allow(ranks: int) -> None:
    status, output = run(ranks, "the_shape_is_printed")
    assert status == 0, output
    assert output.count(f"of {SHAPES[ranks]}") == ranks


def test_ranks_follow_the_first_axis_first() -> None:
    status, output = run(4, "the_shape_is_printed", torus="1x2x2")
    assert status == 0, output
    places = re.findall(r"rank (\d) is \((\d), (\d), (\d)\) of 1x2x2", output)
    assert sorted(places) == [("0", "0", "0", "0"), ("1", "0", "1", "0"), ("2", "0", "0", "1"), ("3", "0", "1", "1")]


@pytest.mark.parametrize(
    ("torus", "says"),
    [
        ("3x1x1", "parameter torus is 3x1x1, a shape of 3 nodes, but this job has 2 ranks"),
        ("0x1x1", "a shape of 0 nodes"),
        ("2x1", "ONSTREAM_TORUS is '2x1', but must be one of: auto NxNxN"),
        ("2x1x1x", "but must be one of: auto NxNxN"),
    ],
)
def test_a_shape_that_does_not_fit_is_refused(torus: str, says: str) -> None:
    status, output = run(2, "the_shape_is_printed", torus=torus)
    assert status == 1, output
    assert "ape_open: " in output
    assert says in output


def test_a_killed_rank_ends_the_waits_of_the_others() -> None:
    status, output = run(3, "a_killed_rank_ends_the_waits")
    assert status == 128 + signal.SIGKILL, output
    assert "rank 0 was told" in output
    assert "rank 2 was told" in output


def test_a_get_from_a_killed_rank_says_that_it_is_dead() -> None:
    status, output = run(2, "a_get_from_a_killed_rank_says_that_it_is_dead")
    assert status == 128 + signal.SIGKILL, output
    assert "rank 0 was told" in output


def test_links_are_opened_again_after_a_failure() -> None:
    status, output = run(2, "links_are_opened_again_after_a_failure", timeout_s="2", path="stage")
    assert (status, output.count("was told")) == (0, 2), output


def test_own_messages_outlast_the_other_ranks() -> None:
    status, output = run(2, "own_messages_outlast_the_other_ranks")
    assert (status, output.count("was told")) == (0, 1), output


def test_a_send_that_fails_leaves_its_buffer_posted() -> None:
    status, output = run(2, "a_send_that_fails_leaves_its_buffer_posted")
    assert (status, output.count("was told")) == (0, 2), output


def test_a_buffer_that_was_busy_may_be_unregistered_again() -> None:
    status, output = run(2, "a_buffer_that_was_busy_may_be_unregistered_again", timeout_s="2")
    assert (status, output.count("was told")) == (0, 2), output


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_closed_rank_is_told_of(ranks: int) -> None:
    status, output = run(ranks, "a_closed_rank_is_told_of")
    assert (status, output.count("was told")) == (0, 1), output


def test_waits_end_at_the_deadline() -> None:
    status, output = run(2, "waits_end_at_the_deadline", timeout_s="2")
    assert (status, output.count("was told")) == (0, 2), output


def test_a_full_queue_ends_a_put_at_the_deadline() -> None:
    status, output = run(2, "a_full_queue_ends_a_put_at_the_deadline", timeout_s="2")
    assert (status, output.count("was told")) == (0, 1), output


def test_memory_that_is_gone_is_refused() -> None:
    status, output = run(2, "memory_that_is_gone_is_refused")
    assert (status, output.count("was told")) == (0, 2), output


def test_the_header_compiles_as_c99_c11_and_cpp(tmp_path: Path) -> None:
    for language, standard in (("c", "c99"), ("c", "c11"), ("c++", "c++11"), ("c++", "c++20")):
        source = tmp_path / "all.c"
        source.write_text("#include <onstream_am.h>\nint main(void) { return ape_error_string(0) == 0; }\n")
        include = f"-I{ROOT / 'compat' / 'am' / 'include'}"
        command = ["cc", "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Werror", include, "-fsyntax-only"]
        status, output = call([*command, str(source)], COMPILE_LIMIT_S)
        assert status == 0, output


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    return am.measure(am.Settings(samples=2, quick=True))


@pytest.mark.limit(LIMIT_S + COMPILE_LIMIT_S)
def test_the_bench_measures_puts_and_both_stencils(measured: dict[str, Any]) -> None:
    assert [row["bytes"] for row in measured["latency"] if row["memory"] == "device"] == list(am.LATENCY_BYTES)
    assert {(row["torus"], row["way"]) for row in measured["stencil"]} == {
        (torus, way) for torus in am.TORI for way in ("direct", "bounce")
    }
    assert all(len(row["steps_ns"]) == len(am.STEP_TITLES) for row in measured["steps"])
    text = "\n".join(lines.lines_of_any(measured))
    assert "am_put, one way" in text
    assert "bounce" in text
    assert "Registered buffers" in report.page([measured])


def test_a_torus_that_the_stencil_is_not_for_is_refused() -> None:
    for torus in ("2x2x2", "2x2", "axbxc"):
        with pytest.raises(InvalidArgumentError, match=torus):
            am.ranks_of(torus)
