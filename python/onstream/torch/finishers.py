"""Threads that complete futures, and so run their callbacks, which may make calls of the same group and wait for them.

Such a call may need the lane's thread, and its future another thread of these: one that is in a callback gets no further
task. The process has one pool, of as many threads as tasks have run at once; they are daemons and wait when idle.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable

_tasks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
_count = threading.Lock()
_idle = 0  # threads without a task, less the tasks that none has taken yet


def finish(task: Callable[[], None]) -> None:
    """Runs the task in a thread that no other task waits for. Does not block."""
    global _idle
    _tasks.put(task)
    with _count:
        _idle -= 1
        short = _idle < 0
        _idle += short
    if short:
        threading.Thread(target=_serve, name="onstream futures", daemon=True).start()


def _serve() -> None:
    global _idle
    while True:
        task = _tasks.get()
        task()
        del task  # lets go of the tensors
        with _count:
            _idle += 1


def _begin() -> None:
    """A forked process has none of its parent's threads, and perhaps their lock."""
    global _tasks, _count, _idle
    _tasks, _count, _idle = queue.SimpleQueue(), threading.Lock(), 0


os.register_at_fork(after_in_child=_begin)
