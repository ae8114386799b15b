"""Works: the objects that c10d's asynchronous calls return. wait() raises onstream's own errors.

A HostWork is run by its lane's thread (lanes.py), a CudaWork has been enqueued when it is made, and a MessageWork holds
the Request of a send or a receive. get_future() completes with the tensors of the call; of CPU tensors in a thread of
finishers.py, where its callbacks run and may block.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from .. import _core
from ..errors import Error, TimeoutError
from .finishers import finish

Pairs = Sequence[tuple[Any, Any]]  # of a target and the contiguous tensor that stands for it until the call has ended

_NO_LIMIT = timedelta(0)  # c10d's default
_claiming = threading.Lock()  # held while a work ends or gets its future: one of the two completes the future


def copy_back(pairs: Pairs) -> None:
    """Copies each result to the tensor that could not be written by onstream itself."""
    with torch.no_grad():
        for target, source in pairs:
            target.copy_(source)


class Work(dist.Work):
    """The parts that all works share. A subclass says when it has ended, and waits."""

    def __init__(self, tensors: Any) -> None:
        super().__init__()
        self._tensors = tensors
        self._error: BaseException | None = None

    def result(self) -> Any:
        """The tensors of the call."""
        return self._tensors

    def exception(self) -> BaseException | None:
        """The error, once the work has ended by one."""
        return self._error

    def is_success(self) -> bool:
        """Whether the work has ended, and well."""
        return self.is_completed() and self._error is None

    def is_completed(self) -> bool:
        raise NotImplementedError

    def synchronize(self) -> None:
        """wait(), without a limit of its own."""
        self.wait()

    def wait(self, timeout: timedelta = _NO_LIMIT) -> bool:
        raise NotImplementedError


class HostWork(Work):
    """Collectives of CPU tensors, on their way in the lane's thread."""

    def __init__(self, calls: Sequence[Any], back: Pairs, tensors: Any) -> None:
        super().__init__(tensors)
        self.calls = calls
        self.back = back
        self._gate = threading.Lock()  # held until the work has ended
        self._gate.acquire()
        self._done = False  # set before the gate opens; wait() holds the gate for a moment too
        self._future: Any = None

    def end(self, error: BaseException | None) -> None:
        """The lane's thread has run it."""
        self._error = error
        self.calls = self.back = ()  # lets go of the arrays
        with _claiming:
            self._done = True
            future = self._future
        self._gate.release()
        if future is not None:
            finish(lambda: _settle(future, self._tensors, error))

    def is_completed(self) -> bool:
        return self._done

    def wait(self, timeout: timedelta = _NO_LIMIT) -> bool:
        """Blocks until the call has ended; raises its error, or TimeoutError after `timeout`, where the call goes on."""
        limit_s = timeout.total_seconds()
        if not self._gate.acquire(timeout=limit_s if limit_s > 0 else -1):
            raise TimeoutError(f"the collective had not ended after the {limit_s:g} s that wait() was given")
        self._gate.release()
        if self._error is not None:
            raise self._error
        return True

    def get_future(self) -> Any:
        """A torch.futures.Future of the tensors, which carries the error if there is one."""
        with _claiming:
            late = self._future is None and self._done
            if self._future is None:
                self._future = torch.futures.Future()
        if late:
            _settle(self._future, self._tensors, self._error)
        return self._future


class CudaWork(Work):
    """Collectives of CUDA tensors: enqueued on the stream that was current, with an event behind them."""

    def __init__(self, world: _core.World, stream: Any, tensors: Any) -> None:
        super().__init__(tensors)
        self._world = world
        self._event = stream.record_event()
        self._device = stream.device

    def is_completed(self) -> bool:
        return bool(self._event.query())

    def wait(self, timeout: timedelta = _NO_LIMIT) -> bool:
        """Lets the current stream wait; does not block. Raises the world's failure if it is known already."""
        self._world.check()
        torch.cuda.current_stream(self._device).wait_event(self._event)
        return True

    def get_future(self) -> Any:
        """A future that has a value at once, and whose wait() orders streams."""
        future: Any = torch.futures.Future(devices=[self._device])
        with torch.cuda.stream(torch.cuda.current_stream(self._device)):
            self.wait()
            future.set_result(self._tensors)
        return future


class CudaBarrierWork(CudaWork):
    """A barrier blocks the host in wait(), as c10d's does."""

    def wait(self, timeout: timedelta = _NO_LIMIT) -> bool:
        super().wait(timeout)
        self._world.synchronize(torch.cuda.current_stream(self._device))
        return True


class MessageWork(Work):
    """A send or a receive. On a stream wait() enqueues and does not block."""

    def __init__(self, request: _core.Request, back: Pairs, tensors: Any) -> None:
        super().__init__(tensors)
        self._request = request
        self._back = back
        self._turn = threading.Lock()  # held by the thread that waits or tests: the program's, or that of a future
        self._ended = False

    def is_completed(self) -> bool:
        if not self._ended and self._turn.acquire(blocking=False):
            try:
                if not self._ended and self._request.test():
                    self._end()
            except Error as error:
                self._error = error
            finally:
                self._turn.release()
        return self._ended or self._error is not None

    def wait(self, timeout: timedelta = _NO_LIMIT) -> bool:
        """Completes the message where it was posted: blocks for CPU tensors. Raises how it ended."""
        with self._turn:
            if not self._ended:
                try:
                    self._request.wait(self._stream())
                except BaseException as error:
                    self._error = error
                    raise
                self._end()
        return True

    def get_future(self) -> Any:
        """A future that a thread completes when the message has ended."""
        future: Any = torch.futures.Future()

        def complete() -> None:
            try:
                self.wait()
            except Exception as error:
                _settle(future, None, error)
            else:
                _settle(future, self._tensors, None)

        if self._tensors[0].is_cuda:
            complete()
        else:
            finish(complete)
        return future

    def source_rank(self) -> int:
        """The rank, in the group, that a receive is from; of one from any rank once it has ended."""
        return self._request.peer

    _source_rank = source_rank

    def _stream(self) -> Any:
        device = self._tensors[0].device
        return torch.cuda.current_stream(device) if device.type == "cuda" else None

    def _end(self) -> None:
        copy_back(self._back)
        self._back = ()
        self._ended = True  # last: is_completed() reads it without the turn


def _settle(future: Any, value: Any, error: BaseException | None) -> None:
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)
