"""`onstream run`: the ranks of a job on this machine, with their output, their signals and one exit code.

Every rank is a process in a process group of its own, so a Ctrl-C reaches it once, through us. Output goes out by whole
lines; what a rank writes to standard error without a pause, such as a traceback, stays together. When a rank fails, the
others get a grace period for their own errors, then SIGTERM, then SIGKILL; the error of the rank where it began stands
last, and is repeated only if others wrote after it. Ranks find the programs of this interpreter first on PATH. Ranks die
with the launcher, even when that is killed. They meet at an abstract socket name, so no port is taken and no file is
left. Needs nothing but the standard library: python -m onstream.launcher -n 4 PROGRAM...
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import re
import secrets
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import BinaryIO

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # after these the ranks are expected to end
CRASHES = (
    signal.SIGKILL,
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGILL,
    signal.SIGFPE,
)  # never an answer to another's end
CLEARING_S = 0.2
KILL_AFTER_S = 2.0  # between SIGTERM and SIGKILL
DRAIN_S = 1.0  # for output that somebody else than a rank still holds open
TURN_S = 0.05  # how late a rank's end may be noticed where the kernel has no pidfd
LONGEST_LINE = 1 << 16  # a longer one goes out in pieces
PAUSE_S = 0.05  # after which what a rank wrote to standard error goes out
LONGEST_HOLD_S = 0.5  # of a rank that never pauses
TAIL_LINES = 40  # of standard error, repeated at the end
TRACEBACK = b"Traceback (most recent call last):"
CHAINED = (b"During handling of the above exception", b"The above exception was the direct cause")
LOGGED = re.compile(rb"onstream(\[\d+\])? error: the world failed: ")  # the traceback before it tells the same

# How the ranks' own words name the rank where a failure began: of one line FIRST rather than CAUSE.
FIRST = re.compile(r"the first failure was of rank (\d+)")
CAUSE = re.compile(
    r"the world has failed: (?:aborted: )?rank (\d+)|rank (\d+) of \d+ did not come|rank (\d+) \(pid \d+\) died"
)

CODE_TIMEOUT = 124
CODE_NOT_EXECUTABLE = 126
CODE_NOT_FOUND = 127


def run(
    size: int,
    command: list[str],
    *,
    output: str = "prefixed",
    env: dict[str, str] | None = None,
    grace_s: float = 5.0,
    timeout_s: float | None = None,
    called: str = "onstream run",
) -> int:
    """Runs `command` as `size` ranks, blocks until all have ended, and returns the job's exit code.

    0 if every rank returned 0, else the code of the rank that failed first (128 + number for a signal), 124 after
    timeout_s, 126 or 127 if the program cannot be started. `env` is added to this process's environment.
    output: "prefixed", every line with its rank; "relayed", as it is, but through us, so that the job ends if its reader
    does; "own", standard output is the ranks' own. Signals are forwarded when called from the main thread. `called` is
    what our own words begin with.
    """
    if size < 1:
        raise ValueError(f"a job of {size} ranks cannot run; ask for 1 or more")
    if not command:
        raise ValueError("no program to run")
    job = _Job(size, grace_s, timeout_s, called)
    with _forwarding(job):
        try:
            job.start(command, env or {}, output=output)
        except OSError as error:
            job.kill_all()
            job.say(_cannot_start(command[0], size, error))
            return CODE_NOT_FOUND if isinstance(error, FileNotFoundError) else CODE_NOT_EXECUTABLE
        try:
            return job.attend()
        finally:
            job.kill_all()


@dataclass
class _Screen:
    """Whose lines were written last, and how many of its standard error stand together there."""

    pipe: BinaryIO | None = None
    lines: int = 0


@dataclass
class _Source:
    """One output stream of one rank: cut into lines, each with its prefix. Standard error goes out when it pauses."""

    pipe: BinaryIO
    sink: BinaryIO
    screen: _Screen
    prefix: bytes
    tail: deque[bytes] | None  # the last lines, for standard error
    name: bytes = b""  # by which the library's own lines call the rank: beside a prefix once too often
    pending: bytearray = field(default_factory=bytearray)
    held: bytearray = field(default_factory=bytearray)  # whole lines
    held_since: float = 0.0
    due: float | None = None  # when they go out
    silenced: bool = False

    def read(self) -> bool:
        """Passes on what is there. False at the end of the stream."""
        try:
            chunk = os.read(self.pipe.fileno(), 1 << 16)
        except BlockingIOError:
            return True
        if not chunk:
            self.finish()
            return False
        self.pending += chunk
        end = self.pending.rfind(b"\n") + 1
        if end == 0 and len(self.pending) > LONGEST_LINE:
            end = len(self.pending)
        if end > 0:
            self._hold(bytes(self.pending[:end]))
            del self.pending[:end]
        return True

    def _hold(self, lines: bytes) -> None:
        if self.tail is None:
            self._emit(lines)
            return
        now = time.monotonic()
        if not self.held:
            self.held_since = now
        self.held += lines
        self.due = min(now + PAUSE_S, self.held_since + LONGEST_HOLD_S)

    def release(self) -> None:
        """Writes what is held."""
        held, self.held, self.due = bytes(self.held), bytearray(), None
        if held:
            self._emit(held)

    def finish(self) -> None:
        self.release()
        if self.pending:
            self._emit(bytes(self.pending))
            self.pending.clear()

    def _emit(self, block: bytes) -> None:
        lines = block.split(b"\n")
        if lines[-1] == b"":
            lines.pop()
        if self.name:
            lines = [b"onstream" + line[len(self.name) :] if line.startswith(self.name) else line for line in lines]
        text = b"".join(self.prefix + line + b"\n" for line in lines)
        if self.screen.pipe is not self.pipe:
            self.screen.pipe, self.screen.lines = self.pipe, 0
        self.screen.lines += len(lines)
        if self.tail is not None:
            self.tail.extend(lines)
        if not self.silenced:
            self.sink.write(text)
            self.sink.flush()


@dataclass
class _Rank:
    number: int
    process: subprocess.Popen[bytes]
    tail: deque[bytes] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
    pidfd: int | None = None
    code: int | None = None  # once ended; negative: the signal
    seen_at: float = 0.0  # when it was seen to have failed
    ended_by_us: bool = False  # it ran when the job's end began

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
        """Of its last lines those that tell an error: from the traceback on, if there is one."""
        lines = list(self.tail)
        starts = [i for i, line in enumerate(lines) if line.startswith(TRACEBACK)]
        if not starts:
            return lines
        start = starts.pop()
        while starts and any(line.startswith(CHAINED) for line in lines[starts[-1] : start]):
            start = starts.pop()
        return [line for line in lines[start:] if not LOGGED.match(line)]

    def least_words(self) -> int:
        """How many lines of them tell it: a whole traceback, else what came last, as it goes out together."""
        words = self.last_words()
        return len(words) if any(line.startswith(TRACEBACK) for line in words) else 1

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
            return f"rank {self.number} was killed by signal {-self.code} ({_name_of(-self.code)})"
        return f"rank {self.number} ended with code {self.code}"


class _Job:
    """The ranks and the loop that attends to them."""

    def __init__(self, size: int, grace_s: float, timeout_s: float | None, called: str) -> None:
        self.size = size
        self.called = called
        self.grace_s = grace_s
        self.timeout_s = timeout_s
        self.ranks: list[_Rank] = []
        self.selector = selectors.DefaultSelector()
        self.screen = _Screen()
        self.holding: list[_Source] = []  # of standard error
        self.failed: list[_Rank] = []  # in the order seen
        self.interrupted_by: int | None = None
        self.interrupted_at = 0.0
        self.timed_out = False
        self.reader_gone = False
        self.term_at: float | None = None  # when to send SIGTERM
        self.kill_at: float | None = None  # when to send SIGKILL

    def start(self, command: list[str], env: dict[str, str], *, output: str) -> None:
        shared = {**os.environ, **env}
        shared.pop("ONSTREAM_PORT", None)
        shared.setdefault("PYTHONUNBUFFERED", "1")  # what a killed rank printed must not be lost
        # So that `python` is the one that has onstream, also when no environment was activated.
        shared["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), shared.get("PATH", os.defpath)])
        shared["ONSTREAM_SIZE"] = shared["ONSTREAM_LOCAL_SIZE"] = str(self.size)
        shared["ONSTREAM_ADDRESS"] = f"unix:onstream-run-{secrets.token_hex(16)}"
        shared["ONSTREAM_SECRET"] = secrets.token_hex(32)
        prepare = _child_preparation()
        for number in range(self.size):
            process = subprocess.Popen(
                command,
                env={**shared, "ONSTREAM_RANK": str(number), "ONSTREAM_LOCAL_RANK": str(number)},
                stdin=_stdin_of(number),
                stdout=None if output == "own" else subprocess.PIPE,
                stderr=subprocess.PIPE,
                preexec_fn=prepare,
            )
            self._adopt(_Rank(number, process), f"[{number}] ".encode() if output == "prefixed" else b"")
        if self.timeout_s is not None:
            self._end_at(time.monotonic() + self.timeout_s)

    def _adopt(self, rank: _Rank, prefix: bytes) -> None:
        self.ranks.append(rank)
        process = rank.process
        for pipe, sink, tail in (
            (process.stdout, _binary(sys.stdout), None),
            (process.stderr, _binary(sys.stderr), rank.tail),
        ):
            if pipe is None:
                continue
            os.set_blocking(pipe.fileno(), False)
            # The type of a Popen pipe says less than what it is with bufsize=-1.
            name = f"onstream[{rank.number}]".encode() if prefix else b""
            source = _Source(pipe, sink, self.screen, prefix, tail, name)  # type: ignore[arg-type]
            if tail is not None:
                self.holding.append(source)
            self.selector.register(pipe, selectors.EVENT_READ, source)
        with contextlib.suppress(AttributeError, OSError):  # an old kernel: ends are then noticed by the turn
            rank.pidfd = os.pidfd_open(process.pid)
            self.selector.register(rank.pidfd, selectors.EVENT_READ, None)

    def attend(self) -> int:
        while not all(rank.ended() for rank in self.ranks):
            self._turn()
            self._look_for_failures()
            self._end_what_must()
        self._look_for_failures()
        for rank in self.ranks:
            rank.signal(signal.SIGKILL)  # what ranks left running in their groups
        self._drain()
        return self._conclude()

    def _turn(self) -> None:
        now = time.monotonic()
        due = [at for at in (self.term_at, self.kill_at, *(one.due for one in self.holding)) if at is not None]
        longest = 0.25 if all(rank.pidfd is not None for rank in self.ranks) else TURN_S
        for key, _ in self.selector.select(max(0.0, min([longest, *(at - now for at in due)]))):
            if isinstance(key.data, _Source):
                self._pass_on(key.data)
            else:
                self.selector.unregister(key.fileobj)  # a pidfd: its rank has ended
        self._release_held()

    def _release_held(self) -> None:
        now = time.monotonic()
        for source in self.holding:
            if source.due is not None and source.due <= now:
                try:
                    source.release()
                except BrokenPipeError:
                    self._reader_went(source.sink)

    def _pass_on(self, source: _Source) -> None:
        try:
            more = source.read()
        except BrokenPipeError:  # whoever read our output has gone: `onstream run ... | head`
            more = False
            self._reader_went(source.sink)
        if not more:
            self.selector.unregister(source.pipe)
            source.pipe.close()

    def _reader_went(self, sink: BinaryIO) -> None:
        self.reader_gone = not self.failed
        self._end_at(time.monotonic())
        if self.reader_gone:  # what ranks say of each other's end from here on is about that end alone
            for source in self.holding:
                if source.sink is not sink:
                    source.release()
                source.silenced = True
        # Python flushes at its own end; that must not fail a second time.
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(null, sink.fileno())
        os.close(null)

    def _look_for_failures(self) -> None:
        now = time.monotonic()
        for rank in self.ranks:
            if rank.ended() and rank.code != 0 and rank not in self.failed:
                rank.seen_at = now
                self.failed.append(rank)
                self._end_at(now + self.grace_s)

    def _first_failed(self) -> _Rank | None:
        """The cause: a crash, else the rank that the first to fail names, else that rank itself.

        A peer may see a crash, and end, while the kernel still clears the crashed process away; and of ranks that end
        by one failure, those that only heard of it may be the faster.
        """
        if not self.failed:
            return None
        first = self.failed[0]
        for rank in self.failed:
            if -(rank.code or 0) in CRASHES and rank.seen_at - first.seen_at < CLEARING_S and not rank.ended_by_us:
                return rank
        named = first.cause()
        return next((rank for rank in self.failed if rank.number == named and not rank.ended_by_us), first)

    def _bystanders(self, failed: _Rank) -> str:
        """What the launcher alone knows of ranks that the error is about: they had ended well, or still ran."""
        text = b"\n".join(failed.tail).decode(errors="replace")
        told = []
        for rank in self.ranks:
            if rank is failed or not re.search(rf"\brank {rank.number}\b", text):
                continue
            if rank.code == 0:
                told.append(f"rank {rank.number} had ended with code 0")
            elif rank.ended_by_us and rank.number == failed.cause():
                told.append(f"rank {rank.number} was still running")
        return "; ".join(told)

    def _ended_with_it(self) -> str:
        """Whom this launcher ended because of a failure. The others ended by themselves, however they did."""
        ended = [rank.number for rank in self.ranks if rank.ended_by_us]
        if not ended:
            return ""
        if len(ended) == self.size - 1:
            return "; the other ranks were ended" if self.size > 2 else "; the other rank was ended"
        ranks = f"rank {ended[0]} was" if len(ended) == 1 else f"ranks {', '.join(map(str, ended))} were"
        return f"; {ranks} ended with it"

    def _end_at(self, at: float) -> None:
        self.term_at = at if self.term_at is None else min(self.term_at, at)

    def _end_what_must(self) -> None:
        now = time.monotonic()
        if self.term_at is not None and self.kill_at is None and now >= self.term_at:
            if not self.failed and self.interrupted_by is None and not self.reader_gone:
                self.timed_out = True
            self.kill_at = now + KILL_AFTER_S
            self._signal_running(signal.SIGTERM)
        if self.kill_at is not None and now >= self.kill_at:
            self._signal_running(signal.SIGKILL)
            self.kill_at = now + KILL_AFTER_S

    def _signal_running(self, number: int) -> None:
        for rank in self.ranks:
            if not rank.ended():
                rank.ended_by_us = rank.ended_by_us or number in (signal.SIGTERM, signal.SIGKILL)
                rank.signal(number)

    def forward(self, number: int) -> None:
        """From the signal handler. A second ending signal is not asked twice."""
        if number in ENDING and self.interrupted_by is not None:
            self._signal_running(signal.SIGKILL)
            return
        self._signal_running(number)
        if number in ENDING:
            self.interrupted_by = number
            self.interrupted_at = time.monotonic()
            self._end_at(time.monotonic() + self.grace_s)

    def kill_all(self) -> None:
        """Leaves no process, zombie or descriptor behind. May be called twice."""
        for rank in self.ranks:
            if rank.process.returncode is None:
                rank.signal(signal.SIGKILL)
                rank.process.wait()
            for pipe in (rank.process.stdout, rank.process.stderr):
                if pipe is not None:
                    pipe.close()
            if rank.pidfd is not None:
                os.close(rank.pidfd)
                rank.pidfd = None
        self.selector.close()

    def _drain(self) -> None:
        limit = time.monotonic() + DRAIN_S
        while self.selector.get_map() and time.monotonic() < limit:
            for key, _ in self.selector.select(limit - time.monotonic()):
                if isinstance(key.data, _Source):
                    self._pass_on(key.data)
                else:
                    self.selector.unregister(key.fileobj)
        for key in list(self.selector.get_map().values()):
            if isinstance(key.data, _Source):
                key.data.finish()

    def say(self, text: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            print(f"{self.called}: {text}", file=sys.stderr, flush=True)

    def _conclude(self) -> int:
        if self.timed_out:
            self.say(f"the job was not done within {self.timeout_s:g} s; its ranks were ended")
            return CODE_TIMEOUT
        if self.reader_gone:
            return 128 + signal.SIGPIPE
        failed = self._first_failed()
        if failed is None:
            return 0
        assert failed.code is not None
        code = failed.code if failed.code > 0 else 128 - failed.code
        if self.interrupted_by is not None:
            # Of ranks that are all interrupted, some may end by the error that another's end gave them.
            own = (-self.interrupted_by, 128 + self.interrupted_by, -signal.SIGTERM, -signal.SIGKILL)
            if self.failed[0].seen_at >= self.interrupted_at and any(rank.code in own for rank in self.failed):
                how = "interrupted" if self.interrupted_by == signal.SIGINT else "ended"
                self.say(f"{how} by {_name_of(self.interrupted_by)}")
                return 128 + self.interrupted_by
        bystanders = self._bystanders(failed)
        if bystanders:
            self.say(bystanders)
        shown = self.screen.pipe is failed.process.stderr and self.screen.lines >= failed.least_words()
        self.say(_story(failed, self._ended_with_it(), shown))
        return code


def _story(failed: _Rank, others: str, shown: bool) -> str:
    if not failed.tail:
        return f"{failed.fate()}{others}. It wrote nothing to standard error."
    if shown:
        return f"{failed.fate()}{others}. Its last lines on standard error are those above."
    lines = "\n".join(f"[{failed.number}] {line.decode(errors='replace')}" for line in failed.last_words())
    return f"{failed.fate()}{others}. Its last lines on standard error:\n{lines}"


def _child_preparation() -> Callable[[], None]:
    """What a rank does between fork and exec: its own group, and death with the launcher."""
    parent = os.getpid()
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    pr_set_pdeathsig = 1

    def prepare() -> None:
        os.setpgid(0, 0)
        prctl(pr_set_pdeathsig, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # the launcher died before the line above
            os._exit(1)

    return prepare


def _stdin_of(number: int) -> int | None:
    """Rank 0 reads ours, unless that is a terminal, which only one process group may read."""
    try:
        readable = number == 0 and not os.isatty(0)
    except OSError:
        readable = False
    return None if readable else subprocess.DEVNULL


@contextlib.contextmanager
def _forwarding(job: _Job) -> Iterator[None]:
    """While it lasts, signals that would end this process go to the ranks."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def forward(number: int, _frame: FrameType | None) -> None:
        job.forward(number)

    before = {number: signal.signal(number, forward) for number in FORWARDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _cannot_start(program: str, size: int, error: OSError) -> str:
    text = f"cannot start '{program}': {error.strerror}"
    if program.endswith(".py") and Path(program).is_file():
        return f"{text}: it is a Python script: onstream run -n {size} python {program}"
    if "/" not in program and Path(program).is_file():
        return f"{text} on the PATH; the one in this folder is ./{program}"
    return text


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def _binary(stream: object) -> BinaryIO:
    """The bytes under a text stream. Tests may have replaced it by one that has none."""
    buffer = getattr(stream, "buffer", None)
    if buffer is None:
        raise ValueError(f"{stream!r} takes no bytes, so it cannot show the ranks' output")
    return buffer  # type: ignore[no-any-return]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m onstream.launcher", description="Runs a program as several ranks.")
    parser.add_argument("-n", "--ranks", type=int, default=1, help="how many ranks")
    parser.add_argument("--no-prefix", dest="prefix", action="store_false", help="do not put the rank before each line")
    parser.add_argument("--grace-s", type=float, default=5.0, help="seconds for the other ranks when one has failed")
    parser.add_argument("--timeout-s", type=float, help="seconds after which the job is ended")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="PROGRAM ...", help="what every rank runs")
    options = parser.parse_args(arguments)
    if options.ranks < 1 or not options.command:
        parser.error("needs a number of ranks from 1 on and a program")
    return run(
        options.ranks,
        options.command,
        output="prefixed" if options.prefix else "own",
        grace_s=options.grace_s,
        timeout_s=options.timeout_s,
    )


if __name__ == "__main__":
    sys.exit(main())
