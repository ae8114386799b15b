"""Makes README's table of messages and the pages of docs/figures from the newest results in bench/results.

    python tools/readme_table.py            writes them
    python tools/readme_table.py --check    status 1, and the command to run, when they are out of step

README's table stands between two markers; nothing else of it is touched. tests/python/test_bench_verdicts.py runs the check.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from onstream.bench.lines import lines_of_any
from onstream.bench.table import markdown_of, size_text, time_text

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
PATTERN = "bench/results/*.json"
TITLES = {
    "aggregation": "Many operations at once",
    "am": "Registered buffers",
    "collective": "Collectives",
    "message": "Messages",
    "one_sided": "Put, get, signals and barriers",
    "paths": "Paths of a message",
    "ping-kernel-pong": "A kernel between messages",
    "startup": "Start of a world",
    "upc": "UPC programs",
}
NOTE = (
    "Made by `tools/readme_table.py` from the newest result of `onstream bench {kind}` on each device. All are medians."
)
HEAD = ("machine, and how it is submitted", "size", "onstream", "NCCL", "NVSHMEM", "Open MPI")
# README's rows: one way of a ping-pong, of the first GPU's result and of the host's.
README_ROWS = {"cuda": ("captured", "device", (8, 64 << 10, 1 << 20)), "host": ("host", "host", (8, 1 << 20))}
WHO = ("onstream", "nccl", "nvshmem", "openmpi")
WAYS = {"captured": "captured in a CUDA graph", "host": "the host waits for each"}


def newest(root: Path) -> list[tuple[Path, dict[str, Any]]]:
    """The newest result of each kind and device, by the date in it; by kind, GPUs first."""
    found: dict[tuple[str, str], tuple[Path, dict[str, Any]]] = {}
    for file in sorted(root.glob(PATTERN)):
        result = json.loads(file.read_text())
        before = found.get((result["kind"], result["device"]))
        if before is None or before[1]["environment"]["date"] <= result["environment"]["date"]:
            found[result["kind"], result["device"]] = (file, result)
    return sorted(found.values(), key=lambda one: (one[1]["kind"], one[1]["device_kind"] != "cuda", one[1]["device"]))


def pages(root: Path) -> dict[str, str]:
    """The text of each page of docs/figures that a result makes, by its file name."""
    parts: dict[str, list[str]] = {}
    for file, result in newest(root):
        kind, link = result["kind"], "../../" + file.relative_to(root).as_posix()
        head = f"---\nhide-toc: true\n---\n\n# {TITLES[kind]}\n\n{NOTE.format(kind=kind)}\n"
        parts.setdefault(kind, [head]).append(_part(result, link))
    return {f"{kind}.md": "\n".join(texts) for kind, texts in parts.items()}


def _part(result: dict[str, Any], link: str) -> str:
    if result["kind"] == "message":
        return "\n".join([f"## {result['device']}", "", *markdown_of(result, link), ""])
    where, git = result["environment"], result["environment"]["git"]
    commit = git["commit"][:10] + (" with changes" if git["changed"] else "")
    heading, *table = (line.rstrip() for line in lines_of_any(result))
    return (
        f"## {result['device']}\n\n{where['date'][:10]}, commit {commit} ([all of it]({link})). {heading}\n\n"
        "```text\n" + "\n".join(table) + "\n```\n"
    )


def section(root: Path) -> str:
    """README's table: the newest message result of a GPU and of the host, a column a library."""
    newest_of = {}
    for _, result in newest(root):
        if result["kind"] == "message":
            before = newest_of.get(result["device_kind"])
            if before is None or before["environment"]["date"] <= result["environment"]["date"]:
                newest_of[result["device_kind"]] = result
    rows = [row for kind in README_ROWS if kind in newest_of for row in _rows(newest_of[kind])]
    if not rows:
        return "No results are committed yet; `onstream bench message` makes them."
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (HEAD, ("---",) * len(HEAD), *rows))


def _rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    where = result["environment"]
    submission, memory, sizes = README_ROWS[result["device_kind"]]
    cpu = f"{where['cpu']}, {where['cores']} cores"
    machine = f"2 x {result['device'].removeprefix('NVIDIA ')}" if result["device_kind"] == "cuda" else cpu
    wanted = {"mode": "ping-pong", "submission": submission, "memory": memory}
    times = {
        (row["who"], row["bytes"]): time_text(row["median_s"])
        for row in result["rows"]
        if wanted.items() <= row.items() and row["path"] in ("auto", "its own") and not row.get("max_blocks")
    }
    return [
        (f"{machine}, {WAYS[submission]}", size_text(size), *(times.get((who, size), "-") for who in WHO))
        for size in sizes
    ]


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
    readme, folder = ROOT / "README.md", ROOT / "docs" / "figures"
    written = {folder / name: text for name, text in pages(ROOT).items()}
    written[readme] = with_section(readme.read_text(), section(ROOT))
    for file, text in written.items():
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
