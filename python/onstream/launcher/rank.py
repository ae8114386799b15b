"""One rank: its process, how it ended, and its last words.

It leads a process group of its own, so that a signal reaches it once, through us, and that processes which it leaves running end with
the job. It dies with the launcher, even when that is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from . import signals

TAIL_LINES = 40  # of standard error, repeated at the end
TRACEBACK = b"Traceback (most recent call last):"
CHAINED = (b"During handling of the above exception", b"The above exception was the direct cause")
LOGGED = re.compile(rb"onstream(\[\d+\])? error: the world failed: ")  # the traceback before it tells the same

# How the ranks' own words name the rank where a failure began: of one line FIRST rather than CAUSE.
FIRST = re.compile(r"the first failure was of rank (\d+)")
CAUSE = re.compile(
    r"the world has failed: (?:aborted: )?rank (\d+)|rank (\d+) of \d+ did not come|rank (\d+) \(pid \d+\) died"
)


@dataclass
class Rank:
    number: int
    process: subprocess.Popen[bytes]
    tail: deque[bytes] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
    pidfd: int | None = None
    code: int | None = None  # once ended; negative: the signal
    seen_at: float = 0.0  # when it was seen to have failed
    ended_by_us: bool = False  # it ran when the job's end began
    told_stopped: bool = False

    def ended(self) -> bool:
        """Looks without reaping: as long as the process is a zombie, its group's number belongs to nobody else."""
        if self.code is None:
            try:
                info = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:  # a signal came while kill_all() reaps
                return True
            if info is not None:
                self.code = info.si_status if info.si_code == os.CLD_EXITED else -info.si_status
        return self.code is not None

    def last_words(self) -> list[bytes]:
        """Those of its last lines that tell an error: from the traceback on, if there is one."""
        lines = list(self.tail)
        starts = [i for i, line in enumerate(lines) if line.startswith(TRACEBACK)]
        if not starts:
            return lines
        start = starts.pop()
        while starts and any(line.startswith(CHAINED) for line in lines[starts[-1] : start]):
            start = starts.pop()
        return [line for line in lines[start:] if not LOGGED.match(line)]

    def least_words(self) -> int:
        """How many of those lines are needed to tell the error: a whole traceback, else only the last line."""
        words = self.last_words()
        return len(words) if any(line.startswith(TRACEBACK) for line in words) else 1

    def stopped_by_the_terminal(self) -> bool:
        """Whether it is stopped for having used the terminal itself."""
        try:
            info = os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return info is not None and info.si_status in (signal.SIGTTIN, signal.SIGTTOU)

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def cause(self) -> int | None:
        """The rank where the failure began, as this one's last words have it."""
        for line in reversed(self.tail):
            text = line.decode(errors="replace")
            found = FIRST.search(text) or CAUSE.search(text)
            if found is not None:
                return int(next(group for group in found.groups() if group is not None))
        return None

    def fate(self) -> str:
        assert self.code is not None
        if self.code < 0:
            return f"rank {self.number} was killed by signal {-self.code} ({signals.name_of(-self.code)})"
        return f"rank {self.number} ended with code {self.code}"


def story(failed: Rank, others: str, shown: bool) -> str:
    if not failed.tail:
        return f"{failed.fate()}{others}. It wrote nothing to standard error."
    if shown:
        return f"{failed.fate()}{others}. Its last lines on standard error are those above."
    # The encoding of standard error gives the bytes back as they are.
    lines = "\n".join(f"[{failed.number}] {line.decode('ascii', 'surrogateescape')}" for line in failed.last_words())
    return f"{failed.fate()}{others}. Its last lines on standard error:\n{lines}"


def child_preparation() -> Callable[[], None]:
    """Runs in a rank between fork and exec: its own group, and death with the launcher."""
    parent = os.getpid()
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    pr_set_pdeathsig = 1

    def prepare() -> None:
        os.setpgid(0, 0)
        prctl(pr_set_pdeathsig, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # the launcher died before the line above
            os._exit(1)

    return prepare
