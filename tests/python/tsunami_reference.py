"""The demo's equations in plain numpy, one array for the whole sea: the reference for checks of the solver.

Written from the equations, not from the kernels: fluxes per metre as in Goto et al. 1997, explicit areas and lengths,
and whole-array differences. A closed wall surrounds the map.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Reference:
    def __init__(
        self,
        depth_m: Array,
        surface_m: Array,
        width_m: Array,
        face_width_m: Array,
        height_m: float,
        dt: float,
        g: float,
    ) -> None:
        wet = depth_m > 0
        self.eta = surface_m.copy()
        self.highest = surface_m.copy()
        self.width, self.faces, self.height, self.dt, self.g = width_m, face_width_m, height_m, dt, g
        # Inner faces only: the outer ones never carry water.
        self.depth_x = np.where(wet[:, 1:] & wet[:, :-1], (depth_m[:, 1:] + depth_m[:, :-1]) / 2, 0.0)
        self.depth_y = np.where(wet[1:] & wet[:-1], (depth_m[1:] + depth_m[:-1]) / 2, 0.0)
        self.m = np.zeros_like(self.depth_x)  # m^2/s, eastwards
        self.n = np.zeros_like(self.depth_y)  # m^2/s, northwards

    def step(self) -> None:
        volume = np.zeros_like(self.eta)  # that flows out of each cell, m^3/s
        volume[:, :-1] += self.m * self.height
        volume[:, 1:] -= self.m * self.height
        through = self.n * self.faces[1:-1, None]
        volume[:-1] += through
        volume[1:] -= through
        self.eta -= self.dt * volume / (self.width * self.height)[:, None]
        self.m -= self.g * self.dt * self.depth_x * np.diff(self.eta, axis=1) / self.width[:, None]
        self.n -= self.g * self.dt * self.depth_y * np.diff(self.eta, axis=0) / self.height
        self.highest = np.maximum(self.highest, self.eta)
