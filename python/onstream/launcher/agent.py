"""`python -m onstream.launcher.agent`: the ranks of a job on another host than the launcher's, which starts this by ssh.

It says hello, gets the job as one line of JSON on its standard input, so that no secret is on a command line, starts its ranks as
the launcher starts its own, sends their output and their ends as frames, and obeys further lines (frames.py). When its
standard input ends, the job is over, or the launcher dead: its ranks are killed, and it ends. The ranks die with it.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from .frames import HELLO, LARGEST, VERSION, Frame, Kind
from .hosts import free_ports
from .rank import LocalRank, child_preparation
from .start import TORCH_NAMES, Meeting, environment, start_rank

MOST_WAITING = 1 << 20  # bytes of frames, above which ranks' output is left in their pipes
DRAIN_S = 1.0  # at the end, for output that somebody else than a rank still holds open
TURN_S = 0.05  # how late a rank's end may be noticed where the kernel has no pidfd
INPUT, OUTPUT = 0, 1


class OverError(Exception):
    """Nobody reads the frames any more."""


class Agent:
    def __init__(self) -> None:
        self.ranks: list[LocalRank] = []
        self.selector = selectors.DefaultSelector()
        self.lines = bytearray()  # of the launcher
        self.frames = bytearray()  # not yet written
        self.typed = bytearray()  # for rank 0
        self.typed_ends = False
        self.told: set[int] = set()  # whose end is
        self.over = False

    def run(self) -> None:
        job = self._greet()
        if job is None:
            return
        try:
            self._start(job)
            while not self.over:
                self._turn()
            for rank in self.ranks:
                rank.signal(signal.SIGKILL)  # and processes that ranks left running in their groups
            self._drain()
        except OverError:
            return
        finally:
            for rank in self.ranks:
                rank.close()

    def _greet(self) -> dict[str, Any] | None:
        """The job; None if the launcher went."""
        ports = free_ports()
        hello = {"version": VERSION, "ports": ports, "connection": os.environ.get("SSH_CONNECTION", "").split()}
        self.frames += HELLO + json.dumps(hello).encode() + b"\n"
        with contextlib.suppress(OverError):
            self._write()
            while b"\n" not in self.lines:
                data = os.read(INPUT, LARGEST)
                if not data:
                    return None
                self.lines += data
            return self._next_line()
        return None

    def _next_line(self) -> dict[str, Any]:
        end = self.lines.index(b"\n") + 1
        line = json.loads(bytes(self.lines[:end]))
        del self.lines[:end]
        return line  # type: ignore[no-any-return]

    def _start(self, job: dict[str, Any]) -> None:
        os.set_blocking(INPUT, False)
        os.set_blocking(OUTPUT, False)
        self.selector.register(INPUT, selectors.EVENT_READ, self._obey)
        for number in job["ignored"]:
            signal.signal(number, signal.SIG_IGN)
        try:
            os.chdir(job["folder"])
        except OSError:
            self._send(
                Kind.NOTE, 0, f"there is no folder {job['folder']} here; the ranks start in {Path.cwd()}".encode()
            )
        for name in TORCH_NAMES:  # the launcher's host alone says these
            os.environ.pop(name, None)
        shared = environment(job["environment"], Meeting(**job["meeting"]), job["count"])
        prepare = child_preparation()
        for local in range(job["count"]):
            number = job["first"] + local
            fed = job["input"] and number == 0
            try:
                rank = start_rank(
                    job["command"],
                    shared,
                    number,
                    local,
                    stdin=subprocess.PIPE if fed else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    descriptors=(),
                    prepare=prepare,
                )
            except OSError as error:
                self._send(Kind.REFUSED, number, str(error.errno or errno.ENOENT).encode())
                return
            self._adopt(rank)
        self._obey_lines()

    def _adopt(self, rank: LocalRank) -> None:
        self.ranks.append(rank)
        for pipe in (rank.process.stdout, rank.process.stderr, rank.process.stdin):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
        rank.open_pidfd()
        if rank.pidfd is not None:
            self.selector.register(rank.pidfd, selectors.EVENT_READ, None)

    def _turn(self) -> None:
        self._choose()
        for key, _ in self.selector.select(0.25 if all(rank.pidfd is not None for rank in self.ranks) else TURN_S):
            if key.data is None:
                self.selector.unregister(key.fileobj)  # a pidfd: its rank has ended
            else:
                key.data()
        self._pass_on()
        self._tell_ends()
        self._feed()
        self._write()

    def _choose(self) -> None:
        """Which descriptors the selector has: those of ranks only while the launcher keeps up with their output."""
        wanted = {}
        if self.frames:
            wanted[OUTPUT] = selectors.EVENT_WRITE
        for rank in self.ranks:
            for pipe in (rank.process.stdout, rank.process.stderr):
                if pipe is not None and not pipe.closed and len(self.frames) < MOST_WAITING:
                    wanted[pipe.fileno()] = selectors.EVENT_READ
            if self.typed and rank.process.stdin is not None and not rank.process.stdin.closed:
                wanted[rank.process.stdin.fileno()] = selectors.EVENT_WRITE
        known = {key.fd for key in self.selector.get_map().values() if key.data is _nothing}
        for descriptor in known - set(wanted):
            self.selector.unregister(descriptor)
        for descriptor in set(wanted) - known:
            self.selector.register(descriptor, wanted[descriptor], _nothing)

    def _pass_on(self) -> None:
        """The output that is there."""
        for rank in self.ranks:
            for pipe, kind in ((rank.process.stdout, Kind.OUTPUT), (rank.process.stderr, Kind.ERRORS)):
                if pipe is None or pipe.closed or len(self.frames) >= MOST_WAITING:
                    continue
                with contextlib.suppress(BlockingIOError):
                    data = os.read(pipe.fileno(), LARGEST)
                    self._send(kind, rank.number, data)
                    if not data:
                        self._close(pipe)

    def _close(self, pipe: Any) -> None:
        with contextlib.suppress(KeyError):
            self.selector.unregister(pipe.fileno())
        pipe.close()

    def _tell_ends(self) -> None:
        for rank in self.ranks:
            if rank.number not in self.told and rank.ended():
                self.told.add(rank.number)
                self._pass_on()
                self._send(Kind.ENDED, rank.number, str(rank.code).encode())

    def _obey(self) -> None:
        try:
            data = os.read(INPUT, LARGEST)
        except BlockingIOError:
            return
        self.lines += data
        self.over = not data
        self._obey_lines()

    def _obey_lines(self) -> None:
        while b"\n" in self.lines:
            line = self._next_line()
            if "signal" in line:
                self._signal(line["rank"], line["signal"])
            elif "input" in line:
                data = base64.b64decode(line["input"])
                self.typed += data
                self.typed_ends = not data

    def _signal(self, number: int, signal_number: int) -> None:
        for rank in self.ranks:
            if rank.number == number:
                rank.signal(signal_number)

    def _feed(self) -> None:
        """Rank 0's standard input. When it has all of a piece, the launcher sends the next."""
        pipe = next((rank.process.stdin for rank in self.ranks if rank.process.stdin is not None), None)
        if pipe is None or pipe.closed:
            return
        if self.typed_ends:
            self._close(pipe)
        if not self.typed or pipe.closed:
            return
        try:
            del self.typed[: os.write(pipe.fileno(), self.typed)]
        except BlockingIOError:
            return
        except BrokenPipeError:  # it reads no more
            self._close(pipe)
            return
        if not self.typed:
            self._send(Kind.TOOK, 0, b"")

    def _send(self, kind: Kind, rank: int, data: bytes) -> None:
        self.frames += Frame(kind, rank, data).packed()

    def _write(self) -> int:
        """Frames, as many as go out now."""
        before = len(self.frames)
        try:
            while self.frames:
                del self.frames[: os.write(OUTPUT, self.frames[:LARGEST])]
        except BlockingIOError:
            pass
        except BrokenPipeError as error:
            raise OverError from error
        return before - len(self.frames)

    def _drain(self) -> None:
        """The last output, and the ends. Goes on for as long as the launcher takes them."""
        limit = time.monotonic() + DRAIN_S
        while time.monotonic() < limit:
            self._pass_on()
            self._tell_ends()
            if self._write():
                limit = time.monotonic() + DRAIN_S
            pipes = [pipe for rank in self.ranks for pipe in (rank.process.stdout, rank.process.stderr) if pipe]
            if not self.frames and all(pipe.closed for pipe in pipes) and len(self.told) == len(self.ranks):
                return
            time.sleep(0.005)


def _nothing() -> None:
    """For descriptors whose readiness _turn() finds out by itself."""


def main() -> None:
    # So that a print of a library does not get between the frames.
    sys.stdout = sys.stderr
    Agent().run()


if __name__ == "__main__":
    main()
