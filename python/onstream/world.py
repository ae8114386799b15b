"""World: the ranks of a job and everything they share. The door of the library in Python.

Messages (send, recv, sendrecv, isend, irecv), barrier, abort and failure come from the compiled base class, collectives
from collectives.py; here are arrays, segments, plans, halos and captures. Calls that wait for other ranks release the
GIL, end at a deadline (parameter timeout_s) and can be interrupted with Ctrl-C. A world that a program forgets to close is closed when it ends; if it
ends by an exception, the other ranks hear of it at once instead of waiting for a rank that is gone. If work on a stream has failed and no call
has told so, close() raises, and a program that has not closed its world ends with exit status 1.
"""

from __future__ import annotations

import atexit
import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from . import _core, _types, _values, _views, plans, tracebacks
from .contexts import Context
from .errors import Error
from .explained import Explained
from .heap import Heap
from .messages import Messages
from .probes import Probes
from .segments import Segment
from .teams import Team, Teams, team_of

_open_worlds: weakref.WeakSet[World] = weakref.WeakSet()


class World(Messages, Probes, Teams):
    """The ranks of a job. Every parameter (`onstream info --parameters`) is a keyword; None leaves its default.

    The launcher (onstream run, torchrun, mpirun, srun) gives this rank its number, or `launch` does. Blocks until all
    ranks of the job are there.
    """

    def __init__(self, *, launch: _core.Launch | None = None, **parameters: Any) -> None:
        if launch is not None and not isinstance(launch, _core.Launch):
            raise TypeError(f"launch is {launch!r} of type {type(launch).__name__}, but must be an onstream.Launch")
        tracebacks.shorten_uncaught()
        settings = {name: str(value) for name, value in parameters.items() if value is not None}
        super().__init__(launch, settings)
        self._members = _core.world_team(self)
        self._one_sided = _core.one_sided_of(self)
        self._lent_streams: list[_core.Stream] = []  # given back by handles
        _open_worlds.add(self)

    @property
    def _home(self) -> World:  # no attribute: a world that refers to itself would not end when it is dropped
        return self

    def __enter__(self) -> World:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None and not self.closed and not _is_success(error):
            _end(self, error)
        try:
            self.close()
        except Error:
            if error is None:  # else that one says why
                raise

    def __repr__(self) -> str:
        if self.closed:
            return "<World: closed>"
        return f"<World: rank {self.rank} of {self.size} on {self.device}>"

    # --- memory ---

    def empty(self, shape: int | Sequence[int], dtype: Any = "float64", *, kind: str = "device") -> Any:
        """An array in memory of kind "device", "pinned" or "managed", which peers reach directly, or plain "host".

        A numpy array for memory that the CPU reaches; else a cupy array, a torch tensor, or a DeviceArray, whichever
        library is there. The memory lives as long as the array or a view of it. It is then given back, without blocking,
        behind this world's work under way, and behind the streams of cupy and torch that were current in the thread
        that made the array, or are in the one that lets go of it. Wait for kernels on other streams before.

        Parameters
        ----------
        shape : int or sequence of int
            As of a numpy array.
        dtype : dtype
            numpy's, or a name such as "bfloat16".
        kind : str
            "device", "pinned", "managed" or "host".

        Returns
        -------
        array
            Not zeroed by contract; of numpy, cupy or torch, or a DeviceArray.

        Raises
        ------
        InvalidArgumentError, ValueError, TypeError
            A kind that does not exist, a negative extent, a dtype that does not exist.
        SystemError
            There is not so much memory.
        """
        extents, nbytes = _types.sized(shape, dtype, "an array")
        return _views.view_of(self.allocate(nbytes, kind=kind), extents, dtype)

    def zeros(self, shape: int | Sequence[int], dtype: Any = "float64", *, kind: str = "device") -> Any:
        """empty(), which is zeroed anyway; for programs that rely on the zeros."""
        return self.empty(shape, dtype, kind=kind)

    def segment(self, nbytes: int, *, kind: str = "device") -> Segment:
        """Symmetric memory: every rank allocates it together, zeroed, and addresses every peer's part. Collective.

        Parameters
        ----------
        nbytes : int
            Bytes of each rank's part, the same on every rank.
        kind : str
            As of empty().

        Returns
        -------
        Segment
            Zeroed.

        Raises
        ------
        InvalidArgumentError
            On every rank if ranks ask for different segments, with each rank's request.
        SystemError
            On every rank if some rank has no memory; the world goes on.
        """
        wanted = _values.integer_of(nbytes, "nbytes")
        _values.check_bytes(wanted, "a segment")
        return Segment(self, self._segment(wanted, kind))

    def heap(self, nbytes: int = 64 << 20, *, grow_nbytes: int = 0, kind: str = "device") -> Heap:
        """A Heap of symmetric arrays: memory of every rank. Collective.

        Parameters
        ----------
        nbytes : int
            Bytes of each rank's memory, the same on every rank.
        grow_nbytes : int
            When it is full it grows by these, or by the requested bytes if those are more; 0: never.
        kind : str
            As of segment().

        Returns
        -------
        Heap
            With empty(), zeros(), resize() and free().

        Raises
        ------
        InvalidArgumentError, SystemError
            As segment().
        """
        wanted, growth = _values.integer_of(nbytes, "nbytes"), _values.integer_of(grow_nbytes, "grow_nbytes")
        _values.check_bytes(wanted, "a heap")
        _values.check_bytes(growth, "the growth of a heap")
        return Heap(self, _core.make_heap(self, wanted, growth, kind), kind)

    def context(self) -> Context:
        """A Context: one-sided ops that the host issues, also such as are waited for later."""
        return Context(self)

    # --- messages ---

    @property
    def explain(self) -> ExplainedWorld:
        """The methods of collectives, and send(), but they run nothing: each returns as text the choice that its call would
        make, and why.

        world.explain.all_reduce(array, op="max") explains world.all_reduce(array, op="max"), on this rank alone; the
        text also has the predicted time of the other algorithms, or why they cannot run. It refuses the arguments that
        the call itself refuses, except that it does not check where the buffers of collectives lie.
        """
        return ExplainedWorld(self)

    def wait_all(self, requests: Iterable[_core.Request], *, stream: Any = None) -> None:
        """Waits for every request, as Request.wait() does, for receives first; then raises the first error among them,
        and leaves others of single messages for check().

        It blocks for those posted without a stream, and for all of them with stream="host".

        Parameters
        ----------
        requests : iterable of Request
            Of isend() and irecv().
        stream : stream, optional
            Enqueues the waits there.

        Raises
        ------
        TruncatedError, TimeoutError, AbortedError
            As wait() of the first that ended badly.
        """
        _core.wait_all(list(requests), stream)

    # --- collectives: see collectives.py ---

    def sync(self) -> None:
        """Blocks until every rank's host has come here, as barrier(); enqueued work does not matter. Collective."""
        self.barrier()

    def team(self, ranks: Iterable[int], *, channels: int = 1) -> Team:
        """The ranks that do collectives together, numbered in this order. Collective over the world.

        Every rank names the ranks of its own team, or none.

        Parameters
        ----------
        ranks : iterable of int
            Ranks of the world, in the order of their new numbers.
        channels : int
            How many channels of collectives the team has; they may run at once.

        Returns
        -------
        Team
            On a rank that named none, a team without it.

        Raises
        ------
        InvalidArgumentError
            On every rank, if the members of a team named different ranks.
        """
        return team_of(self, [_values.integer_of(rank, "ranks") for rank in ranks], channels)

    # --- plans ---

    def plan(self, name: str = "plan") -> plans.PlanBuilder:
        """Starts a plan: add operations, build() it on every rank, launch() it any number of times.

        Parameters
        ----------
        name : str
            For explain() and errors.

        Returns
        -------
        PlanBuilder
            Empty.
        """
        return plans.PlanBuilder(self, name)

    def halo(
        self,
        arrays: Any,
        *,
        ghost: int | Sequence[int] = 1,
        grid: Sequence[int] | None = None,
        periodic: bool | Sequence[bool] = False,
        corners: bool = False,
        tag: int = 0,
        name: str = "halo",
    ) -> plans.Plan:
        """A plan that fills the ghost cells of one array, or of a list of them, from the neighbours. Collective.

        The plan keeps these arrays, not the program's names for them: write into them (`field[1:-1] = new`). With two arrays
        that are swapped make a halo of each, and swap those too.

        Parameters
        ----------
        arrays : array or list of arrays
            This rank's block of each: 1 to 4 dimensions, any strides, any element type, with `ghost` cells on both sides.
        ghost : int or sequence of int
            Width in cells, one for each dimension if there are several; 0: no exchange along that one.
        grid : sequence of int, optional
            Ranks in each dimension, row-major. Without it choose_grid() picks it for the largest local block.
        periodic : bool or sequence of bool
            Whether each dimension is closed to a ring; at an open edge the ghost cells stay as they are.
        corners : bool
            Fills edges and corners too.
        tag : int
            Of the plan's messages.
        name : str
            For explain() and errors.

        Returns
        -------
        Plan
            launch() it any number of times.

        Raises
        ------
        InvalidArgumentError
            On every rank: blocks that do not fit each other, a grid of another size than the world.
        """
        builder = plans.PlanBuilder(self, name)
        for array in arrays if isinstance(arrays, (list, tuple)) else [arrays]:
            builder.halo(array, ghost=ghost, grid=grid, periodic=periodic, corners=corners, tag=tag)
        return builder.build()

    # --- the program's own work on streams, and capture ---

    def call(self, function: Callable[..., Any], *args: Any, stream: Any = None, **keywords: Any) -> None:
        """Calls `function(*args, **keywords)` in the order of the stream: behind its work so far, before its later work.

        Does not block. In a capture() each launch of the graph calls the function again, so numpy arithmetic between ops becomes
        a part of the step. It runs in a thread of the stream, with the GIL, so it is slow beside a kernel. On a GPU it must not
        use cuda, nor device memory (arrays of kind "pinned" are fine), and it cannot call onstream: UnsupportedError. If it
        raises, the world fails with an error that names function, rank and exception, which the next wait raises on every
        rank; later functions are not called then.

        Parameters
        ----------
        function : callable
            Its result is dropped.
        *args, **keywords
            Its arguments. The stream, or the graph, keeps them.
        stream : stream, optional
            In a capture() the captured stream, if none is given.

        Raises
        ------
        TypeError
            For a function that cannot be called.
        InvalidArgumentError
            Without a stream.
        """
        if not callable(function):
            raise TypeError(
                f"call: the function is {function!r} of type {type(function).__name__}, which cannot be called"
            )
        name = getattr(function, "__qualname__", None) or repr(function)
        _core.call_in_stream(self, functools.partial(function, *args, **keywords), name, stream)

    @contextmanager
    def capture(self, stream: _core.Stream) -> Iterator[_core.Graph]:
        """Captures the work enqueued on the stream inside the `with` block; none of it runs until graph.launch().

        Inside the block, in its thread, `stream` is the default of this world's sends, receives, collectives, plans and
        halos, and later of graph.launch(). Only enqueued work is captured: numpy arithmetic in the block runs once,
        immediately, and is not replayed; call() makes a function a part of the graph. The graph keeps alive the arrays, plans and
        requests that it uses. (A graph that torch or cupy captures keeps onstream's objects alive too; the program must keep
        the arrays, as always there.)

        Parameters
        ----------
        stream : Stream
            Of World.stream().

        Returns
        -------
        Graph
            Of the `with` statement. One whose block raised cannot be launched.

        Raises
        ------
        InvalidArgumentError
            The block captured nothing.
        """
        graph = _Graph()
        stream._begin_capture()
        try:
            yield graph
        except BaseException as error:
            graph.state = "its capture raised"
            stream._drop_capture(graph, _words_of(error))
            raise
        graph.state = "its capture raised"
        stream._end_capture(graph)
        graph.state = "captured"


class _Graph(_core.Graph):
    """A graph that tells its state."""

    state = "being captured"

    def __repr__(self) -> str:
        return f"<Graph: {self.state}>"


class ExplainedWorld(Explained):
    """The explanations of a world: see World.explain."""

    def __init__(self, of: World) -> None:
        super().__init__(of)
        self._world = of

    def send(self, array: Any, peer: int, *, tag: int = 0, path: str = "auto") -> str:
        """Explains the path of World.send(), with the predicted time of the other paths, or why they cannot be.

        It may ask the peer to map the array. Raises InvalidArgumentError as send() does.
        """
        return self._world._explain_send(array, peer, tag, path)


def init(*, launch: _core.Launch | None = None, **parameters: Any) -> World:
    """Joins the job: a World with these parameters. Collective.

    Parameters
    ----------
    launch : Launch, optional
        This rank's place in the job; the launcher's variables, if none is given.
    **parameters
        Any of `onstream info --parameters`; None leaves its default.

    Returns
    -------
    World
        Also for a `with` statement, which closes it.

    Raises
    ------
    InvalidArgumentError
        A parameter that does not exist, or a value out of range.
    TimeoutError
        Some rank has not come by `bootstrap_timeout_s`; the error names it.
    """
    return World(launch=launch, **parameters)


def _is_success(error: BaseException) -> bool:
    return isinstance(error, SystemExit) and error.code in (None, 0)


def _words_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _end(world: World, error: BaseException) -> None:
    world.abort(f"rank {world.rank} ended by {_words_of(error)}", interrupt=isinstance(error, KeyboardInterrupt))


def _end_quietly(hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def without_ours(args: Any) -> None:
        if not issubclass(args.exc_type, Error):
            hook(args)

    return without_ours


@atexit.register
def _close_open_worlds() -> None:
    # The threads that are left are daemons, and their waits end with the worlds: that is no news.
    threading.excepthook = _end_quietly(threading.excepthook)
    # In an interactive session that is any earlier slip, which the user has seen and gone on from.
    error = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
    for world in list(_open_worlds):
        if not world.closed:
            if error is not None:
                _end(world, error)
            try:
                world.close()
            except Error as untold:
                if error is None:
                    print(_words_of(untold), file=sys.stderr)
                    _core._end_with_failure()
