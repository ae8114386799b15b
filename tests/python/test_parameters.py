"""The parameter tables agree with each other, with the generated page and with the built module."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import parameters_page  # noqa: E402


def test_every_line_of_the_table_is_read_by_the_page() -> None:
    text = (ROOT / "include/onstream/parameter_table.inc").read_text()
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


def test_a_value_that_is_no_text_is_an_error_all_the_same() -> None:
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            "import onstream\ntry: onstream.init()\nexcept ValueError as error: print(ascii(error))",
        ],
        env={b"PATH": b"/usr/bin:/bin", b"ONSTREAM_TAGS": b"\xe9"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "ONSTREAM_TAGS is '\\\\xe9'" in result.stdout, result.stderr


def test_variables_that_others_set_are_told_once_a_job() -> None:
    program = "import onstream as ons\nfor _ in range(2): ons.init(device='host').close()"
    result = subprocess.run(
        [sys.executable, "-m", "onstream", "run", "-n", "2", "python", "-c", program],
        env={**os.environ, "ONSTREAM_SERVICE_HOST": "10.0.0.1", "ONSTREAM_HOME": "/opt/onstream"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    told = "ignored, as no parameter has such a name: ONSTREAM_HOME ONSTREAM_SERVICE_HOST (docs/parameters.md)"
    assert result.stderr == f"[0] onstream warn: {told}\n"
