"""Which signals the launcher answers, and how: one table.

A signal that our caller ignores (nohup: SIGHUP; `&` in a script: SIGINT) stays ignored, here and in the ranks, which inherit
that. All others are as usual in the ranks, SIGPIPE and SIGXFSZ in any case: Python itself ignores those two, so how our
caller had them cannot be known.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)  # after these the ranks are expected to end
FORWARDED = (*ENDING, signal.SIGUSR1, signal.SIGUSR2)
STOPPING = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)  # Ctrl-Z, and the terminal used from the background
ANSWERED = (*FORWARDED, *STOPPING)


@contextlib.contextmanager
def answered(forward: Callable[[int], None], stop: Callable[[int], None]) -> Iterator[None]:
    """While it lasts, signals that would end or stop this process are given to these functions. From the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_forwarded(number: int, _frame: FrameType | None) -> None:
        forward(number)

    def on_stopping(number: int, _frame: FrameType | None) -> None:
        stop(number)

    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # how our ranks end would be lost
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    table = {**dict.fromkeys(FORWARDED, on_forwarded), **dict.fromkeys(STOPPING, on_stopping)}
    before = {
        number: signal.signal(number, handler)
        for number, handler in table.items()
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, signal.SIG_DFL if was is None else was)


def stop_this_process(number: int) -> None:
    """As the signal would have. Returns when the process is continued; at once where nobody could do that (its process group is
    orphaned)."""
    handler = signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
    signal.signal(number, handler)


def name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
