"""Pictures of the sea: hillshaded land and sea floor, and the wave over it in red and blue.

Wave heights span three orders of magnitude, so colour follows the signed square root of the height, symmetric about
zero; the colour bar says so with its ticks. Images have north on top.
"""

from __future__ import annotations

import base64
import io
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bathymetry import Array
from .sea import Sea

Rgb = NDArray[np.uint8]

_LAND = ((0.0, (222, 217, 203)), (0.25, (205, 203, 181)), (0.6, (178, 170, 148)), (1.0, (240, 238, 234)))
_FLATTEST, _TALLEST = 1 / 6, 3.0  # heights of a picture in widths; a map beyond these is drawn stretched
_STILL = 0.012  # of the limit: calmer water keeps the colour of its floor


class Painter:
    """Draws fields of one sea as images `width` pixels wide. Keeps the base map; cheap per image."""

    def __init__(self, sea: Sea, width: int, limit_m: float) -> None:
        self.sea = sea
        self.limit_m = limit_m
        self.width = width
        self.proportion = sea.rows * sea.height_m / (sea.columns * float(sea.width_m.mean()))
        self.height = round(width * min(max(self.proportion, _FLATTEST), _TALLEST))
        self._rows = np.minimum((np.arange(self.height) + 0.5) * sea.rows / self.height, sea.rows - 1).astype(np.intp)[
            ::-1
        ]
        self._columns = np.minimum((np.arange(width) + 0.5) * sea.columns / width, sea.columns - 1).astype(np.intp)
        elevation = self._pick(sea.elevation)
        pixel_m = (sea.height_m * sea.rows / self.height, float(sea.width_m.mean()) * sea.columns / width)
        self._wet = elevation < 0
        self._base = _base(elevation, self._wet, pixel_m)
        self._shade = _shade(elevation, pixel_m, 6.0)
        self._table = _diverging()

    @property
    def stretched(self) -> bool:
        """Whether the picture is not to scale."""
        return not _FLATTEST <= self.proportion <= _TALLEST

    def wave(self, field: Any) -> Rgb:
        """Elevation of the sea surface."""
        scaled = signed_root(self._pick(np.asarray(field, dtype=np.float32)), self.limit_m)
        return self._over(self._table[((scaled + 1.0) * 127.5 + 0.5).astype(np.uint8)], np.abs(scaled))

    def heights(self, field: Any, table: NDArray[np.float32]) -> Rgb:
        """A field that is never negative, by a table of 256 colours."""
        scaled = signed_root(np.maximum(self._pick(np.asarray(field, dtype=np.float32)), 0), self.limit_m)
        return self._over(table[(scaled * 255 + 0.5).astype(np.uint8)], np.ones_like(scaled))

    def _over(self, colour: NDArray[np.float32], strength: NDArray[np.float32]) -> Rgb:
        opacity = np.clip(strength / math.sqrt(_STILL), 0, 1)[..., None] * self._wet[..., None]
        light = (0.82 + 0.18 * self._shade)[..., None]
        mixed = self._base * (1 - opacity) + colour * light * opacity
        return np.asarray(np.clip(mixed, 0, 255).astype(np.uint8))

    def _pick(self, field: Any) -> Any:
        return field[self._rows][:, self._columns]


def signed_root(values: Any, limit: float) -> Any:
    """Values from -1 to 1, as the colour scale takes them."""
    return np.sign(values) * np.sqrt(np.minimum(np.abs(values) / limit, 1.0))


def nice_limit(values: Any) -> float:
    """A round number of metres that all but the rarest of these heights, if there are any, stay below."""
    top = max(float(np.quantile(np.abs(values), 0.985)) if values.size else 0.0, 1e-3)
    unit = 10.0 ** math.floor(math.log10(top))
    return float(next(unit * step for step in (1, 2, 5, 10) if unit * step >= top * 0.999))


def ticks(limit: float) -> list[float]:
    """Heights to mark on a colour bar, spread over the signed root."""
    upper = [limit * part for part in (0.04, 0.25, 1.0)]
    return [*(-value for value in reversed(upper)), 0.0, *upper]


def wave_colours() -> NDArray[np.float32]:
    return _diverging()


def sequential(name: str = "magma_r") -> NDArray[np.float32]:
    from matplotlib import colormaps

    return np.asarray(colormaps[name](np.linspace(0.02, 0.92, 256))[:, :3] * 255, dtype=np.float32)


def encode(image: Rgb) -> str:
    """A data URI: WebP where Pillow has it, else PNG."""
    from PIL import Image, features

    out = io.BytesIO()
    if features.check("webp"):
        Image.fromarray(image).save(out, "WEBP", quality=80, method=2)
        kind = "webp"
    else:
        Image.fromarray(image).quantize(128).save(out, "PNG", optimize=True)
        kind = "png"
    return f"data:image/{kind};base64,{base64.b64encode(out.getvalue()).decode()}"


def _diverging() -> NDArray[np.float32]:
    """Blue below the sea level at rest, red above, nearly white at rest."""
    from matplotlib import colormaps

    return np.asarray(colormaps["RdBu_r"](np.linspace(0.03, 0.97, 256))[:, :3] * 255, dtype=np.float32)


def _base(elevation: Array, wet: NDArray[np.bool_], pixel_m: tuple[float, float]) -> NDArray[np.float32]:
    top = max(float(elevation.max()), 1.0)
    height = np.clip(elevation / top, 0, 1) ** 0.7
    stops = [stop for stop, _ in _LAND]
    land = np.stack([np.interp(height, stops, [colour[k] for _, colour in _LAND]) for k in range(3)], axis=-1)
    deep = np.sqrt(np.clip(elevation / min(float(elevation.min()), -1.0), 0, 1))[..., None]
    water = np.array([236.0, 241.0, 244.0]) * (1 - deep) + np.array([196.0, 211.0, 222.0]) * deep
    light_land = (0.62 + 0.55 * _shade(elevation, pixel_m, 3.0))[..., None]
    light_water = (0.82 + 0.18 * _shade(elevation, pixel_m, 6.0))[..., None]
    return np.asarray(np.where(wet[..., None], water * light_water, land * light_land), dtype=np.float32)


def _shade(elevation: Array, pixel_m: tuple[float, float], exaggeration: float) -> NDArray[np.float32]:
    """Light from the north-west, 45 degrees high; 0 dark to 1 bright. Flat ground gets 0.71."""
    down, right = np.gradient(elevation * exaggeration, *pixel_m)
    cosine = (1.0 / math.sqrt(2) + 0.5 * down + 0.5 * right) / np.sqrt(1.0 + down**2 + right**2)
    return np.asarray(np.clip(cosine, 0, 1), dtype=np.float32)
