"""Makes README's tables of figures from the newest results under bench/results, one for each device.

    python tools/readme_table.py            writes README.md
    python tools/readme_table.py --check    status 1, and the command to run, when README.md is out of step

The tables stand between two markers; nothing else of README is touched. tests/python/test_bench_verdicts.py runs the check.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from onstream.bench.table import markdown_of

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
PATTERN = "bench/results/*-message.json"


def newest(root: Path) -> list[tuple[Path, dict[str, Any]]]:
    """The newest result of each device, by the date in it; GPUs first."""
    found: dict[str, tuple[Path, dict[str, Any]]] = {}
    for file in sorted(root.glob(PATTERN)):
        result = json.loads(file.read_text())
        before = found.get(result["device"])
        if before is None or before[1]["environment"]["date"] <= result["environment"]["date"]:
            found[result["device"]] = (file, result)
    return sorted(found.values(), key=lambda one: (one[1]["device_kind"] != "cuda", one[1]["device"]))


def section(root: Path) -> str:
    tables = ["\n".join(markdown_of(result, file.relative_to(root).as_posix())) for file, result in newest(root)]
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
    parser.add_argument("--check", action="store_true", help="only say whether README.md is in step")
    arguments = parser.parse_args()
    readme = ROOT / "README.md"
    old = readme.read_text()
    new = with_section(old, section(ROOT))
    if arguments.check and new != old:
        print(
            "README.md is out of step with bench/results; run: .venv/bin/python tools/readme_table.py", file=sys.stderr
        )
        return 1
    if not arguments.check:
        readme.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
