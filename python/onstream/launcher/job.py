"""A job: the ranks, and the loop that attends to them until all have ended.

When a rank fails, the others get a grace period for their own errors, then SIGTERM, then SIGKILL; the error of the rank where
it began stands last, and is repeated only if others wrote after it. While the ranks are stopped (Ctrl-Z) no deadline of a job
comes closer.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import BinaryIO

from . import signals, tracebacks, verdict
from .hosts import HostError, Place, Way
from .input import Feed, Input, Typing
from .rank import TAIL_LINES, LocalRank, Rank, child_preparation, story
from .relay import Screen, Source
from .remote import Connection, RemoteRank, Told, meeting_of
from .standard import CODE_READER_GONE, OutputError
from .start import Meeting, environment, passed_on, start_rank

KILL_AFTER_S = 2.0  # between SIGTERM and SIGKILL
DRAIN_S = 1.0  # for output that somebody else than a rank still holds open
AGENT_DRAIN_S = 5.0  # for another host that sends nothing more
GREETING_S = 30.0  # for all hosts to answer
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
        self.connections: list[Connection] = []
        self.selector = selectors.DefaultSelector()
        self.screen = Screen()
        self.holding: list[Source] = []  # of standard error
        self.tracebacks = tracebacks.Tracebacks()
        self.failed: list[Rank] = []  # in the order seen
        self.interrupted_by: int | None = None
        self.interrupted_at = 0.0
        self.timed_out = False
        self.unwritable: OutputError | None = None  # nobody reads, or the disk is full
        self.input = Input(self.selector)
        self.stopped_s = 0.0
        self.term_at: float | None = None  # when to send SIGTERM
        self.kill_at: float | None = None  # when to send SIGKILL
        self.killed = False  # it was sent

    def now(self) -> float:
        """The clock of the job's deadlines, which stands still while the ranks are stopped."""
        return time.monotonic() - self.stopped_s

    def start(self, given: Given, places: Sequence[Place], way: Way) -> None:
        """Starts all ranks, those of other hosts once every host answers. Throws OSError for a program, and HostError."""
        if 0 in given.descriptors and os.isatty(0):
            self.input.typing = Typing(self.screen)
        self._connect(given, places, way)
        if self.interrupted_by is not None:
            for connection in self.connections:
                self._forget(connection)
            return
        meeting = meeting_of(self.size, places, self.connections, way.address)
        elsewhere = iter(self.connections)
        for place in places:
            if place.here:
                self._start_here(given, place, meeting)
            else:
                self._start_on(next(elsewhere), given, meeting, way)
        self.input.started()
        if self.timeout_s is not None:
            self._end_at(self.now() + self.timeout_s)

    def _start_here(self, given: Given, place: Place, meeting: Meeting) -> None:
        shared = environment(given.env, meeting, place.count)
        prepare = child_preparation()
        for local, number in enumerate(place.ranks):
            rank = start_rank(
                given.command,
                shared,
                number,
                local,
                stdin=self._stdin_of(number, given.descriptors),
                stdout=None if given.output == "own" else subprocess.PIPE,
                descriptors=[one for one in given.descriptors if one > 2],
                prepare=prepare,
            )
            rank.host = place.name
            self._adopt(rank, given)

    def _stdin_of(self, number: int, descriptors: Sequence[int]) -> int | None:
        """Rank 0 reads ours, by a pipe where that is a terminal, which only one process group may read."""
        if number > 0 or 0 not in descriptors:
            return subprocess.DEVNULL
        return None if self.input.typing is None else self.input.typing.reader

    def _adopt(self, rank: LocalRank, given: Given) -> None:
        self.ranks.append(rank)
        for pipe, sink, tail in (
            (rank.process.stdout, sys.stdout, None),
            (rank.process.stderr, sys.stderr, rank.tail),
        ):
            if pipe is None:
                continue
            os.set_blocking(pipe.fileno(), False)
            # With bufsize=-1 a Popen pipe is a BufferedReader; its declared type is only IO[bytes].
            source = self._source(pipe, sink, tail, rank.number, given)  # type: ignore[arg-type]
            self.selector.register(pipe, selectors.EVENT_READ, source)
        rank.open_pidfd()
        if rank.pidfd is not None:
            self.selector.register(rank.pidfd, selectors.EVENT_READ, None)

    def _source(
        self, pipe: BinaryIO | None, stream: object, tail: deque[bytes] | None, number: int, given: Given
    ) -> Source:
        prefixed = given.output == "prefixed"
        prefix, name = (f"[{number}] ".encode(), f"onstream[{number}]".encode()) if prefixed else (b"", b"")
        sink = _binary(stream)
        source = Source(pipe, sink, self.screen, prefix, tail, name)
        source.asks = self.input.typing is not None and number == 0 and sink.isatty()
        if tail is not None and prefixed and tracebacks.wanted():
            source.rank, source.tracebacks = number, self.tracebacks
        if tail is not None or source.asks:
            self.holding.append(source)
        return source

    def _connect(self, given: Given, places: Sequence[Place], way: Way) -> None:
        """To all other hosts. Until the last has answered nothing starts anywhere."""
        limit = self.now() + GREETING_S
        for place in places:
            if place.here:
                continue
            prefix = f"[{place.name}] ".encode() if given.output == "prefixed" else b""
            told = Told(self.say, _binary(sys.stderr), self.screen, prefix)
            self.connections.append(Connection(place, way, told))
            connection = self.connections[-1]
            self.selector.register(connection.output, selectors.EVENT_READ, connection)
            self.selector.register(connection.errors, selectors.EVENT_READ, connection.told)
            self.holding.append(connection.told)
        while self.interrupted_by is None and not all(one.hello for one in self.connections):
            self._turn()
            for connection in self.connections:
                if connection.over or (connection.hello is None and self.now() > limit):
                    raise HostError(connection.why_no_hello())

    def _start_on(self, connection: Connection, given: Given, meeting: Meeting, way: Way) -> None:
        place = connection.place
        for number in place.ranks:
            tail: deque[bytes] = deque(maxlen=TAIL_LINES)
            output = self._source(None, sys.stdout, None, number, given)
            errors = self._source(None, sys.stderr, tail, number, given)
            rank = RemoteRank(number, connection, output, errors, host=place.name, tail=tail)
            connection.ranks[number] = rank
            self.ranks.append(rank)
        fed = place.first == 0 and 0 in given.descriptors
        if fed:
            self.input.feed(connection)
        connection.start_ranks(
            {
                "command": [os.fspath(word) for word in given.command],
                "environment": passed_on(given.env, way.variables),
                "folder": os.getcwd(),
                "meeting": asdict(meeting),
                "ignored": [int(one) for one in signals.ANSWERED if signal.getsignal(one) is signal.SIG_IGN],
                "input": fed,
            }
        )

    def attend(self) -> int:
        while not all(rank.ended() for rank in self.ranks):
            self._turn()
            self._look_for_failures()
            self._tell_who_is_stopped()
            self._end_what_must()
        self._look_for_failures()
        self.input.end()
        for rank in self.ranks:
            rank.signal(signal.SIGKILL)  # processes that ranks left running in their groups
        for connection in self.connections:
            connection.finish()
        self._drain()
        self._write_tracebacks()
        return self._conclude()

    def _turn(self) -> None:
        self.input.listen()
        waits = [at - self.now() for at in (self.term_at, self.kill_at) if at is not None]
        dues = [self.tracebacks.due, *(one.due for one in self.holding)]
        waits += [due - time.monotonic() for due in dues if due is not None]
        blind = any(isinstance(rank, LocalRank) and rank.pidfd is None for rank in self.ranks)
        longest = TURN_S if blind else 0.25
        for key, _ in self.selector.select(max(0.0, min([longest, *waits]))):
            if isinstance(key.data, Source):
                self._pass_on(key.data)
            elif isinstance(key.data, (Typing, Feed)):
                key.data.step()
            elif isinstance(key.data, Connection):
                self._hear(key.data)
            else:
                self.selector.unregister(key.fileobj)  # a pidfd: its rank has ended
        self._release_held()

    def _hear(self, connection: Connection) -> None:
        if not connection.step(self._take):
            self.selector.unregister(connection.output)

    def _take(self, source: Source, data: bytes) -> None:
        try:
            source.take(data)
        except OutputError as error:
            self._cannot_write(source.sink, error)

    def _release_held(self) -> None:
        now = time.monotonic()
        for source in self.holding:
            if source.due is not None and source.due <= now:
                try:
                    source.release()
                except OutputError as error:
                    self._cannot_write(source.sink, error)
        if self.tracebacks.due is not None and self.tracebacks.due <= now:
            self._write_tracebacks()

    def _write_tracebacks(self) -> None:
        first = verdict.first_failed(self.failed)
        try:
            self.tracebacks.release(None if first is None else first.number)
        except OutputError as error:
            self._cannot_write(_binary(sys.stderr), error)

    def _pass_on(self, source: Source) -> None:
        try:
            more = source.read()
        except OutputError as error:  # `onstream run ... | head`, or a full disk
            more = False
            self._cannot_write(source.sink, error)
        if not more:
            assert source.pipe is not None
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
                    f"{rank.name} is stopped, as it uses the terminal itself, which ranks cannot; rank 0 can read "
                    "standard input. Ctrl-C ends the job"
                )

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
            if self.killed:
                self._give_up_hosts()
            self._signal_running(signal.SIGKILL)
            self.killed = True
            self.kill_at = now + KILL_AFTER_S

    def _give_up_hosts(self) -> None:
        """Those whose ranks were killed and do not end."""
        for connection in self.connections:
            if not connection.over and any(not rank.ended() for rank in connection.ranks.values()):
                connection.give_up(self._take)
                self._forget(connection)

    def _signal_running(self, number: int) -> None:
        for rank in self.ranks:
            if not rank.ended():
                rank.ended_by_us = rank.ended_by_us or number in (signal.SIGTERM, signal.SIGKILL)
                rank.signal(number)
                if number in signals.ENDING:
                    rank.signal(signal.SIGCONT)  # else one that is stopped would not hear of it

    def _forget(self, connection: Connection) -> None:
        for pipe in (connection.output, connection.errors):
            if not pipe.closed and pipe in self.selector.get_map():
                self.selector.unregister(pipe)
        connection.close()

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
        for connection in self.connections:
            connection.finish()
        for rank in self.ranks:
            rank.close()
        for connection in self.connections:
            connection.close()
        self.input.end()
        self.selector.close()

    def _drain(self) -> None:
        limit, quiet = self.now() + DRAIN_S, self.now() + AGENT_DRAIN_S
        while self.selector.get_map():
            elsewhere = any(isinstance(key.data, Connection) for key in self.selector.get_map().values())
            left = (quiet if elsewhere else limit) - self.now()
            if left <= 0:
                break
            for key, _ in self.selector.select(left):
                if isinstance(key.data, Source):
                    self._pass_on(key.data)
                elif isinstance(key.data, Connection):
                    quiet = self.now() + AGENT_DRAIN_S
                    self._hear(key.data)
                else:
                    self.selector.unregister(key.fileobj)
        for key in list(self.selector.get_map().values()):
            if isinstance(key.data, Source):
                self._take(key.data, b"")

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
        failed = verdict.first_failed(self.failed)
        if failed is None:
            return self._conclude_early()
        assert failed.code is not None
        code = failed.code if failed.code > 0 else 128 - failed.code
        if self.interrupted_by is not None:
            # When all ranks are interrupted, some may end by the error that another's end gave them.
            own = (-self.interrupted_by, 128 + self.interrupted_by, -signal.SIGTERM, -signal.SIGKILL)
            if self.failed[0].seen_at >= self.interrupted_at and any(rank.code in own for rank in self.failed):
                how = "interrupted" if self.interrupted_by == signal.SIGINT else "ended"
                self.say(f"{how} by {signals.name_of(self.interrupted_by)}")
                return 128 + self.interrupted_by
        bystanders = verdict.bystanders(self.ranks, failed)
        if bystanders:
            self.say(bystanders)
        last = self.screen.source
        shown = last is not None and last.tail is failed.tail and self.screen.lines >= failed.least_words()
        self.say(story(failed, verdict.ended_with_it(self.ranks), shown))
        return code

    def _conclude_early(self) -> int:
        if self.ranks or self.interrupted_by is None:
            return 0
        self.say(f"ended by {signals.name_of(self.interrupted_by)} before the ranks started")
        return 128 + self.interrupted_by


def _binary(stream: object) -> BinaryIO:
    """The bytes under a text stream. Tests may have replaced it by one that has none."""
    buffer = getattr(stream, "buffer", None)
    if buffer is None:
        raise ValueError(f"{stream!r} takes no bytes, so it cannot show the ranks' output")
    return buffer  # type: ignore[no-any-return]
