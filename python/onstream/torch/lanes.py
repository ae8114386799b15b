"""Lanes: how a group's collectives of one device run, in the order in which the program makes them.

HostLane runs a call that is waited for at once in the caller's own thread. One that is not (async_op, DDP's buckets) goes
to the lane's thread, and calls made before it has ended go behind it there. CudaLane enqueues all calls on the stream that
is current, and orders streams where the program changes from one to another. Both take calls as (CollectiveCall, arrays)
pairs, and pairs of tensors to copy when they have ended.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from typing import Any

import torch

from ..errors import ClosedError
from ..world import World
from .work import CudaBarrierWork, CudaWork, HostWork, Pairs, Work, copy_back

Calls = Sequence[tuple[Any, Any]]


class HostLane:
    """Of CPU tensors, in a World of the host device."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._run = world._members.run
        self._turn = threading.Lock()  # held by the thread that runs a call
        self._order = threading.Lock()  # held while a work is put in its place
        self._works: queue.SimpleQueue[HostWork | None] = queue.SimpleQueue()
        self._queued = 0
        self._ended = 0
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, calls: Calls, back: Pairs, tensors: Any, later: bool) -> Work | None:
        """Runs the calls: `later` in the lane's thread, else before it returns None. Raises how a call ended."""
        if later:
            return self._put(HostWork(calls, back, tensors))
        if self._queued != self._ended:
            self._put(HostWork(calls, back, tensors)).wait()
            return None
        self._run_all(calls, back)
        return None

    def run_barrier(self, calls: Calls, later: bool) -> Work | None:
        """run(), of a barrier."""
        return self.run(calls, (), [], later)

    def close(self) -> None:
        """Waits for the works, then closes the world."""
        with self._order:
            thread, self._thread = self._thread, None
            self._closed = True
            self._works.put(None)
        if thread is not None:
            thread.join()
        self.world.close()

    def _run_all(self, calls: Calls, back: Pairs) -> None:
        with self._turn:
            for call, arrays in calls:
                self._run(call, arrays, None, None)
            if back:
                copy_back(back)

    def _put(self, work: HostWork) -> HostWork:
        with self._order:
            if self._closed:
                raise ClosedError("the process group was shut down before this collective, which cannot run any more")
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="onstream collectives", daemon=True)
                self._thread.start()
            self._queued += 1
            self._works.put(work)
        return work

    def _serve(self) -> None:
        while (work := self._works.get()) is not None:
            error: BaseException | None = None
            try:
                self._run_all(work.calls, work.back)
            except BaseException as raised:  # the program's thread raises it
                error = raised
            self._ended += 1
            work.end(error)


class CudaLane:
    """Of CUDA tensors, in a World of this rank's GPU."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._run = world._members.run
        self._device = torch.device(world.device)
        self._last: Any = None  # the stream of the call before

    def run(self, calls: Calls, back: Pairs, tensors: Any, later: bool) -> Work | None:
        """Enqueues the calls on the current stream and does not block. A Work only if `later`."""
        stream = self._enqueue(calls)
        copy_back(back)
        return CudaWork(self.world, stream, tensors) if later else None

    def run_barrier(self, calls: Calls, later: bool) -> Work | None:
        """A barrier: blocks the host, at once or in wait()."""
        work = CudaBarrierWork(self.world, self._enqueue(calls), [])
        if later:
            return work
        work.wait()
        return None

    def close(self) -> None:
        """Waits for the work enqueued, then closes the world."""
        self.world.close()

    def _enqueue(self, calls: Calls) -> Any:
        stream = torch.cuda.current_stream(self._device)
        # Within a capture the program orders its streams itself: one outside it cannot be waited for.
        if self._last is not None and self._last != stream and not torch.cuda.is_current_stream_capturing():
            stream.wait_stream(self._last)
        self._last = stream
        for call, arrays in calls:
            self._run(call, arrays, None, (stream.cuda_stream, True))
        return stream
