"""Pieces of SVG: maps with axes, the gauges' curves, the bars of where time went.

Colours and fonts come from the page's style sheet (classes and custom properties), so one drawing serves light and dark.
Every function returns markup and reads nothing but its arguments.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bathymetry import Array
from .outcome import Outcome, RankTimes, clock
from .raster import Painter, signed_root
from .sea import Sea
from .voyage import PLACES, Gauge

LEFT, TOP, RIGHT, BOTTOM = 52, 8, 8, 30  # around a map, in its units
CONTOUR_CELLS = 300


class Frame:
    """Places on a map `width` units wide."""

    def __init__(self, sea: Sea, painter: Painter) -> None:
        self.sea = sea
        self.width, self.height = painter.width, painter.height
        self.west, self.east, self.south, self.north = sea.edges

    def x(self, x: float) -> float:
        return (x - self.west) / (self.east - self.west) * self.width

    def y(self, y: float) -> float:
        return (self.north - y) / (self.north - self.south) * self.height

    def view_box(self) -> str:
        return f"{-LEFT} {-TOP} {self.width + LEFT + RIGHT} {self.height + TOP + BOTTOM}"

    def box_percent(self) -> str:
        """CSS that puts an element where the map lies in the drawing."""
        across, down = self.width + LEFT + RIGHT, self.height + TOP + BOTTOM
        return (
            f"left:{100 * LEFT / across:.4f}%;top:{100 * TOP / down:.4f}%;"
            f"width:{100 * self.width / across:.4f}%;height:{100 * self.height / down:.4f}%"
        )


def axes(frame: Frame, wanted: int = 5) -> str:
    """Ticks and numbers along the western and southern edges, and a border."""
    parts = [f'<rect class="border" width="{frame.width}" height="{frame.height}"/>']
    for value in _round_values(frame.west, frame.east, wanted):
        x = frame.x(value)
        label = _degrees(value, "E", "W") if frame.sea.geographic else f"{value / 1000:g} km"
        parts.append(f'<path class="tick" d="M{x:.1f} {frame.height}v5"/>')
        parts.append(f'<text class="label" x="{x:.1f}" y="{frame.height + 20}" text-anchor="middle">{label}</text>')
    for value in _round_values(frame.south, frame.north, max(3, wanted - 1)):
        y = frame.y(value)
        label = _degrees(value, "N", "S") if frame.sea.geographic else f"{value / 1000:g} km"
        parts.append(f'<path class="tick" d="M0 {y:.1f}h-5"/>')
        parts.append(f'<text class="label" x="-9" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    return "".join(parts)


def lines(frame: Frame, x: Array, y: Array, field: Any, level: float) -> str:
    """The contour at a level of a field on points x, y as a path's data; computed on at most CONTOUR_CELLS each way."""
    from contourpy import contour_generator

    rows = np.unique(np.linspace(0, len(y) - 1, min(len(y), CONTOUR_CELLS)).astype(int))
    columns = np.unique(np.linspace(0, len(x) - 1, min(len(x), CONTOUR_CELLS)).astype(int))
    found: Any = contour_generator(x[columns], y[rows], field[np.ix_(rows, columns)]).lines(level)
    paths = []
    for line in found:
        points = [(frame.x(float(east)), frame.y(float(north))) for east, north in line]
        if len(points) > 2:
            paths.append("M" + "L".join(f"{east:.1f} {north:.1f}" for east, north in points))
    return "".join(paths)


def coast(frame: Frame) -> str:
    return f'<path class="coast" d="{lines(frame, frame.sea.x, frame.sea.y, frame.sea.elevation, 0.0)}"/>'


def blocks(frame: Frame, outcome: Outcome) -> str:
    """The borders between the ranks' blocks, and their numbers."""
    up, across = outcome.grid
    if up * across == 1:
        return ""
    rows, columns = outcome.rows, outcome.columns
    parts = []
    tops = [frame.height * (1 - (k * rows // up) / rows) for k in range(up + 1)]
    lefts = [frame.width * (k * columns // across) / columns for k in range(across + 1)]
    parts += [f'<path class="block" d="M0 {y:.1f}H{frame.width}"/>' for y in tops[1:-1]]
    parts += [f'<path class="block" d="M{x:.1f} 0V{frame.height}"/>' for x in lefts[1:-1]]
    for rank in range(up * across):
        x, y = lefts[rank % across] + 8, tops[rank // across + 1] + 17
        parts.append(f'<text class="block-name" x="{x:.1f}" y="{y:.1f}">rank {rank}</text>')
    return "".join(parts)


def arrivals(frame: Frame, outcome: Outcome) -> str:
    """Predicted arrival times as contours with labels, every half hour or hour."""
    travel = outcome.travel
    step = next(s for s in (5, 10, 15, 30, 60, 120) if outcome.hours * 60 / s <= 8 or s == 120)
    minutes = np.ma.masked_invalid(travel.time_s / 60)
    parts = []
    for level in np.arange(step, outcome.hours * 60, step):
        data = lines(frame, travel.x, travel.y, minutes, float(level))
        if data:
            parts.append(f'<path class="arrival" d="{data}"><title>{clock(float(level))}</title></path>')
    return "".join(parts)


def markers(frame: Frame, outcome: Outcome, size: float = 1.0) -> str:
    """The source, the gauges with their names, and known places of the map."""
    parts = []
    x, y = frame.x(outcome.source[0]), frame.y(outcome.source[1])
    r = 7 * size
    parts.append(f'<path class="source" d="M{x - r:.1f} {y:.1f}h{2 * r:.1f}M{x:.1f} {y - r:.1f}v{2 * r:.1f}"/>')
    names = {gauge.name for gauge in outcome.gauges}
    if frame.sea.geographic and size >= 1:
        for name, lon, lat in PLACES:
            inside = frame.west < lon < frame.east and frame.south < lat < frame.north
            if inside and name not in names:
                parts.append(f'<circle class="place" cx="{frame.x(lon):.1f}" cy="{frame.y(lat):.1f}" r="2.5"/>')
                parts.append(_name(frame, lon, lat, name, "place-name", 6))
    for number, gauge in enumerate(outcome.gauges):
        parts.append(
            f'<circle class="gauge g{number % 4}" cx="{frame.x(gauge.x):.1f}" cy="{frame.y(gauge.y):.1f}" r="{5 * size:g}"/>'
        )
        if size >= 1:
            parts.append(_name(frame, gauge.x, gauge.y, gauge.name, "gauge-name", 10))
    return "".join(parts)


def colour_bar(limit: float, values: Iterable[float], colours: Sequence[str], symmetric: bool) -> str:
    """A horizontal bar with ticks at `values`, metres, placed by the signed square root."""
    width, low = 320, -1.0 if symmetric else 0.0
    stops = "".join(f'<stop offset="{k / (len(colours) - 1):.3f}" stop-color="{c}"/>' for k, c in enumerate(colours))
    gradient = "wave-scale" if symmetric else "height-scale"
    parts = [
        f'<svg class="bar" viewBox="-26 0 {width + 52} 36" role="img" aria-label="Colour scale in metres">',
        f'<defs><linearGradient id="{gradient}">{stops}</linearGradient></defs>',
        f'<rect width="{width}" height="12" rx="2" fill="url(#{gradient})"/>',
    ]
    for value in values:
        x = (float(signed_root(value, limit)) - low) / (1.0 - low) * width
        sign = "+" if symmetric and value > 0 else "&minus;" if value < 0 else ""
        parts.append(f'<path class="tick" d="M{x:.1f} 12v4"/>')
        parts.append(f'<text class="label" x="{x:.1f}" y="30" text-anchor="middle">{sign}{abs(value):g}</text>')
    return "".join(parts) + "</svg>"


def gauge_chart(outcome: Outcome, number: int, gauge: Gauge) -> str:
    """Elevation over time at one gauge. The predicted arrival is a dashed line; the page's player moves a cursor."""
    width, height, left, bottom = 860, 120, 52, 24
    series = outcome.series[number]
    minutes = np.arange(1, len(series) + 1) * outcome.time_step_s / 60
    end = max(float(minutes[-1]) if len(minutes) else 1.0, 1e-9)
    top = _round_up(float(np.abs(series).max()) if series.size else 1.0)
    keep = extremes(series, 700)

    def at(k: int) -> str:
        return f"{left + minutes[k] / end * (width - left):.1f} {height / 2 - series[k] / top * (height / 2 - 6):.1f}"

    parts = [
        f'<svg class="chart gauge-chart" viewBox="0 0 {width} {height + bottom}" data-left="{left}" data-right="{width}" '
        f'data-end="{end:.4f}" role="img" aria-label="Wave height at {html.escape(gauge.name)}">'
    ]
    for value in (-top, 0.0, top):
        y = height / 2 - value / top * (height / 2 - 6)
        parts.append(f'<path class="{"zero" if value == 0 else "grid"}" d="M{left} {y:.1f}H{width}"/>')
        sign = "+" if value > 0 else "&minus;" if value < 0 else ""
        parts.append(
            f'<text class="label" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{sign}{abs(value):g} m</text>'
        )
    for value in _round_values(0.0, end, 8, (5, 10, 15, 30, 60, 120)):
        x = left + value / end * (width - left)
        parts.append(f'<text class="label" x="{x:.1f}" y="{height + 18}" text-anchor="middle">{_hours(value)}</text>')
    if math.isfinite(gauge.travel_s) and 0 < gauge.travel_s / 60 < end:
        x = left + gauge.travel_s / 60 / end * (width - left)
        parts.append(f'<path class="expected" d="M{x:.1f} 4V{height}"><title>predicted arrival</title></path>')
    if len(keep):
        parts.append(f'<path class="curve g{number % 4}" d="M{"L".join(at(int(k)) for k in keep)}"/>')
    parts.append(f'<path class="cursor" d="M0 0V{height}" visibility="hidden"/></svg>')
    return "".join(parts)


def time_bars(times: Sequence[RankTimes]) -> str:
    """Two bars a rank: the work of its compute stream and of its exchange stream in a step, to one scale."""
    width, left, bar, gap = 860, 128, 15, 15
    longest = max((max(t.compute + t.wait, t.move + t.neighbour) for t in times), default=1.0) or 1.0
    top = _round_up(longest)
    scale = (width - left - 70) / top
    height = len(times) * (2 * bar + 3 + gap) + 26
    parts = [f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="Time of a step by rank">']
    for value in np.linspace(0, top, 5):
        x = left + value * scale
        parts.append(f'<path class="grid" d="M{x:.1f} 0V{height - 22}"/>')
        parts.append(f'<text class="label" x="{x:.1f}" y="{height - 6}" text-anchor="middle">{value:g} µs</text>')
    for k, t in enumerate(times):
        y = k * (2 * bar + 3 + gap) + 4
        parts.append(f'<text class="rank" x="0" y="{y + bar + 6}">rank {t.rank}</text>')
        rows = (
            ("compute", (("compute", t.compute), ("wait", t.wait))),
            ("exchange", (("exchange", t.move), ("neighbour", t.neighbour))),
        )
        for line, (stream, pieces) in enumerate(rows):
            at, place = y + line * (bar + 3), float(left)
            parts.append(f'<text class="stream" x="{left - 8}" y="{at + bar - 3}" text-anchor="end">{stream}</text>')
            for kind, value in pieces:
                parts.append(
                    f'<rect class="time {kind}" x="{place:.1f}" y="{at}" width="{max(value * scale, 0):.1f}" height="{bar}">'
                    f"<title>rank {t.rank}, {kind}: {value:.1f} µs a step</title></rect>"
                )
                place += value * scale
            total = sum(value for _, value in pieces)
            parts.append(f'<text class="label" x="{place + 6:.1f}" y="{at + bar - 3}">{total:.0f} µs</text>')
    return "".join(parts) + "</svg>"


def _name(frame: Frame, x: float, y: float, name: str, kind: str, gap: float) -> str:
    at_x, at_y = frame.x(x), frame.y(y)
    right = at_x < frame.width * 0.82
    anchor = "start" if right else "end"
    return (
        f'<text class="{kind}" x="{at_x + (gap if right else -gap):.1f}" y="{at_y + 4:.1f}" '
        f'text-anchor="{anchor}">{html.escape(name)}</text>'
    )


def _degrees(value: float, positive: str, negative: str) -> str:
    return f"{abs(value):g}°{positive if value > 0 else negative if value < 0 else ''}"


def _hours(minutes: float) -> str:
    whole = round(minutes)
    return f"{whole // 60}:{whole % 60:02d} h"


def _round_values(low: float, high: float, wanted: int, steps: Sequence[float] | None = None) -> list[float]:
    """Round numbers between low and high, about `wanted` of them."""
    span = high - low
    if steps is None:
        unit = 10.0 ** math.floor(math.log10(span / wanted))
        steps = [unit * factor for factor in (1, 2, 5, 10)]
    step = next((s for s in steps if span / s <= wanted), steps[-1])
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(k * step, 10) for k in range(first, last + 1)]


def _round_up(value: float) -> float:
    if value <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(unit * factor for factor in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if unit * factor >= value * 0.999)


def extremes(series: Array, buckets: int) -> NDArray[np.int64]:
    """Indices that keep every bucket's lowest and highest sample, so that thinning hides no wave."""
    if len(series) <= 2 * buckets:
        return np.arange(len(series))
    keep = {0, len(series) - 1}
    for part in np.array_split(np.arange(len(series)), buckets):
        keep.update((int(part[series[part].argmin()]), int(part[series[part].argmax()])))
    return np.array(sorted(keep))
