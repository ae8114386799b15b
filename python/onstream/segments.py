"""Segment: symmetric memory, a part on every rank, by byte offsets. symmetric.py has arrays over it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _core, _types, _values, _views
from .errors import InvalidArgumentError
from .symmetric import Piece, SymmetricArray, told_bits

if TYPE_CHECKING:
    from .world import World


class Segment:
    """Symmetric memory of a world: a part on every rank, which every rank puts to, gets from, and signals in.

    Offsets are bytes into a part. put(), get(), signal() and wait() are ordered on `stream`, where they do not block
    and may be captured; without a stream they go by the array, as World.send() does, and block for a host array.
    signal() and wait() without a stream block. The peer takes no part. Words are unsigned integers of 8 bytes, at
    offsets that are multiples of 8. Views keep the memory alive, until free().
    """

    def __init__(self, world: World, blocks: _core.SegmentBlocks) -> None:
        self._world = world
        self._blocks = blocks
        self._freed = False

    @property
    def nbytes(self) -> int:
        """Bytes of each rank's part."""
        return self._blocks.nbytes

    @property
    def kind(self) -> str:
        """The kind of its memory, as World.empty() takes it."""
        return self._blocks.kind

    def local(self, dtype: Any = "uint8") -> Any:
        """This rank's part as a 1-dimensional array."""
        return _whole(self._blocks.local(), dtype)

    def array(self, shape: int | Sequence[int], dtype: Any = "float64", *, offset: int = 0) -> SymmetricArray:
        """The elements from `offset` on as a SymmetricArray, whose ops know strides, element types and many words."""
        extents, nbytes = _types.sized(shape, dtype, "an array")
        start = _values.offset_of(offset, "offset")
        self._blocks.address_of(start, nbytes)
        return SymmetricArray(self._world, Piece(self._blocks, start, extents, dtype))

    def peer(self, rank: int, dtype: Any = "uint8") -> Any:
        """A peer's part as a 1-dimensional array that this rank's device addresses: numpy, torch or cupy, as local().

        For the program's own kernels, and where a plan's put() goes. Raises UnsupportedError, with the reason, where
        this rank's device cannot reach it; put() and get() can all the same.
        """
        return _whole(self._blocks.peer(_values.rank_of(rank)), dtype)

    def direct(self, rank: int) -> bool:
        """Whether peer() works; else why_not() tells the reason."""
        return self._blocks.direct(_values.rank_of(rank))

    def why_not(self, rank: int) -> str:
        """Why this rank's device does not reach a peer's part; empty where it does."""
        return self._blocks.why_not(_values.rank_of(rank))

    def put(
        self,
        array: Any,
        rank: int,
        *,
        offset: int = 0,
        signal: int | None = None,
        value: int = 1,
        op: str = "add",
        stream: Any = None,
    ) -> None:
        """Copies a contiguous array into rank's part.

        Parameters
        ----------
        array : array
            Contiguous, of any type.
        rank : int
            The owner of the part, this rank too.
        offset : int
            The byte of the part where it goes.
        signal : int, optional
            The offset of a word there, an unsigned integer of 8 bytes, that is then changed: a rank that waits for it sees the
            array's bytes.
        value : int
            Added to the word, or set.
        op : str
            "add" or "set".
        stream : stream, optional
            As of World.send(): enqueues there; without it host arrays block.

        Raises
        ------
        InvalidArgumentError
            Bytes or a word that do not lie in the part.
        """
        word = None if signal is None else _values.offset_of(signal, "signal")
        start, bits = _values.offset_of(offset, "offset"), told_bits(value, op, "uint64")
        self._blocks.put(array, _values.rank_of(rank), start, word, bits, op, stream)

    def get(self, array: Any, rank: int, *, offset: int = 0, stream: Any = None) -> None:
        """Fills a contiguous array from rank's part.

        Parameters
        ----------
        array : array
            Contiguous and writable.
        rank : int
            The owner of the part, this rank too.
        offset : int
            The byte of the part where it begins.
        stream : stream, optional
            As of put().

        Raises
        ------
        InvalidArgumentError
            Bytes that do not lie in the part.
        """
        self._blocks.get(array, _values.rank_of(rank), _values.offset_of(offset, "offset"), stream)

    def signal(self, rank: int, *, offset: int, value: int = 1, op: str = "add", stream: Any = None) -> None:
        """Changes the word at `offset` of rank's part: adds `value`, or sets it (op="set")."""
        start, bits = _values.offset_of(offset, "offset"), told_bits(value, op, "uint64")
        self._blocks.signal(_values.rank_of(rank), start, bits, op, stream)

    def wait(self, *, offset: int, value: int, compare: str = "ge", stream: Any = None) -> None:
        """Waits until a word of this rank's part compares with a value.

        Parameters
        ----------
        offset : int
            The byte where the word begins, a multiple of 8.
        value : int
            The value to compare with, 0 to 2^64 - 1.
        compare : str
            "eq", "ne", "gt", "ge", "lt" or "le".
        stream : stream, optional
            Enqueues the wait; without it the call blocks.

        Raises
        ------
        TimeoutError, AbortedError
            At the deadline, which fails the world; when the world has failed.
        """
        bits = _values.word_of_type(value, "uint64", "value")
        self._blocks.wait(_values.offset_of(offset, "offset"), bits, compare, stream)

    def atomic(self, op: str, rank: int, *, offset: int, value: int = 0, expected: int = 0, width: int = 8) -> int:
        """Changes a word of 4 or 8 bytes of rank's part atomically, and returns its old value. Blocks.

        op is fetch, set, add, and, or, xor, swap, or compare_swap (which stores `value` if the word is `expected`).
        """
        types = {4: "uint32", 8: "uint64"}
        bytes_of_word = _values.integer_of(width, "width")
        if bytes_of_word not in types:
            raise InvalidArgumentError(f"width={bytes_of_word}: a word has 4 or 8 bytes")
        word = self.array((), types[bytes_of_word], offset=offset)
        was: int = word.atomic(op, rank, value=value, expected=expected, stream="host")
        return was

    def free(self) -> None:
        """Frees every rank's part now; views of it must not be used any more. Collective.

        Nothing that uses it is under way. Later launches of plans and of World.capture()'s graphs that use it raise.
        """
        self._blocks.free()
        self._freed = True

    def __repr__(self) -> str:
        if self._freed:
            return "<Segment: freed>"
        if self._world.closed:
            return "<Segment: its world is closed>"
        return f"<Segment: {self.nbytes} bytes on each of {self._world.size} ranks, {self.kind} memory>"


def _whole(block: _core.Block, dtype: Any) -> Any:
    return _views.view_of(block, block.nbytes // _types.item_bytes_of(dtype), dtype)
