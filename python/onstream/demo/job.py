"""Job: the input of a demo's ranks, and the result that rank 0 leaves, as files in one folder.

job.json holds the numbers; depth.npy and surface.npy the whole sea, of which each rank maps its own block; result.json
and result.npz the outcome. Written by one side before the other reads; nothing is locked.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .bathymetry import Array
from .sea import GRAVITY, Sea


@dataclass(frozen=True)
class Job:
    ranks: int
    device: str
    capture: bool
    check: bool
    rows: int
    columns: int
    height_m: float
    time_step_s: float
    steps: int
    frame_steps: list[int]
    stride: int  # of the cells that rank 0 keeps of each frame
    gauges: list[int]  # row * columns + column

    def save(self, folder: Path, sea: Sea, surface: Array) -> None:
        np.save(folder / "depth.npy", sea.depth_m)
        np.save(folder / "surface.npy", surface)
        np.save(folder / "width.npy", sea.width_m)
        np.save(folder / "face_width.npy", sea.face_width_m)
        (folder / "job.json").write_text(json.dumps(asdict(self)))

    @staticmethod
    def load(folder: Path) -> Job:
        return Job(**json.loads((folder / "job.json").read_text()))

    def part(self, folder: Path, block: tuple[int, int, int, int]) -> dict[str, Any]:
        """The arguments of a Tsunami that has this block: its depth with one cell around, dry outside the map."""
        first_row, last_row, first_column, last_column = block
        depth = np.load(folder / "depth.npy", mmap_mode="r")
        surface = np.load(folder / "surface.npy", mmap_mode="r")
        around = np.zeros((last_row - first_row + 2, last_column - first_column + 2))
        rows = slice(max(first_row - 1, 0), min(last_row + 1, self.rows))
        columns = slice(max(first_column - 1, 0), min(last_column + 1, self.columns))
        around[
            rows.start - first_row + 1 : rows.stop - first_row + 1,
            columns.start - first_column + 1 : columns.stop - first_column + 1,
        ] = depth[rows, columns]
        return {
            "depth_m": around,
            "elevation_m": np.ascontiguousarray(surface[first_row:last_row, first_column:last_column]),
            "width_m": np.load(folder / "width.npy"),
            "face_width_m": np.load(folder / "face_width.npy"),
            "height_m": self.height_m,
            "time_step_s": self.time_step_s,
            "gravity": GRAVITY,
            "rows": self.rows,
            "columns": self.columns,
            "gauges": self.gauges,
            "steps": self.steps,
        }
