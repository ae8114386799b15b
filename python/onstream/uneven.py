"""Collectives of parts of different lengths for each rank: the methods whose names end in _v.

Counts and offsets are in rows: a row is all that one index of the array's first dimension has, so an element of an array
of one dimension. A rank may have none. Each call checks the counts against its own arrays before it starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _arrays
from .collectives import Collectives, Op
from .errors import InvalidArgumentError
from .neighbours import bytes_of, check_reach, offsets_of, row_bytes, unit_of

if TYPE_CHECKING:
    from .world import World


class Uneven(Collectives):
    """The collectives of a team of ranks, those of different lengths among them."""

    def all_gather_v(
        self, array: Any, out: Any, counts: Sequence[int], *, offsets: Sequence[int] | None = None, channel: int = 0,
        stream: Any = None,
    ) -> Any:  # fmt: skip
        """all_gather of arrays of different lengths: `counts` of every rank, and where in `out` each begins.

        In rows of the array (elements, of one dimension). Without offsets one follows the other.

        Parameters
        ----------
        array : array
            This rank's part: contiguous, counts[rank] rows.
        out : array
            Room for all parts, of the same row.
        counts : sequence of int
            The rows of each rank's array, the same on every rank.
        offsets : sequence of int, optional
            The row of `out` where each begins.
        channel, stream
            As of all_reduce().

        Returns
        -------
        array
            `out`.

        Raises
        ------
        InvalidArgumentError
            Counts that are not one for each rank, or parts that do not lie in `out`.
        """
        source, target = self._span(array), self._span(out, writable=True)
        row = row_bytes("all_gather_v", source, target)
        receive = bytes_of(counts, row, "counts")
        receive_at = offsets_of(receive, offsets, row)
        check_reach("all_gather_v", target, receive, receive_at, "out")
        mine = self._members.rank
        if 0 <= mine < len(receive) and source.nbytes != receive[mine]:
            raise InvalidArgumentError(
                f"all_gather_v: this rank gives {_rows(source)}, but counts[{mine}] is {counts[mine]}"
            )
        unit = unit_of("all_gather_v", self._members, (source, target), [source.nbytes, *receive, *receive_at])
        count = source.nbytes // unit.bytes
        call = self._call("all_gather_v", source, target, count, unit.type, 0, channel, "auto")
        call.set_counts([], [], unit.of(receive), unit.of(receive_at))
        return self._run(call, (source, target), stream, out)

    def all_to_all_v(
        self, array: Any, out: Any, send_counts: Sequence[int], receive_counts: Sequence[int], *,
        send_offsets: Sequence[int] | None = None, receive_offsets: Sequence[int] | None = None, channel: int = 0,
        stream: Any = None,
    ) -> Any:  # fmt: skip
        """all_to_all of parts of different lengths, in rows of the array; a receive count equals its sender's send count.

        Parameters
        ----------
        array, out : array
            Contiguous, of one row each.
        send_counts, receive_counts : sequence of int
            The rows that go to each rank, and that come from each.
        send_offsets, receive_offsets : sequence of int, optional
            The row where each part begins, in `array` and in `out`. Without them one follows the other.
        channel, stream
            As of all_reduce().

        Returns
        -------
        array
            `out`.

        Raises
        ------
        InvalidArgumentError
            Counts that are not one for each rank, or parts that do not lie in their array.
        AbortedError
            A rank sends another length than its peer expects; the error names both.
        """
        source, target = self._span(array), self._span(out, writable=True)
        row = row_bytes("all_to_all_v", source, target)
        send, receive = bytes_of(send_counts, row, "send_counts"), bytes_of(receive_counts, row, "receive_counts")
        send_at, receive_at = offsets_of(send, send_offsets, row), offsets_of(receive, receive_offsets, row)
        check_reach("all_to_all_v", source, send, send_at, "array")
        check_reach("all_to_all_v", target, receive, receive_at, "out")
        mine = self._members.rank
        if 0 <= mine < min(len(send), len(receive)) and send[mine] != receive[mine]:
            raise InvalidArgumentError(
                f"all_to_all_v: this rank sends itself {send_counts[mine]} elements and expects {receive_counts[mine]}"
            )
        return self._deal("all_to_all_v", source, target, (send, send_at, receive, receive_at), channel, stream, out)

    def gather_v(
        self, array: Any, out: Any = None, counts: Sequence[int] | None = None, *, root: int = 0,
        offsets: Sequence[int] | None = None, channel: int = 0, stream: Any = None,
    ) -> Any:  # fmt: skip
        """gather of arrays of different lengths. Returns `out`.

        The root gives `counts`, the rows of each rank's array, and may give `offsets`, where in `out` each begins, also in
        rows of its array; the others may leave out all three. An array of another length than the root's count fails the
        world.
        """
        source, here = self._span(array), self._root(root) == self._members.rank
        target = self._span(out, writable=True) if here and out is not None else None
        none = [0] * self._members.size
        send, receive, receive_at = list(none), none, none
        if here:
            if target is None or counts is None:
                raise InvalidArgumentError("gather_v: the root needs `out` and `counts`")
            row = row_bytes("gather_v", source, target)
            receive, receive_at = self._parts("gather_v", (target, "out"), (source, "array"), counts, offsets, row)
        send[root] = source.nbytes
        return self._deal("gather_v", source, target, (send, none, receive, receive_at), channel, stream, out)

    def scatter_v(
        self, array: Any, out: Any, counts: Sequence[int] | None = None, *, root: int = 0,
        offsets: Sequence[int] | None = None, channel: int = 0, stream: Any = None,
    ) -> Any:  # fmt: skip
        """A part of the root's array for every rank, which `out` has room for. Returns `out`.

        The root gives `counts`, the rows of its array for each rank, and may give `offsets`, where each begins; the others
        may give None for the array and leave out the counts. An `out` of another length than the root's count fails the
        world.
        """
        target, here = self._span(out, writable=True), self._root(root) == self._members.rank
        source = self._span(array) if here and array is not None else None
        none = [0] * self._members.size
        send, send_at, receive = none, none, list(none)
        if here:
            if source is None or counts is None:
                raise InvalidArgumentError("scatter_v: the root needs an array and `counts`")
            row = row_bytes("scatter_v", source, target)
            send, send_at = self._parts("scatter_v", (source, "array"), (target, "out"), counts, offsets, row)
        receive[root] = target.nbytes
        return self._deal("scatter_v", source, target, (send, send_at, receive, none), channel, stream, out)

    def reduce_scatter_v(
        self, array: Any, out: Any, counts: Sequence[int], *, op: Op = "sum", factor: float = 1, channel: int = 0,
        algorithm: str = "auto", deterministic: bool = False, stream: Any = None,
    ) -> Any:  # fmt: skip
        """reduce_scatter of parts of different lengths: `counts`, the rows of the array for each rank, in order.

        All ranks give the same counts, and `out` has counts[rank] rows. One reduce() for each rank that gets some, so it
        is for few large parts. Returns `out`.
        """
        kind = "reduce_scatter_v"
        source, target = self._span(array), self._span(out, writable=True)
        sizes = self._per_rank(kind, counts, row_bytes(kind, source, target))
        if not source.shape or sum(counts) != source.shape[0]:
            raise InvalidArgumentError(
                f"{kind}: the array has {_rows(source)}, but counts {list(counts)} have {sum(counts)} together"
            )
        self._check_own(kind, target, sizes, counts, "out")
        if source.dtype != target.dtype:
            raise InvalidArgumentError(f"{kind}: the array is of {source.dtype}, but `out` of {target.dtype}")
        done, first = [], 0
        for rank, count in enumerate(counts):
            part = array[first : first + count]
            first += count
            if count > 0:
                done.append(
                    self.reduce(
                        part, out if rank == self._members.rank else None, root=rank, op=op, factor=factor,
                        channel=channel, algorithm=algorithm, deterministic=deterministic, stream=stream,
                    )
                )  # fmt: skip
        told = [one for one in done if isinstance(one, str)]
        return "\n".join(told) if told else out

    # --- detail ---

    def _parts(
        self, kind: str, whole: tuple[_arrays.Span, str], own: tuple[_arrays.Span, str], counts: Sequence[int],
        offsets: Sequence[int] | None, row: int,
    ) -> tuple[list[int], list[int]]:  # fmt: skip
        """Of a root: bytes of each rank's part of its whole array, and where they begin. `own` is its own part."""
        sizes = self._per_rank(kind, counts, row)
        places = offsets_of(sizes, offsets, row)
        check_reach(kind, whole[0], sizes, places, whole[1])
        self._check_own(kind, own[0], sizes, counts, own[1])
        return sizes, places

    def _per_rank(self, kind: str, counts: Sequence[int], row: int) -> list[int]:
        """Bytes for each rank."""
        if len(counts) != self._members.size:
            raise InvalidArgumentError(f"{kind}: {len(counts)} counts for {self._members.size} ranks")
        return bytes_of(counts, row, "counts")

    def _check_own(self, kind: str, span: _arrays.Span, sizes: Sequence[int], counts: Sequence[int], name: str) -> None:
        mine = self._members.rank
        if span.nbytes != sizes[mine]:
            raise InvalidArgumentError(f"{kind}: `{name}` has {_rows(span)}, but counts[{mine}] is {counts[mine]}")

    def _deal(
        self, kind: str, source: _arrays.Span | None, target: _arrays.Span | None, sizes: tuple[list[int], ...],
        channel: int, stream: Any, result: Any,
    ) -> Any:  # fmt: skip
        """An all_to_all_v of bytes: to send, from where, to receive, and to where, for each rank."""
        unit = unit_of(kind, self._members, (source, target), [size for line in sizes for size in line])
        call = self._call("all_to_all_v", source, target, 0, unit.type, 0, channel, "auto")
        call.set_counts(*(unit.of(line) for line in sizes))
        spans = tuple(span for span in (source, target) if span is not None)
        return self._run(call, spans, stream, result)


def _rows(span: _arrays.Span) -> str:
    rows = span.shape[0] if span.shape else 1
    return f"{rows} elements" if len(span.shape) < 2 else f"{rows} rows"


class OtherWay(Uneven):
    """The collectives of a team or a world in another way than at once: its subclasses say in _run() in which."""

    def __init__(self, of: Uneven) -> None:
        self._of = of
        self._members = of._members

    @property
    def _home(self) -> World:
        return self._of._home

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._of!r}>"

    def _run_plain(self, *_: Any) -> bool:
        return False
