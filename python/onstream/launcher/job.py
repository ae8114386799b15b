"""A job: the ranks, and the loop that attends to them until all have ended.

When a rank fails, the others get a grace period for their own errors, then SIGTERM, then SIGKILL; the error of the rank where
it began stands last, and is repeated only if others wrote after it. While the ranks are stopped (Ctrl-Z) no deadline of a job
comes closer.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from . import signals
from .rank import Rank, child_preparation, story
from .relay import Screen, Source, Typing
from .standard import CODE_READER_GONE, OutputError

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

CODE_TIMEOUT = 124


@dataclass(frozen=True)
class Given:
    """The settings that all ranks share."""

    command: list[str]
    env: dict[str, str]  # added to this process's
    output: str  # as in run()
    descriptors: Sequence[int]  # as in run()


class Job:
    """The ranks and the loop that attends to them."""

    def __init__(self, size: int, grace_s: float, timeout_s: float | None, called: str) -> None:
        self.size = size
        self.called = called
        self.grace_s = grace_s
        self.timeout_s = timeout_s
        self.ranks: list[Rank] = []
        self.selector = selectors.DefaultSelector()
        self.screen = Screen()
        self.holding: list[Source] = []  # of standard error
        self.failed: list[Rank] = []  # in the order seen
        self.interrupted_by: int | None = None
        self.interrupted_at = 0.0
        self.timed_out = False
        self.unwritable: OutputError | None = None  # nobody reads, or the disk is full
        self.typing: Typing | None = None
        self._listened: int | None = None  # the descriptor of typing that the selector has
        self.stopped_s = 0.0
        self.term_at: float | None = None  # when to send SIGTERM
        self.kill_at: float | None = None  # when to send SIGKILL

    def now(self) -> float:
        """The clock of the job's deadlines, which stands still while the ranks are stopped."""
        return time.monotonic() - self.stopped_s

    def start(self, given: Given) -> None:
        shared = {**os.environ, **given.env}
        shared.pop("ONSTREAM_PORT", None)
        shared.setdefault("PYTHONUNBUFFERED", "1")  # the output of a killed rank must not be lost
        # So that `python` is the one that has onstream, also when no environment was activated.
        shared["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), shared.get("PATH", os.defpath)])
        shared["ONSTREAM_SIZE"] = shared["ONSTREAM_LOCAL_SIZE"] = str(self.size)
        shared["ONSTREAM_ADDRESS"] = f"unix:onstream-run-{secrets.token_hex(16)}"
        shared["ONSTREAM_SECRET"] = secrets.token_hex(32)
        prepare = child_preparation()
        if 0 in given.descriptors and os.isatty(0):
            self.typing = Typing(self.screen)
        for number in range(self.size):
            process = subprocess.Popen(
                given.command,
                env={**shared, "ONSTREAM_RANK": str(number), "ONSTREAM_LOCAL_RANK": str(number)},
                stdin=self._stdin_of(number, given.descriptors),
                stdout=None if given.output == "own" else subprocess.PIPE,
                stderr=subprocess.PIPE,
                preexec_fn=prepare,
                pass_fds=[one for one in given.descriptors if one > 2],
            )
            self._adopt(Rank(number, process), f"[{number}] ".encode() if given.output == "prefixed" else b"")
        if self.typing is not None:
            self.typing.close_reader()
        if self.timeout_s is not None:
            self._end_at(self.now() + self.timeout_s)

    def _stdin_of(self, number: int, descriptors: Sequence[int]) -> int | None:
        """Rank 0 reads ours, by a pipe where that is a terminal, which only one process group may read."""
        if number > 0 or 0 not in descriptors:
            return subprocess.DEVNULL
        return None if self.typing is None else self.typing.reader

    def _adopt(self, rank: Rank, prefix: bytes) -> None:
        self.ranks.append(rank)
        process = rank.process
        for pipe, sink, tail in (
            (process.stdout, _binary(sys.stdout), None),
            (process.stderr, _binary(sys.stderr), rank.tail),
        ):
            if pipe is None:
                continue
            os.set_blocking(pipe.fileno(), False)
            # With bufsize=-1 a Popen pipe is a BufferedReader; its declared type is only IO[bytes].
            name = f"onstream[{rank.number}]".encode() if prefix else b""
            source = Source(pipe, sink, self.screen, prefix, tail, name)  # type: ignore[arg-type]
            source.asks = self.typing is not None and rank.number == 0 and sink.isatty()
            if tail is not None or source.asks:
                self.holding.append(source)
            self.selector.register(pipe, selectors.EVENT_READ, source)
        with contextlib.suppress(AttributeError, OSError):  # an old kernel: ends are then noticed by the turn
            rank.pidfd = os.pidfd_open(process.pid)
            self.selector.register(rank.pidfd, selectors.EVENT_READ, None)

    def attend(self) -> int:
        while not all(rank.ended() for rank in self.ranks):
            self._turn()
            self._look_for_failures()
            self._tell_who_is_stopped()
            self._end_what_must()
        self._look_for_failures()
        self._end_typing()
        for rank in self.ranks:
            rank.signal(signal.SIGKILL)  # processes that ranks left running in their groups
        self._drain()
        return self._conclude()

    def _turn(self) -> None:
        self._listen_to_typing()
        waits = [at - self.now() for at in (self.term_at, self.kill_at) if at is not None]
        waits += [one.due - time.monotonic() for one in self.holding if one.due is not None]
        longest = 0.25 if all(rank.pidfd is not None for rank in self.ranks) else TURN_S
        for key, _ in self.selector.select(max(0.0, min([longest, *waits]))):
            if isinstance(key.data, Source):
                self._pass_on(key.data)
            elif isinstance(key.data, Typing):
                key.data.step()
            else:
                self.selector.unregister(key.fileobj)  # a pidfd: its rank has ended
        self._release_held()

    def _listen_to_typing(self) -> None:
        if self.typing is None:
            return
        wanted = self.typing.waits_for
        if self._listened != wanted:
            self._listen_to(wanted)

    def _listen_to(self, wanted: int | None) -> None:
        if self._listened is not None:
            self.selector.unregister(self._listened)
        self._listened = wanted
        if wanted is not None:
            event = selectors.EVENT_READ if wanted == Typing.TERMINAL else selectors.EVENT_WRITE
            self.selector.register(wanted, event, self.typing)

    def _end_typing(self) -> None:
        if self.typing is not None:
            self._listen_to(None)
            self.typing.close()
            self.typing = None

    def _release_held(self) -> None:
        now = time.monotonic()
        for source in self.holding:
            if source.due is not None and source.due <= now:
                try:
                    source.release()
                except OutputError as error:
                    self._cannot_write(source.sink, error)

    def _pass_on(self, source: Source) -> None:
        try:
            more = source.read()
        except OutputError as error:  # `onstream run ... | head`, or a full disk
            more = False
            self._cannot_write(source.sink, error)
        if not more:
            self.selector.unregister(source.pipe)
            source.pipe.close()

    def _cannot_write(self, sink: BinaryIO, error: OutputError) -> None:
        self._end_at(self.now())
        if not self.failed:  # later lines of ranks are only about this end
            self.unwritable = self.unwritable or error
            for source in self.holding:
                if source.sink is not sink:
                    with contextlib.suppress(OutputError):
                        source.release()
                source.silenced = True

    def _look_for_failures(self) -> None:
        now = self.now()
        for rank in self.ranks:
            if rank.ended() and rank.code != 0 and rank not in self.failed:
                rank.seen_at = now
                self.failed.append(rank)
                self._end_at(now + self.grace_s)

    def _tell_who_is_stopped(self) -> None:
        for rank in self.ranks:
            if not rank.told_stopped and not rank.ended() and rank.stopped_by_the_terminal():
                rank.told_stopped = True
                self.say(
                    f"rank {rank.number} is stopped, as it uses the terminal itself, which ranks cannot; rank 0 can read "
                    "standard input. Ctrl-C ends the job"
                )

    def _first_failed(self) -> Rank | None:
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

    def _bystanders(self, failed: Rank) -> str:
        """Facts that the launcher alone knows of the ranks in the error: they had ended well, or still ran."""
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
        now = self.now()
        if self.term_at is not None and self.kill_at is None and now >= self.term_at:
            if not self.failed and self.interrupted_by is None and self.unwritable is None:
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
                if number in signals.ENDING:
                    rank.signal(signal.SIGCONT)  # else one that is stopped would not hear of it

    def forward(self, number: int) -> None:
        """From the signal handler. A second ending signal is not asked twice."""
        if number in signals.ENDING and self.interrupted_by is not None:
            self._signal_running(signal.SIGKILL)
            return
        self._signal_running(number)
        if number in signals.ENDING:
            self.interrupted_by = number
            self.interrupted_at = self.now()
            self._end_at(self.now() + self.grace_s)

    def stop(self, number: int) -> None:
        """From the signal handler: stops the ranks, then this process. Once that is continued, the ranks are too."""
        begin = time.monotonic()
        self._signal_running(signal.SIGTSTP)
        signals.stop_this_process(number)
        self.stopped_s += time.monotonic() - begin
        self._signal_running(signal.SIGCONT)

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
        self._end_typing()
        self.selector.close()

    def _drain(self) -> None:
        limit = self.now() + DRAIN_S
        while self.selector.get_map() and self.now() < limit:
            for key, _ in self.selector.select(limit - self.now()):
                if isinstance(key.data, Source):
                    self._pass_on(key.data)
                else:
                    self.selector.unregister(key.fileobj)
        for key in list(self.selector.get_map().values()):
            if isinstance(key.data, Source):
                try:
                    key.data.finish()
                except OutputError as error:
                    self._cannot_write(key.data.sink, error)

    def say(self, text: str) -> None:
        print(f"{self.called}: {text}", file=sys.stderr, flush=True)

    def _conclude(self) -> int:
        if self.timed_out:
            self.say(f"the job was not done within {self.timeout_s:g} s; its ranks were ended")
            return CODE_TIMEOUT
        if self.unwritable is not None:
            if self.unwritable.code != CODE_READER_GONE:
                self.say(f"{self.unwritable}; the ranks were ended")
            return self.unwritable.code
        failed = self._first_failed()
        if failed is None:
            return 0
        assert failed.code is not None
        code = failed.code if failed.code > 0 else 128 - failed.code
        if self.interrupted_by is not None:
            # When all ranks are interrupted, some may end by the error that another's end gave them.
            own = (-self.interrupted_by, 128 + self.interrupted_by, -signal.SIGTERM, -signal.SIGKILL)
            if self.failed[0].seen_at >= self.interrupted_at and any(rank.code in own for rank in self.failed):
                how = "interrupted" if self.interrupted_by == signal.SIGINT else "ended"
                self.say(f"{how} by {signals.name_of(self.interrupted_by)}")
                return 128 + self.interrupted_by
        bystanders = self._bystanders(failed)
        if bystanders:
            self.say(bystanders)
        shown = self.screen.pipe is failed.process.stderr and self.screen.lines >= failed.least_words()
        self.say(story(failed, self._ended_with_it(), shown))
        return code


def _binary(stream: object) -> BinaryIO:
    """The bytes under a text stream. Tests may have replaced it by one that has none."""
    buffer = getattr(stream, "buffer", None)
    if buffer is None:
        raise ValueError(f"{stream!r} takes no bytes, so it cannot show the ranks' output")
    return buffer  # type: ignore[no-any-return]
