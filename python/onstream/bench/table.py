"""Results as tables: text for the terminal, Markdown for README. Every table names its mode, submission and memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from ..errors import InvalidArgumentError
from . import bars
from .cases import GIB, KIB, MIB, RINGS
from .peers import TITLES

SUBMISSION_TITLES = {
    "host": "the host waits for each",
    "eager": "stream-ordered, eager",
    "captured": "stream-ordered, captured in a graph",
}
QUICK = "quick run, no verdict"
BUSY = 0.5  # load of others, per core, above which a run says that it is disturbed

# The sizes that go into README; all others are in the file.
HEAD_SIZES = {
    "ping-pong": (8, 64 * KIB, MIB, 256 * MIB),
    "pipelined": (8, MIB),
    "ring": (8, 256 * KIB, 2 * MIB, GIB),
    "ring-plan": (8, 256 * KIB, 2 * MIB, GIB),
    "aggregated": (8,),
}


def size_text(size: int) -> str:
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def time_text(seconds: float) -> str:
    us = seconds * 1e6
    if us < 0.01:
        return f"{us * 1e3:.2g} ns"
    if us < 1:
        return f"{us * 1e3:.0f} ns"
    return f"{us:.2f} us" if us < 100 else f"{us:.0f} us"


def rate_text(bytes_per_s: float) -> str:
    for scale, unit in ((1e9, "GB/s"), (1e6, "MB/s")):
        if bytes_per_s >= scale / 10:
            return f"{bytes_per_s / scale:.{0 if bytes_per_s >= 100 * scale else 2}f} {unit}"
    return f"{bytes_per_s / 1e3:.2f} kB/s"


def warnings_of(result: dict[str, Any]) -> list[str]:
    """Why the figures of a result, of any kind, are to be taken with care. For the terminal and the page."""
    warnings = []
    where = result["environment"]
    load, cores = where["load_1min"], where["cores"]
    if load > cores * BUSY:
        warnings.append(f"This machine was busy before the run (load {load:g} on {cores} cores): keep no figure of it.")
    if stopped := result.get("stopped"):
        warnings.append(f"This run was {stopped['by']} after {stopped['cases']} of {stopped['of']} cases.")
    return warnings


def lines_of(result: dict[str, Any]) -> list[str]:
    """The terminal's table: one block for each mode, submission, memory and library."""
    lines = [heading_of(result)]
    columns = f"{'size':>10} {'median':>11} {'min':>11} {'p25':>11} {'p75':>11} {'max':>11} {'bandwidth':>12}"
    group = None
    for row in result["rows"]:
        key = (row["who"], row["mode"], row["submission"], row["memory"], row["path"], row.get("max_blocks"))
        if key != group:
            group = key
            cap = f", at most {row['max_blocks']} blocks" if row.get("max_blocks") else ""
            lines += [
                "",
                f"{TITLES[row['who']]}: {row['mode']} ({what_of(row)}), {SUBMISSION_TITLES[row['submission']]}, "
                f"{row['memory']} memory, path {row['path']}{cap}",
                f"{columns} {'messages/s':>11}",
            ]
        times = " ".join(f"{time_text(row[name]):>11}" for name in ("median_s", "min_s", "p25_s", "p75_s", "max_s"))
        rate = rate_text(row["bytes_per_s"])
        lines.append(f"{size_text(row['bytes']):>10} {times} {rate:>12} {row['messages_per_s']:>11.3g}")
    return [*lines, "", *verdict_lines(result)]


def what_of(row: dict[str, Any]) -> str:
    """The event whose time one figure of the row's mode is."""
    return {
        "ping-pong": "half a round trip",
        "ring": "one step: send to the next, receive from the last",
        "ring-plan": "one step, a plan: send to the next, receive from the last",
        "separate": f"{row['window']} messages, each its own operation",
        "aggregated": f"{row['window']} messages posted together",
    }.get(row["mode"], f"window of {row['window']}")


def heading_of(result: dict[str, Any]) -> str:
    settings = result["settings"]
    return (
        f"{result['device']}, {result['ranks']}; median of {settings['rounds']} rounds of {settings['samples']} "
        f"samples; {result['onstream']['library']}, {result['onstream']['build_type']} build"
    )


def word_of(verdict: dict[str, Any], result: dict[str, Any]) -> str:
    """The first word of a line about a bar. A quick run shows that things work; its figures judge nothing."""
    if _is_quick(result):
        return f"{QUICK}: {'holds' if verdict['holds'] else 'missed'}"
    return "holds " if verdict["holds"] else "MISSED"


def _is_quick(result: dict[str, Any]) -> bool:
    return bool(result["settings"].get("quick", False))


def why_missed(verdict: dict[str, Any]) -> str:
    """Where the time goes, behind the line of a bar that is missed."""
    return "" if verdict["holds"] or not verdict.get("why") else f"; where it goes: {verdict['why']}"


def not_run_lines(whats: Iterable[tuple[str, str]]) -> list[str]:
    """The lines about bars without a verdict, each given as its subject and reason: one line for each reason."""
    by_reason: dict[str, list[str]] = {}
    for what, why in whats:
        by_reason.setdefault(why, []).append(what)
    return [f"not run ({why}): {'; '.join(found)}" for why, found in by_reason.items()]


def verdict_lines(result: dict[str, Any]) -> list[str]:
    lines = []
    for verdict in result["verdicts"]:
        word = word_of(verdict, result)
        sign = "<=" if verdict["quantity"] == "latency" else ">="
        unit = verdict["unit"]
        what = f"{size_text(verdict['bytes'])} {verdict['quantity']}, {how_of(verdict)}, {verdict['memory']} memory"
        figure = f"{verdict['value']:.2f} {unit} (bar: {sign} {verdict['limit']:g})"
        if verdict["against"]:
            peer = f"{TITLES[verdict['against']]} {time_text(verdict['peer_median_s'])}"
            figure += f"; onstream {time_text(verdict['median_s'])}, {peer}"
        elif verdict.get("peer"):
            figure += f"; peers: {verdict['peer']}"
        lines.append(f"{word} {what}: {figure}{why_missed(verdict)}")
    lines += _not_run(result)
    if not lines:
        lines.append("no bar was stated for this device")
    lines += _failed(result)
    for name, why in result["peers_missing"].items():
        lines.append(f"without {TITLES[name]}: {why}")
    return lines


def _failed(result: dict[str, Any]) -> list[str]:
    """The cases that a path could not carry: one line for each reason. Results from before this was told have none."""
    by_reason: dict[str, list[str]] = {}
    for one in result.get("cases_missing", []):
        what = f"{one['mode']} {one['submission']}, {one['memory']} memory, path {one['path']}"
        by_reason.setdefault(one["why"], []).append(f"{what}, from {size_text(one['bytes'])} on")
    return [f"no {'; '.join(whats)}: {why}" for why, whats in by_reason.items()]


def _not_run(result: dict[str, Any]) -> list[str]:
    return not_run_lines(
        (f"{size_text(bar.bytes)} {bar.quantity}, {how_of({**asdict(bar), 'via': mode})}", why)
        for bar, mode, why in bars.not_run(result)
    )


def how_of(verdict: dict[str, Any]) -> str:
    """Mode, submission, and the forced path and blocks."""
    how = f"{verdict['via']} {verdict['submission']}"
    if verdict["path"] != "auto":
        how += f", path {verdict['path']}"
    if verdict["max_blocks"]:
        how += f", at most {verdict['max_blocks']} blocks"
    return how


def markdown_of(result: dict[str, Any], file: str) -> list[str]:
    """README's table of one result: device and settings, then a row a mode and size, a column a library."""
    if result.get("schema") != 1 or result.get("kind") != "message":
        raise InvalidArgumentError(f"{file} is no result of `onstream bench message` with schema 1")
    plain = [row for row in result["rows"] if row["path"] in ("auto", "its own") and not row.get("max_blocks")]
    rows = [row for row in plain if row["bytes"] in HEAD_SIZES.get(row["mode"], ())]
    columns = list(dict.fromkeys((row["who"], row["memory"]) for row in rows))
    where = result["environment"]
    hardware = result["device"] if result["device_kind"] == "cuda" else f"{where['cpu']}, {where['cores']} cores"
    peers = "".join(f", {short_version(name, peer['library'])}" for name, peer in result["peers"].items())
    commit = (where["git"] or {}).get("commit", "unknown")[:10]
    titles = [f"{TITLES[who]}, {memory} memory" for who, memory in columns]
    head = [
        f"Messages between {result['ranks']} on {hardware}, {where['date'][:10]}: median of "
        f"{result['settings']['rounds']} rounds of {result['settings']['samples']} samples; commit {commit}{peers} ([all figures]({file})).",
        "",
        "| mode | submission | size | " + " | ".join(titles) + " |",
        "|---" * (3 + len(columns)) + "|",
    ]
    keys = list(dict.fromkeys((row["mode"], row["submission"], row["bytes"]) for row in rows))
    return [*head, *(_markdown_row(key, columns, rows) for key in keys), *_markdown_bars(result)]


def _markdown_bars(result: dict[str, Any]) -> list[str]:
    """The bars, and the best figure reached for each."""
    missing = [TITLES[name] for name in result["peers_missing"]]  # the result tells why
    notes = ["", f"Not in this run: {', '.join(missing)}."] if missing else []
    notes += [part for line in _not_run(result) for part in ("", f"Bars {line}.")]
    rows = [_markdown_bar(verdict, result) for verdict in result["verdicts"]]
    head = ["", "| what | bar | reached | |", "|---|---|---|---|"] if rows else []
    return [*head, *rows, *notes]


def _markdown_bar(verdict: dict[str, Any], result: dict[str, Any]) -> str:
    sign = "<=" if verdict["quantity"] == "latency" else ">="
    memory = "" if verdict["hardware"] else f", {verdict['memory']} memory"
    what = f"{size_text(verdict['bytes'])} {verdict['quantity']}, {how_of(verdict)}{memory}"
    unit = f"x {TITLES[verdict['against']]}" if verdict["against"] else verdict["unit"]
    reached = f"{verdict['value']:.3g} {unit}"
    note = QUICK if _is_quick(result) else "" if verdict["holds"] else "missed"
    return f"| {what} | {sign} {verdict['limit']:g} {verdict['unit']} | {reached} | {note} |"


def short_version(name: str, library: str) -> str:
    """Open MPI and MPICH tell their version in a long line."""
    words = [word.strip("v,") for word in library.split()]
    number = next((word for word in words if word[:1].isdigit() and "." in word), "")
    return f"{TITLES[name]} {number}".strip()


def _markdown_row(key: tuple[str, str, int], columns: list[tuple[str, str]], rows: list[dict[str, Any]]) -> str:
    mode, submission, size = key
    cells = []
    for who, memory in columns:
        row = next((one for one in rows if (one["who"], one["memory"]) == (who, memory) and _key(one) == key), None)
        cells.append(_figure(row) if row else "-")
    named = f"{mode}, one way" if mode == "ping-pong" else f"{mode}"
    return f"| {named} | {SUBMISSION_TITLES[submission]} | {size_text(size)} | " + " | ".join(cells) + " |"


def _key(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["mode"], row["submission"], row["bytes"]


def _figure(row: dict[str, Any]) -> str:
    """Times for rows that are bound by latency, bandwidth for those bound by bytes."""
    if row["mode"] in ("ping-pong", *RINGS) and row["bytes"] < MIB:
        return time_text(row["median_s"])
    if row["bytes"] < KIB:
        return f"{row['messages_per_s'] / 1e6:.2f} M/s"
    return rate_text(row["bytes_per_s"])
