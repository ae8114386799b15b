"""From the ranks to the screen, by whole lines.

Lines of a rank on standard error without a pause between them, such as a traceback, stay together. A line is kept until it ends, up
to LONGEST_LINE of memory for each stream of a rank; then it is cut, and says so. While somebody types for rank 0 at a
terminal, its question goes out before its line ends.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from .tracebacks import Tracebacks

LONGEST_LINE = 16 << 20
CUT = b" [the line is cut here, after 16 MiB, and goes on below]"
PAUSE_S = 0.05  # after which a rank's lines of standard error go out
LONGEST_HOLD_S = 0.5  # of a rank that never pauses
MOST_HELD = 1 << 20  # of lines of standard error
LONGEST_TOLD = 1 << 16  # of a line that is repeated at the end


@dataclass
class Screen:
    """Whose lines were written last, how many of its standard error stand together there, and whose line has not ended."""

    source: Source | None = None
    lines: int = 0
    unended: Source | None = None

    def typed_a_line(self) -> None:
        """Its end is on the screen, too: the terminal echoes the keyboard."""
        self.unended = None


@dataclass
class Source:
    """One output stream of one rank: cut into lines, each with its prefix. Standard error goes out when it pauses."""

    pipe: BinaryIO | None  # None: of a rank on another host
    sink: BinaryIO
    screen: Screen
    prefix: bytes
    tail: deque[bytes] | None  # the last lines, for standard error
    name: bytes = b""  # by which the library's own lines call the rank: beside a prefix once too often
    asks: bool = False  # somebody types for it, so a question goes out before its line ends
    pending: bytearray = field(default_factory=bytearray)
    held: bytearray = field(default_factory=bytearray)  # whole lines
    held_since: float = 0.0
    due: float | None = None  # when they go out
    silenced: bool = False
    rank: int = 0
    tracebacks: Tracebacks | None = None  # keeps them for a moment

    def read(self) -> bool:
        """Passes on the bytes that are there. False at the end of the stream."""
        assert self.pipe is not None
        try:
            chunk = os.read(self.pipe.fileno(), 1 << 16)
        except BlockingIOError:
            return True
        return self.take(chunk)

    def take(self, chunk: bytes) -> bool:
        """Passes on these bytes. None are the end of the stream, and False."""
        if not chunk:
            self.finish()
            return False
        end = chunk.rfind(b"\n") + 1
        if end > 0:
            lines, self.pending = bytes(self.pending + chunk[:end]), bytearray(chunk[end:])
            self._hold(lines)
        else:
            self.pending += chunk
            if len(self.pending) > LONGEST_LINE:
                line = bytes(self.pending[:LONGEST_LINE]) + CUT + b"\n"
                del self.pending[:LONGEST_LINE]
                self._hold(line)
        if self.asks and self.pending:
            self.due = time.monotonic() + PAUSE_S
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
        if len(self.held) > MOST_HELD:
            self.release()

    def release(self) -> None:
        """Writes the lines that are held, and a question."""
        held, self.held, self.due = bytes(self.held), bytearray(), None
        if held and self.tracebacks is not None:
            held = self.tracebacks.take(self, held)
        if held:
            self._emit(held)
        if self.asks and self.pending:
            question = bytes(self.pending)
            self.pending.clear()
            self._emit(question)

    def finish(self) -> None:
        if self.pending and self.tracebacks is not None:
            self.held += self.pending + b"\n"
            self.pending.clear()
        self.release()
        if self.pending or self.screen.unended is self:
            self._emit(bytes(self.pending) + b"\n")
            self.pending.clear()

    def _emit(self, block: bytes) -> None:
        """Lines, the last of which may have no end yet."""
        ended = block.endswith(b"\n")
        self.write(self.remember(block), self.prefix, ended)

    def remember(self, block: bytes) -> list[bytes]:
        """The lines of a block, without their ends, as they go to the screen and to the tail."""
        lines = block.split(b"\n")
        if lines[-1] == b"":
            lines.pop()
        if self.name:
            lines = [b"onstream" + line[len(self.name) :] if line.startswith(self.name) else line for line in lines]
        if self.tail is not None:
            self.tail.extend(line[:LONGEST_TOLD] for line in lines)
        return lines

    def write(self, lines: Sequence[bytes], prefix: bytes, ended: bool = True) -> None:
        text = b"\n".join(prefix + line for line in lines) + (b"\n" if ended else b"")
        if self.screen.unended is self:
            text, self.screen.unended = text[len(prefix) :], None
        elif self.screen.unended is not None and self.sink.isatty():
            text, self.screen.unended = b"\n" + text, None
        if not ended:
            self.screen.unended = self
        if self.screen.source is not self:
            self.screen.source, self.screen.lines = self, 0
        self.screen.lines += len(lines)
        if not self.silenced:
            self.sink.write(text)
            self.sink.flush()
