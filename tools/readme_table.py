"""Makes README's tables of messages and docs/figures.md, which has all else, from the newest results in bench/results.

    python tools/readme_table.py            writes both
    python tools/readme_table.py --check    status 1, and the command to run, when they are out of step

README's tables stand between two markers; nothing else of it is touched. tests/python/test_bench_verdicts.py runs the check.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from onstream.bench.lines import lines_of_any
from onstream.bench.table import markdown_of

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
PATTERN = "bench/results/*.json"
PAGE = """# Figures

What `onstream bench` measured, besides messages, which [README.md](../README.md) has. Made by `tools/readme_table.py` from
the newest result of each kind and device; the text under a title says what a row is. All are medians.
"""


def newest(root: Path) -> list[tuple[Path, dict[str, Any]]]:
    """The newest result of each kind and device, by the date in it; by kind, GPUs first."""
    found: dict[tuple[str, str], tuple[Path, dict[str, Any]]] = {}
    for file in sorted(root.glob(PATTERN)):
        result = json.loads(file.read_text())
        before = found.get((result["kind"], result["device"]))
        if before is None or before[1]["environment"]["date"] <= result["environment"]["date"]:
            found[result["kind"], result["device"]] = (file, result)
    return sorted(found.values(), key=lambda one: (one[1]["kind"], one[1]["device_kind"] != "cuda", one[1]["device"]))


def page(root: Path) -> str:
    """All of docs/figures.md."""
    parts = [PAGE]
    for file, result in newest(root):
        if result["kind"] == "message":
            continue
        where, git = result["environment"], result["environment"]["git"]
        commit = git["commit"][:10] + (" with changes" if git["changed"] else "")
        heading, *table = (line.rstrip() for line in lines_of_any(result))
        name = file.relative_to(root).as_posix()
        parts.append(
            f"## {result['kind']}, {result['device']}\n\n{where['date'][:10]}, commit {commit}"
            f" ([all of it](../{name})). {heading}\n\n```text\n" + "\n".join(table) + "\n```\n"
        )
    return "\n".join(parts)


def section(root: Path) -> str:
    messages = [(file, result) for file, result in newest(root) if result["kind"] == "message"]
    tables = ["\n".join(markdown_of(result, file.relative_to(root).as_posix())) for file, result in messages]
    return "\n\n".join(tables) if tables else "No results are committed yet; `onstream bench message` makes them."


def with_section(readme: str, text: str) -> str:
    """README with the text between the markers."""
    if readme.count(BEGIN) != 1 or readme.count(END) != 1 or readme.index(BEGIN) > readme.index(END):
        raise ValueError(f"README.md must have {BEGIN} once and, after it, {END} once")
    before, rest = readme.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="only say whether the pages are in step")
    arguments = parser.parse_args()
    readme, figures = ROOT / "README.md", ROOT / "docs" / "figures.md"
    pages = {readme: with_section(readme.read_text(), section(ROOT)), figures: page(ROOT)}
    for file, text in pages.items():
        if arguments.check and (not file.exists() or file.read_text() != text):
            print(
                f"{file.name} is out of step with bench/results; run: .venv/bin/python tools/readme_table.py",
                file=sys.stderr,
            )
            return 1
        if not arguments.check:
            file.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
