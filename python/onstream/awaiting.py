"""`await` of requests and handles: one watch for each event loop asks those that its tasks await whether they have ended.

Between two looks the loop runs its other tasks. The looks follow each other closely for SPIN_S after the last news, then
once in PAUSE_S. A look at a message of more than LARGE_BYTES may copy it, so a thread of the loop's executor does that.
A task that stops to wait, as it is cancelled, is forgotten at the next look, and nothing happens to the op.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Callable, Generator
from typing import Any

from . import _core
from .errors import TimeoutError

SPIN_S = 200e-6
PAUSE_S = 1e-3
LARGE_BYTES = 1 << 18


class _Watch:
    def __init__(self) -> None:
        self._waiting: list[tuple[asyncio.Future[None], Callable[[], bool]]] = []
        self._news = 0.0
        self._due = False

    def add(self, loop: asyncio.AbstractEventLoop, ended: Callable[[], bool]) -> asyncio.Future[None]:
        future = loop.create_future()
        self._waiting.append((future, ended))
        self._news = time.monotonic()
        if not self._due:
            self._due = True
            loop.call_soon(self._look, loop)
        return future

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting, self._waiting = self._waiting, []
        before, left = len(waiting), []
        try:
            while waiting:
                if not _is_over(*waiting[-1]):
                    left.append(waiting[-1])
                waiting.pop()
        finally:  # also behind an interrupt: the others are waited for still
            self._waiting += left + waiting
            now = time.monotonic()
            if len(self._waiting) < before:
                self._news = now
            self._due = len(self._waiting) > 0
            if self._due and now - self._news < SPIN_S:
                loop.call_soon(self._look, loop)
            elif self._due:
                loop.call_later(PAUSE_S, self._look, loop)


_watches: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch] = weakref.WeakKeyDictionary()


def _is_over(future: asyncio.Future[None], ended: Callable[[], bool]) -> bool:
    if future.done():  # cancelled
        return True
    try:
        if not ended():
            return False
        future.set_result(None)
    except Exception as error:
        future.set_exception(error)
    return True


async def until(ended: Callable[[], bool]) -> None:
    """Returns once ended() is true, and raises as it does. It is called in the event loop's thread, and does not block."""
    if not ended():
        loop = asyncio.get_running_loop()
        await _watches.setdefault(loop, _Watch()).add(loop, ended)


async def _request(request: _core.Request) -> int:
    limit_s = request._timeout_s
    deadline = time.monotonic() + limit_s

    def ended() -> bool:
        if request.done():
            return True
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"await: {request!r} has not ended in {limit_s:g} s (parameter timeout_s); it is under way still: await it "
                "again, or wait()"
            )
        return False

    if request.nbytes > LARGE_BYTES:
        loop = asyncio.get_running_loop()
        while not await loop.run_in_executor(None, ended):
            await asyncio.sleep(PAUSE_S)
    else:
        await until(ended)
    request.test()  # raises if it ended badly
    return request.received


def of_request(request: _core.Request) -> Generator[Any, None, int]:
    return _request(request).__await__()
