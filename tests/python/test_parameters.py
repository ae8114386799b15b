"""The parameter tables agree with each other, with the generated page and with the built module."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import parameters_page  # noqa: E402


def test_every_line_of_the_table_is_read_by_the_page() -> None:
    text = (ROOT / "src/onstream/base/parameter_table.inc").read_text()
    lines = re.findall(r"^ONSTREAM_PARAMETER\((\w+)", text, re.MULTILINE)
    assert [row.name for row in parameters_page.table()] == lines
    assert len(lines) > 10


def test_every_parameter_has_exactly_one_rule() -> None:
    names = sorted(row.name for row in parameters_page.table())
    assert sorted(name for name, _ in parameters_page.rules()) == names


def test_every_parameter_is_documented() -> None:
    for row in parameters_page.table():
        assert len(row.doc) > 15, row.name
        assert row.unit or row.type == "std::string", f"{row.name} is a number without a unit"


def test_the_parameters_page_is_current() -> None:
    written = (ROOT / "docs" / "parameters.md").read_text()
    assert written == parameters_page.page(), "run `make docs`"


@pytest.mark.parametrize("variable", ["ONSTREAM_TIMEOUT_S=soon", "ONSTREAM_TIMEOUTS=1"])
def test_a_wrong_variable_is_an_error_that_names_it(variable: str) -> None:
    name, value = variable.split("=")
    result = subprocess.run(
        [sys.executable, "-c", "import onstream; onstream.init()"],
        env={"PATH": "/usr/bin:/bin", name: value},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode != 0
    assert name in result.stderr.splitlines()[-1]
