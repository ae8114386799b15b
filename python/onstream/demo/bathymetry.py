"""Reading sea floors: elevation in metres (negative under water) on a rectangular grid.

load() reads matplotlib's sample file (no path), or the user's own .npz, .npy or .png. Data that cannot be a sea floor
raise InvalidArgumentError with the values and the remedy. Nothing is cached; pickled data is never read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidArgumentError

Array = NDArray[np.float64]

CELL_M = 2000.0  # of a file that does not say how large its cells are
PNG_RANGE_M = 5000.0  # black is this far below the sea surface, white as far above
SMALLEST = 4  # rows and columns
LOWEST_M, HIGHEST_M = -12_000.0, 9_000.0  # of the Earth, with room to spare

_ELEVATION_KEYS = ("topo", "elevation", "z", "bathymetry", "height")
_LONGITUDE_KEYS = ("longitude", "lon", "x")
_LATITUDE_KEYS = ("latitude", "lat", "y")


@dataclass(frozen=True)
class Bathymetry:
    """Elevation by row and column, south to north and west to east.

    geographic: x and y are degrees of longitude and latitude; else metres from the south-western corner.
    """

    elevation: Array
    x: Array
    y: Array
    geographic: bool
    source: str


def load(path: str | Path | None = None) -> Bathymetry:
    """The sea floor in a file; without one, the Salish Sea that matplotlib ships (sample_data/topobathy.npz)."""
    if path is None:
        return _sample()
    file = Path(path)
    if not file.exists():
        raise InvalidArgumentError(f"there is no bathymetry file {file}")
    readers = {".npz": _read_npz, ".npy": _read_npy, ".png": _read_png}
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise InvalidArgumentError(f"{file} is none of .npz, .npy, .png: save your elevations with numpy.save()")
    return reader(file)


def _sample() -> Bathymetry:
    from matplotlib import cbook

    with np.load(cbook.get_sample_data("topobathy.npz", asfileobj=False)) as data:
        return _from_named(dict(data), "matplotlib sample_data/topobathy.npz")


def _check_beginning(file: Path, beginning: bytes, advice: str) -> None:
    """numpy takes a file without its mark for pickled data, and says so in words that would help nobody here."""
    try:
        with file.open("rb") as opened:
            found = opened.read(len(beginning))
    except OSError as error:
        raise InvalidArgumentError(f"{file} cannot be read: {error.strerror}") from error
    if found != beginning:
        raise InvalidArgumentError(f"{file} is no {file.suffix.lower()} file, whatever its name says: {advice}")


def _reason(error: Exception) -> str:
    return "it holds Python objects, not numbers" if "allow_pickle" in str(error) else str(error)


def _read_npz(file: Path) -> Bathymetry:
    _check_beginning(file, b"PK", "make one with numpy.savez(file, topo=elevations)")
    try:
        with np.load(file, allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
    except Exception as error:  # numpy, zipfile and zlib each have their own
        raise InvalidArgumentError(f"{file} cannot be read as an .npz file: {_reason(error)}") from error
    return _from_named(arrays, file.name)


def _read_npy(file: Path) -> Bathymetry:
    _check_beginning(file, b"\x93NUMPY", "make one with numpy.save(file, elevations)")
    try:
        values = np.load(file, allow_pickle=False)
    except Exception as error:
        raise InvalidArgumentError(f"{file} cannot be read as an .npy file: {_reason(error)}") from error
    return _flat(_checked(values, file.name), CELL_M, file.name)


def _read_png(file: Path) -> Bathymetry:
    """Grey levels: mid grey is the sea surface, black and white are PNG_RANGE_M below and above. The top is north."""
    from matplotlib import image

    _check_beginning(file, b"\x89PNG", "it needs grey levels, with mid grey at the sea surface")
    try:
        pixels = np.asarray(image.imread(file, format="png"), dtype=np.float64)
    except Exception as error:
        raise InvalidArgumentError(f"{file} cannot be read as a .png file: {error}") from error
    if pixels.ndim == 3:
        pixels = pixels[:, :, : 3 if pixels.shape[2] >= 3 else 1].mean(axis=2)
    return _flat(_checked((pixels - 0.5) * 2.0 * PNG_RANGE_M, file.name)[::-1].copy(), CELL_M, file.name)


def _from_named(arrays: dict[str, Any], source: str) -> Bathymetry:
    planes = {name: values for name, values in arrays.items() if values.ndim == 2}
    name = next((key for key in _ELEVATION_KEYS if key in arrays), None)
    if name is None and len(planes) == 1:
        name = next(iter(planes))
    if name is None:
        found = ", ".join(f"{key} {values.shape}" for key, values in arrays.items()) or "nothing"
        raise InvalidArgumentError(
            f"{source} holds {found}; it needs one 2-dimensional array of metres named {' or '.join(_ELEVATION_KEYS)}"
        )
    elevation = _checked(arrays[name], f"{source}: {name}")
    x = next((arrays[key] for key in _LONGITUDE_KEYS if key in arrays), None)
    y = next((arrays[key] for key in _LATITUDE_KEYS if key in arrays), None)
    if (x is None) != (y is None):
        raise InvalidArgumentError(f"{source} has only one of longitude and latitude; give both, or neither")
    if x is None or y is None:
        given = np.asarray(arrays.get("cell_m", CELL_M))
        if given.size != 1 or given.dtype.kind not in "fiu":
            raise InvalidArgumentError(f"{source}: cell_m is not one number, the width of a cell in metres")
        cell = float(given.item())
        if not (np.isfinite(cell) and cell > 0):
            raise InvalidArgumentError(f"{source}: cell_m is {cell}; the width of a cell in metres must be positive")
        return _flat(elevation, cell, source)
    return _geographic(elevation, x, y, source)


def _geographic(elevation: Array, longitude: Any, latitude: Any, source: str) -> Bathymetry:
    x = _axis(longitude, elevation.shape[1], "longitude", source)
    y = _axis(latitude, elevation.shape[0], "latitude", source)
    if x[0] > x[-1]:
        x, elevation = x[::-1], elevation[:, ::-1]
    if y[0] > y[-1]:
        y, elevation = y[::-1], elevation[::-1]
    if y[0] < -89.0 or y[-1] > 89.0 or x[-1] - x[0] > 360.0:
        raise InvalidArgumentError(
            f"{source}: longitude {x[0]:g} to {x[-1]:g} and latitude {y[0]:g} to {y[-1]:g} are not degrees of a map away "
            "from the poles"
        )
    return Bathymetry(np.ascontiguousarray(elevation), x - 360.0 * (x[0] > 180.0), y.copy(), True, source)


def _axis(values: Any, length: int, name: str, source: str) -> Array:
    _check_numbers(np.asarray(values), f"{source}: {name}", "degrees")
    axis = np.asarray(values, dtype=np.float64)
    if axis.shape != (length,):
        raise InvalidArgumentError(f"{source}: {name} has shape {axis.shape}, but the elevations need ({length},)")
    steps = np.diff(axis)
    if not (np.all(steps > 0) or np.all(steps < 0)):  # also false for NaN
        raise InvalidArgumentError(f"{source}: {name} neither rises nor falls all the way")
    return axis


def _flat(elevation: Array, cell_m: float, source: str) -> Bathymetry:
    rows, columns = elevation.shape
    x = np.arange(columns, dtype=np.float64) * cell_m
    y = np.arange(rows, dtype=np.float64) * cell_m
    return Bathymetry(elevation, x, y, False, source)


def _check_numbers(array: NDArray[Any], source: str, unit: str) -> None:
    if array.dtype.kind not in "fiu":
        raise InvalidArgumentError(f"{source} holds {array.dtype}, not numbers of {unit}")


def _checked(values: Any, source: str) -> Array:
    array = np.asarray(values)
    if array.ndim != 2:
        raise InvalidArgumentError(f"{source} has shape {array.shape}; a sea floor has rows and columns")
    _check_numbers(array, source, "metres")
    if min(array.shape) < SMALLEST:
        raise InvalidArgumentError(
            f"{source} has {array.shape[0]} x {array.shape[1]} cells; it needs {SMALLEST} each way"
        )
    elevation = array.astype(np.float64)
    bad = int(np.count_nonzero(~np.isfinite(elevation)))
    if bad:
        raise InvalidArgumentError(
            f"{source} has {bad} of {elevation.size} cells that are NaN or infinite; fill them first, for land with 0"
        )
    for limit, absurd in ((LOWEST_M, elevation < LOWEST_M), (HIGHEST_M, elevation > HIGHEST_M)):
        if np.any(absurd):
            row, column = (int(n) for n in np.argwhere(absurd)[0])
            raise InvalidArgumentError(
                f"{source}: the elevation at row {row}, column {column} is {elevation[row, column]:g} m, beyond the "
                f"{limit:g} m of any place on Earth ({int(np.count_nonzero(absurd))} such cells); are these metres? Replace "
                "a value that marks missing data, for land with 0"
            )
    if not np.any(elevation < 0):
        raise InvalidArgumentError(
            f"{source} is land only: its lowest cell is {elevation.min():g} m; elevations under water must be negative"
        )
    return elevation
