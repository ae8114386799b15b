"""The launcher's standard input, for rank 0: of a terminal by a pipe, and to another host by pieces. Nothing here blocks."""

from __future__ import annotations

import base64
import errno
import os
import selectors
import signal

from .relay import Screen
from .remote import Connection


class Input:
    """The keyboard and the way to another host, if rank 0 has them, as a selector listens to them."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self.typing: Typing | None = None
        self._feed: Feed | None = None
        self._selector = selector
        self._listened: int | None = None  # the descriptor of typing that the selector has

    def feed(self, connection: Connection) -> None:
        """Rank 0 is on the host of this connection."""
        self._feed = Feed(0 if self.typing is None else self.typing.reader, connection)

    def started(self) -> None:
        """Rank 0 has its end of the pipe."""
        if self.typing is not None:
            self.typing.close_reader()

    def listen(self) -> None:
        """Has the selector wait for the descriptors that matter now."""
        if self.typing is not None and self._listened != self.typing.waits_for:
            self._listen_to(self.typing.waits_for)
        feed = self._feed
        if feed is None:
            return
        known = feed.descriptor in self._selector.get_map()
        if known and not feed.idle:
            self._selector.unregister(feed.descriptor)
        elif feed.idle and not known:
            try:
                self._selector.register(feed.descriptor, selectors.EVENT_READ, feed)
            except PermissionError:  # a file, which has no readiness
                feed.step()

    def _listen_to(self, wanted: int | None) -> None:
        if self._listened is not None:
            self._selector.unregister(self._listened)
        self._listened = wanted
        if wanted is not None:
            event = selectors.EVENT_READ if wanted == Typing.TERMINAL else selectors.EVENT_WRITE
            self._selector.register(wanted, event, self.typing)

    def end(self) -> None:
        """May be called twice."""
        if self._feed is not None:
            if self._feed.descriptor in self._selector.get_map():
                self._selector.unregister(self._feed.descriptor)
            self._feed.close()
            self._feed = None
        if self.typing is not None:
            self._listen_to(None)
            self.typing.close()
            self.typing = None


class Feed:
    """The launcher's standard input, for rank 0 on another host: a piece, and the next once rank 0 has it."""

    PIECE = 1 << 15  # so that its line has room in the pipe to the command

    def __init__(self, descriptor: int, connection: Connection) -> None:
        self.descriptor = os.dup(descriptor)
        self.idle = True
        self._connection = connection
        connection.took = self._took

    def _took(self) -> None:
        self.idle = True

    def step(self) -> None:
        """Sends a piece; one of no bytes at the end, after which rank 0 takes none."""
        try:
            data = os.read(self.descriptor, self.PIECE)
        except BlockingIOError:
            return
        self.idle = False
        self._connection.send({"input": base64.b64encode(data).decode()})

    def close(self) -> None:
        os.close(self.descriptor)


class Typing:
    """The keyboard of the terminal, for rank 0, which cannot read there itself: its process group is not in the foreground.

    It reads a pipe, whose other end is ours. Ctrl-D is the end of it. Never blocks.
    """

    TERMINAL = 0

    def __init__(self, screen: Screen) -> None:
        self.reader, writer = os.pipe()  # until rank 0 has it
        self.writer: int | None = writer
        os.set_blocking(writer, False)
        self._screen = screen
        self._left = b""  # which the pipe had no room for

    @property
    def waits_for(self) -> int | None:
        """The descriptor that must be ready before step(): the terminal's to read or the pipe's to write. None at the end."""
        if self.writer is None:
            return None
        if self._left:
            return self.writer
        return self.TERMINAL if _in_the_foreground(self.TERMINAL) else None

    def step(self) -> None:
        try:
            if not self._left:
                self._left = self._typed()
            if self._left and self.writer is not None:
                self._left = self._left[os.write(self.writer, self._left) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # rank 0 reads no more
            self.close()

    def _typed(self) -> bytes:
        # Between the question whether we are in the foreground and the answer, the shell may have changed it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTIN})
        try:
            line = os.read(self.TERMINAL, 1 << 16)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return b""
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if not line:
            self.close()
        elif line.endswith(b"\n"):
            self._screen.typed_a_line()
        return line

    def close_reader(self) -> None:
        if self.reader >= 0:
            os.close(self.reader)
            self.reader = -1

    def close(self) -> None:
        self.close_reader()
        if self.writer is not None:
            os.close(self.writer)
            self.writer = None


def _in_the_foreground(terminal: int) -> bool:
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:  # it has gone, or is not the terminal that controls us: then nothing stops us from reading it
        return os.isatty(terminal)
