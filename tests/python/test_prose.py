"""The counter of prose (tools/prose.py): it finds clauses that stand for a noun in comments, docstrings and pages, and no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import prose  # noqa: E402


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("x.hpp", "// What arrives is kept.\nint a;\n", ["What arrives is kept."]),
        ("x.hpp", "int a;  // for whoever waits for it\n", ["for whoever waits for it"]),
        ("x.cpp", "// The one\n// is likewise the other. The next is fine.\n", ["The one is likewise the other."]),
        ("x.cpp", '// The receiver keeps arriving data.\nfail("what is it");\n', []),
        ("x.cpp", "// `what` is the text of the error.\n", []),
        ("x.cpp", "// What is a lane? A queue of messages.\n", []),
        ("x.py", 'def f():\n    """Returns the same of all."""\n', ["Returns the same of all."]),
        ("x.py", "a = 1  # but for one\nwhat = 'who is it'\n", ["but for one"]),
        ("x.md", "# Title\n\nSay who\nwaits.\n\n```\nwhat is code\n```\n", ["Say who waits."]),
    ],
)
def test_a_clause_for_a_noun_is_found(name: str, text: str, found: list[str], tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert [sentence for _, sentence in prose.sentences(file) if prose.is_headless(sentence)] == found


def test_the_project_keeps_to_it() -> None:
    ended = subprocess.run([sys.executable, ROOT / "tools" / "prose.py"], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stdout
