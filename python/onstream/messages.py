"""Messages of Python objects, and in place, beside the compiled sends and receives.

An object goes as plain messages of its tag, on the host: the first tells the size, and has all of a small object; the others
are pieces of PIECE_BYTES at most. So a receiver that refuses an object takes its pieces, one after the other, into the
same memory, and the next message of the tag is intact.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import _arrays, _core
from ._null import null
from .errors import InvalidArgumentError, TruncatedError, UnsupportedError
from .parcels import MAX_BYTES, Bytes, bound_of, buffer_sizes, pack, too_large, unpack
from .probes import Message, any_source

PIECE_BYTES = 1 << 20
FIRST_BYTES = 4096
_HEAD = struct.Struct("<8sqq")  # the mark, bytes of the front, and of the parcel
_MARK = b"onsobj\x01\n"


class Messages(_core.World):
    """The messages of a world that its compiled base lacks."""

    def send_object(self, obj: Any, peer: int, *, tag: int = 0) -> None:
        """Sends any object that can be pickled to recv_object() on `peer`. Blocks, as send() of host arrays does.

        Pickled by protocol 5, for ranks that trust each other; the memory of contiguous arrays in it is sent as it lies.

        Parameters
        ----------
        obj : object
            Anything that can be pickled.
        peer : int
            Rank of the receiver; to `null` nothing is sent.
        tag : int
            0 to parameter `tags` - 1; a queue of its own, which objects and arrays share.

        Raises
        ------
        InvalidArgumentError
            Before anything is sent, for an object that cannot be pickled.
        """
        front, buffers = pack("send_object", obj)
        head = _HEAD.pack(_MARK, front.nbytes, front.nbytes + sum(buffer.nbytes for buffer in buffers))
        inline = _HEAD.size + front.nbytes <= FIRST_BYTES
        self.send(head + front.tobytes() if inline else head, peer, tag=tag, stream="host")
        for block in buffers if inline else [front, *buffers]:
            for piece in _pieces(block):
                self.send(piece, peer, tag=tag, stream="host")

    def recv_object(self, peer: int, *, tag: int = 0, max_bytes: int = MAX_BYTES) -> Any:
        """Receives an object of send_object(). Blocks.

        Unpickling runs code that the sender chooses. Later messages of the tag are intact after each error.

        Parameters
        ----------
        peer : int
            Rank of the sender, or `any_source`: the one whose object is there first.
        tag : int
            As the sender's.
        max_bytes : int
            The largest object, pickle and arrays together, that this rank takes; 1 GiB if none is given.

        Returns
        -------
        object
            A copy of the sender's; None from `null`.

        Raises
        ------
        TruncatedError
            For a larger object, without making room for it.
        InvalidArgumentError
            For a message that is no object, or an object that cannot be unpickled here.
        """
        bound = bound_of(max_bytes)
        if peer is null:
            return None
        peer, first = self._first(peer, tag)
        _, front_nbytes, nbytes = _HEAD.unpack_from(first.data)
        inline = first.nbytes > _HEAD.size
        left = nbytes - (front_nbytes if inline else 0)
        if nbytes > bound:
            self._drain(left, peer, tag)
            raise too_large("recv_object", peer, nbytes, "this rank", bound)
        front = first[_HEAD.size :] if inline else self._filled(front_nbytes, peer, tag)
        buffers = [self._filled(size, peer, tag) for size in buffer_sizes(front)]
        return unpack("recv_object", peer, front, buffers)

    def _fill(self, room: Bytes, peer: int, tag: int) -> tuple[int, int]:
        """Receives a message; its sender and its bytes."""
        got = self.recv(room, peer, tag=tag, stream="host")
        return (got.peer, got.nbytes) if isinstance(got, Message) else (peer, got or 0)

    def _first(self, peer: int, tag: int) -> tuple[int, Bytes]:
        """The first message, and its sender."""
        room = np.empty(FIRST_BYTES, np.uint8)
        try:
            peer, got = self._fill(room, peer, tag)
        except TruncatedError:
            got = 0
        if got < _HEAD.size or room[: len(_MARK)].tobytes() != _MARK:
            raise InvalidArgumentError(
                f"recv_object: {'a rank' if peer == any_source else f'rank {peer}'} sent a message with tag {tag} that is no "
                "object; send_object() sends objects, and recv() receives all other messages"
            )
        return peer, room[:got]

    def _filled(self, nbytes: int, peer: int, tag: int) -> Bytes:
        block = np.empty(nbytes, np.uint8)
        for piece in _pieces(block):
            _, got = self._fill(piece, peer, tag)
            if got != piece.nbytes:
                raise InvalidArgumentError(
                    f"recv_object: a message of {got} bytes came from rank {peer} with tag {tag} where {piece.nbytes} bytes "
                    "of an object were due; another thread sends with this tag"
                )
        return block

    def _drain(self, nbytes: int, peer: int, tag: int) -> None:
        room = np.empty(min(nbytes, PIECE_BYTES), np.uint8)
        while nbytes > 0:
            nbytes -= self._fill(room, peer, tag)[1] or nbytes

    def sendrecv_replace(self, array: Any, dest: int, source: int, *, tag: int = 0) -> int | None:
        """sendrecv() with one array: its content goes to rank `dest`, and the message of rank `source` replaces it.

        Returns the message's bytes. Blocks for a host array, whose content is copied first. One of torch or cupy on a GPU
        goes on the library's current stream, as send() without a stream, and the call returns None; while this thread
        captures a stream it is refused, as the copy would be made once, now. Raises as sendrecv().

        Parameters
        ----------
        array : array
            Contiguous and writable; the message that comes fills its front.
        dest, source : int
            Ranks of the receiver and of the sender, or `null`.
        tag : int
            Of both messages.

        Returns
        -------
        int or None
            The bytes received; None on a GPU.

        Raises
        ------
        UnsupportedError
            For an array on a GPU in a capture, or of a library other than torch and cupy.
        InvalidArgumentError, TruncatedError
            As sendrecv().
        """
        _arrays.message_span(array, True, self)
        span = _arrays.span_of(array)
        if span.device == "host":
            content = (ctypes.c_ubyte * span.nbytes).from_address(span.address)
            copy: Any = np.array(content)
            return self.sendrecv(copy, dest, array, source, tag=tag, stream="host")
        if span.library not in ("torch", "cupy"):
            raise UnsupportedError(
                f"sendrecv_replace: a {type(array).__name__} on {span.device} cannot be copied here, as one of torch or cupy "
                "can; give two arrays to sendrecv()"
            )
        if _core.captures():
            raise UnsupportedError(
                "sendrecv_replace: this thread captures a stream, and the copy of the array would not be a part of the graph; "
                "give two arrays to sendrecv()"
            )
        copy = array.detach().clone() if span.library == "torch" else array.copy()
        return self.sendrecv(copy, dest, array, source, tag=tag)


def _pieces(block: Bytes) -> Iterator[Bytes]:
    for at in range(0, block.nbytes, PIECE_BYTES):
        yield block[at : at + PIECE_BYTES]
