"""The C programs under tests/compat, which test the interfaces of other libraries."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from conftest import ROOT

SOURCES = ROOT / "tests" / "compat"


def cases_of(source: str) -> list[str]:
    """The cases that a program lists, one a line."""
    return re.findall(r"^ +CASE\((\w+)\)", (SOURCES / source).read_text(), re.MULTILINE)


def is_current(program: Path, parts: Iterable[Path]) -> bool:
    """Whether the program is there, and newer than what it is made of."""
    return program.exists() and program.stat().st_mtime > max(part.stat().st_mtime for part in parts)
