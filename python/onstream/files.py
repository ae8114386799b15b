"""Files of decomposed arrays: the ranks write, or read, the parts of one array together.

Every call is collective, and a rank whose part fails makes it raise on every rank. A file gets its name once it is whole:
until then its bytes are in `path` + ".partial".
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from . import _values
from .cartesian import Cartesian
from .errors import InvalidArgumentError, SystemError
from .teams import Teams

Result = TypeVar("Result")
Index = tuple[int, ...]

# Python up to 3.12 parses literals, such as the header of a file, in one thread at a time; ranks may be threads.
_header = threading.Lock()
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """A rank's block in the whole array."""

    offset: Index
    shape: Index

    @property
    def end(self) -> Index:
        return tuple(at + extent for at, extent in zip(self.offset, self.shape, strict=True))

    @property
    def slices(self) -> tuple[slice, ...]:
        return tuple(map(slice, self.offset, self.end))


def save_npy(
    path: str | os.PathLike[str], block: Any, world: Teams, *, offset: Sequence[int] | None = None,
    grid: Cartesian | None = None,
) -> None:  # fmt: skip
    """Writes the blocks of all ranks as one array in a .npy file, which numpy.load() reads. Collective; blocks.

    block: this rank's part, an array of the CPU of 1 dimension or more, any strides; without ghost cells, such as
    field[1:-1]. world: a World or a Team, whose ranks all call. The blocks lie one behind the other along the first
    dimension; or as the ranks in `grid`, a Cartesian of the same ranks of at most as many dimensions; or each at its
    `offset`, one index for each dimension. The ranks see one file system.

    Raises InvalidArgumentError on every rank, before anything is written, if element types or dimensions differ, blocks
    overlap, or they leave a gap, and names the ranks or the gap; SystemError on every rank if one cannot write. Then
    an older file of the name is as it was.
    """
    name = os.fspath(path)
    partial = f"{name}.partial"
    array: list[Array] = []

    def look() -> tuple[Index, str, Index | None, Index | None]:
        array.append(_block_of(block))
        place = None if offset is None else _index_of("save_npy", offset, array[0].ndim, "offset")
        return array[0].shape, _descr_of(array[0].dtype), place, None if grid is None else tuple(grid.dims)

    rows = _together(world, "save_npy", look)
    _check_alike("save_npy", [(len(shape), descr) for shape, descr, _, _ in rows])
    if len({dims for _, _, _, dims in rows}) > 1:
        raise InvalidArgumentError(f"save_npy: the ranks give different grids: {[dims for _, _, _, dims in rows]}")
    parts = _parts_of("save_npy", [shape for shape, _, _, _ in rows], [place for _, _, place, _ in rows], grid)
    whole = tuple(max(ends) for ends in zip(*(part.end for part in parts), strict=True))
    _check_tiling("save_npy", parts, whole)
    first, mine = world._members.rank == 0, parts[world._members.rank]

    def begin() -> None:
        if first:
            _make(partial, array[0].dtype, whole)

    def write() -> None:
        if math.prod(mine.shape) > 0:
            with _header:
                there = np.lib.format.open_memmap(partial, mode="r+")
            if there.shape != whole or there.dtype != array[0].dtype:
                raise OSError(f"{partial} is not the file that rank 0 has made: the ranks need one file system")
            _write_part(partial, there.offset, whole, mine, array[0])

    def end() -> None:
        if first:
            os.replace(partial, name)

    try:
        for step in (begin, write, end):
            _together(world, "save_npy", step)
    finally:
        if first:
            Path(partial).unlink(missing_ok=True)


def load_npy(
    path: str | os.PathLike[str], world: Teams, *, offset: Sequence[int] | None = None,
    shape: Sequence[int] | None = None, grid: Cartesian | None = None,
) -> Array:  # fmt: skip
    """Reads this rank's part of the array in a .npy file, as a new numpy array. Collective; blocks.

    The first dimension is dealt to the ranks of `world`, a World or a Team, as evenly as can be, lower ranks first; with
    `grid`, a Cartesian of the same ranks, each of its dimensions. Or each rank names the `offset` and `shape` of its
    part; those may overlap, and so hold ghost cells. The file's element type stays. Only the part is read.

    Raises InvalidArgumentError on every rank if the file is no .npy file, holds Python objects, or has too few
    dimensions, or if a rank's part reaches beyond the array; SystemError if a rank cannot read the file.
    """
    found: list[Array] = []

    def look() -> tuple[Index, str]:
        found.append(_opened(os.fspath(path)))
        return found[0].shape, _descr_of(found[0].dtype)

    rows = _together(world, "load_npy", look)
    if len(set(rows)) > 1:
        raise InvalidArgumentError(
            f"load_npy: the ranks see other files: rank 0 {rows[0]}, others {set(rows) - {rows[0]}}"
        )
    whole = rows[0][0]

    def read() -> Array:
        if (offset is None) != (shape is None):
            raise InvalidArgumentError("load_npy: give offset and shape, or neither of them")
        if offset is not None and shape is not None:
            at, extents = (_index_of("load_npy", one, len(whole), "offset, shape") for one in (offset, shape))
            mine = Part(at, extents)
        else:
            mine = _share_of(whole, world._members.rank, world._members.size, grid)
        if any(end > most for end, most in zip(mine.end, whole, strict=True)):
            raise InvalidArgumentError(
                f"load_npy: cells {mine.offset} to {mine.end} reach beyond an array of shape {whole}"
            )
        return np.array(found[0][mine.slices], order="C")

    parts: list[Array] = []
    _together(world, "load_npy", lambda: parts.append(read()))
    return parts[0]


def _together(world: Teams, call: str, step: Callable[[], Result]) -> list[Result]:
    """Takes a step on every rank and returns the results of all; every rank raises if one has failed."""
    cause: Exception | None = None
    row: tuple[str, bool, Any]
    try:
        row = ("", False, step())
    except Exception as error:
        cause = error
        words = str(error) if isinstance(error, InvalidArgumentError) else f"{type(error).__name__}: {error}"
        row = (words, isinstance(error, (OSError, MemoryError)), None)
    rows = world.all_gather_object(row)
    wrong = [(rank, text, system) for rank, (text, system, _) in enumerate(rows) if text]
    if wrong:
        rank, text, system = wrong[0]
        also = f" (and on {len(wrong) - 1} others)" if len(wrong) > 1 else ""
        kind = SystemError if system else InvalidArgumentError
        raise kind(f"{call}: on rank {rank}{also}: {text.removeprefix(f'{call}: ')}") from cause
    return [result for _, _, result in rows]


def _block_of(block: Any) -> Array:
    if hasattr(block, "local") and callable(block.local):
        block = block.local()  # a SymmetricArray
    try:
        array = np.asarray(block)
    except Exception as error:
        raise InvalidArgumentError(
            f"the block is a {type(block).__name__}, which numpy cannot read ({error}); copy it to the CPU first"
        ) from error
    if array.ndim == 0 or array.dtype.hasobject:
        kind = "no dimensions" if array.ndim == 0 else "Python objects as elements"
        raise InvalidArgumentError(f"the block is a {type(block).__name__} with {kind}; give an array of numbers")
    return array


def _descr_of(dtype: Any) -> str:
    """The type as the format writes it."""
    descr = np.lib.format.dtype_to_descr(dtype)
    if np.lib.format.descr_to_dtype(descr) != dtype:
        raise InvalidArgumentError(
            f"the .npy format does not know elements of {dtype}; view them as integers of their size"
        )
    return repr(descr)


def _index_of(call: str, index: Any, ndim: int, name: str) -> Index:
    numbers = tuple(_values.integer_of(one, name) for one in index) if _values.is_several(index) else ()
    if len(numbers) != ndim:
        raise InvalidArgumentError(f"{call}: {name}={index!r} needs one index for each of {ndim} dimensions")
    if any(number < 0 for number in numbers):
        raise InvalidArgumentError(f"{call}: {name}={numbers} has a negative index")
    return numbers


def _check_alike(call: str, rows: Sequence[tuple[int, str]]) -> None:
    for rank, (ndim, descr) in enumerate(rows):
        if (ndim, descr) != rows[0]:
            raise InvalidArgumentError(
                f"{call}: rank 0 has a block of {rows[0][0]} dimensions of {rows[0][1]}, but rank {rank} one of {ndim} of {descr}"
            )


def _parts_of(call: str, shapes: list[Index], places: list[Index | None], grid: Cartesian | None) -> list[Part]:
    given = [rank for rank, place in enumerate(places) if place is not None]
    if len(given) not in (0, len(places)) or (given and grid is not None):
        raise InvalidArgumentError(
            f"{call}: offsets are given by ranks {given}; all ranks give one, or none and a grid"
        )
    if given:
        return [Part(place, shape) for place, shape in zip(places, shapes, strict=True) if place is not None]
    dims = (len(shapes),) if grid is None else grid.dims
    if math.prod(dims) != len(shapes) or len(dims) > len(shapes[0]):
        raise InvalidArgumentError(
            f"{call}: a grid of {dims} is not one of {len(shapes)} blocks of {len(shapes[0])} dimensions"
        )
    coords = [(rank,) if grid is None else grid.coords_of(rank) for rank in range(len(shapes))]
    extents = [[0] * dim for dim in dims]
    for place, shape in zip(coords, shapes, strict=True):
        for axis, at in enumerate(place):
            extents[axis][at] = max(extents[axis][at], shape[axis])
    starts = [[sum(row[:at]) for at in range(len(row))] for row in extents]
    rest = (0,) * (len(shapes[0]) - len(dims))
    return [
        Part((*(starts[axis][at] for axis, at in enumerate(place)), *rest), shape)
        for place, shape in zip(coords, shapes, strict=True)
    ]


def _check_tiling(call: str, parts: Sequence[Part], whole: Index) -> None:
    """The parts cover each cell of the whole once."""
    begins, ends = (np.array([getattr(part, side) for part in parts]) for side in ("offset", "end"))
    for rank in range(len(parts) - 1):
        both = np.minimum(ends[rank], ends[rank + 1 :]) > np.maximum(begins[rank], begins[rank + 1 :])
        if (meets := np.flatnonzero(both.all(axis=1))).size > 0:
            other = rank + 1 + int(meets[0])
            raise InvalidArgumentError(
                f"{call}: the blocks of rank {rank} (from {parts[rank].offset} to {parts[rank].end}) and rank {other} (from "
                f"{parts[other].offset} to {parts[other].end}) overlap"
            )
    if sum(math.prod(part.shape) for part in parts) == math.prod(whole):
        return
    # The first cell that is missing begins, in each dimension, where the array or a block's neighbour does.
    edges = [sorted({0, *(int(end) for end in ends[:, axis] if end < whole[axis])}) for axis in range(len(whole))]
    gap = next(
        (cell for cell in product(*edges) if not ((begins <= cell) & (np.array(cell) < ends)).all(axis=1).any()), edges
    )
    raise InvalidArgumentError(f"{call}: no rank has cell {gap} of the array of shape {whole}")


def _make(path: str, dtype: Any, shape: Index) -> None:
    if math.prod(shape) == 0:
        with open(path, "wb") as file:
            np.save(file, np.empty(shape, dtype))
    else:
        np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape).flush()


def _write_part(path: str, begin: int, whole: Index, part: Part, block: Array) -> None:
    """Writes a part of an array in C order that begins at byte `begin`: no byte beside it is touched, and a full disk is
    an OSError, where storing into the mapped file would end the process.
    """
    block = np.ascontiguousarray(block)
    axis = len(whole)  # from here on the part has all of the array: one run of bytes
    while axis > 0 and part.shape[axis - 1 :] == whole[axis - 1 :]:
        axis -= 1
    axis = max(axis - 1, 0)
    strides = [math.prod(whole[at + 1 :]) * block.itemsize for at in range(len(whole))]
    with open(path, "r+b", buffering=0) as file:
        for outer in product(*(range(extent) for extent in part.shape[:axis])):
            places = [*(at + first for at, first in zip(outer, part.offset, strict=False)), *part.offset[axis:]]
            left = block[outer].reshape(-1).view(np.uint8).data
            at = begin + sum(place * stride for place, stride in zip(places, strides, strict=True))
            while left:
                done = os.pwrite(file.fileno(), left, at)
                left, at = left[done:], at + done
        os.fsync(file.fileno())


def _opened(path: str) -> Array:
    try:
        with _header:
            array = np.load(path, mmap_mode="r")
    except (ValueError, EOFError) as error:
        array = _without_elements(path, error)
    if not isinstance(array, np.ndarray) or array.ndim == 0:
        raise InvalidArgumentError(f"{path} holds no array of 1 dimension or more")
    return array


def _without_elements(path: str, error: Exception) -> Array:
    """An array of no elements, which cannot be mapped; raises for any other file."""
    try:
        with _header:
            array: Array = np.load(path)
    except (ValueError, EOFError):
        array = np.empty(1)
    if array.size > 0:
        raise InvalidArgumentError(f"{path} is no .npy file of numbers: {error}") from error
    return array


def _share_of(whole: Index, rank: int, size: int, grid: Cartesian | None) -> Part:
    dims, place = ((size,), (rank,)) if grid is None else (grid.dims, grid.coords_of(rank))
    if math.prod(dims) != size or len(dims) > len(whole):
        raise InvalidArgumentError(
            f"load_npy: a grid of {dims} does not deal an array of shape {whole} to {size} ranks"
        )
    rest = len(whole) - len(dims)
    begin, end = (
        [
            (at + side) * (extent // dim) + min(at + side, extent % dim)
            for at, dim, extent in zip(place, dims, whole, strict=False)
        ]
        for side in (0, 1)
    )
    shape = (*(last - first for first, last in zip(begin, end, strict=True)), *whole[len(dims) :])
    return Part((*begin, *(0,) * rest), shape)
