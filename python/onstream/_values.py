"""Checks of single values of a call - flags, integers, words, names, shapes - and of types whose bytes are copied."""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

import numpy as np

from .errors import InvalidArgumentError

_OWN_ORDER, _FOREIGN_ORDER = "<>" if sys.byteorder == "little" else "><"  # as numpy writes them
# Types that can be waited for: the lowest and the highest.
WORDS = {
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}


def flag_of(value: Any, name: str) -> bool:
    """An argument that is true or false: a bool, or 0 or 1. TypeError naming it for anything else."""
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, (int, np.integer)) and value in (0, 1)):
        return bool(value)
    raise TypeError(f"{name} is {value!r} of type {type(value).__name__}, but must be True or False")


def text_of(value: Any, name: str) -> str:
    """An argument that is one of some names. TypeError naming it for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r} of type {type(value).__name__}, but must be a string")
    return value


def integer_of(value: Any, name: str) -> int:
    """A count, of any integer type. Raises TypeError naming the argument for anything else, bools included."""
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{name} is {value!r} of type {type(value).__name__}, but must be an integer")


def rank_of(value: Any, name: str = "rank") -> int:
    """Any number that a rank, a tag or a channel may have, or a count of them; the callee says whether there is such."""
    number = integer_of(value, name)
    if not -(2**31) <= number < 2**31:
        raise InvalidArgumentError(f"{name} {number} does not exist")
    return number


def offset_of(value: Any, name: str) -> int:
    """Bytes from the begin of a segment on."""
    number = integer_of(value, name)
    if not 0 <= number < 2**63:
        raise InvalidArgumentError(f"{name} is {number}, but must be 0 to 2**63 - 1, bytes from the segment's begin on")
    return number


def check_bytes(nbytes: int, what: str) -> None:
    if not 0 <= nbytes < 2**63:
        raise InvalidArgumentError(f"{what} cannot have {nbytes} bytes: there may be 0 to 2**63 - 1")


def word_of(value: Any, width: int, name: str) -> int:
    """The bits of a signed or unsigned integer of `width` bytes."""
    number: int = integer_of(value, name)
    bits = 8 * width
    if not -(2 ** (bits - 1)) <= number < 2**bits:
        raise InvalidArgumentError(f"{name} is {number}, which no integer of {bits} bits is")
    modulus: int = 2**bits
    return number % modulus


def word_of_type(value: Any, type_name: str, name: str) -> int:
    """The bits of a value that this integer type of 4 or 8 bytes can hold; anything else raises."""
    if type_name not in WORDS:
        raise InvalidArgumentError(
            f"words are integers of 4 or 8 bytes, not {type_name or 'of an unknown type'}: {', '.join(WORDS)}"
        )
    number: int = integer_of(value, name)
    low, high = WORDS[type_name]
    if not low <= number <= high:
        raise InvalidArgumentError(f"{name} is {number}, which no {type_name} is: they go from {low} to {high}")
    return number % (high - low + 1)


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


def extents_of(shape: int | Sequence[int]) -> tuple[int, ...]:
    extents: Iterable[Any] = shape if is_several(shape) else (shape,)
    return tuple(integer_of(extent, "shape") for extent in extents)


@functools.lru_cache
def native_name(name: str) -> str:
    """A name of _types.type_name_of() as it would be of numbers in this machine's order."""
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


def check_same_type(call: str, to: str, source: str) -> None:
    """Bytes that are copied mean the same on both sides, if both sides tell."""
    check_same_order(call, to, source)
    if to and source and to != source:
        raise InvalidArgumentError(
            f"{call}: the source is of {source}, but the destination of {to}; convert the one, or copy its bytes as they "
            f"are by a view of the other type, such as array.view('{to}')"
        )


def check_place_of(call: str, name: str, dtype: str, types: Sequence[str]) -> None:
    """The number type in which the array is written or read, if the array tells its own."""
    if dtype and dtype not in types:
        raise InvalidArgumentError(f"{call}: `{name}` is of {dtype}, but must be of {' or '.join(types)}")
