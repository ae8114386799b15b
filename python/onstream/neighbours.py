"""Collectives along the edges of a neighbourhood, over arrays; and how the arrays and counts of a move become a call's.

A neighbourhood is made once, by World.neighbourhood() or Team.neighbourhood(), on all ranks. A grid's neighbours are in
MPI's order: for each dimension the lower one, then the upper one, -1 where a grid that is not periodic ends. A message
to the lower neighbour arrives there as the one from its upper neighbour. In a graph the n-th edge that a rank names to
another is the n-th that the other names from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _arrays, _core, _values
from .errors import InvalidArgumentError
from .handles import start

if TYPE_CHECKING:
    from .world import World

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float8_e4m3", "float8_e5m2", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")
# Where the name of a type differs from the library's own.
_TYPES = {"float8_e4m3fn": "float8_e4m3", "float8_e4m3": "float8_e4m3 of IEEE", "bool": "uint8"}
_NUMBERS = frozenset((*INTEGERS, *FLOATS))
_MOST_ALIGNED = 8  # bytes; the library asks no more of the address of larger elements


class Neighbourhood:
    """The edges along which ranks exchange. Arrays are contiguous, streams order calls as they do those of a Team."""

    def __init__(
        self, world: World, team: _core.Team, grid: Sequence[int] | None, periodic: bool | Sequence[bool],
        sources: Sequence[int], destinations: Sequence[int],
    ) -> None:  # fmt: skip
        self._home = world
        if grid is None:
            named = [[_values.rank_of(rank, "a neighbour") for rank in ranks] for ranks in (sources, destinations)]
            self._edges = _core.make_graph_neighbourhood(team, named[0], named[1])
        else:
            if len(sources) > 0 or len(destinations) > 0:
                raise InvalidArgumentError("neighbourhood: give a grid, or sources and destinations, not both")
            dims = [_values.rank_of(dim, "grid") for dim in grid]
            around = flags_per_dimension(periodic, len(dims))
            self._edges = _core.make_grid_neighbourhood(team, dims, around)
        self._run_plain: Callable[..., bool] = self._edges.run_plain

    @property
    def sources(self) -> list[int]:
        """The ranks of the team that this one hears from, in the order of the buffers; -1 where a grid ends."""
        return self._edges.sources

    @property
    def destinations(self) -> list[int]:
        """The ranks of the team that this one sends to, in the order of the buffers; -1 where a grid ends."""
        return self._edges.destinations

    @property
    def start(self) -> Neighbourhood:
        """The same calls, but they do not block: each returns a Handle, as those of Team.start."""
        return _Started(self)

    def all_gather(self, array: Any, out: Any, *, algorithm: str = "auto", stream: Any = None) -> Any:
        """The array goes to every destination; `out` has as many elements of every source. Returns `out`."""
        if self._run_plain("neighbour_all_gather", array, out, None, None, None, None, algorithm, stream):
            return out
        source, target = contiguous_span(array, self._home), contiguous_span(out, self._home, writable=True)
        check_size("all_gather", {"out": target, "array": source}, source.nbytes * len(self.sources))
        unit = unit_of("all_gather", self._edges, (source, target), [source.nbytes])
        call = self._call("neighbour_all_gather", source, target, source.nbytes // unit.bytes, unit, algorithm)
        return self._run(call, (source, target), stream, out)

    def all_to_all(self, array: Any, out: Any, *, algorithm: str = "auto", stream: Any = None) -> Any:
        """Part i of the array goes to destination i, and part i of `out` comes from source i. Returns `out`."""
        if self._run_plain("neighbour_all_to_all", array, out, None, None, None, None, algorithm, stream):
            return out
        source, target = contiguous_span(array, self._home), contiguous_span(out, self._home, writable=True)
        parts = len(self.destinations)
        check_dealt(source, parts, "destinations")
        part = source.nbytes // parts if parts > 0 else target.nbytes // max(1, len(self.sources))
        check_size("all_to_all", {"out": target, "array": source}, part * len(self.sources))
        unit = unit_of("all_to_all", self._edges, (source, target), [part])
        call = self._call("neighbour_all_to_all", source, target, part // unit.bytes, unit, algorithm)
        return self._run(call, (source, target), stream, out)

    def all_to_all_v(
        self, array: Any, out: Any, send_counts: Sequence[int], receive_counts: Sequence[int], *,
        send_offsets: Sequence[int] | None = None, receive_offsets: Sequence[int] | None = None,
        algorithm: str = "auto", stream: Any = None,
    ) -> Any:  # fmt: skip
        """all_to_all of parts of different lengths, in rows (elements of an array of one dimension).

        Both ends of an edge give the same.
        """
        in_elements = getattr(array, "ndim", 1) < 2 and getattr(out, "ndim", 1) < 2
        if in_elements and self._run_plain(
            "neighbour_all_to_all_v", array, out, send_counts, receive_counts, send_offsets, receive_offsets, algorithm,
            stream,
        ):  # fmt: skip
            return out
        source, target = contiguous_span(array, self._home), contiguous_span(out, self._home, writable=True)
        send_row, receive_row = row_bytes("all_to_all_v", source, None), row_bytes("all_to_all_v", target, None)
        send = bytes_of(send_counts, send_row, "send_counts")
        receive = bytes_of(receive_counts, receive_row, "receive_counts")
        send_at = offsets_of(send, send_offsets, send_row)
        receive_at = offsets_of(receive, receive_offsets, receive_row)
        check_reach("all_to_all_v", source, send, send_at, "array")
        check_reach("all_to_all_v", target, receive, receive_at, "out")
        unit = unit_of("all_to_all_v", self._edges, (source, target), [*send, *send_at, *receive, *receive_at])
        call = self._call("neighbour_all_to_all_v", source, target, 0, unit, algorithm)
        call.set_counts(unit.of(send), unit.of(send_at), unit.of(receive), unit.of(receive_at))
        return self._run(call, (source, target), stream, out)

    def _call(
        self, kind: str, source: _arrays.Span, target: _arrays.Span, count: int, unit: Unit, algorithm: str
    ) -> _core.CollectiveCall:
        call = _core.CollectiveCall(kind, source.address, target.address, count, unit.type)
        call.set_options("sum", 0, 0, _values.text_of(algorithm, "algorithm"))
        return call

    def _run(self, call: _core.CollectiveCall, spans: Sequence[_arrays.Span], stream: Any, result: Any) -> Any:
        run_call(self._edges, call, spans, stream)
        return result

    def __repr__(self) -> str:
        if self._home.closed:
            return "<Neighbourhood: its world is closed>"
        return f"<Neighbourhood: from {self.sources} to {self.destinations}>"


class _Started(Neighbourhood):
    """The collectives of a neighbourhood, which return a Handle and do not block."""

    def __init__(self, of: Neighbourhood) -> None:
        self._of = of
        self._home = of._home
        self._edges = of._edges
        self._run_plain = lambda *_: False

    def _run(self, call: _core.CollectiveCall, spans: Sequence[_arrays.Span], stream: Any, result: Any) -> Any:
        return start(self._home, call.kind, self._edges, call, spans, stream, result)

    def __repr__(self) -> str:
        return f"<Started: {self._of!r}>"


@dataclass(frozen=True, slots=True)
class Unit:
    """The element that a move counts in."""

    type: str
    bytes: int

    def of(self, sizes: Sequence[int]) -> list[int]:
        """So many bytes each, in this unit."""
        return [size // self.bytes for size in sizes]


_BYTE = Unit("uint8", 1)


def unit_of(
    kind: str, runner: _core.Team | _core.Neighbourhood, spans: Sequence[_arrays.Span | None], sizes: Sequence[int]
) -> Unit:
    """The unit for a move of these arrays; all of `sizes`, in bytes, must be multiples of it.

    A move copies bytes of any type; but two types of numbers, or two byte orders, on this rank are refused. Only where
    the ranks compare their calls (collective_check) the unit is the arrays' element type, so that ranks of another type
    are told: if the library knows the type, and all of the call's arrays that tell theirs have it.
    """
    there = [span for span in spans if span is not None and span.nbytes > 0]
    told = {type_name_of(span.dtype): span.item_bytes for span in there if span.dtype}
    if len(told) == 2 and "uint8" not in told:
        _check_types(kind, *told)
    if not runner.checks or len(told) != 1:
        return _BYTE
    name, item = told.popitem()
    aligned = all(span.address % min(item, _MOST_ALIGNED) == 0 for span in there)
    return Unit(name, item) if name in _NUMBERS and aligned and all(size % item == 0 for size in sizes) else _BYTE


def _check_types(kind: str, of: str, out_of: str) -> None:
    if _NUMBERS.issuperset((of, out_of)):
        raise InvalidArgumentError(
            f"{kind}: the array is of {of}, but `out` of {out_of}; nothing is converted: view one of them as the "
            "other's type, or as bytes (uint8)"
        )
    native = {_values.native_name(of), _values.native_name(out_of)}
    if len(native) == 1 or (native != {of, out_of} and _NUMBERS.issuperset(map(type_name_of, native))):
        raise InvalidArgumentError(
            f"{kind}: the array is of {of}, but `out` of {out_of}, whose bytes are in another order; nothing is "
            "converted: convert one of them, such as by array.astype(array.dtype.newbyteorder('='))"
        )


def type_name_of(dtype: str) -> str:
    """As the library calls an element type, if it knows it."""
    return _TYPES.get(dtype, dtype)


def run_call(
    runner: _core.Team | _core.Neighbourhood, call: _core.CollectiveCall, spans: Sequence[_arrays.Span], stream: Any
) -> None:
    """Runs a call on the stream, or, with none, on that of the arrays' library; for host arrays it blocks."""
    runner.run(call, [span.owner for span in spans], stream, _arrays.natural_of(spans))


def flags_per_dimension(periodic: Any, dims: int) -> list[bool]:
    """One for each dimension, or one for all."""
    flags = [periodic] * dims if np.ndim(periodic) == 0 else list(periodic)
    return [_values.flag_of(flag, "periodic") for flag in flags]


def contiguous_span(array: Any, world: World, *, writable: bool = False) -> _arrays.Span:
    span = _arrays.checked_span(array, writable, world)
    if not span.contiguous:
        raise InvalidArgumentError(
            f"a collective needs a contiguous (row-major) array, but this one has shape {span.shape} and strides "
            f"{span.strides} bytes over {span.item_bytes}-byte elements; copy it, such as by numpy.ascontiguousarray()"
        )
    return span


def check_size(kind: str, spans: dict[str, _arrays.Span], wanted: int) -> None:
    """Whether the first of a call's arrays, which are given by name, has the wanted bytes."""
    name, span = next(iter(spans.items()))
    if span.nbytes != wanted:
        told = ", ".join(f"`{each}` is {told_array(its)}" for each, its in spans.items())
        raise InvalidArgumentError(f"{kind}: `{name}` has {span.nbytes} bytes, but needs {wanted}: {told}")


def told_array(span: _arrays.Span) -> str:
    return f"{span.dtype or 'bytes'} of shape {span.shape}"


def check_dealt(array: _arrays.Span, parts: int, whom: str) -> None:
    """Checks an all_to_all: each part must be whole elements, if the array tells its elements."""
    if parts > 0 and (array.nbytes % parts != 0 or (array.shape and array.size % parts != 0)):
        raise InvalidArgumentError(f"all_to_all: {array.size} elements cannot be dealt to {parts} {whom}")


def check_reach(kind: str, span: _arrays.Span, counts: Sequence[int], offsets: Sequence[int], name: str) -> None:
    end = max((at + count for at, count in zip(offsets, counts, strict=False) if count), default=0)
    if end > span.nbytes:
        raise InvalidArgumentError(f"{kind}: `{name}` has {span.nbytes} bytes, but counts and offsets reach {end}")


def row_bytes(kind: str, array: _arrays.Span, out: _arrays.Span | None) -> int:
    """Bytes of a row of the array: all that one index of its first dimension has."""
    row = array.item_bytes * math.prod(array.shape[1:])
    if out is not None and len(array.shape) > 1 and len(out.shape) > 1:
        theirs = out.item_bytes * math.prod(out.shape[1:])
        if row != theirs:
            raise InvalidArgumentError(
                f"{kind}: a row of the array (shape {array.shape}) has {row} bytes, but one of `out` (shape {out.shape}) "
                f"{theirs}"
            )
    return row


def bytes_of(counts: Sequence[int], item: int, name: str) -> list[int]:
    sizes = [_values.integer_of(count, name) * item for count in counts]
    if any(size < 0 for size in sizes):
        raise InvalidArgumentError(f"{name} has a negative entry: {list(counts)}")
    return sizes


def offsets_of(sizes: Sequence[int], offsets: Sequence[int] | None, item: int) -> list[int]:
    if offsets is not None:
        return bytes_of(offsets, item, "offsets")
    return [0, *accumulate(sizes)][: len(sizes)]
