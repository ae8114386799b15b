"""Checks of single values of a call - flags, numbers, one or several - and of the order in which bytes of numbers lie."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

import numpy as np

from .errors import InvalidArgumentError

_OWN_ORDER, _FOREIGN_ORDER = "<>" if sys.byteorder == "little" else "><"  # as numpy writes them


def flag_of(value: Any, name: str) -> bool:
    """An argument that is true or false: a bool, or 0 or 1. TypeError naming it for anything else."""
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, (int, np.integer)) and value in (0, 1)):
        return bool(value)
    raise TypeError(f"{name} is {value!r} of type {type(value).__name__}, but must be True or False")


def plain_number(value: Any) -> Any:
    """A number of numpy's, also an array of no dimensions, as Python's own where that has such; others as they are."""
    return value.item() if isinstance(value, (np.ndarray, np.generic)) and value.ndim == 0 else value


def is_number(value: Any) -> bool:
    """Whether it has a real value: no bool, and no text that spells a number."""
    as_number = hasattr(type(value), "__float__") or hasattr(type(value), "__index__")
    return as_number and not isinstance(value, (bool, np.bool_, str, np.ndarray))


def is_several(value: Any) -> TypeGuard[Iterable[Any]]:
    """Whether an argument that may be one number or several is several: no text, whose bytes are numbers, too."""
    one = isinstance(value, (str, bytes)) or (isinstance(value, np.ndarray) and value.ndim == 0)
    return isinstance(value, Iterable) and not one


@functools.lru_cache
def native_name(name: str) -> str:
    """A name of type_name_of() as it would be of numbers in this machine's order."""
    if name.startswith(_FOREIGN_ORDER):
        return str(np.dtype(name).newbyteorder("=").name)
    return name.replace(f"'{_FOREIGN_ORDER}", f"'{_OWN_ORDER}")  # within a structured dtype


def check_same_order(call: str, to: str, source: str) -> None:
    """Bytes that are copied are numbers of one order on both sides, if both sides tell."""
    if to != source and native_name(to) == native_name(source):
        raise InvalidArgumentError(
            f"{call}: the source is of {source}, but the destination of {to}: bytes in another order; convert the one, "
            "such as by array.astype(array.dtype.newbyteorder('='))"
        )


def check_place_of(call: str, name: str, dtype: str, types: Sequence[str]) -> None:
    """The number type in which the array is written or read, if the array tells its own."""
    if dtype and dtype not in types:
        raise InvalidArgumentError(f"{call}: `{name}` is of {dtype}, but must be of {' or '.join(types)}")
