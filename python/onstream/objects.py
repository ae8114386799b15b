"""Collectives of Python objects: the methods that World and Team share.

All ranks of the team call one together, as any other collective of channel 0, and it blocks. First the ranks tell each
other the sizes of their objects and the bounds that they set. So a rank whose object cannot be pickled, or is larger than a
receiver takes, raises the same error on every rank, before any object has travelled; the next call finds all ranks in step. An
object that one rank cannot unpickle raises there alone, after it has come. Unpickling runs code that the sender chooses:
these calls are for jobs whose ranks trust each other.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .errors import InvalidArgumentError
from .parcels import MAX_BYTES, Bytes, Parcel, bound_of, buffer_sizes, pack, too_large, unjoin, unpack
from .scalars import room_of
from .uneven import Uneven

_CALLS = ("broadcast_object", "gather_objects", "scatter_objects", "all_gather_object")
_WORDS = struct.Struct("<6q")
_HEAD_BYTES = 512  # the numbers of a head, and the words of an error


class _Head(NamedTuple):
    """A rank's first words to the others: the call, sizes of its parcel in bytes (0: it sends none), and its bound."""

    call: int
    root: int
    front: int
    nbytes: int
    joined: int
    bound: int
    error: str = ""


class Objects(Uneven):
    """The collectives of objects of a team of ranks."""

    def broadcast_object(self, obj: Any, *, root: int = 0, max_bytes: int = MAX_BYTES) -> Any:
        """The root's object on every rank. Blocks. Pickled, for ranks that trust each other.

        Pickle protocol 5; the memory of contiguous arrays in it is sent as it lies.

        Parameters
        ----------
        obj : object
            At the root anything that can be pickled; the others may give None.
        root : int
            The rank whose object it is, 0 to size - 1.
        max_bytes : int
            The largest object, pickle and arrays together, that this rank takes; 1 GiB if none is given.

        Returns
        -------
        object
            A copy of the root's; the root gets its own back.

        Raises
        ------
        TruncatedError
            On every rank, for an object that is larger than some rank takes.
        InvalidArgumentError
            On every rank, for one that cannot be pickled; on a rank that cannot unpickle it.
        """
        call, source = "broadcast_object", self._root(root)
        mine = self._members.rank == source
        parcel, error = _packed(call, [obj]) if mine else ([], None)
        heads = self._meet(call, source, parcel, bound_of(max_bytes), error)
        self._check_bounds(call, heads, [(source, to, heads[source].nbytes) for to in self._others(source)])
        if mine:
            front, buffers = parcel[0]
            self._broadcast_bytes(front, source)
        else:
            front = self._broadcast_bytes(np.empty(heads[source].front, np.uint8), source)
            buffers = [np.empty(size, np.uint8) for size in buffer_sizes(front)]
        came = [self._broadcast_bytes(buffer, source) for buffer in buffers]
        return obj if mine else unpack(call, source, front, came)

    def gather_objects(self, obj: Any, *, root: int = 0, max_bytes: int = MAX_BYTES) -> list[Any] | None:
        """The objects of all ranks in the order of ranks, as a list for the root; None on the others. Blocks.

        As broadcast_object(), with the root's `max_bytes` as the bound of each object; arrays are copied once, into the
        block that travels.
        """
        call, target = "gather_objects", self._root(root)
        parcel, error = _packed(call, [obj])
        heads = self._meet(call, target, parcel, bound_of(max_bytes), error)
        self._check_bounds(call, heads, [(rank, target, heads[rank].nbytes) for rank in self._others(target)])
        here, size = self._members.rank == target, self._members.size
        send = [parcel[0].joined_nbytes if to == target else 0 for to in range(size)]
        receive = [head.joined if here else 0 for head in heads]
        block = self._exchange(parcel, send, receive)
        return self._opened(call, block, receive, [head.front for head in heads]) if here else None

    def all_gather_object(self, obj: Any, *, max_bytes: int = MAX_BYTES) -> list[Any]:
        """The objects of all ranks in the order of ranks, as a list for every rank. Blocks. As gather_objects()."""
        call = "all_gather_object"
        parcel, error = _packed(call, [obj])
        heads = self._meet(call, 0, parcel, bound_of(max_bytes), error)
        ways = [(rank, to, head.nbytes) for rank, head in enumerate(heads) for to in self._others(rank)]
        self._check_bounds(call, heads, ways)
        receive = [head.joined for head in heads]
        mine, block = self._room(parcel[0].joined_nbytes), self._room(sum(receive))
        parcel[0].join(mine)
        self.all_gather_v(mine, block, receive, stream="host")
        return self._opened(call, block, receive, [head.front for head in heads])

    def scatter_objects(self, objects: Sequence[Any] | None, *, root: int = 0, max_bytes: int = MAX_BYTES) -> Any:
        """One object of the root's sequence for every rank, in the order of ranks; the others may give None. Blocks.

        As gather_objects(), with each rank's own `max_bytes` as the bound of its object. Raises InvalidArgumentError on
        every rank if the root's sequence has not one object for each rank.
        """
        call, source, size = "scatter_objects", self._root(root), self._members.size
        here = self._members.rank == source
        parcels, error = _dealt(call, objects, size) if here else ([], None)
        heads = self._meet(call, source, [], bound_of(max_bytes), error)
        table = self._room(3 * 8 * size).view(np.int64).reshape(size, 3)
        if here:
            table[...] = [(one.front.nbytes, one.nbytes, one.joined_nbytes) for one in parcels]
        self.broadcast(table, root=source, stream="host")
        self._check_bounds(call, heads, [(source, to, int(table[to, 1])) for to in self._others(source)])
        send = [one.joined_nbytes for one in parcels] if here else [0] * size
        mine = self._members.rank
        receive = [int(table[mine, 2]) if rank == source else 0 for rank in range(size)]
        block = self._exchange(parcels, send, receive)
        return unjoin(call, source, block, int(table[mine, 0]))

    # --- detail ---

    def _others(self, than: int) -> list[int]:
        return [rank for rank in range(self._members.size) if rank != than]

    def _meet(
        self, call: str, root: int, parcels: Sequence[Parcel], bound: int, error: InvalidArgumentError | None
    ) -> list[_Head]:
        """Every rank's head. Raises on every rank if one has an error, or if the ranks do not make one call."""
        sizes = (0, 0, 0) if not parcels else (parcels[0].front.nbytes, parcels[0].nbytes, parcels[0].joined_nbytes)
        mine, everyone = self._room(_HEAD_BYTES), self._room(_HEAD_BYTES * self._members.size)
        _write(_Head(_CALLS.index(call), root, *sizes, bound, str(error or "")), mine)
        self.all_gather(mine, everyone, stream="host")
        heads = [_read(row) for row in everyone.reshape(-1, _HEAD_BYTES)]
        if error is not None:
            raise error
        for rank, head in enumerate(heads):
            if head.error:
                raise InvalidArgumentError(f"{head.error} (on rank {rank})")
            if (head.call, head.root) != (heads[0].call, heads[0].root):
                raise InvalidArgumentError(
                    f"rank 0 calls {_CALLS[heads[0].call]} of root {heads[0].root}, but rank {rank} {_CALLS[head.call]} of "
                    f"root {head.root}"
                )
        return heads

    def _check_bounds(self, call: str, heads: Sequence[_Head], ways: Sequence[tuple[int, int, int]]) -> None:
        """Each way is a sender, a receiver, and bytes."""
        for sender, receiver, nbytes in ways:
            if nbytes > heads[receiver].bound:
                raise too_large(call, sender, nbytes, f"rank {receiver}", heads[receiver].bound)

    def _room(self, nbytes: int) -> Bytes:
        return room_of(self._home, nbytes, np.uint8)

    def _broadcast_bytes(self, block: Bytes, root: int) -> Bytes:
        """The root's block may be read-only."""
        if block.nbytes == 0:
            return block
        on_host = self._home.device == "host"
        room = block if on_host else self._room(block.nbytes)
        if not on_host and self._members.rank == root:
            room[...] = block
        span = self._span(room)
        self._run(self._move("broadcast", span, span, span.nbytes, root, 0, "auto"), (span,), "host", None)
        return room

    def _exchange(self, parcels: Sequence[Parcel], send: Sequence[int], receive: Sequence[int]) -> Bytes:
        """Joined parcels, one behind the other, to the ranks that get some bytes."""
        out, block, at = self._room(sum(send)), self._room(sum(receive)), 0
        if out.nbytes:
            for parcel in parcels:
                parcel.join(out[at : at + parcel.joined_nbytes])
                at += parcel.joined_nbytes
        self.all_to_all_v(out, block, send, receive, stream="host")
        return block

    def _opened(self, call: str, block: Bytes, sizes: Sequence[int], fronts: Sequence[int]) -> list[Any]:
        ends = np.cumsum(sizes).tolist()
        return [
            unjoin(call, rank, block[end - size : end], front)
            for rank, (end, size, front) in enumerate(zip(ends, sizes, fronts, strict=True))
        ]


def _packed(call: str, things: Sequence[Any]) -> tuple[list[Parcel], InvalidArgumentError | None]:
    try:
        return [pack(call, thing) for thing in things], None
    except InvalidArgumentError as error:
        return [], error


def _dealt(call: str, objects: Any, size: int) -> tuple[list[Parcel], InvalidArgumentError | None]:
    try:
        things = list(objects)
    except TypeError:
        told = (
            f"{call}: the root's objects are of type {type(objects).__name__}, but must be a sequence of {size} objects"
        )
        return [], InvalidArgumentError(told)
    if len(things) != size:
        return [], InvalidArgumentError(f"{call}: the root gives {len(things)} objects to {size} ranks")
    return _packed(call, things)


def _write(head: _Head, row: Bytes) -> None:
    words = head.error.encode()[: _HEAD_BYTES - _WORDS.size]
    text = _WORDS.pack(*head[:-1]) + words
    row[...] = np.frombuffer(text.ljust(_HEAD_BYTES, b"\0"), np.uint8)


def _read(row: Bytes) -> _Head:
    text = row.tobytes()
    words = text[_WORDS.size :].rstrip(b"\0").decode(errors="ignore")
    call, root, front, nbytes, joined, bound = _WORDS.unpack_from(text)
    return _Head(call, root, front, nbytes, joined, bound, words)
