"""SymmetricArray: an array at the same place of every rank's part of a segment or heap, and the one-sided ops on it.

A part of it, by integers and slices, is one too: a put or get of a part that is not contiguous is strided. Ops are
ordered on `stream`, where they do not block and may be captured; without a stream they go by the local array, as
World.send() does, and block for a host array. The peer takes no part. Words that are waited for, signalled or changed
atomically are integers of 4 or 8 bytes (signals 8); floats may be fetched, set and swapped.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _arrays, _core, _libraries, _types, _values, _views
from .errors import ClosedError, InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from .heap import Heap
    from .world import World

_FLOATS = {"float32": "<f", "float64": "<d"}
_COUNTERS = ("int64", "uint64")
_PLACES = {4: ("int32", "uint32"), 8: _COUNTERS}  # types of words that a wait on a stream reads and writes, by bytes
_BITWISE = ("add", "and", "or", "xor")


@dataclass
class Piece:
    """Where an array and its parts lie: so many bytes from an offset of a segment on."""

    blocks: _core.SegmentBlocks
    offset: int
    shape: tuple[int, ...]
    dtype: Any
    heap: Heap | None = None  # that it was taken from
    gone: str = ""  # why it is of no use any more

    def __post_init__(self) -> None:
        self.dtype = _types.known_type(self.dtype)

    @property
    def nbytes(self) -> int:
        return _types.sized(self.shape, self.dtype, "an array")[1]

    @property
    def address(self) -> int:
        """This rank's own. Raises ClosedError once the segment was freed."""
        return self.blocks.address_of(self.offset, self.nbytes)


class SymmetricArray:
    """An array of one shape and element type at the same place of every rank's part. Made by Heap and Segment.array().

    `array[2:5]`, `array[:, 0]`, `array[7]` are parts of it, at the same place on every rank.
    """

    def __init__(self, world: World, piece: Piece, keys: tuple[Any, ...] = (), layout: _Layout | None = None) -> None:
        self._world = world
        self._piece = piece
        self._keys = keys
        item = _types.item_bytes_of(piece.dtype)
        self._layout = layout or _Layout(0, piece.shape, _arrays.row_major(piece.shape, item))
        self._item_bytes = item

    @property
    def shape(self) -> tuple[int, ...]:
        """As of a numpy array."""
        return self._layout.shape

    @property
    def dtype(self) -> Any:
        """The element type that it was made with."""
        return self._piece.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of its elements, on each rank."""
        return self._layout.size * self._item_bytes

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a SymmetricArray of one element has no len()")
        return self.shape[0]

    def __getitem__(self, key: Any) -> SymmetricArray:
        keys = key if isinstance(key, tuple) else (key,)
        full = keys if any(one is Ellipsis for one in keys) else (*keys, Ellipsis)  # views, also of one element
        return SymmetricArray(self._world, self._piece, (*self._keys, full), self._layout.at(full))

    def __bool__(self) -> bool:
        raise TypeError("a SymmetricArray is neither true nor false; look at its elements by local(), or wait for them")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """This rank's own, for numpy's functions. TypeError where the CPU does not reach it."""
        mine = self.local()
        if not isinstance(mine, np.ndarray):
            raise TypeError(f"numpy has no access to {self!r}; use local(), which is a {type(mine).__name__}")
        return np.array(mine, dtype=dtype, copy=True) if copy else np.asarray(mine, dtype=dtype)

    def __iter__(self) -> Iterator[SymmetricArray]:
        return (self[i] for i in range(len(self)))

    def local(self) -> Any:
        """This rank's own: numpy where the CPU reaches it, else cupy, torch or a DeviceArray. Keeps the memory alive."""
        self._check()
        return self._view(self._piece.blocks.local())

    def peer(self, rank: int) -> Any:
        """A peer's, as this rank's device addresses it, for the program's own kernels.

        Raises UnsupportedError, with the reason, where this rank's device cannot reach it; put() and get() can all the
        same.
        """
        self._check()
        return self._view(self._piece.blocks.peer(_values.rank_of(rank)))

    def direct(self, rank: int) -> bool:
        """Whether peer() works; else why_not() tells the reason."""
        return self._piece.blocks.direct(_values.rank_of(rank))

    def why_not(self, rank: int) -> str:
        """Why this rank's device does not reach a peer's part; empty where it does."""
        return self._piece.blocks.why_not(_values.rank_of(rank))

    # --- data ---

    def put(
        self, array: Any, rank: int, *, signal: SymmetricArray | None = None, value: int = 1, op: str = "add",
        stream: Any = None,
    ) -> None:  # fmt: skip
        """Copies an array of as many elements of the same type to this place of rank's part.

        Shapes may differ: element by element, both in row-major order. Bytes that tell no type, such as a bytearray, fit any.

        Parameters
        ----------
        array : array
            Of any strides.
        rank : int
            The owner of the place.
        signal : SymmetricArray, optional
            One integer of 8 bytes: that word of rank's is then changed, and a rank that waits for it sees the elements.
        value : int
            Added to the word, or set.
        op : str
            "add" or "set".
        stream : stream, optional
            As of World.send().

        Raises
        ------
        InvalidArgumentError
            Another number or type of elements.
        ClosedError
            This array was freed, or resized.
        """
        span = _arrays.checked_span(array, False, self._world)
        _values.check_same_type("put", self.type_name, span.dtype)
        owners = [self._piece.blocks, span.owner]
        word, bits = None, 0
        if signal is not None:
            word, bits = counter_address(signal), told_bits(value, op, signal.type_name)
            owners.append(signal.piece.blocks)
        self._ops.put(
            self.elements(), elements_of(span), _values.rank_of(rank), word, bits, op, stream, span.natural, owners
        )

    def get(self, array: Any, rank: int, *, stream: Any = None) -> None:
        """Fills an array of as many elements of the same type, as put(), from this place of rank's part.

        Parameters
        ----------
        array : array
            Writable, of any strides.
        rank : int
            The owner of the place.
        stream : stream, optional
            As of World.send().

        Raises
        ------
        InvalidArgumentError
            As put().
        """
        span = _arrays.checked_span(array, True, self._world)
        _values.check_same_type("get", span.dtype, self.type_name)
        owners = [self._piece.blocks, span.owner]
        self._ops.get(elements_of(span), self.elements(), _values.rank_of(rank), stream, span.natural, owners)

    # --- words ---

    def signal(self, rank: int, *, value: int = 1, op: str = "add", stream: Any = None) -> None:
        """Changes this word, an integer of 8 bytes, of rank's part: adds `value`, or sets it (op="set")."""
        counter_address(self)
        bits = told_bits(value, op, self.type_name)
        self._ops.signal(self.elements(), _values.rank_of(rank), bits, op, stream, self._piece.blocks)

    def wait(self, value: int, *, compare: str = "ge", stream: Any = None) -> None:
        """Waits until this word of this rank's own part compares with `value`: eq, ne, gt, ge, lt or le.

        Behind the wait all bytes are seen that were put before the word was set. At the deadline it ends and fails the
        world.
        """
        if self._layout.size != 1:
            raise InvalidArgumentError(
                f"wait: one word, but this array has shape {self.shape}; index it, or use wait_all, wait_any or wait_some"
            )
        self._wait(_core.Many("all"), value, compare, [], stream, [])

    def wait_all(self, value: int, *, compare: str = "ge", leave_out: Any = None, stream: Any = None) -> None:
        """Waits until all words of this rank's own part compare, except those that `leave_out` (true: left out) names.

        On a stream `leave_out` is an array of int32 that kernels access and the program keeps as it is.
        """
        many, left_out, owners = self._choice("all", leave_out)
        self._wait(many, value, compare, left_out, stream, owners)

    def wait_any(
        self, value: int, *, compare: str = "ge", leave_out: Any = None, stream: Any = None, found: Any = None
    ) -> int | None:
        """Waits until one of the words compares. Returns its index, or None if all are left out.

        On a stream the index (the number of words if all are left out) goes to `found`, one integer of 8 bytes that
        kernels access; a wait of the host refuses it.
        """
        many, left_out, owners = self._choice("any", leave_out, found=found)
        result = self._wait(many, value, compare, left_out, stream, owners)
        return None if result is None or result[0] == self._layout.size else result[0]

    def wait_some(
        self, value: int, *, compare: str = "ge", leave_out: Any = None, stream: Any = None, found: Any = None,
        indices: Any = None,
    ) -> list[int] | None:  # fmt: skip
        """Waits until one of the words compares. Returns the indices of all that do then; none if all are left out.

        On a stream they go to `indices`, as many integers of 8 bytes as there are words, and their number to `found`.
        """
        many, left_out, owners = self._choice("some", leave_out, found=found, indices=indices)
        return self._wait(many, value, compare, left_out, stream, owners)

    def atomic(
        self, op: str, rank: int, *, value: Any = 0, expected: Any = 0, old: Any = None, stream: Any = None
    ) -> Any:
        """Changes this word of rank's part atomically, and returns its old value.

        op is fetch, set, add, and, or, xor, swap, or compare_swap (which stores `value` if the word is `expected`);
        floats have fetch, set and swap. On a stream it returns None, and the old value goes to `old`, one element of
        the same type that kernels access, if there is one. The value that set returns means nothing.

        Parameters
        ----------
        op : str
            As above.
        rank : int
            The owner of the word.
        value, expected : number
            Of the word's type.
        old : array, optional
            On a stream: gets the old value.
        stream : stream, optional
            Enqueues it; without it the call blocks.

        Returns
        -------
        number or None
            The old value; None on a stream.

        Raises
        ------
        InvalidArgumentError
            An op that the type does not have, or a value that it cannot hold.
        """
        name = self.type_name
        bits = atomic_bits(op, name, value, expected)
        owners: list[Any] = [self._piece.blocks]
        address = 0
        if old is not None:
            span = _arrays.checked_span(old, True, self._world)
            if span.nbytes != self._item_bytes:
                raise InvalidArgumentError(
                    f"the old value of {self._item_bytes} bytes cannot go to {span.nbytes} bytes"
                )
            _values.check_same_order("atomic", span.dtype, self.type_name)
            address = span.address
            owners.append(span.owner)
        was = self._ops.atomic(op, self.elements(), _values.rank_of(rank), *bits, address, stream, owners)
        return None if was is None else value_of(was, name)

    # --- detail ---

    @property
    def type_name(self) -> str:
        """The elements' type, as numpy and torch call it: "float64", "bfloat16"."""
        return _types.type_name_of(self.dtype)

    def elements(self) -> _core.Elements:
        """The elements at their place in this rank's own part, by which ops name the same place of any rank."""
        self._check()
        layout = self._layout
        return _core.Elements(
            self._piece.address + layout.offset,
            self._item_bytes,
            list(layout.shape),
            list(layout.strides),
            self.type_name,
        )

    def local_span(self) -> _arrays.Span:
        """A span of this rank's own elements, as any op takes an array, without an array library."""
        self._check()
        return self._span(self._piece.blocks.local())

    def peer_span(self, rank: int) -> _arrays.Span:
        """A span of a peer's elements. Raises UnsupportedError, with the reason, where this rank's device cannot
        reach them."""
        self._check()
        return self._span(self._piece.blocks.peer(_values.rank_of(rank)))

    def _span(self, part: _core.Block) -> _arrays.Span:
        part = part.part(self._piece.offset, self._piece.nbytes)
        device = "host" if part.on_host else f"cuda:{part.device_index}"
        return _arrays.Span(
            address=part.address + self._layout.offset,
            item_bytes=self._item_bytes,
            shape=self._layout.shape,
            strides=self._layout.strides,
            writable=True,
            device=device,
            library="onstream",
            owner=part,
            dtype=self.type_name,
            stream=_libraries.library_stream(device),
        )

    @property
    def piece(self) -> Piece:
        """The memory that it is a part of."""
        return self._piece

    @property
    def whole(self) -> bool:
        """Not a part of another array."""
        return not self._keys

    @property
    def _ops(self) -> _core.OneSided:
        return self._world._one_sided

    def _check(self) -> None:
        if self._piece.gone:
            raise ClosedError(f"this symmetric array of shape {self.shape} is of no use any more: {self._piece.gone}")

    def _view(self, part: _core.Block) -> Any:
        piece = self._piece
        view = _views.view_of(part.part(piece.offset, piece.nbytes), piece.shape, piece.dtype)
        if self._keys and isinstance(view, _views.DeviceArray):
            raise UnsupportedError("a part of an array on a GPU needs cupy or torch; neither can be imported")
        for key in self._keys:
            view = view[key]
        return view

    def _choice(
        self, which: str, leave_out: Any, *, found: Any = None, indices: Any = None
    ) -> tuple[_core.Many, list[int], list[Any]]:
        owners: list[Any] = []

        def address_of(array: Any, count: int, item_bytes: int, name: str) -> int:
            if array is None:
                return 0
            span = _arrays.checked_span(array, name != "leave_out", self._world)
            if span.nbytes != count * item_bytes or span.item_bytes != item_bytes or not span.contiguous:
                raise InvalidArgumentError(
                    f"`{name}` must be {count} integers of {item_bytes} bytes side by side, not shape {span.shape} of "
                    f"{span.item_bytes} bytes each"
                )
            _values.check_place_of(f"wait_{which}", name, span.dtype, _PLACES[item_bytes])
            owners.append(span.owner)
            return span.address

        flags = flags_of(leave_out, self._layout.size)
        in_memory = leave_out is not None and _types.is_array_of(leave_out, "int32")
        many = _core.Many(
            which,
            address_of(found, 1, 8, "found"),
            address_of(indices, self._layout.size, 8, "indices"),
            address_of(leave_out, self._layout.size, 4, "leave_out") if in_memory else 0,
        )
        return many, flags, owners

    def _wait(
        self, many: _core.Many, value: int, compare: str, left_out: list[int], stream: Any, owners: list[Any]
    ) -> list[int] | None:
        bits = _values.word_of_type(value, self.type_name, "value")
        return self._ops.wait(many, self.elements(), compare, bits, left_out, stream, [self._piece.blocks, *owners])

    def __repr__(self) -> str:
        return f"<SymmetricArray: shape {self.shape}, {self.type_name}>"


@dataclass(frozen=True)
class _Layout:
    """How a part lies in its piece. Offset and strides in bytes."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def at(self, keys: tuple[Any, ...]) -> _Layout:
        """By integers, slices and one Ellipsis."""
        given = sum(key is not Ellipsis for key in keys)
        if given > len(self.shape) or len(keys) - given > 1:
            raise IndexError(f"an index of {given} dimensions, but the array has shape {self.shape}")
        split = next(i for i, key in enumerate(keys) if key is Ellipsis)
        whole = (slice(None),) * (len(self.shape) - given)
        offset, shape, strides = self.offset, [], []
        for key, extent, stride in zip(
            (*keys[:split], *whole, *keys[split + 1 :]), self.shape, self.strides, strict=True
        ):
            if isinstance(key, slice):
                start, stop, step = key.indices(extent)
                count = len(range(start, stop, step))
                offset += start * stride if count else 0
                shape.append(count)
                strides.append(stride * step)
            else:
                if isinstance(key, (bool, np.bool_)):
                    raise IndexError(f"{key} is no index of a SymmetricArray: those are integers and slices")
                index = _values.integer_of(key, "an index of a SymmetricArray (integers and slices)")
                if not -extent <= index < extent:
                    raise IndexError(f"index {index} is not within the {extent} elements of its dimension")
                offset += (index % extent) * stride
        return _Layout(offset, tuple(shape), tuple(strides))


def elements_of(span: _arrays.Span) -> _core.Elements:
    """The numbers of a span, as the compiled module takes them."""
    return _core.Elements(span.address, span.item_bytes, list(span.shape), list(span.strides), span.dtype)


def counter_address(word: SymmetricArray) -> int:
    """The address of one symmetric integer of 8 bytes. Raises InvalidArgumentError for anything else."""
    if not isinstance(word, SymmetricArray) or word.type_name not in _COUNTERS or word._layout.size != 1:
        raise InvalidArgumentError(
            f"a signal is one symmetric integer of 8 bytes, such as heap.zeros(4, 'uint64')[0], not {word!r}"
        )
    return word.elements().address


def bits_of(value: Any, type_name: str, name: str) -> int:
    """A value of a word, as an unsigned integer of as many bits."""
    if type_name not in _FLOATS:
        return _values.word_of_type(value, type_name, name)
    number = _values.plain_number(value)
    try:
        if _values.is_number(number):
            return int.from_bytes(struct.pack(_FLOATS[type_name], number), "little")
    except OverflowError:
        raise InvalidArgumentError(f"{name} is {value!r}, which is too large for a {type_name}") from None
    except struct.error:
        pass
    raise TypeError(f"{name} is {value!r} of type {type(value).__name__}, but must be a number")


def atomic_bits(op: str, type_name: str, value: Any, expected: Any) -> tuple[int, int]:
    """Both operands of an atomic. A stored or compared value has the word's type; add, or and so on take any bits."""
    if type_name not in _values.WORDS and type_name not in _FLOATS:
        return 0, 0  # the core's error lists the types of words
    if op in _BITWISE and type_name in _values.WORDS:
        return _values.word_of(value, 4 if type_name.endswith("32") else 8, "value"), 0
    return bits_of(value, type_name, "value"), bits_of(expected, type_name, "expected")


def told_bits(value: Any, op: str, type_name: str) -> int:
    """The bits of a signal's value: of the word's type if it is set; an added one may be of either sign."""
    if op == "set":
        return _values.word_of_type(value, type_name, "value")
    return _values.word_of(value, 8, "value")


def value_of(bits: int, type_name: str) -> int | float:
    """The value of a word from its bits: the inverse of bits_of()."""
    width = 4 if type_name.endswith("32") else 8
    word = bits.to_bytes(width, "little")
    if type_name in _FLOATS:
        return float(struct.unpack(_FLOATS[type_name], word)[0])
    return int.from_bytes(word, "little", signed=type_name.startswith("int"))


def flags_of(leave_out: Any, count: int) -> list[int]:
    """A 1 for each of `count` words that is left out. Empty for None, and for an array in a GPU's memory."""
    if leave_out is None or (not isinstance(leave_out, Sequence) and _arrays.span_of(leave_out).device != "host"):
        return []
    given = np.asarray(leave_out)
    if given.dtype.kind not in "biu" and given.size > 0:
        raise TypeError(f"leave_out has entries of {given.dtype}, but must have bools, or integers of which 0 is false")
    flags = [int(bool(flag)) for flag in given.ravel()]
    if len(flags) != count:
        raise InvalidArgumentError(f"leave_out has {len(flags)} entries for {count} words")
    return flags
