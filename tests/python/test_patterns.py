"""Every program of docs/patterns.md runs as the page says, on four ranks, and that of docs/cost.md on two."""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import ROOT
from jobs import lines_of, run_job

import onstream as ons

PAGE = (ROOT / "docs" / "patterns.md").read_text()
PROGRAMS = {
    section.partition("\n")[0]: block
    for section in PAGE.split("\n## ")[1:]
    for block in re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
}


def test_each_section_has_one_program() -> None:
    assert len(PROGRAMS) == len(re.findall(r"^```python$", PAGE, re.MULTILINE)) == len(PAGE.split("\n## ")) - 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_runs(name: str, tmp_path: Path) -> None:
    modules = [
        alias.name
        for node in ast.walk(ast.parse(PROGRAMS[name]))
        if isinstance(node, ast.Import)
        for alias in node.names
    ]
    for module in modules:
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    if "cupy" in modules and (reason := ons.no_cuda_reason()):
        pytest.skip(reason)
    device = "auto" if "cupy" in modules else "host"
    outcome = run_job(tmp_path, 4, f"import os\nos.environ['ONSTREAM_DEVICE'] = {device!r}\n{PROGRAMS[name]}")
    assert outcome.code == 0, outcome.err
    assert outcome.out.strip()


def test_the_program_behind_the_costs_prints_the_rows_of_its_table(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "cost.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    outcome = run_job(tmp_path, 2, f"import os\nos.environ |= dict(ONSTREAM_DEVICE='host', BATCHES='2')\n{program}")
    assert outcome.code == 0, outcome.err
    told = [line.split(" | ")[:2] for line in lines_of(outcome)]
    assert told == [
        line.split(" | ")[:2] for line in page.splitlines() if line.startswith(("| blocking", "| on a stream"))
    ]
    assert len(told) == 15
