"""The launcher's end of another host: the command that runs its agent (agent.py), and the ranks there.

A connection may end at any time; its ranks that still ran are lost then, which is how they end. Reading never blocks. Sending may,
for as long as the command takes nothing: the job goes to an agent that waits for it, all else is short.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from . import hosts
from .frames import HELLO, LARGEST, VERSION, Frame, Frames, Kind
from .hosts import HostError, Place, Way
from .rank import Rank, child_preparation
from .relay import Screen, Source
from .standard import OutputError
from .start import Meeting, meeting_on_one_host

CODE_LOST = 255  # of a rank whose host went, as of ssh
END_S = 2.0  # for a command that has closed its output to end
WORDS = 3  # lines about a host that are quoted
READS = 8  # for the last of them


class RefusedError(Exception):
    """A rank's program could not start on another host."""

    def __init__(self, host: str, error: OSError) -> None:
        super().__init__(host, error)
        self.host = host
        self.error = error


@dataclass
class RemoteRank(Rank):
    """One on another host."""

    connection: Connection
    output: Source
    errors: Source
    lost: str = ""  # why, if its end is not known

    def signal(self, number: int) -> None:
        self.connection.send({"signal": int(number), "rank": self.number})

    def fate(self) -> str:
        return f"{self.name} was lost: {self.lost}" if self.lost else super().fate()


@dataclass
class Told:
    """Where words about a host go, and those of its agent."""

    say: Callable[[str], None]
    sink: BinaryIO
    screen: Screen
    prefix: bytes


class Connection:
    """To the agent on one host."""

    def __init__(self, place: Place, way: Way, told: Told) -> None:
        self.place = place
        self.ranks: dict[int, RemoteRank] = {}
        self.hello: dict[str, Any] | None = None
        self.over = False
        self.took: Callable[[], None] | None = None  # called when rank 0 has its input
        self._say = told.say
        command = way.command(place.name, [way.python, "-m", "onstream.launcher.agent"])
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                preexec_fn=child_preparation(),
            )
        except OSError as error:
            raise HostError(
                f"cannot start '{command[0]}', which reaches host {place.name}: {error.strerror}"
            ) from error
        self.output: BinaryIO = self.process.stdout  # type: ignore[assignment]
        self.errors: BinaryIO = self.process.stderr  # type: ignore[assignment]
        self._input: BinaryIO | None = self.process.stdin  # type: ignore[assignment]
        os.set_blocking(self.output.fileno(), False)
        os.set_blocking(self.errors.fileno(), False)
        self.words: deque[bytes] = deque(maxlen=WORDS)
        self.told = Source(self.errors, told.sink, told.screen, told.prefix, self.words, silenced=True)
        self._program = command[0]
        self._before = bytearray()  # HELLO
        self._frames = Frames()
        self._waiting: deque[bytes] = deque()
        self._sending = False

    def step(self, pass_on: Callable[[Source, bytes], None]) -> bool:
        """Takes the bytes that are there. False at the end, by which its ranks are lost. Throws RefusedError, HostError."""
        try:
            data = os.read(self.output.fileno(), LARGEST)
        except BlockingIOError:
            return True
        if not data:
            self._lose(self._how_it_ended(), pass_on)
            return False
        try:
            if self.hello is None:
                data = self._look_for_hello(data)
            for frame in self._frames.take(data):
                self._obey(frame, pass_on)
        except (ValueError, KeyError) as error:
            self._lose(f"its agent sends what no agent does ({error})", pass_on)
            return False
        return True

    def _look_for_hello(self, data: bytes) -> bytes:
        self._before += data
        start = self._before.find(HELLO)
        end = self._before.find(b"\n", start)
        if start < 0 or end < 0:
            del self._before[:-LARGEST]
            return b""
        hello = json.loads(self._before[start + len(HELLO) : end])
        if hello["version"] != VERSION:
            raise HostError(
                f"host {self.place.name} has another version of onstream, which this launcher cannot talk to"
            )
        self.hello = hello
        self.words.clear()
        self.told.silenced = False
        return bytes(self._before[end + 1 :])

    def _obey(self, frame: Frame, pass_on: Callable[[Source, bytes], None]) -> None:
        if frame.kind == Kind.NOTE:
            self._say(f"host {self.place.name}: {frame.data.decode(errors='replace')}")
        elif frame.kind == Kind.REFUSED:
            number = int(frame.data)
            raise RefusedError(self.place.name, OSError(number, os.strerror(number)))
        elif frame.kind == Kind.ENDED:
            self.ranks[frame.rank].code = int(frame.data)
        elif frame.kind == Kind.TOOK:
            if self.took is not None:
                self.took()
        else:
            rank = self.ranks[frame.rank]
            pass_on(rank.output if frame.kind == Kind.OUTPUT else rank.errors, frame.data)

    def start_ranks(self, job: dict[str, Any]) -> None:
        """Sends the job, to which it adds the ranks of this host."""
        self.send({**job, "first": self.place.first, "count": self.place.count})

    def give_up(self, pass_on: Callable[[Source, bytes], None]) -> None:
        """Its ranks were killed and their ends are not heard of."""
        self._lose("its host does not answer", pass_on)

    def _lose(self, why: str, pass_on: Callable[[Source, bytes], None]) -> None:
        self.over = True
        for rank in self.ranks.values():
            if rank.code is None:
                rank.code, rank.lost = CODE_LOST, why
            for source in (rank.output, rank.errors):
                pass_on(source, b"")

    def _how_it_ended(self) -> str:
        try:
            code = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            return "the connection to its host was closed"
        ended = f"with code {code}" if code >= 0 else f"by signal {-code}"
        return f"the connection to its host ended {ended}{self._quoted()}"

    def _quoted(self) -> str:
        with contextlib.suppress(OutputError, ValueError):  # ValueError: it is closed
            for _ in range(READS):
                self.told.read()
            self.told.finish()
        words = b"; ".join(line.strip() for line in self.words if line.strip())
        return f": {words.decode('ascii', 'surrogateescape')}" if words else ""

    def why_no_hello(self) -> str:
        """For a connection that ended before its agent spoke, or whose agent does not."""
        code = self.process.poll()
        quoted = self._quoted()
        host = self.place.name
        return (
            f"host {host} does not answer{quoted}"
            if code is None
            else f"host {host} starts no ranks: {self._program} ended with code {code}{quoted}"
        )

    def send(self, message: dict[str, Any]) -> None:
        """A line to the agent. A signal handler may come between, whose lines go after the one that is under way."""
        self._waiting.append(json.dumps(message).encode() + b"\n")
        while self._waiting and not self._sending:
            self._sending = True
            try:
                while self._waiting:
                    self._write(self._waiting.popleft())
            finally:
                self._sending = False

    def _write(self, line: bytes) -> None:
        if self._input is None:
            return
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._input.fileno(), rest) :]
        except BrokenPipeError:  # it has ended, as the end of its output tells
            self.finish()

    def finish(self) -> None:
        """Closes the agent's input, upon which it kills its ranks, sends the rest of their output, and ends."""
        pipe, self._input = self._input, None  # in this order: a signal handler may come between
        if pipe is not None:
            pipe.close()

    def close(self) -> None:
        """Ends the command; its agent ends its ranks. May be called twice. Blocks for END_S where the agent still works."""
        self.finish()
        if self.hello is not None and not self.over:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(END_S)
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.output.close()
        self.errors.close()


def meeting_of(size: int, places: Sequence[Place], connections: Sequence[Connection], address: str) -> Meeting:
    """Where the ranks meet. address: the one that the user named, or "". Every agent has said hello. Throws HostError."""
    if len(places) == 1:
        return meeting_on_one_host(size)
    first = connections[0]
    hello = first.hello or {}
    # ssh may know the host by a name that the system does not. Then its connection has the addresses of both ends.
    ends: list[str] = hello["connection"] or ["", "", "", ""]
    client, server = ends[0], ends[2]
    if places[0].here:
        found, ports = hosts.own_address(first.place.name) or client, hosts.free_ports()
    else:
        name = first.place.name
        found, ports = (hosts.bare(name) if hosts.is_known(name) or not server else server), hello["ports"]
    if not (address or found):
        raise HostError("no address of this host is known to the others; name one: --address")
    port, torch_port = ports
    return Meeting(size, address or found, port, address or found, torch_port)
