"""Where a wave starts, when it gets where, and where to listen: choices made from the sea floor alone.

Travel times follow the speed of long waves, sqrt(g h), along shortest paths between cells and their sixteen neighbours
(the eight around and a knight's moves) on a coarse copy of the sea: up to three per cent too long, which is enough to choose
gauges and how long to simulate.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np

from ..errors import InvalidArgumentError
from .bathymetry import Array
from .sea import GRAVITY, Sea

COARSE = 160  # cells each way, about
EDGE = 3.0  # radii from the middle of a hump, where it is down to 1/90 of its height
GAUGE_DEPTH_M = 8.0

# Coastal places of the default map, in the order in which a wave from the ocean may reach them.
PLACES = (
    ("Ucluelet", -125.55, 48.94),
    ("Neah Bay", -124.62, 48.37),
    ("Port Angeles", -123.43, 48.12),
    ("Victoria", -123.37, 48.42),
    ("Vancouver", -123.16, 49.29),
    ("Nanaimo", -123.93, 49.17),
)
PREFERRED = ("Ucluelet", "Victoria", "Vancouver")


@dataclass(frozen=True)
class Gauge:
    name: str
    row: int
    column: int
    x: float
    y: float
    depth_m: float
    travel_s: float  # predicted; inf where the wave cannot come


@dataclass(frozen=True)
class Travel:
    """Predicted first arrival of the hump's edge on a coarse copy of the sea, seconds; inf on land and in waters the wave cannot reach."""

    time_s: Array
    x: Array  # of the coarse cells
    y: Array
    step_rows: int
    step_columns: int

    def at(self, row: int, column: int) -> float:
        rows, columns = self.time_s.shape
        return float(self.time_s[min(row // self.step_rows, rows - 1), min(column // self.step_columns, columns - 1)])

    def fine(self, shape: tuple[int, int]) -> Array:
        """On every cell of the sea."""
        rows = np.minimum(np.arange(shape[0]) // self.step_rows, self.time_s.shape[0] - 1)
        columns = np.minimum(np.arange(shape[1]) // self.step_columns, self.time_s.shape[1] - 1)
        return np.asarray(self.time_s[rows][:, columns])


def default_radius_m(sea: Sea) -> float:
    """A hump that fits the map: 1/20 of its shorter side, 15 km at most."""
    return min(15_000.0, min(sea.height_m * sea.rows, float(sea.width_m.mean()) * sea.columns) / 20)


def choose_source(sea: Sea, radius_m: float) -> tuple[float, float]:
    """The middle of the deepest water as wide as the hump, a radius away from the edges of the map."""
    up = max(1, round(radius_m / sea.height_m))
    across = max(1, round(radius_m / float(sea.width_m.mean())))
    mean = _box_mean(_box_mean(sea.depth_m, up, 0), across, 1)
    best = np.where(sea.wet, mean, -1.0)
    best[:up], best[-up:], best[:, :across], best[:, -across:] = -1, -1, -1, -1
    if best.max() < 0:  # a narrow sea: anywhere
        best = np.where(sea.wet, mean, -1.0)
    row, column = np.unravel_index(int(best.argmax()), best.shape)
    return float(sea.x[column]), float(sea.y[row])


def check_source(sea: Sea, source: tuple[float, float]) -> tuple[float, float]:
    """A user's source, which must be at sea."""
    row, column = sea.cell_at(*source, "the source")
    if not sea.wet[row, column]:
        raise InvalidArgumentError(
            f"the source at {source[0]:g},{source[1]:g} is on land, {sea.elevation[row, column]:.0f} m above the sea; "
            f"choose a place at sea, for instance {','.join(f'{v:.2f}' for v in choose_source(sea, default_radius_m(sea)))}"
        )
    return source


def travel(sea: Sea, source: tuple[float, float], radius_m: float = 0.0) -> Travel:
    """From the edge of a hump of this radius: EDGE radii from its middle, where little of it is left."""
    step_rows, step_columns = max(1, sea.rows // COARSE), max(1, sea.columns // COARSE)
    pick_rows, pick_columns = slice(step_rows // 2, None, step_rows), slice(step_columns // 2, None, step_columns)
    depth = sea.depth_m[pick_rows, pick_columns]
    dy = sea.height_m * step_rows
    dx = float(sea.width_m.mean()) * step_columns
    rows, columns = depth.shape
    slowness = np.where(depth > 0, 1.0 / np.sqrt(GRAVITY * np.maximum(depth, 1e-3)), np.inf)
    time = np.full(depth.shape, np.inf)
    row, column = sea.cell_at(*source, "the source")
    start = (min(row // step_rows, rows - 1), min(column // step_columns, columns - 1))
    slowness[start] = min(slowness[start], 1.0)
    east, north = sea.offsets_m(*source)
    distance = np.hypot(north[pick_rows][:, None], east[pick_columns][None, :])
    under = np.argwhere((distance < EDGE * radius_m) & (depth > 0))
    steps = [(j, i, math.hypot(j * dy, i * dx)) for j in range(-2, 3) for i in range(-2, 3) if math.gcd(j, i) == 1]
    queue = [(0.0, *start), *((0.0, int(j), int(i)) for j, i in under)]
    for _, j, i in queue:
        time[j, i] = 0.0
    while queue:
        now, j, i = heapq.heappop(queue)
        if now > time[j, i]:
            continue
        for dj, di, metres in steps:
            to = (j + dj, i + di)
            if not (0 <= to[0] < rows and 0 <= to[1] < columns):
                continue
            slow = slowness[j, i] + slowness[to]
            if dj * dj + di * di == 5:  # a knight's move passes between two cells, of which neither may be land
                slow = 0.5 * (
                    slow
                    + slowness[j + int(dj / 2), i + int(di / 2)]
                    + slowness[to[0] - int(dj / 2), to[1] - int(di / 2)]
                )
            then = now + metres * 0.5 * slow
            if then < time[to]:
                time[to] = then
                heapq.heappush(queue, (then, *to))
    return Travel(time, sea.x[pick_columns], sea.y[pick_rows], step_rows, step_columns)


def hours_to_simulate(times: Travel) -> float:
    """Until the wave has been in nine tenths of the water it can reach, and some more; half hours, six at most."""
    reached = times.time_s[np.isfinite(times.time_s)]
    hours = 1.5 * float(np.quantile(reached, 0.9)) / 3600
    return min(6.0, max(0.5, math.ceil(2 * hours) / 2)) if hours > 0.25 else max(hours, 1e-3)


def choose_gauges(sea: Sea, times: Travel, count: int = 3) -> list[Gauge]:
    """Places with names if the map has them; else coastal cells that the wave reaches early, midway and late."""
    west, east, south, north = sea.edges
    if sea.geographic:
        named = [
            place for place in PLACES if place[0] in PREFERRED and west < place[1] < east and south < place[2] < north
        ]
        if len(named) >= 2:
            return [gauge_at(sea, times, x, y, name) for name, x, y in named]
    shore = _shore(sea) & np.isfinite(times.fine((sea.rows, sea.columns)))
    if not shore.any():
        shore = sea.wet
    cells = np.argwhere(shore)
    order = np.argsort([times.at(row, column) for row, column in cells], kind="stable")
    picks = [cells[order[int(q * (len(order) - 1))]] for q in np.linspace(0.15, 0.85, count)]
    return [_gauge(sea, times, int(row), int(column), f"Gauge {n + 1}") for n, (row, column) in enumerate(picks)]


def gauge_at(sea: Sea, times: Travel, x: float, y: float, name: str) -> Gauge:
    """The nearest water that the wave reaches and that is not mere shallows; nearest water at all if there is none."""
    sea.cell_at(x, y, f"the gauge {name}")
    reachable = (sea.elevation < -GAUGE_DEPTH_M) & np.isfinite(times.fine((sea.rows, sea.columns)))
    water = reachable if reachable.any() else sea.wet
    east, north = sea.offsets_m(x, y)
    distance = np.where(water, north[:, None] ** 2 + east[None, :] ** 2, np.inf)
    row, column = np.unravel_index(int(distance.argmin()), distance.shape)
    return _gauge(sea, times, int(row), int(column), name)


def _gauge(sea: Sea, times: Travel, row: int, column: int, name: str) -> Gauge:
    depth = float(sea.depth_m[row, column])
    return Gauge(name, row, column, float(sea.x[column]), float(sea.y[row]), depth, times.at(row, column))


def _shore(sea: Sea) -> Array:
    """Water with land beside it."""
    land = np.pad(~sea.wet, 1)
    beside = land[:-2, 1:-1] | land[2:, 1:-1] | land[1:-1, :-2] | land[1:-1, 2:]
    return np.asarray(beside & sea.wet)


def _box_mean(values: Array, reach: int, axis: int) -> Array:
    """Mean over 2 reach + 1 neighbours along an axis, edges repeated."""
    widths = [(0, 0), (0, 0)]
    widths[axis] = (reach + 1, reach)
    total = np.cumsum(np.pad(values, widths, mode="edge"), axis=axis)
    n = values.shape[axis]
    upper = np.take(total, np.arange(2 * reach + 1, 2 * reach + 1 + n), axis=axis)
    lower = np.take(total, np.arange(n), axis=axis)
    return np.asarray((upper - lower) / (2 * reach + 1))
