"""The report: one HTML page that needs nothing else. write() takes an Outcome; blocks only for drawing and one file."""

from __future__ import annotations

import html
import json
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from . import raster, svg
from .outcome import Outcome, clock, coordinates
from .sea import COURANT, EARTH_RADIUS_M, GRAVITY, SHALLOWEST_M
from .voyage import EDGE

PLAYER_PIXELS = 860
PANEL_PIXELS = 560
PANELS = 6


def write(outcome: Outcome, path: Path) -> None:
    path.write_text(render(outcome), encoding="utf-8")


def render(outcome: Outcome) -> str:
    limit = wave_limit(outcome)
    sections = [
        _head(outcome),
        _player(outcome, limit),
        _tiles(outcome),
        _panels(outcome, limit),
        _highest(outcome),
        _gauges(outcome),
        _times(outcome),
        _halo(outcome),
        _checks(outcome),
        _method(outcome),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>onstream demo: a tsunami over {html.escape(outcome.place())}</title>\n"
        f"<style>\n{_asset('style.css')}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(sections)
        + f"\n</main>\n<script>\n{_asset('player.js')}</script>\n</body>\n</html>\n"
    )


def wave_limit(outcome: Outcome) -> float:
    """The height at which the colour scale ends: the wave stays below it once it has left its source."""
    later = outcome.frames[max(1, len(outcome.frames) // 10) :]
    wet = outcome.sea.wet
    sample = np.stack([frame[wet] for frame in (later if len(later) else outcome.frames)[::4]])
    return raster.nice_limit(sample)


def panel_frames(outcome: Outcome, count: int) -> list[int]:
    """Frames for still pictures: the start, then evenly to the end."""
    last = len(outcome.frames) - 1
    return sorted({round(k * last / (count - 1)) for k in range(count)}) if last > 0 else [0]


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _head(outcome: Outcome) -> str:
    where = coordinates(*outcome.source, outcome.sea.geographic)
    points = outcome.sea.points
    rank_word = "rank" if outcome.ranks == 1 else "ranks"
    return f"""<p class="eyebrow">onstream demo</p>
<h1>A tsunami over {html.escape(outcome.place())}</h1>
<p class="lead">A hump of water {outcome.hump_m:g} m high and {2 * outcome.radius_m / 1000:.0f} km wide is let go at {where}.
{outcome.ranks} {rank_word} on the {html.escape(outcome.device)} device follow it for {clock(outcome.hours * 60)}, through
{outcome.steps:,} time steps on {outcome.rows} &times; {outcome.columns} cells, interpolated from a map of {points[0]} &times;
{points[1]} points, and trade the edges of their blocks at
every step, on the stream, between two kernels.</p>"""


def _player(outcome: Outcome, limit: float) -> str:
    painter = raster.Painter(outcome.sea, PLAYER_PIXELS, limit)
    frame = svg.Frame(outcome.sea, painter)
    images = [raster.encode(painter.wave(field)) for field in outcome.frames]
    start = min(len(images) - 1, round(0.42 * len(images)))
    minutes = [outcome.minutes_at(k) for k in range(len(images))]
    data = {"images": images, "labels": [clock(m) for m in minutes], "minutes": minutes, "start": start}
    box = frame.box_percent()
    return f"""<div class="card">
<div class="player">
<img src="{images[start]}" alt="Wave heights after {clock(minutes[start])}" style="{box}">
<canvas id="wave" width="{painter.width}" height="{painter.height}" style="{box}"></canvas>
<svg viewBox="{frame.view_box()}" role="img" aria-label="Map of wave heights">{svg.coast(frame)}{svg.blocks(frame, outcome)}{svg.markers(frame, outcome)}{svg.axes(frame)}</svg>
</div>
<div class="controls"><button id="play" type="button">Play</button>
<input id="when" type="range" min="0" max="{len(images) - 1}" value="{start}" aria-label="Time after the start">
<output id="clock">{clock(minutes[start])}</output></div>
{_wave_scale(limit)}
</div>
{_stretched(painter)}
<script id="frames" type="application/json">{json.dumps(data)}</script>"""


def _stretched(painter: raster.Painter) -> str:
    if not painter.stretched:
        return ""
    across, tall = max(1 / painter.proportion, 1), max(painter.proportion, 1)
    return (
        f'<p class="soft">The maps are stretched: to scale they would be {across:,.0f} wide and {tall:,.0f} high.</p>'
    )


def _wave_scale(limit: float) -> str:
    colours = _css_colours(raster.wave_colours())
    bar = svg.colour_bar(limit, raster.ticks(limit), colours, True)
    return f'<div class="scale"><span>wave height, metres (colour follows the square root)</span>{bar}</div>'


def _css_colours(table: Any) -> list[str]:
    return [f"rgb({r:.0f},{g:.0f},{b:.0f})" for r, g, b in table[np.linspace(0, 255, 33).astype(int)]]


def _tiles(outcome: Outcome) -> str:
    updates = outcome.cells * outcome.steps
    tiles = (
        (f"{outcome.wall_s:.1f} s", f"for {clock(outcome.hours * 60)} of waves"),
        (f"{1e9 * outcome.wall_s / updates:.2f} ns", "per cell and step, all ranks together"),
        (f"{1e6 * outcome.wall_s / outcome.steps:.0f} µs", "per step"),
        (f"{outcome.ranks} = {outcome.grid[0]} x {outcome.grid[1]}", f"ranks, on the {outcome.device} device"),
        (f"{outcome.steps:,}", "halo exchanges, one plan"),
    )
    cells = "".join(
        f'<div class="card tile"><b>{html.escape(b)}</b><span>{html.escape(s)}</span></div>' for b, s in tiles
    )
    return f'<div class="tiles">{cells}</div>'


def _panels(outcome: Outcome, limit: float) -> str:
    painter = raster.Painter(outcome.sea, PANEL_PIXELS, limit)
    frame = svg.Frame(outcome.sea, painter)
    shared = svg.coast(frame) + svg.markers(frame, outcome, 0.9) + svg.axes(frame, 3)
    figures = []
    for k in panel_frames(outcome, PANELS):
        image = raster.encode(painter.wave(outcome.frames[k]))
        figures.append(
            f'<figure class="small"><figcaption>{clock(outcome.minutes_at(k))}</figcaption>'
            f'<svg viewBox="{frame.view_box()}"><image href="{image}" width="{frame.width}" height="{frame.height}"/>'
            f"{shared}</svg></figure>"
        )
    return f'<h2>The wave, moment by moment</h2>\n<div class="grid3">{"".join(figures)}</div>'


def _highest(outcome: Outcome) -> str:
    wet = outcome.sea.wet
    limit = raster.nice_limit(outcome.highest[wet])
    painter = raster.Painter(outcome.sea, PLAYER_PIXELS, limit)
    frame = svg.Frame(outcome.sea, painter)
    table = raster.sequential()
    image = raster.encode(painter.heights(outcome.highest, table))
    bar = svg.colour_bar(limit, [0.0, 0.04 * limit, 0.25 * limit, limit], _css_colours(table), False)
    return f"""<h2>How high it came, and when</h2>
<p class="soft">The highest water of the whole run. Dashed lines: predicted first arrival, from the speed of long waves
√(g h) alone, counted from the edge of the hump ({EDGE:g} radii, {EDGE * outcome.radius_m / 1000:.0f} km, from its middle).</p>
<div class="card"><svg viewBox="{frame.view_box()}"><image href="{image}" width="{frame.width}" height="{frame.height}"/>
{svg.arrivals(frame, outcome)}{svg.coast(frame)}{svg.markers(frame, outcome)}{svg.axes(frame)}</svg>
<div class="scale"><span>highest water, metres</span>{bar}</div></div>"""


def _gauges(outcome: Outcome) -> str:
    parts = []
    for number, gauge in enumerate(outcome.gauges):
        series = outcome.series[number]
        top = float(series.max()) if series.size else 0.0
        when = (int(series.argmax()) + 1) * outcome.time_step_s / 60 if series.size else 0.0
        parts.append(
            f'<div class="gauge-head"><span class="dot g{number % 4}"></span><b>{html.escape(gauge.name)}</b>'
            f'<span class="soft">{coordinates(gauge.x, gauge.y, outcome.sea.geographic)}, {gauge.depth_m:.0f} m deep; '
            f"highest {top:.2f} m after {clock(when)}</span></div>{svg.gauge_chart(outcome, number, gauge)}"
        )
    return f"""<h2>What the coast sees</h2>
<p class="soft">The water level at {len(outcome.gauges)} tide gauges, sampled at every step. Dashed: predicted first
arrival of the edge of the hump; its crest comes later.</p>
<div class="card">{"".join(parts)}</div>"""


def _times(outcome: Outcome) -> str:
    kinds = (
        ("compute", "kernels"),
        ("wait", "compute stream waits for the halo"),
        ("exchange", "halo moves bytes"),
        ("neighbour", "halo waits for neighbours"),
    )
    legend = "".join(f'<span><i style="background:var(--{kind})"></i>{text}</span>' for kind, text in kinds)
    hidden = "Each rank has two streams: the halo travels on one while the other updates the inside of the block."
    if outcome.captured and outcome.device == "host":
        hidden += (
            " On the host device one thread replays a captured step, so that ranks can share cores; a second one goes on"
            " with the inside when the neighbours keep the exchange waiting for a millisecond. --no-capture gives each"
            " stream its own thread."
        )
    if outcome.crowded():
        hidden += (
            f" Here {outcome.ranks} ranks share {outcome.cores} {'core' if outcome.cores == 1 else 'cores'}, so most of the"
            " waiting is for a turn: a rank that waits gives its core to one that has work."
        )
    speed_up = outcome.speed_up()
    if speed_up:
        hidden += f" All in all: {speed_up}."
    return f"""<h2>Where each step's time went</h2>
<p class="soft">{hidden}</p>
<div class="card"><div class="legend">{legend}</div>{svg.time_bars(outcome.times)}</div>"""


def _halo(outcome: Outcome) -> str:
    if not outcome.exchanges:
        return "<h2>Which path each halo took</h2><p>One rank has no neighbours, so no halo was exchanged.</p>"
    rows = "".join(
        f"<tr><td>{row['rank']}</td><td>{html.escape(row['kind'])} {'to' if row['kind'] == 'send' else 'from'} {row['peer']}</td>"
        f"<td>{html.escape(row['note'])}</td><td>{html.escape(row['layout'])}</td>"
        f'<td><span class="path">{html.escape(row["path"])}</span></td><td>{html.escape(row["why"])}</td></tr>'
        for row in outcome.exchanges
    )
    return f"""<h2>Which path each halo took, and why</h2>
<p class="soft">The plan as <code>plan.explain()</code> tells it. Rows of a block are contiguous; columns are strided and travel from
layout to layout.</p>
<div class="card scroll"><table><thead><tr><th>rank</th><th>op</th><th>halo</th><th>layout</th><th>path</th><th>why</th></tr></thead>
<tbody>{rows}</tbody></table></div>"""


def _checks(outcome: Outcome) -> str:
    items = "".join(
        f'<li><span class="mark {"ok" if c.passed else "failed"}">{"✓" if c.passed else "✗"}</span>'
        f"<span><b>{html.escape(c.name)}.</b> {html.escape(c.text)}</span></li>"
        for c in outcome.checks
    )
    return f'<h2>Checks</h2><div class="card"><ul class="checks">{items}</ul></div>'


def _method(outcome: Outcome) -> str:
    sea = outcome.sea
    narrowest, widest, tall = outcome.cell_m
    widths = f"{narrowest:.0f} to {widest:.0f} m &times; {tall:.0f} m"
    metric = (
        f"on a sphere of radius {EARTH_RADIUS_M / 1000:.0f} km, each row of cells with its own width R cos(latitude) Δlongitude"
        if sea.geographic
        else "on a plane"
    )
    finer = ": the computed grid is finer than what is known of the sea floor" if outcome.rows > sea.points[0] else ""
    replay = "captured once and replayed" if outcome.captured else "enqueued anew every time"
    return f"""<h2>Method</h2>
<p>Linear shallow-water equations {metric}, on a staggered (Arakawa C) grid, leapfrog in time: C. Goto, Y. Ogawa, N. Shuto and
F. Imamura, <i>Numerical method of tsunami simulation with the leap-frog scheme</i>, IUGG/IOC TIME project, IOC Manuals and
Guides 35, UNESCO 1997; no Coriolis force, no friction, no run-up. Coasts and the edges of the map are walls, so the wave comes
back from the ocean side and no water is lost. Water shallower than {SHALLOWEST_M:g} m counts as {SHALLOWEST_M:g} m. Linear
theory overstates heights in shallow water near the coast.</p>
<p>Cells are {widths}; the time step, {outcome.time_step_s:.3f} s, is {COURANT:g} of the stable limit 1/√(g h (1/Δx² + 1/Δy²)), g = {GRAVITY} m/s².
Double precision. A step is {replay}. Sea floor: {html.escape(sea.source)}, {sea.points[0]} &times; {sea.points[1]} points, interpolated
bilinearly{finer}.</p>
<footer>Made by <code>onstream demo</code>.</footer>"""
