"""Line plots over logarithmic axes as SVG text: no library, no network, colours from the page's style.

A Line is points with a band between two curves; a Rule is a limit, drawn in dots and dashes of its own. Colours and
dashes are CSS classes (c0 to c7, r0 to r3), so a page in the dark redraws nothing; the page has the legend.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 96, 16, 14, 52
MAX_TICKS = 9


@dataclass(frozen=True)
class Point:
    x: float
    y: float
    low: float
    high: float
    note: str  # shown under the pointer


@dataclass(frozen=True)
class Line:
    label: str
    colour: int
    points: tuple[Point, ...]
    dashed: bool = False


@dataclass(frozen=True)
class Rule:
    label: str
    number: int
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Plot:
    title: str
    y_label: str
    x_text: Callable[[float], str]
    y_text: Callable[[float], str]
    lines: tuple[Line, ...]
    rules: tuple[Rule, ...] = field(default=())


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return self.start + share * (self.end - self.start)


def svg(plot: Plot) -> str:
    """The plot, or an empty text when there is nothing to draw."""
    points = [point for line in plot.lines for point in line.points if point.x > 0 and point.y > 0]
    if not points:
        return ""
    x = _axis([point.x for point in points], LEFT, WIDTH - RIGHT, pad=1.0)
    spread = [value for point in points for value in (point.low, point.high)]
    limits = [value for rule in plot.rules for _, value in rule.points]
    y = _axis([*spread, *limits], HEIGHT - BOTTOM, TOP, pad=1.3)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(plot.title, quote=True)}">',
        *_grid(plot, x, y),
        *(_rule(rule, x, y) for rule in plot.rules),
        *(_band(line, x, y) for line in plot.lines),
        *(_curve(line, x, y) for line in plot.lines),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part)


def _axis(values: Sequence[float], start: float, end: float, *, pad: float) -> _Axis:
    low, high = min(values) / pad, max(values) * pad
    if high <= low * 1.01:
        low, high = low / 2, high * 2
    return _Axis(low, high, start, end)


def _grid(plot: Plot, x: _Axis, y: _Axis) -> list[str]:
    parts = [
        f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}"/>'
    ]
    for value in _ticks(y, 10.0, (1, 2, 5)):
        at = y.at(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{plot.y_text(value)}</text>'
        )
    for value in _ticks(x, 4.0, (1,)):
        at = x.at(value)
        parts.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(
            f'<text class="tick" x="{at:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{plot.x_text(value)}</text>'
        )
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text class="name" transform="translate(20 {middle:.0f}) rotate(-90)" text-anchor="middle">{html.escape(plot.y_label)}</text>'
    )
    centre = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="name" x="{centre:.0f}" y="{HEIGHT - 10}" text-anchor="middle">message size</text>')
    return parts


def _ticks(axis: _Axis, base: float, steps: tuple[int, ...]) -> list[float]:
    """Round values on the axis; the finer steps only where they fit."""
    first, last = math.floor(math.log(axis.low, base)), math.ceil(math.log(axis.high, base))
    for chosen in (steps, steps[:1]):
        values = [base**power * step for power in range(first, last + 1) for step in chosen]
        inside = [value for value in values if axis.low <= value * (1 + 1e-9) and value <= axis.high * (1 + 1e-9)]
        if len(inside) <= MAX_TICKS:
            return inside
    every = math.ceil(len(inside) / MAX_TICKS)
    return inside[::every]


def _inside(x: _Axis, y: _Axis, points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(x.at(a), y.at(b)) for a, b in points if x.low <= a <= x.high and y.low <= b <= y.high]


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + " L".join(f"{a:.1f} {b:.1f}" for a, b in points)


def _band(line: Line, x: _Axis, y: _Axis) -> str:
    if len(line.points) < 2:
        return ""
    there = [(x.at(point.x), y.at(point.high)) for point in line.points]
    back = [(x.at(point.x), y.at(point.low)) for point in reversed(line.points)]
    return f'<path class="band c{line.colour}" d="{_path(there + back)} Z"/>'


def _curve(line: Line, x: _Axis, y: _Axis) -> str:
    dashed = " dashed" if line.dashed else ""
    parts = [f'<path class="curve c{line.colour}{dashed}" d="{_path([(x.at(p.x), y.at(p.y)) for p in line.points])}"/>']
    for point in line.points:
        note = html.escape(f"{line.label}: {point.note}")
        parts.append(
            f'<circle class="dot c{line.colour}" cx="{x.at(point.x):.1f}" cy="{y.at(point.y):.1f}" r="3.2"><title>{note}</title></circle>'
        )
    return "\n".join(parts)


def _rule(rule: Rule, x: _Axis, y: _Axis) -> str:
    points = _inside(x, y, rule.points)
    return f'<path class="rule r{rule.number}" d="{_path(points)}"/>' if len(points) > 1 else ""
