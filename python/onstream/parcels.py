"""Parcels: Python objects as bytes on their way between ranks that trust each other.

A parcel is its front, which is the pickle (protocol 5) behind a table of sizes, and the buffers that the pickle leaves out:
the memory of contiguous arrays, which is not copied. A parcel that is joined is one block of bytes, with each part at a
multiple of ALIGNED. pack() pickles before a byte has left, so an object that cannot be pickled disturbs no other rank; a
receiver knows the size of a parcel before it makes room for it.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _values
from .errors import InvalidArgumentError, TruncatedError

MAX_BYTES = 1 << 30  # the largest object that a rank takes, if its call names no other bound
ALIGNED = 64  # bytes, as numpy aligns the arrays that it makes
_NUMBER = struct.Struct("<q")

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Parcel(NamedTuple):
    """A pickled object. The buffers are the object's own memory."""

    front: Bytes
    buffers: list[Bytes]

    @property
    def nbytes(self) -> int:
        return self.front.nbytes + sum(buffer.nbytes for buffer in self.buffers)

    @property
    def joined_nbytes(self) -> int:
        return _padded(self.front.nbytes) + sum(_padded(buffer.nbytes) for buffer in self.buffers)

    def join(self, block: Bytes) -> None:
        """Copies all parts into a block of joined_nbytes."""
        at = 0
        for part in (self.front, *self.buffers):
            block[at : at + part.nbytes] = part
            at += _padded(part.nbytes)


def pack(call: str, thing: Any) -> Parcel:
    """Raises InvalidArgumentError, with the cause, for an object that cannot be pickled."""
    out: list[pickle.PickleBuffer] = []
    try:
        text = pickle.dumps(thing, protocol=5, buffer_callback=out.append)
        buffers = [np.frombuffer(one.raw(), np.uint8) for one in out]
    except Exception as error:  # of any type: the object's own methods run
        raise InvalidArgumentError(
            f"{call}: an object of type {type(thing).__name__} cannot be pickled: {type(error).__name__}: {error}"
        ) from error
    table = struct.pack(f"<{1 + len(buffers)}q", len(buffers), *(buffer.nbytes for buffer in buffers))
    return Parcel(np.frombuffer(table + text, np.uint8), buffers)


def buffer_sizes(front: Bytes) -> list[int]:
    """Bytes of each buffer of a parcel, as its front tells."""
    (count,) = _NUMBER.unpack_from(front.data)
    return list(struct.unpack_from(f"<{count}q", front.data, _NUMBER.size))


def unpack(call: str, sender: int, front: Bytes, buffers: Sequence[Bytes]) -> Any:
    """The object. Raises InvalidArgumentError, with the cause, if it cannot be unpickled on this rank."""
    try:
        return pickle.loads(front[_NUMBER.size * (1 + len(buffers)) :].data, buffers=buffers)
    except Exception as error:  # of any type: the object's own methods run
        raise InvalidArgumentError(
            f"{call}: the object of rank {sender} cannot be unpickled here: {type(error).__name__}: {error}"
        ) from error


def unjoin(call: str, sender: int, block: Bytes, front_nbytes: int) -> Any:
    """The object of a joined parcel; arrays in it are views of the block."""
    front, at, buffers = block[:front_nbytes], _padded(front_nbytes), []
    for size in buffer_sizes(front):
        buffers.append(block[at : at + size])
        at += _padded(size)
    return unpack(call, sender, front, buffers)


def bound_of(max_bytes: Any) -> int:
    bound = _values.integer_of(max_bytes, "max_bytes")
    if not 0 <= bound < 2**63:
        raise InvalidArgumentError(
            f"max_bytes is {bound}, but must be 0 to 2**63 - 1, bytes of the largest object taken"
        )
    return bound


def too_large(call: str, sender: int, nbytes: int, receiver: str, bound: int) -> TruncatedError:
    return TruncatedError(
        f"{call}: rank {sender} sends an object of {nbytes} bytes, but {receiver} takes {bound} at most; a larger one needs "
        f"max_bytes={nbytes}"
    )


def _padded(nbytes: int) -> int:
    return -(-nbytes // ALIGNED) * ALIGNED
