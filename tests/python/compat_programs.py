"""The C programs under tests/compat, which test the interfaces of other libraries."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from conftest import ROOT

SOURCES = ROOT / "tests" / "compat"


def cases_of(source: str) -> list[str]:
    """The cases that a program lists, one a line."""
    return re.findall(r"^ +CASE\((\w+)\)", (SOURCES / source).read_text(), re.MULTILINE)


def failed_cases(source: str, output: str, case: str | None = None) -> list[str]:
    """Of a program that was to run this case, or all its cases, those that it does not say it passed."""
    passed = re.findall(r"passed (\w+)", output)
    return [one for one in ([case] if case else cases_of(source)) if one not in passed]


# Of what an interface refuses, or ends a job for, a GPU has a part only where somebody waits, or ends beside others.
BESIDE_WAITS = re.compile("in_vain|dead|does_not_come|computes|holds_a_stream|badly")


def refusals(cases: Iterable[str]) -> list[object]:
    """Rows, marked gpu where a GPU has a part in them."""
    return [pytest.param(case, marks=pytest.mark.gpu) if BESIDE_WAITS.search(case) else case for case in cases]


def is_current(program: Path, parts: Iterable[Path]) -> bool:
    """Whether the program is there, and newer than what it is made of."""
    return program.exists() and program.stat().st_mtime > max(part.stat().st_mtime for part in parts)
