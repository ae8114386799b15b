"""The sea that the ranks share: depth on a uniform grid in metres, where the wave starts, where it is listened to.

build() interpolates a Bathymetry to the requested grid (bilinear) and measures the cells: on a sphere of radius
EARTH_RADIUS_M, each row with its own width, R cos(latitude) dlon; a file without coordinates gives a flat sea. Water
shallower than SHALLOWEST_M counts as that deep, since linear theory says nothing true about thinner water.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidArgumentError
from .bathymetry import Array, Bathymetry

EARTH_RADIUS_M = 6_371_000.0
GRAVITY = 9.81
SHALLOWEST_M = 5.0
COURANT = 0.9  # of the largest stable time step


@dataclass(frozen=True)
class Sea:
    """A uniform grid of cells, south to north and west to east. x and y are the cells' centres, in degrees or metres."""

    elevation: Array
    x: Array
    y: Array
    width_m: Array  # of a cell of each row
    face_width_m: Array  # of the southern face of each row, and the northern one of the last
    height_m: float
    geographic: bool
    source: str
    points: tuple[int, int]  # rows and columns of the map that the grid was interpolated from

    @property
    def rows(self) -> int:
        return int(self.elevation.shape[0])

    @property
    def columns(self) -> int:
        return int(self.elevation.shape[1])

    @property
    def wet(self) -> NDArray[np.bool_]:
        return self.elevation < 0

    @property
    def depth_m(self) -> Array:
        """Depth of the water as the equations see it, 0 on land."""
        return np.where(self.wet, np.maximum(-self.elevation, SHALLOWEST_M), 0.0)

    @property
    def edges(self) -> tuple[float, float, float, float]:
        """West, east, south, north, in the units of x and y."""
        dx = (self.x[1] - self.x[0]) / 2
        dy = (self.y[1] - self.y[0]) / 2
        return float(self.x[0] - dx), float(self.x[-1] + dx), float(self.y[0] - dy), float(self.y[-1] + dy)

    def time_step_s(self) -> float:
        """COURANT times the largest time step that leapfrog allows: 1 / sqrt(g h (1/dx^2 + 1/dy^2)), at the worst cell."""
        rate = GRAVITY * self.depth_m * ((1.0 / self.width_m**2)[:, None] + 1.0 / self.height_m**2)
        return COURANT / math.sqrt(float(rate.max()))

    def volume_m3(self, elevation: Array) -> float:
        """Water above the sea level at rest, which the scheme conserves."""
        area = (self.width_m * self.height_m)[:, None]
        return math.fsum((np.asarray(elevation, dtype=np.float64) * area).ravel())

    def cell_at(self, x: float, y: float, what: str) -> tuple[int, int]:
        """Row and column of a point, which must lie on the map."""
        west, east, south, north = self.edges
        if not (west <= x <= east and south <= y <= north):
            raise InvalidArgumentError(
                f"{what} at {x:g},{y:g} is not on this map, which covers {west:g} to {east:g} and {south:g} to {north:g}"
            )
        row = int((y - south) / (north - south) * self.rows)
        column = int((x - west) / (east - west) * self.columns)
        return min(row, self.rows - 1), min(column, self.columns - 1)

    def thinned(self, stride: int) -> Sea:
        """Every stride-th cell each way, for pictures."""
        pick = slice(stride // 2, None, stride)
        return Sea(
            elevation=self.elevation[pick, pick],
            x=self.x[pick],
            y=self.y[pick],
            width_m=self.width_m[pick] * stride,
            face_width_m=self.face_width_m[::stride] * stride,
            height_m=self.height_m * stride,
            geographic=self.geographic,
            source=self.source,
            points=self.points,
        )

    def offsets_m(self, x: float, y: float) -> tuple[Array, Array]:
        """Distance east of x of every column, and north of y of every row (local plane at latitude y)."""
        if not self.geographic:
            return self.x - x, self.y - y
        degree = math.radians(1.0) * EARTH_RADIUS_M
        return (self.x - x) * degree * math.cos(math.radians(y)), (self.y - y) * degree


def build(bathymetry: Bathymetry, rows: int, columns: int) -> Sea:
    """The sea on a grid of rows x columns cells that covers the bathymetry from its first to its last point."""
    if rows < 8 or columns < 8:
        raise InvalidArgumentError(f"a grid of {rows} x {columns} cells is too coarse; it needs 8 each way")
    x, y = _centres(bathymetry.x, columns), _centres(bathymetry.y, rows)
    elevation = _bilinear(bathymetry, y, x)
    if not np.any(elevation < 0):
        raise InvalidArgumentError(
            f"{bathymetry.source} has no water left on a grid of {rows} x {columns}; use a finer one"
        )
    dx = (bathymetry.x[-1] - bathymetry.x[0]) / columns
    dy = (bathymetry.y[-1] - bathymetry.y[0]) / rows
    faces = bathymetry.y[0] + dy * np.arange(rows + 1)
    if bathymetry.geographic:
        per_degree = math.radians(1.0) * EARTH_RADIUS_M
        width, face_width = (dx * per_degree * np.cos(np.radians(at)) for at in (y, faces))
        height = dy * per_degree
    else:
        width, face_width, height = np.full(rows, dx), np.full(rows + 1, dx), dy
    points = (len(bathymetry.y), len(bathymetry.x))
    return Sea(elevation, x, y, width, face_width, float(height), bathymetry.geographic, bathymetry.source, points)


def hump(sea: Sea, centre: tuple[float, float], height_m: float, radius_m: float) -> Array:
    """The sea surface at the start: a Gaussian of this height and standard deviation, on water only."""
    east, north = sea.offsets_m(*centre)
    surface = (
        height_m * np.exp(-(north**2) / (2 * radius_m**2))[:, None] * np.exp(-(east**2) / (2 * radius_m**2))[None, :]
    )
    return np.where(sea.wet, surface, 0.0)


def _centres(axis: Array, count: int) -> Array:
    step = (axis[-1] - axis[0]) / count
    return np.asarray(axis[0] + step * (np.arange(count) + 0.5))


def _bilinear(bathymetry: Bathymetry, y: Array, x: Array) -> Array:
    row, up = _weights(bathymetry.y, y)
    column, right = _weights(bathymetry.x, x)
    z = bathymetry.elevation
    south = z[row][:, column] * (1 - right) + z[row][:, column + 1] * right
    north = z[row + 1][:, column] * (1 - right) + z[row + 1][:, column + 1] * right
    return np.asarray(south * (1 - up)[:, None] + north * up[:, None])


def _weights(axis: Array, at: Array) -> tuple[NDArray[np.intp], Array]:
    """The interval of axis that holds each point, and how far into it the point lies."""
    index = np.clip(np.searchsorted(axis, at, side="right") - 1, 0, len(axis) - 2)
    return index, (at - axis[index]) / (axis[index + 1] - axis[index])
