"""Collectives over arrays: the methods that World and Team share.

Every method is called by all ranks of the team, in the same order on each channel. Arrays are contiguous; element types
are numpy's and torch's, float16, bfloat16, float8 and complex included, and pairs of value and index (a structured dtype
of two fields of equal width) for minloc and maxloc. A stream orders a collective as it orders a send (World.send): with
none, arrays on a GPU use their library's current stream, and for host arrays the call blocks. The kernels themselves read
and write the arrays, so they must be memory that the world's device can access.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _arrays, _core, _values, scalars
from .errors import InvalidArgumentError
from .neighbours import (
    FLOATS,
    INTEGERS,
    Neighbourhood,
    check_dealt,
    contiguous_span,
    run_call,
    type_name_of,
    unit_of,
)
from .symmetric import SymmetricArray

if TYPE_CHECKING:
    from .world import World

_PAIRS = {("f4", "i4"): "float32_int32", ("f8", "i8"): "float64_int64", ("i4", "i4"): "int32_int32"}
_PAIRS[("i8", "i8")] = "int64_int64"
_KNOWN = frozenset((*INTEGERS, *FLOATS, *_PAIRS.values()))
_OF_BOOL = ("min", "max", "band", "bor", "bxor")  # the reductions of 0 and 1 that are 0 or 1
_WIDE = ("float64", "complex128")  # all narrower floating point is multiplied as float32

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
        """Reduces the arrays of all ranks, element by element, for every rank. Returns `out`, or the array itself.

        Without `out` in place. op: sum, prod, min, max, avg, band, bor, bxor, minloc, maxloc, or premulsum, which
        multiplies this rank's array by its `factor` first: an integer if the elements are, else a real number. Bools
        have min, max, band, bor and bxor alone. On the host device `op` may also be a function, op(a, b) of numpy
        arrays, where `a` is of lower ranks; it returns the combined array, and is associative but need not commute.
        deterministic: an `algorithm` that adds in another order than that of the ranks is refused where that changes
        bits. A number in place of the array (int as int64, float, complex, bool, or numpy's): returns the reduced number, of
        the same type; the call blocks, and sums of integers wrap around as those of arrays do.
        """
        return self._reduce("all_reduce", array, out, op, factor, 0, channel, algorithm, deterministic, stream)

    def reduce(
        self, array: Any, out: Any = None, *, root: int = 0, op: Op = "sum", factor: float = 1, channel: int = 0,
        algorithm: str = "auto", deterministic: bool = False, stream: Any = None,
    ) -> Any:  # fmt: skip
        """all_reduce for the root alone; on the others `out` stays as it is, and may be left out. Of a number: None there."""
        return self._reduce("reduce", array, out, op, factor, root, channel, algorithm, deterministic, stream)

    def scan(
        self, array: Any, out: Any = None, *, exclusive: bool = False, op: Op = "sum", factor: float = 1,
        channel: int = 0, algorithm: str = "auto", deterministic: bool = False, stream: Any = None,
    ) -> Any:  # fmt: skip
        """For every rank the reduction of all ranks up to it; exclusive: below it (the first one's stays). Or of a number."""
        kind = "exclusive_scan" if _values.flag_of(exclusive, "exclusive") else "scan"
        return self._reduce(kind, array, out, op, factor, 0, channel, algorithm, deterministic, stream)

    def reduce_scatter(
        self, array: Any, out: Any, *, op: Op = "sum", factor: float = 1, channel: int = 0, algorithm: str = "auto",
        deterministic: bool = False, stream: Any = None,
    ) -> Any:  # fmt: skip
        """Reduces, and leaves to each rank its part: `out` has as many elements as the array has for each rank."""
        return self._reduce("reduce_scatter", array, out, op, factor, 0, channel, algorithm, deterministic, stream)

    # --- moves ---

    def broadcast(
        self, array: Any, *, root: int = 0, channel: int = 0, algorithm: str = "auto", stream: Any = None
    ) -> Any:
        """The root's array for all, in place. Returns the array.

        A number in place of the array: returns the root's; all ranks give one of its type. The call blocks.
        """
        if self._run_plain("broadcast", array, None, "sum", root, channel, algorithm, stream):
            return array
        if scalars.is_number(array):
            return self._broadcast_number(array, root, channel, algorithm, stream)
        span = self._span(array, writable=True)
        call = self._move("broadcast", span, span, span.nbytes, root, channel, algorithm)
        return self._run(call, (span,), stream, array)

    def all_gather(self, array: Any, out: Any, *, channel: int = 0, algorithm: str = "auto", stream: Any = None) -> Any:
        """The arrays of all ranks, one after the other, for every rank. Returns `out`."""
        if self._run_plain("all_gather", array, out, "sum", 0, channel, algorithm, stream):
            return out
        source, target = self._span(array), self._span(out, writable=True)
        self._check_size("all_gather", target, source.nbytes * self._members.size, "out")
        call = self._move("all_gather", source, target, source.nbytes, 0, channel, algorithm)
        return self._run(call, (source, target), stream, out)

    def gather(
        self, array: Any, out: Any = None, *, root: int = 0, channel: int = 0, algorithm: str = "auto",
        stream: Any = None,
    ) -> Any:  # fmt: skip
        """all_gather for the root alone; the others may leave `out` out. Returns `out`."""
        source = self._span(array)
        target = None if out is None else self._span(out, writable=True)
        if self._members.rank == root:
            if target is None:
                raise InvalidArgumentError("gather: the root needs `out`")
            self._check_size("gather", target, source.nbytes * self._members.size, "out")
        else:
            target = None  # `out` is ignored: nothing comes here
        call = self._move("gather", source, target, source.nbytes, root, channel, algorithm)
        return self._run(call, (source, target), stream, out)

    def scatter(
        self, array: Any, out: Any, *, root: int = 0, channel: int = 0, algorithm: str = "auto", stream: Any = None
    ) -> Any:
        """A part of the root's array for every rank; the others may give None. Returns `out`."""
        source = None if array is None else self._span(array)
        target = self._span(out, writable=True)
        if self._members.rank == root:
            if source is None:
                raise InvalidArgumentError("scatter: the root needs an array")
            self._check_size("scatter", source, target.nbytes * self._members.size, "array")
        else:
            source = None  # `array` is ignored: nothing leaves from here
        call = self._move("scatter", source, target, target.nbytes, root, channel, algorithm)
        return self._run(call, (source, target), stream, out)

    def all_to_all(
        self, array: Any, out: Any = None, *, channel: int = 0, algorithm: str = "auto", stream: Any = None
    ) -> Any:
        """Part i of the array goes to rank i, and part i of `out` comes from there. Without `out` in place."""
        result = array if out is None else out
        if self._run_plain("all_to_all", array, out, "sum", 0, channel, algorithm, stream):
            return result
        source = self._span(array, writable=out is None)
        target = source if out is None else self._span(out, writable=True)
        size = self._members.size
        check_dealt(source, size, "ranks")
        self._check_size("all_to_all", target, source.nbytes, "out")
        call = self._move("all_to_all", source, target, source.nbytes // size, 0, channel, algorithm)
        return self._run(call, (source, target), stream, result)

    # --- others ---

    def neighbourhood(
        self, grid: Sequence[int] | None = None, *, periodic: bool | Sequence[bool] = False,
        sources: Sequence[int] = (), destinations: Sequence[int] = (),
    ) -> Neighbourhood:  # fmt: skip
        """Makes a neighbourhood: a grid of ranks, or this rank's own sources and destinations. Collective.

        Every rank of the world calls it on its own team.
        """
        return Neighbourhood(self._home, self._members, grid, periodic, sources, destinations)

    # --- detail ---

    def _reduce(
        self, kind: str, array: Any, out: Any, op: Op, factor: float, root: int, channel: int, algorithm: str,
        deterministic: bool, stream: Any,
    ) -> Any:  # fmt: skip
        result = array if out is None else out
        if not _is_one(factor) and op != "premulsum":
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
        type_name = source.dtype if callable(op) else _type_of(source, array)
        target = source if out is None else self._span(out, writable=receives)
        count = source.size
        if kind == "reduce_scatter":
            if source.size % self._members.size != 0:
                raise InvalidArgumentError(
                    f"reduce_scatter: {source.size} elements cannot be dealt to {self._members.size} ranks"
                )
            count //= self._members.size
        if out is not None and receives:
            self._check_size(kind, target, count * source.item_bytes, "out")
            out_type = target.dtype if callable(op) else _type_of(target, out)
            if out_type != type_name:
                raise InvalidArgumentError(f"{kind}: the array is of {type_name}, but `out` of {out_type}")
        to = target if receives else None
        if callable(op):
            call = self._call(kind, source, to, count, "uint8", root, channel, algorithm)
            call.set_combine(source.item_bytes, _combine_of(op, array))
        else:
            call = self._call(kind, source, to, count, type_name, root, channel, algorithm, op)
            _check_bool(kind, op, source, to)
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
        call = self._call("broadcast", span, span, 1, _type_of(span, array), root, channel, algorithm)
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

    def _check_size(self, kind: str, span: _arrays.Span, wanted: int, name: str) -> None:
        if span.nbytes != wanted:
            raise InvalidArgumentError(f"{kind}: `{name}` has {span.nbytes} bytes, but needs {wanted}")

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


def _type_of(span: _arrays.Span, array: Any) -> str:
    dtype = getattr(array, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.names is not None and len(dtype.names) == 2:
        fields = tuple(dtype[name].str[1:] for name in dtype.names)
        in_order = [field[1] for field in (dtype.fields or {}).values()] == [0, dtype[0].itemsize]
        if fields in _PAIRS and in_order and dtype.itemsize == 2 * dtype[0].itemsize and dtype.isnative:
            return _PAIRS[fields]
    name = type_name_of(span.dtype)
    if span.dtype == "float8_e4m3":
        raise InvalidArgumentError("collectives reduce float8_e4m3fn; float8_e4m3 is IEEE's, which has infinities")
    if name not in _KNOWN:
        raise InvalidArgumentError(
            f"collectives cannot reduce elements of {span.dtype or 'an untold type'}{_way_out(dtype)}; they know "
            f"{', '.join(sorted(_KNOWN))}"
        )
    return name


def _way_out(dtype: Any) -> str:
    if not isinstance(dtype, np.dtype):
        return ""
    if dtype.names is not None:
        return "; reduce a copy of each field, such as array['name'].copy(), as records other than pairs have no sum"
    if not dtype.isnative:
        return "; convert them to this machine's byte order by array.astype(array.dtype.newbyteorder('='))"
    return ""


def _check_bool(kind: str, op: str, source: _arrays.Span, target: _arrays.Span | None) -> None:
    """A bool of any other byte than 0 and 1 is neither true nor false."""
    if source.dtype == "bool" and op not in _OF_BOOL:
        raise InvalidArgumentError(
            f"{kind}: a {op} of bools is no bool; take bor (whether any is true), band (all) or bxor (an odd number), or "
            "count them in an array of integers, such as array.astype('int32')"
        )
    if target is not None and target.dtype == "bool" and source.dtype != "bool":
        raise InvalidArgumentError(f"{kind}: the array is of {source.dtype}, but `out` of bool")


def _is_one(factor: Any) -> bool:
    if type(factor) is not int:
        factor = _values.plain_number(factor)
        if not _values.is_number(factor):
            return False
    return bool(factor == 1)


def factors_of(factor: Any, type_name: str) -> tuple[float, int]:
    """The factor of a premulsum, for floating point and for integers: the library takes the one of its elements."""
    factor = _values.plain_number(factor)
    if isinstance(factor, (complex, np.complexfloating)):
        if factor.imag != 0:
            raise InvalidArgumentError(
                f"premulsum: the factor is {factor!r}, but factors are real, those of complex elements too; multiply the "
                "array by it, and take the sum"
            )
        factor = factor.real
    if not _values.is_number(factor):
        raise InvalidArgumentError(f"premulsum: the factor is {factor!r}, but must be a number")
    return (1.0, _integer_factor(factor, type_name)) if type_name in INTEGERS else (_real_factor(factor, type_name), 1)


def _integer_factor(factor: Any, type_name: str) -> int:
    try:
        value = int(factor)
        whole = bool(value == factor)
    except (OverflowError, TypeError, ValueError):  # infinite, or no number at all
        whole = False
    if not whole:
        raise InvalidArgumentError(
            f"premulsum: the factor is {factor!r}, but elements of {type_name} are multiplied by integers; convert the "
            "array to floating point"
        )
    low, high = int(np.iinfo(type_name).min), int(np.iinfo(type_name).max)
    if not low <= value <= high:
        raise InvalidArgumentError(
            f"premulsum: the factor is {factor!r}, which no {type_name} is: they go from {low} to {high}"
        )
    return value if value < 2**63 else value - 2**64  # the same bits


def _real_factor(factor: Any, type_name: str) -> float:
    try:
        value = float(factor)
    except OverflowError:
        value = math.inf
    except (TypeError, ValueError, RuntimeError):
        raise InvalidArgumentError(f"premulsum: the factor is {factor!r}, but must be a number") from None
    most = float(np.finfo("float64" if type_name in _WIDE else "float32").max)
    if abs(value) > most and factor not in (math.inf, -math.inf):
        raise InvalidArgumentError(f"premulsum: the factor is {factor!r}, which is too large for {type_name}")
    return value


def _combine_of(op: Callable[[Any, Any], Any], array: Any) -> Callable[[int, int, int], None]:
    """The function as the library calls it: with the addresses of two vectors, of which the second is the result."""
    if isinstance(array, SymmetricArray):
        array = array.local()
    if not isinstance(array, np.ndarray):
        raise InvalidArgumentError(f"a reduction of your own needs numpy arrays, not {type(array).__name__}")
    dtype = array.dtype

    def combine(first: int, second: int, count: int) -> None:
        memory = [(ctypes.c_char * (count * dtype.itemsize)).from_address(at) for at in (first, second)]
        lower, upper = (np.frombuffer(one, dtype=dtype) for one in memory)
        result = op(lower, upper)
        if np.shape(result) != upper.shape:
            raise InvalidArgumentError(
                f"the reduction returned {'None' if result is None else f'an array of shape {np.shape(result)}'} for two "
                f"arrays of shape {upper.shape}: it gets all elements in a row, and has to return as many, as numpy.add does"
            )
        np.copyto(upper, result, casting="same_kind" if dtype.kind in "biufc" else "unsafe")

    return combine
