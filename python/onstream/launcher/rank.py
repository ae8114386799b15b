"""One rank: how it ended, its last words, and on this host its process.

That leads a process group of its own, so that a signal reaches it once, through us, and that processes which it leaves running end with
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
    """A rank of the job, wherever it runs."""

    number: int
    host: str = field(default="", kw_only=True)  # "" in a job of one host, which nobody needs to be told
    tail: deque[bytes] = field(default_factory=lambda: deque(maxlen=TAIL_LINES), kw_only=True)
    code: int | None = field(default=None, kw_only=True)  # once ended; negative: the signal
    seen_at: float = field(default=0.0, kw_only=True)  # when it was seen to have failed
    ended_by_us: bool = field(default=False, kw_only=True)  # it ran when the job's end began
    told_stopped: bool = field(default=False, kw_only=True)

    @property
    def name(self) -> str:
        return f"rank {self.number} on {self.host}" if self.host else f"rank {self.number}"

    def ended(self) -> bool:
        """Looks whether it has."""
        return self.code is not None

    def signal(self, number: int) -> None:
        """To its process and all that it left in its group."""
        raise NotImplementedError

    def stopped_by_the_terminal(self) -> bool:
        """Whether it is stopped for having used the terminal itself."""
        return False

    def close(self) -> None:
        """Leaves no process and no descriptor behind. May be called twice."""

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
            return f"{self.name} was killed by signal {-self.code} ({signals.name_of(-self.code)})"
        return f"{self.name} ended with code {self.code}"


@dataclass
class LocalRank(Rank):
    """One on this host."""

    process: subprocess.Popen[bytes]
    pidfd: int | None = None

    def ended(self) -> bool:
        """Looks without reaping: as long as the process is a zombie, its group's number belongs to nobody else."""
        if self.code is None:
            try:
                info = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:  # a signal came while close() reaps
                return True
            if info is not None:
                self.code = info.si_status if info.si_code == os.CLD_EXITED else -info.si_status
        return self.code is not None

    def stopped_by_the_terminal(self) -> bool:
        try:
            info = os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return info is not None and info.si_status in (signal.SIGTTIN, signal.SIGTTOU)

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def open_pidfd(self) -> None:
        """One that becomes readable at its end; none where the kernel is old."""
        with contextlib.suppress(AttributeError, OSError):
            self.pidfd = os.pidfd_open(self.process.pid)

    def close(self) -> None:
        if self.process.returncode is None:
            self.signal(signal.SIGKILL)
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None


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
