"""Collectives over arrays: the methods that World and Team share.

Every method is called by all ranks of the team, in the same order on each channel. Arrays are contiguous; element types
are numpy's and torch's, float16, bfloat16, float8 and complex included, and pairs of value and index (a structured dtype
of two fields of equal width) for minloc and maxloc. A stream orders a collective as it orders a send (World.send): with
none, arrays on a GPU use their library's current stream, and for host arrays the call blocks. The kernels themselves read
and write the arrays, so they must be memory that the world's device can access.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _arrays, _core, _values, scalars
from .errors import InvalidArgumentError
from .neighbours import Neighbourhood, check_dealt, check_size, contiguous_span, run_call, unit_of
from .reductions import check_bool, combine_of, factors_of, is_one, type_of

if TYPE_CHECKING:
    from .world import World

# A reduction by name, or a function of two arrays.
Op = str | Callable[[Any, Any], Any]


class Collectives:
    """The collectives of a team of ranks."""

    _members: _core.Team
    _stream_of_numbers: str | None = "host"  # where a call of a number goes

    @property
    def _home(self) -> World:
        raise NotImplementedError

    # --- reductions ---

    def all_reduce(
        self, array: Any, out: Any = None, *, op: Op = "sum", factor: float = 1, channel: int = 0,
        algorithm: str = "auto", deterministic: bool = False, stream: Any = None,
    ) -> Any:  # fmt: skip
        """Reduces the arrays of all ranks, element by element, for every rank.

        Every rank of the team calls it, in the same order on each channel. A number in place of the array (int as int64, float,
        complex, bool, or numpy's) is reduced as one; the call blocks then, and sums of integers wrap around as those of
        arrays do.

        Parameters
        ----------
        array : array or number
            This rank's input: contiguous, of any shape and number type; the same number of elements on every rank.
        out : array, optional
            The result, of as many elements of the same type. Without it the result replaces `array`.
        op : str or callable
            "sum", "prod", "min", "max", "avg", "band", "bor", "bxor", "minloc", "maxloc" or "premulsum". Bools have min, max, band,
            bor and bxor alone. On the host device also a function, op(a, b) of numpy arrays, where `a` is of lower ranks: it
            returns the combined array, and is associative but need not commute.
        factor : number
            Of "premulsum", which multiplies this rank's input by it first: an integer if the elements are, else a real number.
        channel : int
            Calls of one channel run one after the other; those of several may run at once.
        algorithm : str
            "auto", or the name of one: see `explain`.
        deterministic : bool
            Refuses an `algorithm` that adds in another order than that of the ranks, where that changes bits.
        stream : stream, optional
            Of onstream, torch or cupy: the call is enqueued there. "host": it blocks. Without it arrays on a GPU go on
            their library's current stream, and host arrays block.

        Returns
        -------
        array or number
            `out`, or the array itself; of a number the reduced one, of the same type.

        Raises
        ------
        InvalidArgumentError
            An array that is not contiguous, an `out` of another size or type, an `op` that the type does not have.
        AbortedError, TimeoutError
            The world has failed, for instance as a rank called something else or did not come by the deadline.
        """
        return self._reduce("all_reduce", array, out, op, factor, 0, channel, algorithm, deterministic, stream)

    def reduce(
        self, array: Any, out: Any = None, *, root: int = 0, op: Op = "sum", factor: float = 1, channel: int = 0,
        algorithm: str = "auto", deterministic: bool = False, stream: Any = None,
    ) -> Any:  # fmt: skip
        """all_reduce() for the root alone.

        Parameters
        ----------
        array : array or number
            This rank's input.
        out : array, optional
            The root's result, of as many elements; the others may leave it out, and theirs stays as it is.
        root : int
            The rank that gets the result, 0 to size - 1.
        op, factor, channel, algorithm, deterministic, stream
            As of all_reduce().

        Returns
        -------
        array or number
            `out`, or the array itself; of a number the reduced one at the root, None on the others.

        Raises
        ------
        InvalidArgumentError
            A root that does not exist, and as all_reduce().
        """
        return self._reduce("reduce", array, out, op, factor, root, channel, algorithm, deterministic, stream)

    def scan(
        self, array: Any, out: Any = None, *, exclusive: bool = False, op: Op = "sum", factor: float = 1,
        channel: int = 0, algorithm: str = "auto", deterministic: bool = False, stream: Any = None,
    ) -> Any:  # fmt: skip
        """For every rank the reduction of all ranks up to it.

        Parameters
        ----------
        array : array or number
            This rank's input.
        out : array, optional
            The result, of as many elements. Without it the result replaces `array`.
        exclusive : bool
            The reduction of the ranks below; the first one's result stays as it is.
        op, factor, channel, algorithm, deterministic, stream
            As of all_reduce().

        Returns
        -------
        array or number
            `out`, or the array itself; of a number the reduced one.

        Raises
        ------
        InvalidArgumentError
            As all_reduce().
        """
        kind = "exclusive_scan" if _values.flag_of(exclusive, "exclusive") else "scan"
        return self._reduce(kind, array, out, op, factor, 0, channel, algorithm, deterministic, stream)

    def reduce_scatter(
        self, array: Any, out: Any, *, op: Op = "sum", factor: float = 1, channel: int = 0, algorithm: str = "auto",
        deterministic: bool = False, stream: Any = None,
    ) -> Any:  # fmt: skip
        """Reduces, and leaves to each rank its part of the result.

        Parameters
        ----------
        array : array
            This rank's input: size x n elements, contiguous.
        out : array
            n elements of the same type: this rank's part, elements rank x n and on of the reduction.
        op, factor, channel, algorithm, deterministic, stream
            As of all_reduce().

        Returns
        -------
        array
            `out`.

        Raises
        ------
        InvalidArgumentError
            An `out` of another size, and as all_reduce().
        """
        return self._reduce("reduce_scatter", array, out, op, factor, 0, channel, algorithm, deterministic, stream)

    # --- moves ---

    def broadcast(
        self, array: Any, *, root: int = 0, channel: int = 0, algorithm: str = "auto", stream: Any = None
    ) -> Any:
        """The root's array for all, in place.

        Parameters
        ----------
        array : array or number
            At the root the source, on the others the destination: contiguous, as many bytes on every rank. Of a number all ranks
            give one of its type, and the call blocks.
        root : int
            The rank whose array it is, 0 to size - 1.
        channel, algorithm, stream
            As of all_reduce().

        Returns
        -------
        array or number
            The array; of a number the root's.

        Raises
        ------
        InvalidArgumentError
            A root that does not exist, an array that is not contiguous or cannot be written.
        """
        if self._run_plain("broadcast", array, None, "sum", root, channel, algorithm, stream):
            return array
        if scalars.is_number(array):
            return self._broadcast_number(array, root, channel, algorithm, stream)
        span = self._span(array, writable=True)
        call = self._move("broadcast", span, span, span.nbytes, root, channel, algorithm)
        return self._run(call, (span,), stream, array)

    def all_gather(self, array: Any, out: Any, *, channel: int = 0, algorithm: str = "auto", stream: Any = None) -> Any:
        """The arrays of all ranks, one after the other, for every rank.

        Parameters
        ----------
        array : array
            This rank's part: contiguous, n bytes on every rank.
        out : array
            size x n bytes: rank i's part is the i-th.
        channel, algorithm, stream
            As of all_reduce().

        Returns
        -------
        array
            `out`.

        Raises
        ------
        InvalidArgumentError
            An `out` of another size, an array that is not contiguous.
        """
        if self._run_plain("all_gather", array, out, "sum", 0, channel, algorithm, stream):
            return out
        source, target = self._span(array), self._span(out, writable=True)
        check_size("all_gather", {"out": target, "array": source}, source.nbytes * self._members.size)
        call = self._move("all_gather", source, target, source.nbytes, 0, channel, algorithm)
        return self._run(call, (source, target), stream, out)

    def gather(
        self, array: Any, out: Any = None, *, root: int = 0, channel: int = 0, algorithm: str = "auto",
        stream: Any = None,
    ) -> Any:  # fmt: skip
        """all_gather() for the root alone.

        Parameters
        ----------
        array : array
            This rank's part: contiguous, n bytes on every rank.
        out : array, optional
            At the root size x n bytes; the others may leave it out.
        root : int
            The rank that gets the parts, 0 to size - 1.
        channel, algorithm, stream
            As of all_reduce().

        Returns
        -------
        array
            `out`.

        Raises
        ------
        InvalidArgumentError
            A root without `out`, or with one of another size.
        """
        source = self._span(array)
        target = None if out is None else self._span(out, writable=True)
        if self._members.rank == root:
            if target is None:
                raise InvalidArgumentError("gather: the root needs `out`")
            check_size("gather", {"out": target, "array": source}, source.nbytes * self._members.size)
        else:
            target = None  # `out` is ignored: nothing comes here
        call = self._move("gather", source, target, source.nbytes, root, channel, algorithm)
        return self._run(call, (source, target), stream, out)

    def scatter(
        self, array: Any, out: Any, *, root: int = 0, channel: int = 0, algorithm: str = "auto", stream: Any = None
    ) -> Any:
        """A part of the root's array for every rank.

        Parameters
        ----------
        array : array or None
            At the root size x n bytes, of which rank i gets the i-th part; the others may give None.
        out : array
            This rank's part: contiguous, n bytes on every rank.
        root : int
            The rank whose array it is, 0 to size - 1.
        channel, algorithm, stream
            As of all_reduce().

        Returns
        -------
        array
            `out`.

        Raises
        ------
        InvalidArgumentError
            A root without an array, or with one of another size.
        """
        source = None if array is None else self._span(array)
        target = self._span(out, writable=True)
        if self._members.rank == root:
            if source is None:
                raise InvalidArgumentError("scatter: the root needs an array")
            check_size("scatter", {"array": source, "out": target}, target.nbytes * self._members.size)
        else:
            source = None  # `array` is ignored: nothing leaves from here
        call = self._move("scatter", source, target, target.nbytes, root, channel, algorithm)
        return self._run(call, (source, target), stream, out)

    def all_to_all(
        self, array: Any, out: Any = None, *, channel: int = 0, algorithm: str = "auto", stream: Any = None
    ) -> Any:
        """Part i of the array goes to rank i, and part i of `out` comes from there.

        Parameters
        ----------
        array : array
            size x n bytes, contiguous, as many on every rank.
        out : array, optional
            As many bytes. Without it the parts are exchanged in place.
        channel, algorithm, stream
            As of all_reduce().

        Returns
        -------
        array
            `out`, or the array itself.

        Raises
        ------
        InvalidArgumentError
            An array that does not divide into `size` parts, an `out` of another size.
        """
        result = array if out is None else out
        if self._run_plain("all_to_all", array, out, "sum", 0, channel, algorithm, stream):
            return result
        source = self._span(array, writable=out is None)
        target = source if out is None else self._span(out, writable=True)
        size = self._members.size
        check_dealt(source, size, "ranks")
        check_size("all_to_all", {"out": target, "array": source}, source.nbytes)
        call = self._move("all_to_all", source, target, source.nbytes // size, 0, channel, algorithm)
        return self._run(call, (source, target), stream, result)

    # --- others ---

    def neighbourhood(
        self, grid: Sequence[int] | None = None, *, periodic: bool | Sequence[bool] = False,
        sources: Sequence[int] = (), destinations: Sequence[int] = (),
    ) -> Neighbourhood:  # fmt: skip
        """Makes a neighbourhood: a grid of ranks, or this rank's own sources and destinations. Collective.

        Every rank of the world calls it on its own team.

        Parameters
        ----------
        grid : sequence of int, optional
            Ranks in each dimension, row-major; their product is the team's size.
        periodic : bool or sequence of bool
            Whether each dimension of the grid is closed to a ring.
        sources, destinations : sequence of int
            Without a grid: the ranks from which this one receives, and those that it sends to, up to 64 each.

        Returns
        -------
        Neighbourhood
            With all_gather(), all_to_all() and all_to_all_v() along its edges.

        Raises
        ------
        InvalidArgumentError
            A grid of another size, or edges that only one end names, with the pair; on every rank.
        """
        return Neighbourhood(self._home, self._members, grid, periodic, sources, destinations)

    # --- detail ---

    def _reduce(
        self, kind: str, array: Any, out: Any, op: Op, factor: float, root: int, channel: int, algorithm: str,
        deterministic: bool, stream: Any,
    ) -> Any:  # fmt: skip
        result = array if out is None else out
        if not is_one(factor) and op != "premulsum":
            raise InvalidArgumentError(f"{kind}: `factor` is for op='premulsum', not for {op!r}")
        deterministic = deterministic is not False and _values.flag_of(deterministic, "deterministic")
        simple = kind != "reduce" and not deterministic
        if simple and self._run_plain(kind, array, out, op, root, channel, algorithm, stream):
            return result
        receives = kind != "reduce" or self._members.rank == root
        if scalars.is_number(array):
            options = (op, factor, root, channel, algorithm, deterministic)
            return self._reduce_number(kind, array, out, options, stream, receives)
        source = self._span(array, writable=out is None and receives)
        type_name = source.dtype if callable(op) else type_of(source, array)
        target = source if out is None else self._span(out, writable=receives)
        count = source.size
        if kind == "reduce_scatter":
            if source.size % self._members.size != 0:
                raise InvalidArgumentError(
                    f"reduce_scatter: {source.size} elements cannot be dealt to {self._members.size} ranks"
                )
            count //= self._members.size
        if out is not None and receives:
            check_size(kind, {"out": target, "array": source}, count * source.item_bytes)
            out_type = target.dtype if callable(op) else type_of(target, out)
            if out_type != type_name:
                raise InvalidArgumentError(f"{kind}: the array is of {type_name}, but `out` of {out_type}")
        to = target if receives else None
        if callable(op):
            call = self._call(kind, source, to, count, "uint8", root, channel, algorithm)
            call.set_combine(source.item_bytes, combine_of(op, array))
        else:
            call = self._call(kind, source, to, count, type_name, root, channel, algorithm, op)
            check_bool(kind, op, source, to)
            if op == "premulsum":
                call.set_factor(*factors_of(factor, type_name))
        if deterministic:
            call.set_deterministic()
        return self._run(call, (source, target), stream, result)

    def _reduce_number(
        self, kind: str, value: Any, out: Any, options: tuple[Op, float, int, int, str, bool], stream: Any, receives: bool
    ) -> Any:  # fmt: skip
        scalars.check_options(kind, out, stream)
        array = self._number(kind, value)
        result = self._reduce(kind, array, None, *options, self._stream_of_numbers)
        if result is not array:
            return result  # an explanation, or a handle
        return scalars.number_of(array, value) if receives else None

    def _broadcast_number(self, value: Any, root: int, channel: int, algorithm: str, stream: Any) -> Any:
        scalars.check_options("broadcast", None, stream)
        array = self._number("broadcast", value)
        span = self._span(array)
        # By its type, not by bytes, so that ranks which give numbers of other types are told.
        call = self._call("broadcast", span, span, 1, type_of(span, array), root, channel, algorithm)
        result = self._run(call, (span,), self._stream_of_numbers, array)
        return scalars.number_of(array, value) if result is array else result

    def _number(self, call: str, value: Any) -> np.ndarray[Any, Any]:
        return scalars.array_of(call, value, self._home)

    def _span(self, array: Any, *, writable: bool = False) -> _arrays.Span:
        return contiguous_span(array, self._home, writable=writable)

    def _root(self, root: Any) -> int:
        rank = _values.rank_of(root, "root")
        if not 0 <= rank < self._members.size:
            raise InvalidArgumentError(f"root {rank} does not exist; there are ranks 0 to {self._members.size - 1}")
        return rank

    def _call(
        self, kind: str, source: _arrays.Span | None, target: _arrays.Span | None, count: int, type_name: str,
        root: int, channel: int, algorithm: str, op: str = "sum",
    ) -> _core.CollectiveCall:  # fmt: skip
        call = _core.CollectiveCall(
            kind, 0 if source is None else source.address, 0 if target is None else target.address, count, type_name
        )
        numbers = _values.rank_of(root, "root"), _values.rank_of(channel, "channel")
        call.set_options(_values.text_of(op, "op"), *numbers, _values.text_of(algorithm, "algorithm"))
        return call

    def _move(
        self, kind: str, source: _arrays.Span | None, target: _arrays.Span | None, nbytes: int, root: int,
        channel: int, algorithm: str,
    ) -> _core.CollectiveCall:  # fmt: skip
        unit = unit_of(kind, self._members, (source, target), [nbytes])
        return self._call(kind, source, target, nbytes // unit.bytes, unit.type, root, channel, algorithm)

    def _barrier_call(self, channel: int) -> _core.CollectiveCall:
        return self._call("barrier", None, None, 0, "uint8", 0, channel, "auto")

    def _run_plain(
        self, kind: str, array: Any, out: Any, op: Op, root: int, channel: int, algorithm: str, stream: Any
    ) -> bool:  # fmt: skip
        """Runs a call of plain host arrays, if it is one: most are, and reading arrays here costs them ten times as much."""
        return self._members.run_plain(kind, array, out, op, root, channel, algorithm, stream)

    def _run(self, call: _core.CollectiveCall, spans: tuple[_arrays.Span | None, ...], stream: Any, result: Any) -> Any:
        run_call(self._members, call, [span for span in spans if span is not None], stream)
        return result
