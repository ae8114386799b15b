"""run_threads(): a whole job inside one process, each rank a thread with a World of its own.

For trying things out and for tests: no launcher, no processes, exceptions come back. Kernels, streams and messages are
those of a real job. When one rank raises, its world is aborted, so the others end too.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

from . import _core, _libraries
from .world import World

Result = TypeVar("Result")


class _Rank(threading.Thread):
    def __init__(self, launch: _core.Launch, function: Callable[[World], Any], parameters: dict[str, Any]) -> None:
        super().__init__(name=f"rank {launch.rank}", daemon=True)
        self.launch = launch
        self.function = function
        self.parameters = parameters
        self.world: World | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.failed_at = 0.0

    def run(self) -> None:
        try:
            with ExitStack() as outlasting, World(launch=self.launch, **self.parameters) as self.world:
                if self.world.device != "host":
                    # On the default stream, which all threads share, one rank's wait would keep the others from running.
                    self.world.synchronize()  # the program's work there
                    outlasting.enter_context(_libraries.own_stream(self.world.device))
                self.result = self._call(self.world)
        except BaseException as error:  # of any type: the caller's thread raises it
            self.error = error
            self.failed_at = self.failed_at or time.monotonic()

    def _call(self, world: World) -> Any:
        try:
            return self.function(world)
        except BaseException:
            self.failed_at = time.monotonic()  # before this rank's end makes others fail
            raise

    def abort(self, error: BaseException) -> None:
        if self.world is not None and not self.world.closed:
            reason = f"the program was interrupted by {type(error).__name__}"
            self.world.abort(reason, interrupt=isinstance(error, KeyboardInterrupt))


def run_threads(size: int, function: Callable[[World], Result], **parameters: Any) -> list[Result]:
    """Runs function(world) as `size` ranks and returns their results in rank order.

    Keywords are parameters of each World. On a GPU every rank has a current stream of its own, as processes have: in
    cupy, and in torch if it is imported before. It begins when the default stream has finished its work, and has ended
    when this returns. The first exception of any rank is raised again here; its attribute `rank`, and on Python 3.11
    and newer a note in its text, name the rank.

    Parameters
    ----------
    size : int
        How many ranks.
    function : callable
        Gets the World of its rank.
    **parameters
        Of each World.

    Returns
    -------
    list
        The results of all ranks.

    Raises
    ------
    Exception
        The first exception of any rank.
    """
    if size < 1:
        raise ValueError(f"a job needs at least one rank, not {size}")
    secret, address = secrets.token_hex(16), f"unix:onstream-threads-{secrets.token_hex(16)}"
    ranks = [_Rank(_core.Launch(rank, size, 0, secret, address), function, parameters) for rank in range(size)]
    for rank in ranks:
        rank.start()
    try:
        for rank in ranks:
            rank.join()
    except BaseException as error:  # Ctrl-C, or a test's time limit
        for rank in ranks:
            rank.abort(error)
        raise
    failed = [rank for rank in ranks if rank.error is not None]
    if failed:
        first = min(failed, key=lambda rank: rank.failed_at)
        raise _named(first)
    return [rank.result for rank in ranks]


def _named(rank: _Rank) -> BaseException:
    error = rank.error
    assert error is not None
    error.rank = rank.launch.rank  # type: ignore[attr-defined]
    if hasattr(error, "add_note"):
        error.add_note(f"(raised by rank {rank.launch.rank} of run_threads)")
    return error
