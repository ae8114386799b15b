"""Heap: symmetric arrays in pieces of segments. Made by World.heap().

empty(), zeros(), resize(), free() and close() are collective: all ranks make the same calls in the same order, and get
the same place in every rank's part. Calls that differ raise on every rank and name each rank's call (parameter
heap_check). Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _core, _types, _values
from .errors import ClosedError, Error, InvalidArgumentError
from .symmetric import Piece, SymmetricArray

if TYPE_CHECKING:
    from .world import World


class Heap:
    """Symmetric memory from which arrays are taken and given back. At the end of a `with` block it is closed."""

    def __init__(self, world: World, blocks: _core.HeapBlocks, kind: str) -> None:
        self._world = world
        self._blocks = blocks
        self._kind = kind
        self._closed = False

    def empty(self, shape: int | Sequence[int], dtype: Any = "float64", *, alignment: int = 64) -> SymmetricArray:
        """An array of this shape on every rank, whose elements are not known. Collective.

        Raises SystemError when the heap is full, or not so aligned, and may not grow. alignment: bytes, a power of two
        up to 4096; on the host device up to the bytes of the heap or of its growth, at most a GiB.
        """
        return self._make(self._blocks.allocate, shape, dtype, alignment)

    def zeros(self, shape: int | Sequence[int], dtype: Any = "float64", *, alignment: int = 64) -> SymmetricArray:
        """empty(), of zeros on every rank."""
        return self._make(self._blocks.allocate_zeroed, shape, dtype, alignment)

    def resize(self, array: SymmetricArray, shape: int | Sequence[int]) -> SymmetricArray:
        """The array in another shape: keeps the bytes that fit, row-major, where they are if it can. Collective.

        `array` and its parts are of no use any more. An array that moves gets an address that is a multiple of 64
        bytes; its old alignment is not kept.
        """
        piece = self._own(array, "resize")
        extents, nbytes = _types.sized(shape, piece.dtype, "an array")
        address = _end(piece, "resize", lambda at: self._blocks.reallocate(at, max(nbytes, 1)))
        piece.gone = "it was resized"
        return self._array_at(address, extents, piece.dtype)

    def free(self, array: SymmetricArray) -> None:
        """Gives an array back. It and its parts are of no use any more; views of it must not be used. Collective."""
        piece = self._own(array, "free")
        _end(piece, "free", self._blocks.free)
        piece.gone = "it was freed"

    def close(self) -> None:
        """Frees all of it on every rank at once. Idempotent; collective."""
        if self._closed:
            return
        self._closed = True  # also if Ctrl-C ends the wait: the call goes on then
        try:
            self._blocks.close()
        except Error:
            self._closed = False
            raise

    def full_for(self, nbytes: int, *, alignment: int = 64) -> bool:
        """Whether a piece of so many bytes cannot be had. Not collective."""
        return self._blocks.full_for(_values.integer_of(nbytes, "nbytes"), _values.integer_of(alignment, "alignment"))

    @property
    def nbytes(self) -> int:
        """Bytes of all its segments, on each rank."""
        return self._blocks.nbytes

    @property
    def used(self) -> int:
        """Bytes of the pieces that are in use, as they lie."""
        return self._blocks.used

    @property
    def pieces(self) -> int:
        """How many arrays it has given and not got back."""
        return self._blocks.pieces

    @property
    def kind(self) -> str:
        """The kind of its memory, as World.empty() takes it."""
        return self._kind

    def __enter__(self) -> Heap:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None and not self._world.closed:  # else the other ranks may not come
            self.close()

    # --- detail ---

    def _make(self, allocate: Any, shape: int | Sequence[int], dtype: Any, alignment: int) -> SymmetricArray:
        self._check()
        extents, nbytes = _types.sized(shape, dtype, "an array")
        address = allocate(max(nbytes, 1), _values.integer_of(alignment, "alignment"))
        return self._array_at(address, extents, dtype)

    def _array_at(self, address: int, shape: tuple[int, ...], dtype: Any) -> SymmetricArray:
        blocks, offset = self._blocks.place(address)
        return SymmetricArray(self._world, Piece(blocks, offset, shape, dtype, heap=self))

    def _check(self) -> None:
        if self._closed:
            raise ClosedError("this heap was closed")

    def _own(self, array: SymmetricArray, call: str) -> Piece:
        self._check()
        if not isinstance(array, SymmetricArray) or array.piece.heap is not self or not array.whole:
            raise InvalidArgumentError(f"{call}: {array!r} is no array that this heap made, or only a part of one")
        if array.piece.gone:
            raise InvalidArgumentError(f"{call}: {array!r} is no piece of this heap any more: {array.piece.gone}")
        return array.piece

    def __repr__(self) -> str:
        if self._closed or self._world.closed:
            return "<Heap: closed>"
        return f"<Heap: {self.used} of {self.nbytes} bytes used by {self.pieces} pieces, {self._kind} memory>"


def _end(piece: Piece, call: str, ending: Callable[[int], Any]) -> Any:
    """ending(the piece's address). A Ctrl-C leaves the call behind, which goes on: the piece is of no use then."""
    address = piece.address
    piece.gone = f"its {call} was interrupted"
    try:
        return ending(address)
    except Error:
        piece.gone = ""
        raise
