"""`onstream bench paths`: size by path, for every pair of memories, and where one path overtakes another.

Each path is forced in a world of its own, and all of them run in one start of the program. A path that cannot work for a
pair, or from a size on, has the library's own reason in the result. There are dozens of worlds, and the slowest path takes a
hundred times as long as the fastest, so a sample has a tenth of the messages of `onstream bench message`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import Error, InvalidArgumentError
from . import environment, programs
from .cases import KIB, MEMORIES, MIB, SIZES, Case, case_of
from .message import PATHS, Variant
from .progress import Say
from .results import preamble
from .samples import summarize

TABLE_SIZES = {
    "host": (8, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 8 * MIB),
    "cuda": (8, KIB, 8 * KIB, 32 * KIB, 128 * KIB, 512 * KIB, 2 * MIB, 16 * MIB, 128 * MIB),
}


@dataclass(frozen=True)
class Settings:
    """kinds: of memory; every one is a source and a target."""

    device: str = "host"
    kinds: tuple[str, ...] = ("device", "host")
    paths: tuple[str, ...] = PATHS
    sizes: tuple[int, ...] = ()
    submission: str = "captured"
    rounds: int = 1
    samples: int = 5
    quick: bool = False
    limit_s: float = programs.RUN_TIMEOUT_S

    def checked(self) -> Settings:
        for what, chosen, known in (
            ("device", (self.device,), tuple(SIZES)),
            ("kinds", self.kinds, MEMORIES),
            ("paths", self.paths, PATHS),
            ("submission", (self.submission,), ("eager", "captured")),
        ):
            unknown = [one for one in chosen if one not in known]
            if unknown or not chosen:
                raise InvalidArgumentError(f"{what}: unknown {', '.join(unknown)}; there are {', '.join(known)}")
        return self


@dataclass
class Column:
    """One path for one pair of memories."""

    variant: Variant
    cases: list[Case]
    rounds_s: dict[Case, list[list[float]]] = field(default_factory=dict)
    why_not: str = ""  # the rest of the cases: the library's reason


def measure(wanted: Settings, say: Say = lambda _line: None) -> dict[str, Any]:
    settings = wanted.checked()
    where = environment.collect()
    columns = _columns(settings)
    program = programs.message_program(settings.device)
    heading: dict[str, Any] = {}
    for number in range(settings.rounds):
        say(f"round {number + 1} of {settings.rounds}: {len(columns)} worlds")
        finished = programs.execute(program, _words(columns, settings), settings.limit_s)
        answered = _read(columns, programs.rows_of("bench_message", finished.out), heading)
        if not heading and finished.error is not None:
            raise finished.error
        if finished.error is not None:
            for column in columns[answered:]:
                column.why_not = column.why_not or str(finished.error)
    return {
        **preamble("paths", where, asdict(settings)),
        "device": heading.get("device", settings.device),
        "device_kind": heading.get("device_kind", settings.device),
        "ranks": "2 processes",
        "mode": "ping-pong, one way",
        "onstream": heading,
        "rows": [row for column in columns for row in _rows(column)],
        "reasons": [
            {**_key(column), "from_bytes": _first_missing(column), "why": column.why_not}
            for column in columns
            if column.why_not
        ],
    }


def _columns(settings: Settings) -> list[Column]:
    cases = [
        case_of(settings.device, "ping-pong", settings.submission, size, quick=True)
        for size in sorted(settings.sizes or TABLE_SIZES[settings.device])
    ]
    return [
        Column(Variant(path, None, source, target), cases)
        for source in settings.kinds
        for target in settings.kinds
        for path in settings.paths
    ]


def _words(columns: list[Column], settings: Settings) -> tuple[str, ...]:
    words = ["--samples", str(settings.samples)]
    for number, column in enumerate(columns):
        words += ["--then"] if number else []
        words += [*column.variant.options(), *map(str, column.cases)]
    return tuple(words)


def _read(columns: list[Column], rows: list[dict[str, Any]], heading: dict[str, Any]) -> int:
    """Gives each row to its column; returns how many columns were begun."""
    number = 0
    begun = 1
    for row in rows:
        if "group" in row:
            number, begun = row["group"], row["group"] + 1
        elif "error" in row:
            columns[number].why_not = programs.reason_of(row["error"])
        elif "samples_s" in row:
            case = Case(row["mode"], row["submission"], row["bytes"], row["iterations"], row["window"])
            columns[number].rounds_s.setdefault(case, []).append(row["samples_s"])
        elif not heading:
            heading.update(row)
    return begun


def _key(column: Column) -> dict[str, Any]:
    return {"source": column.variant.source, "target": column.variant.target, "path": column.variant.path}


def _first_missing(column: Column) -> int:
    return next((case.bytes for case in column.cases if case not in column.rounds_s), 0)


def _rows(column: Column) -> Iterator[dict[str, Any]]:
    for case, rounds_s in column.rounds_s.items():
        summary = summarize(rounds_s)
        yield {
            **_key(column),
            **asdict(case),
            **asdict(summary),
            "bytes_per_s": case.bytes / summary.median_s,
        }


def pairs_of(result: dict[str, Any]) -> list[tuple[str, str]]:
    kinds = result["settings"]["kinds"]
    return [(source, target) for source in kinds for target in kinds]


def table_of(result: dict[str, Any], pair: tuple[str, str]) -> dict[int, dict[str, float]]:
    """Bytes to path to median seconds, for one pair of memories."""
    table: dict[int, dict[str, float]] = {}
    for row in result["rows"]:
        if (row["source"], row["target"]) == pair:
            table.setdefault(row["bytes"], {})[row["path"]] = row["median_s"]
    return dict(sorted(table.items()))


def crossovers_of(result: dict[str, Any], pair: tuple[str, str]) -> list[tuple[int, str]]:
    """From which size on which forced path is the fastest."""
    changes: list[tuple[int, str]] = []
    for size, cells in table_of(result, pair).items():
        forced = {path: seconds for path, seconds in cells.items() if path != "auto"}
        if not forced:
            continue
        best = min(forced, key=forced.__getitem__)
        if not changes or changes[-1][1] != best:
            changes.append((size, best))
    return changes


def reasons_of(result: dict[str, Any], pair: tuple[str, str]) -> list[dict[str, Any]]:
    return [one for one in result["reasons"] if (one["source"], one["target"]) == pair]


def check(result: dict[str, Any]) -> None:
    """Throws if automatic choice could not carry something: that is no path's limit but a fault."""
    failed = [one for one in result["reasons"] if one["path"] == "auto"]
    if failed:
        one = failed[0]
        raise Error(
            f"messages from {one['source']} to {one['target']} memory failed without a forced path: {one['why']}"
        )
