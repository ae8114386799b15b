"""The page of results: self-contained HTML, made from the files of --json; several results make one page.

Every plot and table names its mode, submission and memory. Bands are the quartiles of all samples. The hardware's limits
come from floors.json. Nothing is fetched, and the page follows the reader's light or dark.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import InvalidArgumentError
from . import am, applications, collective, one_sided, paths, upc
from .cases import RINGS
from .lines import (
    changes_of,
    collective_verdicts,
    figure,
    first_held,
    lines_of_any,
    one_sided_verdicts,
    setup_verdicts,
    short_how,
)
from .peers import TITLES
from .ping_kernel_pong import WAYS
from .plot import Line, Plot, Point, Rule, svg
from .table import SUBMISSION_TITLES, heading_of, rate_text, size_text, time_text, verdict_lines, warnings_of

COLOURS = {"onstream": 0, "nccl": 1, "nvshmem": 2, "openmpi": 3, "mpich": 4, "mpi-here": 5}
PATH_COLOURS = {"auto": 0, "ll": 1, "store": 2, "load": 3, "copy": 4, "stage": 5, "memop": 6}
WAY_COLOURS = {"synchronous": 3, "ordered": 0, "captured": 1}
STYLE_FILE = Path(__file__).with_name("report.css")
FLOORS_FILE = Path(__file__).with_name("floors.json")

MODE_TITLES = {
    "ping-pong": "Ping-pong, one way",
    "pipelined": "Pipelined, one way",
    "bidirectional": "Both ways at once",
    "ring": "Ring: send to the next, receive from the last",
    "separate": "One by one",
    "aggregated": "Posted together",
}


def write(results: list[dict[str, Any]], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page(results), encoding="utf-8")


def page(results: list[dict[str, Any]]) -> str:
    unknown = [str(result.get("kind")) for result in results if result.get("kind") not in SECTIONS]
    if unknown or not results:
        raise InvalidArgumentError(
            f"no page can be made of {', '.join(unknown) or 'nothing'}; there are {', '.join(SECTIONS)}"
        )
    body = "\n".join(part for result in results for part in _section(result))
    first = results[0]
    where = first["environment"]
    commit = (where.get("git") or {}).get("commit", "unknown")[:10]
    facts = [first["device"], f"{where['cpu']}, {where['cores']} cores", where["date"][:10], f"commit {commit}"]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>onstream: measured</title>
<style>
{STYLE_FILE.read_text(encoding="utf-8")}</style>
</head>
<body>
<header>
<h1>onstream <span>measured</span></h1>
<p>{_facts(facts)}</p>
</header>
<main>
{body}
</main>
<footer>{_footer(results)}</footer>
</body>
</html>
"""


def _section(result: dict[str, Any]) -> Iterator[str]:
    for number, part in enumerate(SECTIONS[result["kind"]](result)):
        yield part
        if number == 0:  # the section's title
            yield from (f'<p class="warning">{html.escape(warning)}</p>' for warning in warnings_of(result))


def _facts(facts: list[str]) -> str:
    return " ".join(f"<span>{html.escape(fact)}</span>" for fact in facts if fact)


def _footer(results: list[dict[str, Any]]) -> str:
    commands = "".join(f"<li><code>{html.escape(result['command'])}</code></li>" for result in results)
    return f"<p>Made by</p><ul>{commands}</ul>"


# --- messages ---


def _messages(result: dict[str, Any]) -> Iterator[str]:
    yield f"<section><h2>Messages</h2><p>{html.escape(heading_of(result))}. Bands: quartiles of all samples.</p>"
    yield _verdicts(verdict_lines(result))
    for mode, submission, rows in _groups(result["rows"]):
        title = f"{MODE_TITLES[mode]} · {submission}"
        yield f"<article><h3>{html.escape(title)}</h3><p>{_what(rows, result)}</p>"
        floors = floors_of(result, submission)
        yield _legend(rows, floors)
        latency, bandwidth = _message_plots(title, rows, floors)
        yield f'<div class="pair"><figure>{latency}</figure><figure>{bandwidth}</figure></div>'
        yield _message_table(rows)
        yield "</article>"
    yield "</section>"


def _groups(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Mode and how it is submitted. If a peer has only cases where the host waits, they stand beside those ordered on
    a stream; ring and ring-plan are one."""
    keys = list(dict.fromkeys((_mode(row), row["submission"]) for row in rows if row["who"] == "onstream"))
    for mode, submission in keys:
        own = [row for row in rows if (_mode(row), row["submission"]) == (mode, submission)]
        here = {row["who"] for row in own}
        others = [
            row
            for row in rows
            if row["who"] not in here
            and _mode(row) == mode
            and row["submission"] == "host"
            and submission == "captured"
        ]
        yield mode, SUBMISSION_TITLES[submission], own + others


def _mode(row: dict[str, Any]) -> str:
    return "ring" if row["mode"] in RINGS else str(row["mode"])


def _series(rows: list[dict[str, Any]]) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    series: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        series.setdefault(_key(row), []).append(row)
    return {key: sorted(points, key=lambda row: int(row["bytes"])) for key, points in series.items()}


def _key(row: dict[str, Any]) -> tuple[str, ...]:
    cap = f"at most {row['max_blocks']} blocks" if row.get("max_blocks") else ""
    path = row["path"] if row["path"] not in ("auto", "its own") else ""
    return row["who"], row["mode"], row["submission"], row["memory"], path, cap


def _labels(rows: list[dict[str, Any]]) -> dict[tuple[str, ...], str]:
    """A label of each line, with only the words that tell it from the others."""
    keys = list(_series(rows))
    memories = {key[3] for key in keys if key[0] == "onstream"}
    labels = {}
    for key in keys:
        who, mode, submission, memory, path, cap = key
        parts = [TITLES[who]]
        if mode == "ring-plan":
            parts.append("a plan")
        elif mode == "ring" and who == "onstream":
            parts.append("messages")
        if len(memories) > 1 or memory not in memories:
            parts.append(f"{memory} memory")
        if who != "onstream" and submission == "host":
            parts.append("the host waits")
        labels[key] = ", ".join([*parts, *(f"path {path}" if path else "", cap)]).rstrip(", ").replace(", , ", ", ")
    return labels


def _colours(rows: list[dict[str, Any]]) -> dict[tuple[str, ...], tuple[int, bool]]:
    """A colour a library; its further lines are dashed."""
    seen: dict[str, int] = {}
    colours = {}
    for key in _series(rows):
        number = seen.get(key[0], 0)
        seen[key[0]] = number + 1
        colours[key] = (COLOURS[key[0]] if number < 2 else 5 + number % 3, number == 1)
    return colours


def _message_plots(title: str, rows: list[dict[str, Any]], floors: list[dict[str, Any]]) -> tuple[str, str]:
    labels, colours = _labels(rows), _colours(rows)
    latency, bandwidth = [], []
    for key, points in _series(rows).items():
        colour, dashed = colours[key]
        drawn = [row for row in points if row["bytes"] > 0]
        latency.append(Line(labels[key], colour, tuple(_time_point(row) for row in drawn), dashed))
        bandwidth.append(Line(labels[key], colour, tuple(_rate_point(row) for row in drawn), dashed))
    sizes = sorted({row["bytes"] for row in rows if row["bytes"] > 0})
    times = tuple(_rule(one, n, sizes, as_rate=False) for n, one in enumerate(floors) if one["quantity"] != "bandwidth")
    rates = tuple(_rule(one, n, sizes, as_rate=True) for n, one in enumerate(floors) if one["quantity"] != "latency")
    return (
        svg(Plot(f"{title}: time", "time of one", size_tick, time_tick, tuple(latency), times)),
        svg(Plot(f"{title}: bandwidth", "bandwidth", size_tick, rate_tick, tuple(bandwidth), rates)),
    )


def _time_point(row: dict[str, Any]) -> Point:
    note = f"{size_text(row['bytes'])}, {time_text(row['median_s'])}"
    return Point(row["bytes"], row["median_s"], row["p25_s"], row["p75_s"], note)


def _rate_point(row: dict[str, Any]) -> Point:
    size = row["bytes"]
    note = f"{size_text(size)}, {rate_text(size / row['median_s'])}"
    return Point(size, size / row["median_s"], size / row["p75_s"], size / row["p25_s"], note)


def _rule(floor: dict[str, Any], number: int, sizes: list[int], *, as_rate: bool) -> Rule:
    def seconds(size: int) -> float:
        return float(floor["start_us"]) * 1e-6 + (size / (floor["GB_s"] * 1e9) if "GB_s" in floor else 0.0)

    points = tuple((float(size), size / seconds(size) if as_rate else seconds(size)) for size in sizes)
    return Rule(floor["label"], number, points)


def floors_of(result: dict[str, Any], submission: str) -> list[dict[str, Any]]:
    """The limits that were measured on this hardware, of messages between GPUs; submission as in SUBMISSION_TITLES."""
    if result["device_kind"] != "cuda":
        return []
    floors = json.loads(FLOORS_FILE.read_text())["floors"]
    titles = {SUBMISSION_TITLES[name]: name for name in SUBMISSION_TITLES}
    return [
        floor
        for floor in floors
        if floor["hardware"] in result["device"] and floor.get("submission") in (None, titles[submission])
    ]


def size_tick(size: float) -> str:
    return size_text(round(size)).replace("iB", "").replace(" ", " ")


def time_tick(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")):
        if seconds >= scale * (1 - 1e-9):
            return f"{seconds / scale:g} {unit}"
    return f"{seconds:g} s"


def rate_tick(bytes_per_s: float) -> str:
    for scale, unit in ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")):
        if bytes_per_s >= scale * (1 - 1e-9):
            return f"{bytes_per_s / scale:g} {unit}"
    return f"{bytes_per_s:g} B/s"


def _what(rows: list[dict[str, Any]], result: dict[str, Any]) -> str:
    memories = dict.fromkeys(row["memory"] for row in rows if row["who"] == "onstream")
    windows = {row["window"] for row in rows if row["mode"] in ("pipelined", "bidirectional", "aggregated", "separate")}
    parts = [f"{result['ranks']}, {' and '.join(memories)} memory"]
    if windows:
        parts.append(f"windows of {max(windows)}")
    return html.escape("; ".join(parts))


def _legend(rows: list[dict[str, Any]], floors: list[dict[str, Any]]) -> str:
    labels, colours = _labels(rows), _colours(rows)
    items = [_legend_item(labels[key], *colours[key]) for key in labels]
    for number, floor in enumerate(floors):
        rate = f", {floor['GB_s']:g} GB/s" if "GB_s" in floor else ""
        text = html.escape(f"limit: {floor['label']}, {floor['start_us']:g} us{rate}")
        swatch = f'<svg viewBox="0 0 34 10" aria-hidden="true"><path class="rule r{number}" d="M1 5 L33 5"/></svg>'
        items.append(f'<li class="limit" title="{html.escape(floor["source"], quote=True)}">{swatch}{text}</li>')
    return f'<ul class="legend">{"".join(items)}</ul>'


def _legend_item(label: str, colour: int, dashed: bool = False) -> str:
    style = " dashed" if dashed else ""
    return (
        f'<li><svg viewBox="0 0 34 10" aria-hidden="true"><path class="curve c{colour}{style}" d="M1 5 L33 5"/></svg>'
        f"{html.escape(label)}</li>"
    )


def _message_table(rows: list[dict[str, Any]]) -> str:
    labels = _labels(rows)
    series = _series(rows)
    sizes = sorted({row["bytes"] for row in rows})
    cells: dict[tuple[int, tuple[str, ...]], dict[str, Any]] = {
        (row["bytes"], key): row for key, points in series.items() for row in points
    }
    body = []
    for size in sizes:
        best = min(row["median_s"] for (at, _), row in cells.items() if at == size)
        columns = [_message_cell(cells.get((size, key)), best) for key in series]
        body.append([size_text(size), *columns])
    return _table(["size", *labels.values()], body)


def _message_cell(row: dict[str, Any] | None, best_s: float) -> str:
    if row is None:
        return "-"
    text = html.escape(figure(row["bytes"], row["median_s"]))
    return f"<b>{text}</b>" if row["median_s"] == best_s else text


# --- the others ---


def _paths(result: dict[str, Any]) -> Iterator[str]:
    how = SUBMISSION_TITLES[result["settings"]["submission"]]
    yield f"<section><h2>Paths</h2><p>{html.escape(result['device'])}; {html.escape(result['mode'])}, {html.escape(how)}.</p>"
    for pair in paths.pairs_of(result):
        table = paths.table_of(result, pair)
        names = [name for name in result["settings"]["paths"] if any(name in cells for cells in table.values())]
        title = f"{pair[0]} to {pair[1]} memory · {how}"
        yield f"<article><h3>{html.escape(title)}</h3>"
        lines = tuple(Line(name, PATH_COLOURS.get(name, 6), _path_points(result, pair, name)) for name in names)
        yield f'<ul class="legend">{"".join(_legend_item(line.label, line.colour) for line in lines)}</ul>'
        yield f"<figure>{svg(Plot(title, 'time, one way', size_tick, time_tick, lines))}</figure>"
        body = []
        for size, cells in table.items():
            forced = min((seconds for name, seconds in cells.items() if name != "auto"), default=0.0)
            body.append([size_text(size), *(_path_cell(name, size, cells, forced) for name in names)])
        yield _table(["size", *names], body)
        yield f"<p>Fastest: {html.escape(changes_of(result, pair))}.</p>"
        reasons = paths.reasons_of(result, pair)
        if reasons:
            items = [f"no {one['path']} from {size_text(one['from_bytes'])} on: {one['why']}" for one in reasons]
            yield f"<ul class='notes'>{''.join(f'<li>{html.escape(item)}</li>' for item in items)}</ul>"
        yield "</article>"
    yield "</section>"


def _path_points(result: dict[str, Any], pair: tuple[str, str], name: str) -> tuple[Point, ...]:
    rows = [row for row in result["rows"] if (row["source"], row["target"], row["path"]) == (*pair, name)]
    return tuple(_time_point(row) for row in sorted(rows, key=lambda row: int(row["bytes"])) if row["bytes"] > 0)


def _path_cell(name: str, size: int, cells: dict[str, float], best_s: float) -> str:
    if name not in cells:
        return "-"
    text = html.escape(figure(size, cells[name]))
    return f"<b>{text}</b>" if name != "auto" and cells[name] == best_s else text


def _aggregation(result: dict[str, Any]) -> Iterator[str]:
    yield f"<section><h2>Aggregation</h2><p>{html.escape(result['device'])}, {result['ranks']}; what one message costs when each is posted alone, and when all are prepared and posted at once.</p>"
    head = ["library", "submission", "size", "messages", "one by one", "all at once", "gain"]
    body = [
        [
            html.escape(TITLES[one["who"]]),
            SUBMISSION_TITLES[one["submission"]],
            size_text(one["bytes"]),
            str(one["count"]),
            time_text(one["separate_s"]),
            time_text(one["aggregated_s"]),
            f"<b>{one['gain']:.2f} x</b>" if one["gain"] > 1 else f"{one['gain']:.2f} x",
        ]
        for one in result["gains"]
    ]
    yield f"<article>{_table(head, body, words=2)}</article></section>"


def _startup(result: dict[str, Any]) -> Iterator[str]:
    yield f"<section><h2>Start-up and memory</h2><p>{html.escape(result['device'])}; the device is open before the clock starts.</p>"
    yield _verdicts(setup_verdicts(result))
    body = [
        [
            str(row["ranks"]),
            f"{row['start_s']:.3f} s",
            f"{row['first_s']:.3f} s",
            f"{row['device_bytes'] / 2**20:.2f} MiB",
            first_held(row),
        ]
        for row in result["rows"]
    ]
    head = ["ranks", "a world", "the first", "device memory of each rank", "with the code of the kernels"]
    yield f"<article>{_table(head, body)}</article></section>"


def _ping_kernel_pong(result: dict[str, Any]) -> Iterator[str]:
    settings = result["settings"]
    yield (
        f"<section><h2>Ping-kernel-pong</h2><p>{html.escape(result['device'])}, 2 processes; a step is wait, kernel, send "
        f"on both ranks; {size_text(settings['bytes'])}, {settings['steps_per_batch']} steps a batch, "
        f"{settings['batches_inflight']} batches in flight.</p>"
    )
    head = ["kernel", "driven", "step", "gain", "CPU of the caller, a step", "of the process"]
    body = [
        [
            f"{row['kernel_us']} us",
            WAYS[row["way"]],
            time_text(row["median_s"]),
            f"<b>{row['gain']:.2f} x</b>" if row["gain"] > 1 else f"{row['gain']:.2f} x",
            time_text(row["thread_cpu_s"]),
            time_text(row["process_cpu_s"]),
        ]
        for row in result["rows"]
    ]
    yield f"<article>{_table(head, body, words=2)}</article></section>"


def _one_sided(result: dict[str, Any]) -> Iterator[str]:
    yield (
        f"<section><h2>One-sided</h2><p>{html.escape(result['device'])}, {result['ranks']} processes; the time of one op, "
        "one way.</p>"
    )
    yield _verdicts(one_sided_verdicts(result))
    head = ["library", "what", "submission", "path", "size", "median", "min", "p25", "p75"]
    body = [
        [
            html.escape(TITLES.get(row["who"], row["who"])),
            one_sided.TITLES[row["case"]],
            row["submission"],
            row["path"],
            size_text(row["bytes"]) if row["bytes"] else "",
            *(time_text(row[key]) for key in ("median_s", "min_s", "p25_s", "p75_s")),
        ]
        for row in result["rows"]
    ]
    yield f"<article>{_table(head, body, words=4)}</article></section>"


def _programs(result: dict[str, Any]) -> Iterator[str]:
    names = applications.names_of(result)
    yield (
        f"<section><h2>Programs</h2><p>{html.escape(result['device'])}, {result['ranks']} processes; medians of starts that "
        "alternate. Rows in which the peer is faster come first.</p>"
    )
    head = ["program", "case", "size", "figure", *names, "ratio"]
    body = [applications.cells_of(row, names) for row in result["rows"]]
    yield f"<article>{_table(head, body, words=4)}</article></section>"


def _am(result: dict[str, Any]) -> Iterator[str]:
    yield (
        f"<section><h2>Registered buffers</h2><p>{html.escape(result['device'])}; the host waits. A put one way, half of a "
        "ping-pong of 2 processes; and a step of a stencil, with and without bounce copies.</p>"
    )
    times = ("median_s", "min_s", "p25_s", "p75_s")
    head = ["memory", "size", "median", "min", "p25", "p75"]
    body = [[row["memory"], size_text(row["bytes"]), *(time_text(row[t]) for t in times)] for row in result["latency"]]
    yield f"<article>{_table(head, body, words=1)}</article>"
    head = ["memory", "size", *am.STEP_TITLES]
    body = [
        [row["memory"], size_text(row["bytes"]), *(time_text(step * 1e-9) for step in row["steps_ns"])]
        for row in result["steps"]
    ]
    yield f"<article>{_table(head, body, words=1)}</article>"
    head = ["way", "torus", "tile", "median", "min", "p25", "p75"]
    body = [
        [row["way"], row["torus"], f"{row['nx']}x{row['ny']}", *(time_text(row[t]) for t in times)]
        for row in result["stencil"]
    ]
    yield f"<article>{_table(head, body, words=3)}</article></section>"


def _upc(result: dict[str, Any]) -> Iterator[str]:
    yield (
        f"<section><h2>UPC</h2><p>{html.escape(result['device'])}, {result['device_kind']} device memory; the host waits "
        "for each call. Naive: copies into and out of temporary buffers, and two barriers.</p>"
    )
    head = ["what", "way", "path", "threads", "size", "median", "min", "p25", "p75"]
    body = [
        [
            upc.TITLES[row["case"]],
            upc.WAYS[row["way"]],
            row["path"],
            str(row["threads"]),
            f"{row['size']} x {row['size']}" if row["case"] == "matmul" else size_text(row["bytes"]),
            *(time_text(row[key]) for key in ("median_s", "min_s", "p25_s", "p75_s")),
        ]
        for row in result["rows"]
    ]
    yield f"<article>{_table(head, body, words=3)}</article></section>"


def _collectives(result: dict[str, Any]) -> Iterator[str]:
    heading, *_ = lines_of_any(result)
    yield f"<section><h2>Collectives</h2><p>{html.escape(heading)}. Bands: quartiles of all samples.</p>"
    yield _verdicts(collective_verdicts(result))
    for kind in dict.fromkeys(row["kind"] for row in result["rows"]):
        rows = [row for row in result["rows"] if row["kind"] == kind]
        yield f"<article><h3>{html.escape(kind)}</h3>"
        series: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            label = f"{collective.TITLES[row['who']]}, {row['type']}, {row['submission']}"
            series.setdefault(label, []).append(row)
        drawn = {label: [row for row in points if row["bytes"]] for label, points in series.items() if len(points) > 1}
        times = [Line(label, n % 8, tuple(map(_time_point, points))) for n, (label, points) in enumerate(drawn.items())]
        rates = [Line(label, n % 8, tuple(map(_bus_point, points))) for n, (label, points) in enumerate(drawn.items())]
        if times:
            items = "".join(_legend_item(line.label, line.colour) for line in times)
            yield f'<ul class="legend">{items}</ul>'
            time = svg(Plot(f"{kind}: time", "time of one", size_tick, time_tick, tuple(times)))
            bus = svg(Plot(f"{kind}: bus bandwidth", "bus bandwidth", size_tick, rate_tick, tuple(rates)))
            yield f'<div class="pair"><figure>{time}</figure><figure>{bus}</figure></div>'
        head = ["library", "type", "submission", "algorithm", "size", "time", "algbw", "busbw", "wrong"]
        body = [
            [
                html.escape(collective.TITLES[row["who"]]),
                row["type"],
                row["submission"],
                html.escape(short_how(row["how"])),
                size_text(row["bytes"]),
                time_text(row["median_s"]),
                rate_text(row["algorithm_bytes_per_s"]),
                rate_text(row["bus_bytes_per_s"]),
                str(row["wrong"]),
            ]
            for row in rows
        ]
        yield f"{_table(head, body, words=4)}</article>"
    yield "</section>"


def _bus_point(row: dict[str, Any]) -> Point:
    factor = row["bus_bytes_per_s"] * row["median_s"]
    note = f"{size_text(row['bytes'])}, {rate_text(row['bus_bytes_per_s'])}"
    return Point(row["bytes"], row["bus_bytes_per_s"], factor / row["p75_s"], factor / row["p25_s"], note)


# --- parts ---


def _table(head: list[str], body: list[list[str]], words: int = 1) -> str:
    """Cells are HTML; the head is text. The first columns, `words` of them, are words and not numbers."""
    kinds = [' class="word"' if number < words else "" for number in range(len(head))]
    top = "".join(f"<th{kind}>{html.escape(cell)}</th>" for kind, cell in zip(kinds, head, strict=True))
    rows = "".join(
        "<tr>" + "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in body
    )
    return f'<div class="table"><table><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table></div>'


def _verdicts(lines: list[str]) -> str:
    items = []
    for line in lines:
        kind = "holds" if line.startswith("holds") else "missed" if line.startswith("MISSED") else "note"
        text = line.removeprefix("holds").removeprefix("MISSED").strip()
        items.append(f'<li class="{kind}">{html.escape(text)}</li>')
    return f'<ul class="verdicts">{"".join(items)}</ul>'


SECTIONS = {
    "message": _messages,
    "paths": _paths,
    "aggregation": _aggregation,
    "startup": _startup,
    "ping-kernel-pong": _ping_kernel_pong,
    "one_sided": _one_sided,
    "collective": _collectives,
    "am": _am,
    "programs": _programs,
    "upc": _upc,
}
