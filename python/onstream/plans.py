"""Plans: operations compiled once and launched many times, over arrays of any strides.

PlanBuilder reads arrays (see _arrays.py) and hands their addresses down; a Plan keeps alive the arrays that it was
built over, and a stream or Graph that keeps a launch of it keeps the plan. Operations of one launch run concurrently,
except that signals and atomics follow the puts added before them, and that collectives run behind all others, in the
order added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from . import _arrays, _core, _values
from ._null import null
from .collectives import Op
from .errors import InvalidArgumentError, UnsupportedError
from .neighbours import Neighbourhood, flags_per_dimension, told_array
from .symmetric import SymmetricArray, atomic_bits, elements_of, told_bits
from .teams import Team
from .uneven import Uneven

if TYPE_CHECKING:
    from .world import World


class PlanBuilder:
    """Collects the operations of a plan. Each that adds some returns the builder; wrong values raise at once.

    Except of halo(), which all ranks call: build() reports errors in its arguments, on every rank.

    The plan keeps the arrays that it is given, not the program's names for them: write into an array
    (`field[1:-1] = new`), as after `field = new` the plan would still move the old one. With two arrays that are swapped
    build a plan over each, and swap those too.
    """

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._core = _core.plan_builder(world, name)
        self._name = name
        self._built = False
        self._spans: list[_arrays.Span] = []
        self._wrong: Exception | None = None  # first of this rank's mistakes that build() tells

    def send(self, source: Any, peer: int, *, tag: int = 0, note: str = "") -> PlanBuilder:
        """Sends an array of any strides to the matching recv() of the same plan on `peer`.

        build() compares the element types of both sides and refuses those that differ, if both arrays tell theirs
        (bytes, bytearray and DLPack-only arrays do not).

        Parameters
        ----------
        source : array
            Of any strides.
        peer : int
            Rank of the receiver; to `null` nothing is added.
        tag : int
            Sends and receives of one peer and tag match in the order of the calls.
        note : str
            For explain().

        Returns
        -------
        PlanBuilder
            Itself, so that calls can be chained.

        Raises
        ------
        InvalidArgumentError
            A peer or tag that does not exist, an array that cannot be addressed.
        """
        elements, number = self._elements(source, writable=False), _values.rank_of(tag, "tag")
        if peer is not null:
            self._core.send(elements, _values.rank_of(peer, "peer"), number, note)
        return self

    def recv(self, destination: Any, peer: int, *, tag: int = 0, note: str = "") -> PlanBuilder:
        """Receives into an array of any strides, as many bytes as the matching send() has.

        Parameters
        ----------
        destination : array
            Writable, of any strides.
        peer : int
            Rank of the sender; from `null` nothing is added.
        tag, note
            As of send().

        Returns
        -------
        PlanBuilder
            Itself.

        Raises
        ------
        InvalidArgumentError
            As send().
        """
        elements, number = self._elements(destination, writable=True), _values.rank_of(tag, "tag")
        if peer is not null:
            self._core.recv(elements, _values.rank_of(peer, "peer"), number, note)
        return self

    def put(self, remote: Any, source: Any, peer: int, *, note: str = "") -> PlanBuilder:
        """Stores `source` into `remote`, of the same number of bytes.

        `remote` is a view of Segment.peer(peer), or a SymmetricArray of the same type, which stands for its place on the
        peer here.
        """
        to, span = self._remote(remote, peer, writable=True), self._span(source, writable=False)
        check = _values.check_same_type if isinstance(remote, SymmetricArray) else _values.check_same_order
        check("put", to.dtype, span.dtype)
        self._core.put(elements_of(to), elements_of(span), _values.rank_of(peer, "peer"), note)
        return self

    def get(self, destination: Any, remote: Any, peer: int, *, note: str = "") -> PlanBuilder:
        """Fills `destination` from `remote`, as in put(), of the same number of bytes.

        Reads the bytes there when a launch begins, or later: a wait of the same plan does not hold it back.
        """
        to, span = self._span(destination, writable=True), self._remote(remote, peer, writable=False)
        check = _values.check_same_type if isinstance(remote, SymmetricArray) else _values.check_same_order
        check("get", to.dtype, span.dtype)
        self._core.get(elements_of(to), elements_of(span), _values.rank_of(peer, "peer"), note)
        return self

    def signal(self, counter: Any, peer: int, *, value: int = 1, op: str = "add", note: str = "") -> PlanBuilder:
        """Changes one integer of 64 bits in a peer's segment, `counter`, after this plan's earlier puts to that peer.

        Adds `value` to it, or sets it (op="set"). A SymmetricArray stands for its place on the peer.
        """
        span = _counter(self._remote(counter, peer, writable=True))
        bits = told_bits(value, op, span.dtype)
        self._core.signal(op, elements_of(span), bits, _values.rank_of(peer, "peer"), note)
        return self

    def atomic(
        self, op: str, word: Any, peer: int, *, value: Any = 0, expected: Any = 0, old: Any = None, note: str = ""
    ) -> PlanBuilder:
        """Changes one word of 32 or 64 bits in a peer's segment, `word`, in order as signal() does.

        op is fetch, set, add, and, or, xor, swap, or compare_swap (which stores `value` if the word is `expected`); of
        floats fetch, set and swap. The old value goes to `old`, one element of the same size that kernels access, if
        there is one.
        """
        span = self._remote(word, peer, writable=True)
        kept = None if old is None else self._span(old, writable=True)
        if kept is not None and kept.nbytes != span.nbytes:
            raise InvalidArgumentError(f"the old value of {span.nbytes} bytes cannot go to {kept.nbytes} bytes")
        if kept is not None:
            _values.check_same_order("atomic", kept.dtype, span.dtype)
        value_bits, expected_bits = atomic_bits(op, span.dtype, value, expected)
        self._core.atomic(
            op,
            elements_of(span),
            value_bits,
            _values.rank_of(peer, "peer"),
            0 if kept is None else kept.address,
            expected_bits,
            note,
        )
        return self

    def wait(self, counter: Any, *, value: int = 1, compare: str | None = None, note: str = "") -> PlanBuilder:
        """Ends a launch only when the local uint64 `counter` has grown by `value` more for every launch.

        With `compare` - eq, ne, gt, ge, lt or le - only when `counter`, any integer of 32 or 64 bits, compares so with
        `value`, at every launch anew; it has to stay so until the launch has looked.
        """
        span = self._span(counter, writable=True)
        if compare is None:
            self._core.wait(_counter(span).address, _count_of(value), note)
            return self
        bits = _values.word_of_type(value, span.dtype, "value")
        self._core.wait_until(elements_of(span), compare, bits, note)
        return self

    def halo(
        self,
        array: Any,
        *,
        ghost: int | Sequence[int] = 1,
        grid: Sequence[int] | None = None,
        periodic: bool | Sequence[bool] = False,
        corners: bool = False,
        tag: int = 0,
    ) -> PlanBuilder:
        """Adds the exchange of an array's ghost cells; see World.halo(). Collective if `grid` is left out.

        build() reports errors in this rank's block or arguments, on every rank.
        """
        try:
            span = self._span(array, writable=True)
            dims = len(span.shape)
            widths = _per_dimension(ghost, dims, "ghost")
            wraps = flags_per_dimension(periodic, dims)
            _check_dimensions(wraps, dims, "periodic")
            with_corners = _values.flag_of(corners, "corners")
            ranks = [] if grid is None else [_values.rank_of(n, "grid") for n in grid]
            number = _values.rank_of(tag, "tag")
        except (TypeError, ValueError, UnsupportedError) as error:
            if grid is None:
                self._choose_grid(None)  # the others are there
            self._core.refuse(f"halo: {error}")
            self._wrong = self._wrong or error.with_traceback(None)  # whose frames would hold the world
            return self
        if grid is None:
            interior = [max(1, extent - 2 * width) for extent, width in zip(span.shape, widths, strict=True)]
            ranks = self._choose_grid(interior)
        self._core.halo(elements_of(span), widths, ranks, wraps, with_corners, number)
        return self

    @overload
    def collectives(self, of: Team | None = None) -> PlanCollectives: ...
    @overload
    def collectives(self, of: Neighbourhood) -> PlanNeighbourhood: ...
    def collectives(self, of: Team | Neighbourhood | None = None) -> PlanCollectives | PlanNeighbourhood:
        """The collectives of all ranks, a team or a neighbourhood, whose calls are added to the plan instead of run.

        plan.collectives().all_reduce(x). Those of a launch run behind its other operations, in the order added; all
        ranks of the team add the same, which build() checks. A launch prepares nothing and asks no peer.
        """
        if isinstance(of, Neighbourhood):
            return PlanNeighbourhood(self, of)
        return PlanCollectives(self, self._world._members if of is None else of._members)

    def use_path(self, path: str) -> PlanBuilder:
        """Sends all sends, receives and puts of the plan along one path: "store", "load", "copy", ... or "auto"."""
        self._core.use_path(path)
        return self

    def build(self) -> Plan:
        """Matches, validates and compiles the plan. Collective.

        Returns
        -------
        Plan
            launch() it any number of times.

        Raises
        ------
        InvalidArgumentError
            On every rank, naming both sides: a send without a receive, or of another size or type.
        """
        try:
            built = self._core.build([span.owner for span in self._spans])
        except InvalidArgumentError as error:
            if self._wrong is not None:
                raise self._wrong from error
            if " meets rank " not in str(error) or not self._spans:
                raise
            told = ", ".join(told_array(span) for span in self._spans)
            raise InvalidArgumentError(f"{error}\n  the arrays of rank {self._world.rank}: {told}") from None
        self._built = True
        return Plan(self._world, built, self._spans)

    def __repr__(self) -> str:
        state = "its world is closed" if self._world.closed else "built" if self._built else "not built yet"
        return f"<PlanBuilder {self._name}: {state}>"

    def _span(self, array: Any, *, writable: bool) -> _arrays.Span:
        span = _arrays.checked_span(array, writable, self._world)
        self._spans.append(span)
        return span

    def _add(
        self, runner: _core.Team | _core.Neighbourhood, call: _core.CollectiveCall,
        spans: Sequence[_arrays.Span], stream: Any,
    ) -> None:  # fmt: skip
        if stream is not None:
            raise InvalidArgumentError("a plan's collectives run on the stream of each launch: give that to launch()")
        self._core.add(runner.planned(call))
        self._spans.extend(spans)

    def _remote(self, place: Any, peer: Any, *, writable: bool) -> _arrays.Span:
        if not isinstance(place, SymmetricArray):
            return self._span(place, writable=writable)
        span = place.peer_span(peer)
        self._spans.append(span)
        return span

    def _elements(self, array: Any, *, writable: bool) -> _core.Elements:
        return elements_of(self._span(array, writable=writable))

    def _choose_grid(self, interior: Sequence[int] | None) -> list[int]:
        """One grid for all ranks, although their blocks may differ by a cell: for an array of the proportions of the
        largest extents, in which any number of ranks has room. A rank whose arguments are wrong has none, and build()
        will tell; the grid is of no use then.
        """
        everyone = [
            [int(number) for number in line.split()]
            for line in self._world._all_gather("halo grid", " ".join(map(str, interior or ())))
        ]
        told = [theirs for theirs in everyone if theirs]
        if any(len(theirs) != len(told[0]) for theirs in told):
            raise InvalidArgumentError(f"the ranks' arrays have {[len(theirs) for theirs in everyone]} dimensions")
        if not told:
            return []
        size = self._world.size
        return _core.choose_grid(size, [size * max(extents) for extents in zip(*told, strict=True)])


class PlanCollectives(Uneven):
    """Collectives on their way into a plan; each method returns the array that a launch will fill."""

    def __init__(self, builder: PlanBuilder, members: _core.Team) -> None:
        self._builder = builder
        self._members = members

    @property
    def _home(self) -> World:
        return self._builder._world

    def __repr__(self) -> str:
        return f"<PlanCollectives: into {self._builder!r}>"

    def barrier(self, *, channel: int = 0) -> None:
        """Ends a launch, on each rank of the team, only when the others' launches have come to it."""
        self._run(self._barrier_call(channel), (), None, None)

    def neighbourhood(
        self, grid: Sequence[int] | None = None, *, periodic: bool | Sequence[bool] = False,
        sources: Sequence[int] = (), destinations: Sequence[int] = (),
    ) -> PlanNeighbourhood:  # fmt: skip
        """A neighbourhood of the team, made at once as by World.neighbourhood(); its exchanges go into the plan."""
        hood = super().neighbourhood(grid, periodic=periodic, sources=sources, destinations=destinations)
        return PlanNeighbourhood(self._builder, hood)

    def _run_plain(
        self, kind: str, array: Any, out: Any, op: Op, root: int, channel: int, algorithm: str, stream: Any
    ) -> bool:  # fmt: skip
        return False  # it would run at once

    def _number(self, call: str, value: Any) -> np.ndarray[Any, Any]:
        raise InvalidArgumentError(
            f"{call}: a plan needs an array, which each launch reads and fills, not the number {value}"
        )

    def _run(self, call: _core.CollectiveCall, spans: tuple[_arrays.Span | None, ...], stream: Any, result: Any) -> Any:
        self._builder._add(self._members, call, [span for span in spans if span is not None], stream)
        return result


class PlanNeighbourhood(Neighbourhood):
    """Exchanges of a neighbourhood on their way into a plan; each method returns the array that a launch will fill."""

    def __init__(self, builder: PlanBuilder, hood: Neighbourhood) -> None:
        self._builder = builder
        self._home = builder._world
        self._edges = hood._edges
        self._run_plain = lambda *_: False  # it would run at once

    def _run(self, call: _core.CollectiveCall, spans: Sequence[_arrays.Span], stream: Any, result: Any) -> Any:
        self._builder._add(self._edges, call, spans, stream)
        return result


class Plan:
    """Operations compiled once. launch() runs them all, any number of times, eager or captured."""

    def __init__(self, world: World, core: _core.Plan, spans: list[_arrays.Span]) -> None:
        self._world = world
        self._core = core
        self._spans = spans
        self._on_device = next((span for span in spans if span.stream is not None), None)
        self._ordered = all(span.ordered and span.library == spans[0].library for span in spans)

    def launch(self, stream: Any = None) -> None:
        """Enqueues one run of all operations; does not block.

        Without a stream: on the current stream of the library whose device arrays the plan has, or, if it has host
        arrays only, as a call that returns when the run has finished; stream="host" blocks for any arrays. Inside
        World.capture() the captured stream is the default.

        Parameters
        ----------
        stream : stream, optional
            Of onstream, torch or cupy, or "host".

        Raises
        ------
        InvalidArgumentError
            Memory that the plan uses is gone.
        AbortedError, TimeoutError
            The world has failed.
        """
        natural = None
        if stream is None and self._on_device is not None:
            current = _arrays.stream_now(self._on_device)
            natural = None if current is None else (current, self._ordered)
        self._core.launch(stream, natural)

    def explain(self) -> str:
        """A table for people: operations, the path each takes, and why."""
        return self._core.explain()

    @property
    def name(self) -> str:
        """The name that World.plan() or halo() was given."""
        return self._core.name

    @property
    def ops(self) -> list[_core.PlanOp]:
        """The rows of explain(), as data."""
        return self._core.ops

    @property
    def kernels_per_launch(self) -> int:
        """How many kernels one launch starts."""
        return self._core.kernels_per_launch

    def times(self) -> list[_core.OpTime]:
        """Where the time of each operation went since the build, or reset_times(). Synchronize the stream first.

        Collectives are not among them.
        """
        return self._core.times()

    def reset_times(self) -> None:
        """From the next launch on times() counts anew."""
        self._core.reset_times()

    def __repr__(self) -> str:
        if self._world.closed:
            return "<Plan: its world is closed>"
        return f"<Plan {self.name}: {len(self.ops)} operations>"


def _per_dimension(value: Any, dims: int, name: str) -> list[int]:
    if not _values.is_several(value):
        return [_values.integer_of(value, name)] * dims
    values = [_values.integer_of(item, name) for item in value]
    _check_dimensions(values, dims, name)
    return values


def _check_dimensions(values: Sequence[Any], dims: int, name: str) -> None:
    if len(values) != dims:
        raise InvalidArgumentError(f"{name}={list(values)} has {len(values)} values for an array of {dims} dimensions")


def _counter(span: _arrays.Span) -> _arrays.Span:
    if span.dtype not in ("int64", "uint64", "") or span.nbytes != 8:
        raise InvalidArgumentError(
            f"a counter is one 64-bit integer of a segment, such as segment.peer(1, 'uint64')[:1], not "
            f"{span.nbytes} bytes of {span.dtype or 'an unknown type'}"
        )
    return span


def _count_of(value: Any) -> int:
    """By how much a 64-bit counter grows."""
    count = _values.integer_of(value, "value")
    if not 0 <= count < 2**64:
        raise InvalidArgumentError(f"value is {count}, but a counter grows by 0 to 2**64 - 1")
    return count
