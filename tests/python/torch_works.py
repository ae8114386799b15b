"""Works and futures of torch_ranks.py's default group: threads that wait, callbacks that make calls."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any

import torch
import torch.distributed as dist
from onstream.torch.finishers import finish
from onstream.torch.work import HostWork, MessageWork
from torch_values import equal, of

from onstream import TruncatedError

WAIT_S = 30.0


def callbacks_make_collectives(rank: int, size: int) -> None:
    """A callback waits for a call of its own group, as PowerSGD's hook does, while others are queued and in callbacks."""

    def again(_: Any) -> Any:
        return dist.all_reduce(torch.ones(2), async_op=True).get_future().wait()[0]

    works = [dist.all_reduce(of(rank, 1000), async_op=True) for _ in range(3)]
    for future in [work.get_future().then(again).then(again) for work in works]:
        equal(future.wait(), torch.full((2,), float(size)))


def callbacks_make_blocking_collectives(rank: int, size: int) -> None:
    def again(_: Any) -> Any:
        queued = dist.all_reduce(torch.ones(100_000), async_op=True)
        dist.all_reduce(blocking := of(rank, 2))
        dist.barrier()
        queued.wait()
        return blocking

    future = dist.all_reduce(of(rank, 1000), async_op=True).get_future().then(again)
    equal(future.wait(), sum(of(each, 2) for each in range(size)))


def a_future_beside_a_wait_completes(_rank: int, _size: int) -> None:
    """wait() holds the gate for a moment after the work has ended, and get_future() may come in it."""
    work = HostWork((), (), [torch.ones(1)])
    assert not work.is_completed()
    work.end(None)
    assert work._gate.acquire(timeout=WAIT_S)
    try:
        assert work.is_completed()
        assert work.get_future().done()
    finally:
        work._gate.release()
    ended = threading.Event()
    work = HostWork((), (), [torch.ones(1)])
    work.get_future().add_done_callback(lambda _: ended.set())
    work.end(None)
    assert ended.wait(WAIT_S)


def a_forked_process_has_threads_of_its_own(_rank: int, _size: int) -> None:
    ended = threading.Event()
    finish(ended.set)
    assert ended.wait(WAIT_S)
    ended.clear()
    child = os.fork()
    if child == 0:
        finish(ended.set)
        os._exit(0 if ended.wait(WAIT_S) else 1)
    assert os.waitpid(child, 0)[1] == 0


class _Message:
    """A request that blocks until two threads wait for it, or half a second has passed, and its target."""

    def __init__(self) -> None:
        self.waits = threading.Barrier(2, timeout=0.5)
        self.copies = threading.Barrier(2, timeout=0.5)
        self.calls: list[str] = []

    def wait(self, _stream: Any) -> None:
        self._meet("wait", self.waits)

    def copy_(self, _source: Any) -> None:
        self._meet("copy", self.copies)

    def _meet(self, name: str, barrier: threading.Barrier) -> None:
        self.calls.append(name)
        with contextlib.suppress(threading.BrokenBarrierError):
            barrier.wait()


def one_thread_ends_a_message(_rank: int, _size: int) -> None:
    """A second copy would overwrite the program's changes to the tensor."""
    message, tensor = _Message(), torch.ones(1)
    work: Any = MessageWork(message, [(message, tensor)], [tensor])  # type: ignore[arg-type]
    future = work.get_future()
    work.wait()
    equal(future.wait()[0], tensor)
    assert message.calls == ["wait", "copy"], message.calls
    assert work.is_completed()


def a_failed_message_has_ended(rank: int, _size: int) -> None:
    if rank == 0:
        dist.send(torch.zeros(8), 1)
    dist.barrier()
    if rank == 1:
        work: Any = dist.irecv(torch.zeros(4), 0)
        ended = threading.Event()
        work.get_future().add_done_callback(lambda _: ended.set())
        assert ended.wait(WAIT_S)
        assert work.is_completed()
        assert not work.is_success()
        assert isinstance(work.exception(), TruncatedError), work.exception()
