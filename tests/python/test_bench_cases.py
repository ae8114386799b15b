"""The bench: statistics of samples, sizes, and which cases a run has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onstream.bench.cases import (
    GIB,
    MAX_BYTES,
    MODES,
    SUBMISSIONS,
    bytes_from,
    case_of,
    cases_of,
    choices_from,
    sizes_from,
)
from onstream.bench.samples import quantile, summarize
from onstream.errors import InvalidArgumentError


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
