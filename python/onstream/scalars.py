"""Single numbers as arguments of collectives: a number becomes an array of one element, and that a number of its type again.

An int is an int64, a float a float64, a complex number a complex128; a number of numpy's keeps its own type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import InvalidArgumentError

if TYPE_CHECKING:
    from .world import World

_LOW, _HIGH = -(2**63), 2**63 - 1


def is_number(value: Any) -> bool:
    """Python's own numbers and bools, and numpy's; no array, also of no dimensions."""
    return isinstance(value, (int, float, complex, np.generic)) and not isinstance(value, np.flexible)


def check_options(call: str, out: Any, stream: Any) -> None:
    if out is not None:
        raise InvalidArgumentError(f"{call}: of a number the result is returned; give no `out`, or give an array")
    if stream is not None and not (isinstance(stream, str) and stream == "host"):
        raise InvalidArgumentError(
            f"{call}: of a number the result is returned, so the call blocks and takes no stream; give an array of one "
            "element for a call on a stream"
        )


def array_of(call: str, value: Any, world: World) -> np.ndarray[Any, Any]:
    """An array of no dimensions that the CPU and the kernels of the world's device reach."""
    if isinstance(value, int) and not _LOW <= value <= _HIGH:
        raise InvalidArgumentError(
            f"{call}: {value} is beyond int64, {_LOW} to {_HIGH}; give a float, or collect the integers by all_gather_object()"
        )
    given = np.asarray(value, _type_of(value))
    array = room_of(world, (), given.dtype)
    array[()] = given
    return array


def room_of(world: World, shape: int | tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """A new array that the CPU and the kernels of the world's device reach."""
    if world.device == "host":
        return np.empty(shape, dtype)
    room: np.ndarray[Any, Any] = world.empty(shape, dtype, kind="pinned")
    return room


def _type_of(value: Any) -> Any:
    for kind, dtype in ((np.generic, None), (bool, np.bool_), (int, np.int64), (float, np.float64)):
        if isinstance(value, kind):
            return dtype
    return np.complex128


def number_of(array: np.ndarray[Any, Any], like: Any) -> Any:
    """The element as a number of the type of another."""
    return array[()] if isinstance(like, np.generic) else array.item()
