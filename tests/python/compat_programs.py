"""The C programs under tests/compat, which test the interfaces of other libraries."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from conftest import ROOT

from onstream import _ucx

SOURCES = ROOT / "tests" / "compat"


def cases_of(source: str) -> list[str]:
    """The cases that a program lists, one a line."""
    return re.findall(r"^ +CASE\((\w+)\)", (SOURCES / source).read_text(), re.MULTILINE)


def failed_cases(cases: Iterable[str], output: str) -> list[str]:
    """The cases that a program was to run and does not report as passed."""
    passed = re.findall(r"passed (\w+)", output)
    return [case for case in cases if case not in passed]


def between_hosts(host_ranks: int) -> dict[str, str]:
    """Settings by which each so many ranks of this machine are taken for a host."""
    wheel = _ucx.find_library()
    if wheel is None:
        pytest.skip("no UCX: pip install libucx-cu13")
    hosts = {"ONSTREAM_DEVICE": "host", "ONSTREAM_NETWORK": "ucx", "ONSTREAM_HOST_RANKS": str(host_ranks)}
    return {**hosts, "ONSTREAM_UCX_WHEEL": str(wheel)}


# A GPU takes part in a refusal, or in an error that ends a job, only where a rank waits, or ends beside others.
BESIDE_WAITS = re.compile("in_vain|dead|does_not_come|computes|holds_a_stream|badly")


def refusals(cases: Iterable[str]) -> list[object]:
    """Rows, marked gpu where a GPU has a part in them."""
    return [pytest.param(case, marks=pytest.mark.gpu) if BESIDE_WAITS.search(case) else case for case in cases]


def is_current(program: Path, parts: Iterable[Path]) -> bool:
    """Whether the program is there, and newer than its parts."""
    return program.exists() and program.stat().st_mtime > max(part.stat().st_mtime for part in parts)


def is_repeated(text: str, output: str) -> bool:
    """Whether some rank of an `onstream run` that failed says the text twice."""
    before_summary = output.split("\nonstream run:")[0].splitlines()
    ranks = [line.split("]")[0] for line in before_summary if text and text in line]
    return len(ranks) != len(set(ranks))
