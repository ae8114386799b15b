"""Outcome: all that a finished run leaves for its report. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bathymetry import Array
from .sea import Sea
from .voyage import Gauge, Travel


@dataclass(frozen=True)
class Check:
    name: str
    passed: bool
    text: str  # with the figure and the tolerance


@dataclass(frozen=True)
class RankTimes:
    """Where one rank's time went, in microseconds a step."""

    rank: int
    compute: float  # kernels on the compute stream
    wait: float  # of the compute stream for the exchange
    move: float  # bytes, on the exchange stream
    neighbour: float  # the exchange stream waiting for its neighbours


@dataclass(frozen=True)
class Outcome:
    sea: Sea  # as the pictures show it, perhaps thinned
    rows: int  # of the grid that was computed
    columns: int
    cell_m: tuple[float, float, float]  # narrowest and widest cell, and its height
    source: tuple[float, float]
    hump_m: float
    radius_m: float
    travel: Travel
    gauges: list[Gauge]
    time_step_s: float
    steps: int
    frame_steps: list[int]
    frames: NDArray[np.float32]  # frame, row, column
    highest: NDArray[np.float32]
    series: Array  # gauge, step
    ranks: int
    grid: tuple[int, int]
    device: str
    captured: bool
    wall_s: float  # of the time steps alone
    alone_s: float | None  # of the same steps on one rank; None: not tried
    cores: int  # that all ranks share
    times: list[RankTimes]
    exchanges: list[dict[str, Any]]  # rank, kind, peer, note, bytes, layout, path, why
    checks: list[Check] = field(default_factory=list)

    @property
    def cells(self) -> int:
        return self.rows * self.columns

    @property
    def hours(self) -> float:
        return self.steps * self.time_step_s / 3600

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    def minutes_at(self, frame: int) -> float:
        return self.frame_steps[frame] * self.time_step_s / 60

    def crowded(self) -> bool:
        """Ranks on the host device take turns on fewer cores."""
        return self.device == "host" and self.ranks > self.cores

    def speed_up(self) -> str:
        """The ranks against one, in a sentence; "" if one was not tried."""
        if self.alone_s is None:
            return ""
        times = f"{self.alone_s / self.wall_s:.2f} times the speed of one rank, which took {self.alone_s:.1f} s"
        if self.device != "host":
            return times
        share = f"{self.ranks} ranks on {self.cores} {'core' if self.cores == 1 else 'cores'}"
        return f"{times} ({share}: no more than {min(self.ranks, self.cores)} of them can compute at a time)"

    def place(self) -> str:
        return "the Salish Sea" if "topobathy" in self.sea.source else self.sea.source


def clock(minutes: float) -> str:
    """75 -> "1 h 15 min", 0.4 -> "24 s"."""
    whole = round(minutes)
    if whole >= 60:
        return f"{whole // 60} h {whole % 60:02d} min"
    return f"{whole} min" if minutes >= 2 or minutes == 0 else f"{60 * minutes:.0f} s"


def coordinates(x: float, y: float, geographic: bool) -> str:
    if not geographic:
        return f"{x / 1000:.1f} km, {y / 1000:.1f} km"
    return f"{abs(y):.2f}° {'N' if y >= 0 else 'S'}, {abs(x):.2f}° {'W' if x < 0 else 'E'}"
