"""The talk between the launcher and its agent on another host, over the agent's standard input and output.

The agent begins with a line, HELLO and JSON. The launcher answers with lines of JSON, the first of which is the job. From then on
the agent writes frames: kind, rank, size, and so many bytes. Shells may have written lines of their own before HELLO.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from dataclasses import dataclass

VERSION = 2  # of all this
HELLO = b"onstream agent: "
HEAD = struct.Struct(">BII")
LARGEST = 1 << 16  # of a frame's bytes


class Kind(enum.IntEnum):
    OUTPUT = 1  # of the rank; no bytes: its end
    ERRORS = 2  # its standard error; as well
    ENDED = 3  # the rank has ended: its code in decimal, negative for a signal
    REFUSED = 4  # the rank could not start: the number of the error, in decimal
    NOTE = 5  # a line from the agent itself
    TOOK = 6  # rank 0 has the input that was sent last


@dataclass(frozen=True)
class Frame:
    kind: Kind
    rank: int
    data: bytes

    def packed(self) -> bytes:
        return HEAD.pack(self.kind, self.rank, len(self.data)) + self.data


class Frames:
    """Takes frames out of bytes as they come."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def take(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole now. Throws ValueError for bytes that are none."""
        self._bytes += data
        while len(self._bytes) >= HEAD.size:
            kind, rank, size = HEAD.unpack_from(self._bytes)
            if size > LARGEST:
                raise ValueError(f"a frame of {size} bytes")
            if len(self._bytes) < HEAD.size + size:
                return
            frame = Frame(Kind(kind), rank, bytes(self._bytes[HEAD.size : HEAD.size + size]))
            del self._bytes[: HEAD.size + size]
            yield frame
