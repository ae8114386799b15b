"""The command's own standard input, output and error: there, able to take any text, and never the cause of a traceback.

guarded() is round every command. A standard descriptor that the caller closed becomes /dev/null, so nothing else gets its
number. Standard output that cannot be written (a full disk, a reader that went) ends the command with one line, or with
none where a reader went; of standard error it is passed over, as nobody could be told. A character that the encoding
lacks is written in plain ASCII. Bytes go out as they are, through sys.stdout.buffer and sys.stderr.buffer.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import select
import signal
import sys
import unicodedata
from collections.abc import Iterator
from typing import Any, TextIO

CODE_READER_GONE = 128 + signal.SIGPIPE  # as if the signal had ended us
ENCODE_ERRORS = "onstream.plain"
PLAIN = {
    "·": "-",
    "█": "#",
    "°": " deg",
    "×": "x",  # noqa: RUF001
    "µ": "u",
    "μ": "u",
    "–": "-",  # noqa: RUF001
    "—": "-",
    "→": "->",
    "←": "<-",
    "≤": "<=",
    "≥": ">=",
}
NAMES = {1: "standard output", 2: "standard error"}


class OutputError(Exception):
    """Standard output or error cannot be written. No OSError, which libraries catch for reasons of their own."""

    def __init__(self, name: str, error: OSError) -> None:
        super().__init__(f"{name} cannot be written: {error.strerror}")
        self.code = CODE_READER_GONE if error.errno == errno.EPIPE else 1


@contextlib.contextmanager
def guarded(called: str) -> Iterator[None]:
    """Round a command: a failed write ends it with an exit code, and `called` begins the line about it."""
    prepare()
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OutputError as error:
        if error.code != CODE_READER_GONE:
            print(f"{called}: {error}", file=sys.stderr)
        raise SystemExit(error.code) from None


def prepare() -> None:
    """Makes the standard streams such as this file says. Streams that somebody has put in their place stay."""
    for descriptor in (0, 1, 2):
        with contextlib.suppress(OSError):
            os.fstat(descriptor)
            continue
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, descriptor)  # which a rank may inherit
        if null != descriptor:
            os.close(null)
    codecs.register_error(ENCODE_ERRORS, _in_plain_ascii)
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(1, sys.stdout, io.TextIOWrapper)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(2, sys.stderr, _Words)


def inherited() -> tuple[int, ...]:
    """The descriptors from 3 on that a program started by this process would get. Python's own are not among them."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one that lists them
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
    return tuple(found)


class _Descriptor(io.FileIO):
    """Writes all it is given, or raises OutputError and from then on drops it."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        while left:
            try:
                written = super().write(left)
            except OSError as error:
                null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
                os.dup2(null, self.fileno())  # Python flushes at its own end; that must not fail a second time
                os.close(null)
                raise OutputError(NAMES[self.fileno()], error) from error
            if written is None:  # another process that shares it has made it one that does not block
                select.select([], [self], [])
            else:
                left = left[written:]
        return size


class _Words(io.TextIOWrapper):
    """Standard error, for our own words: nobody can be told that they did not go out."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OutputError):
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OutputError):
            super().flush()


def _text(descriptor: int, before: TextIO | None, kind: type[io.TextIOWrapper]) -> TextIO:
    raw = _Descriptor(descriptor)
    return kind(
        io.BufferedWriter(raw),
        encoding=getattr(before, "encoding", None) or "utf-8",
        errors=ENCODE_ERRORS,
        line_buffering=descriptor == 2 or raw.isatty() or bool(os.environ.get("PYTHONUNBUFFERED")),
    )


def _in_plain_ascii(error: UnicodeError) -> tuple[str | bytes, int]:
    """The handler of errors of a text's encoding: bytes that were no text are themselves again."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # of a name or a line that was decoded with surrogateescape
        return bytes([code - 0xDC00]), error.start + 1
    if 0x2500 <= code < 0x2580:
        return {"─": "-", "━": "-", "│": "|", "┃": "|"}.get(character, "+"), error.start + 1
    known = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return PLAIN.get(character) or known or "?", error.start + 1
