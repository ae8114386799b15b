"""Handle: a collective that was started and is waited for later, by `start` of a world, a team or a neighbourhood.

Each is on a stream of its own, which the world lends again once the collective has ended. So those of one channel, these
and blocking ones, run in the order of the calls, and those of different channels or teams run at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from . import _arrays, _core, awaiting
from .errors import AbortedError, ClosedError, InvalidArgumentError, TimeoutError, UnsupportedError

if TYPE_CHECKING:
    from .world import World


class Handle:
    """A collective under way. Made by the methods of World.start, Team.start and Neighbourhood.start.

    Until it has ended, do not change its arrays nor read its results. Its arrays live until then, also without the
    handle; a failure that no wait() has told is raised by World.check() and close().
    """

    def __init__(self, world: World, call: str, result: Any) -> None:
        self._world = world
        self._call = call
        self._result = result
        self._convert: Callable[[Any], Any] | None = None
        self._error: BaseException | None = None
        self._settling = threading.Lock()
        self._stream: _core.Stream | None = _lease(world)

    def done(self) -> bool:
        """Whether it has ended, well or badly: wait() then does not block, and raises the error. Does not block."""
        return self._stream is None or self._stream.idle

    def wait(self) -> Any:
        """Blocks until it has ended, and returns what the plain call returns. Ctrl-C works, and leaves it under way.

        Raises if the world has failed, as the plain call does. Waiting again returns, or raises, the same.
        """
        if self._stream is not None:
            self._finish(self._stream)
        if self._error is not None:
            raise self._error
        return self._result

    def __await__(self) -> Generator[Any, None, Any]:
        """`await handle`: wait() that lets other tasks of the event loop run. A task that is cancelled leaves the
        collective under way.
        """
        return self._awaited().__await__()

    async def _awaited(self) -> Any:
        await awaiting.until(self.done)
        return self.wait()

    def _finish(self, stream: _core.Stream) -> None:
        told: Exception | None = None
        try:
            stream.synchronize()
        except Exception as error:
            if not stream.idle or isinstance(error, UnsupportedError):
                raise  # it has not ended
            told = error
        with self._settling:  # several threads may wait
            if self._stream is not None:
                self._settle(told)
        if told is not None and self._error is None:
            raise told  # of another op of this rank, which no other call will tell; the next wait() returns

    def _settle(self, told: Exception | None) -> None:
        if isinstance(told, (AbortedError, ClosedError, TimeoutError)):
            self._error = told
        elif self._convert is not None:
            try:
                self._result = self._convert(self._result)
            except Exception as error:
                self._error = error
        self._give_back()

    def _give_back(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None and not self._world.closed:
            self._world._lent_streams.append(stream)

    def __del__(self) -> None:
        if hasattr(self, "_stream"):
            self._give_back()

    def __repr__(self) -> str:
        if self._error is not None:
            return f"<Handle: {self._call}, ended: {type(self._error).__name__}>"
        return f"<Handle: {self._call}, {'ended' if self.done() else 'under way'}>"


def start(
    world: World, name: str, runner: _core.Team | _core.Neighbourhood, call: _core.CollectiveCall,
    spans: Sequence[_arrays.Span], stream: Any, result: Any,
) -> Handle:  # fmt: skip
    if stream is not None:
        raise InvalidArgumentError(
            f"start.{name}: stream={stream!r}, but a started collective has a stream of its own; give the stream to {name}() "
            "without start"
        )
    if _core.captures():
        raise UnsupportedError(
            f"start.{name}: this thread captures a stream, and a handle would not be a part of the graph; call {name}() "
            "without start, which does not block there"
        )
    handle = Handle(world, name, result)
    assert handle._stream is not None
    _core.follow(handle._stream, _arrays.natural_of(spans))
    runner.run(call, [span.owner for span in spans], handle._stream, None)
    return handle


def _lease(world: World) -> _core.Stream:
    """A stream that nobody uses: one given back whose work has ended, else a new one."""
    lent = world._lent_streams
    for _ in range(len(lent)):
        try:
            stream = lent.pop(0)
        except IndexError:  # another thread has it
            break
        if stream.idle:
            return stream
        lent.append(stream)
    return world.stream()
