"""Element types - numpy's, torch's, and those of ml_dtypes - by name, by size, and as arrays show them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _libraries, _values


def item_bytes_of(dtype: Any) -> int:
    """Bytes of one element of a numpy or torch dtype. TypeError for one whose elements are references."""
    size = getattr(dtype, "itemsize", None)
    if isinstance(size, int) and not isinstance(dtype, np.dtype):
        return size
    known: np.dtype[Any] = numpy_type(dtype)
    if known.hasobject:
        raise TypeError(f"onstream moves bytes, but elements of dtype {known} are references to Python objects")
    return known.itemsize


def numpy_type(dtype: Any) -> np.dtype[Any]:
    """numpy's own of any description; TypeError naming it for none. ml_dtypes adds types such as "bfloat16", where it is."""
    try:
        known: np.dtype[Any] = np.dtype(dtype)
        return known
    except TypeError:
        if isinstance(dtype, str) and "ml_dtypes" not in sys.modules and _libraries.importable("ml_dtypes"):
            return numpy_type(dtype)
    raise TypeError(
        f"dtype is {dtype!r}, which numpy does not know; torch has types that numpy lacks (dtype=torch.bfloat16), and with "
        "the package ml_dtypes numpy has them too"
    )


def type_name_of(dtype: Any) -> str:
    """A numpy or torch dtype by name: "float64", "bfloat16"."""
    if is_torch_type(dtype):
        return str(dtype).removeprefix("torch.")
    return name_of(numpy_type(dtype))


@functools.lru_cache
def name_of(dtype: np.dtype[Any]) -> str:
    """As torch calls it too, if torch has it. numpy makes the name anew each time, which takes microseconds."""
    return dtype.name if dtype.isnative and dtype.names is None else str(dtype)


@functools.lru_cache
def torch_name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def known_type(dtype: Any) -> Any:
    """An element type as arrays show it: numpy's own, or torch's as it is."""
    return dtype if is_torch_type(dtype) else numpy_type(dtype)


def is_torch_type(dtype: Any) -> bool:
    return type(dtype).__module__.partition(".")[0] == "torch"


def is_array_of(thing: Any, type_name: str) -> bool:
    """Whether it has a dtype, and this one."""
    dtype = getattr(thing, "dtype", None)
    return dtype is not None and type_name_of(dtype) == type_name


def sized(shape: int | Sequence[int], dtype: Any, what: str) -> tuple[tuple[int, ...], int]:
    """The extents, and the bytes of an array of this shape. Raises ValueError or InvalidArgumentError for none."""
    extents = _values.extents_of(shape)
    nbytes = item_bytes_of(dtype)
    for extent in extents:
        if extent < 0:
            raise ValueError(f"shape {extents} has a negative extent")
        nbytes *= extent
    _values.check_bytes(nbytes, f"{what} of shape {extents}")
    return extents, nbytes
