"""Arguments of reductions: element types, factors, and ops that are functions of the program."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _arrays, _values
from .errors import InvalidArgumentError
from .neighbours import FLOATS, INTEGERS, type_name_of
from .symmetric import SymmetricArray

_PAIRS = {("f4", "i4"): "float32_int32", ("f8", "i8"): "float64_int64", ("i4", "i4"): "int32_int32"}
_PAIRS[("i8", "i8")] = "int64_int64"
_KNOWN = frozenset((*INTEGERS, *FLOATS, *_PAIRS.values()))
_OF_BOOL = ("min", "max", "band", "bor", "bxor")  # the reductions of 0 and 1 that are 0 or 1
_WIDE = ("float64", "complex128")  # all narrower floating point is multiplied as float32


def type_of(span: _arrays.Span, array: Any) -> str:
    dtype = getattr(array, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.names is not None and len(dtype.names) == 2:
        fields = tuple(dtype[name].str[1:] for name in dtype.names)
        in_order = [field[1] for field in (dtype.fields or {}).values()] == [0, dtype[0].itemsize]
        if fields in _PAIRS and in_order and dtype.itemsize == 2 * dtype[0].itemsize and dtype.isnative:
            return _PAIRS[fields]
    name = type_name_of(span.dtype)
    if span.dtype == "float8_e4m3":
        raise InvalidArgumentError("collectives reduce float8_e4m3fn; float8_e4m3 is IEEE's, which has infinities")
    if name not in _KNOWN:
        raise InvalidArgumentError(
            f"collectives cannot reduce elements of {span.dtype or 'an untold type'}{_way_out(dtype)}; they know "
            f"{', '.join(sorted(_KNOWN))}"
        )
    return name


def _way_out(dtype: Any) -> str:
    if not isinstance(dtype, np.dtype):
        return ""
    if dtype.names is not None:
        return "; reduce a copy of each field, such as array['name'].copy(), as records other than pairs have no sum"
    if not dtype.isnative:
        return "; convert them to this machine's byte order by array.astype(array.dtype.newbyteorder('='))"
    return ""


def check_bool(kind: str, op: str, source: _arrays.Span, target: _arrays.Span | None) -> None:
    """A bool of any other byte than 0 and 1 is neither true nor false."""
    if source.dtype == "bool" and op not in _OF_BOOL:
        raise InvalidArgumentError(
            f"{kind}: a {op} of bools is no bool; take bor (whether any is true), band (all) or bxor (an odd number), or "
            "count them in an array of integers, such as array.astype('int32')"
        )
    if target is not None and target.dtype == "bool" and source.dtype != "bool":
        raise InvalidArgumentError(f"{kind}: the array is of {source.dtype}, but `out` of bool")


def is_one(factor: Any) -> bool:
    if type(factor) is not int:
        factor = _values.plain_number(factor)
        if not _values.is_number(factor):
            return False
    return bool(factor == 1)


def factors_of(factor: Any, type_name: str) -> tuple[float, int]:
    """The factor of a premulsum, for floating point and for integers: the library takes the one of its elements."""
    factor = _values.plain_number(factor)
    if isinstance(factor, (complex, np.complexfloating)):
        if factor.imag != 0:
            raise InvalidArgumentError(
                f"premulsum: the factor is {factor!r}, but factors are real, those of complex elements too; multiply the "
                "array by it, and take the sum"
            )
        factor = factor.real
    if not _values.is_number(factor):
        raise InvalidArgumentError(f"premulsum: the factor is {factor!r}, but must be a number")
    return (1.0, _integer_factor(factor, type_name)) if type_name in INTEGERS else (_real_factor(factor, type_name), 1)


def _integer_factor(factor: Any, type_name: str) -> int:
    try:
        value = int(factor)
        whole = bool(value == factor)
    except (OverflowError, TypeError, ValueError):  # infinite, or no number at all
        whole = False
    if not whole:
        raise InvalidArgumentError(
            f"premulsum: the factor is {factor!r}, but elements of {type_name} are multiplied by integers; convert the "
            "array to floating point"
        )
    low, high = int(np.iinfo(type_name).min), int(np.iinfo(type_name).max)
    if not low <= value <= high:
        raise InvalidArgumentError(
            f"premulsum: the factor is {factor!r}, which no {type_name} is: they go from {low} to {high}"
        )
    return value if value < 2**63 else value - 2**64  # the same bits


def _real_factor(factor: Any, type_name: str) -> float:
    try:
        value = float(factor)
    except OverflowError:
        value = math.inf
    except (TypeError, ValueError, RuntimeError):
        raise InvalidArgumentError(f"premulsum: the factor is {factor!r}, but must be a number") from None
    most = float(np.finfo("float64" if type_name in _WIDE else "float32").max)
    if abs(value) > most and factor not in (math.inf, -math.inf):
        raise InvalidArgumentError(f"premulsum: the factor is {factor!r}, which is too large for {type_name}")
    return value


def combine_of(op: Callable[[Any, Any], Any], array: Any) -> Callable[[int, int, int], None]:
    """The function as the library calls it: with the addresses of two vectors, of which the second is the result."""
    if isinstance(array, SymmetricArray):
        array = array.local()
    if not isinstance(array, np.ndarray):
        raise InvalidArgumentError(f"a reduction of your own needs numpy arrays, not {type(array).__name__}")
    dtype = array.dtype

    def combine(first: int, second: int, count: int) -> None:
        memory = [(ctypes.c_char * (count * dtype.itemsize)).from_address(at) for at in (first, second)]
        lower, upper = (np.frombuffer(one, dtype=dtype) for one in memory)
        result = op(lower, upper)
        if np.shape(result) != upper.shape:
            raise InvalidArgumentError(
                f"the reduction returned {'None' if result is None else f'an array of shape {np.shape(result)}'} for two "
                f"arrays of shape {upper.shape}: it gets all elements in a row, and has to return as many, as numpy.add does"
            )
        np.copyto(upper, result, casting="same_kind" if dtype.kind in "biufc" else "unsafe")

    return combine
