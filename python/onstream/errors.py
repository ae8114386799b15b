"""The exceptions of onstream: one class per way of failing, the same words as in C++.

ErrorCode gives InvalidArgumentError, UnsupportedError, SystemError, TimeoutError, AbortedError and ClosedError; an
operation's Status gives TruncatedError, UnmappedError, TimeoutError, AbortedError and MisusedError. Where Python has a
built-in class for the same thing, ours is also one of those, so `except ValueError` and `except TimeoutError` work as people expect.
"""

from __future__ import annotations

import builtins


class Error(RuntimeError):
    """The base of all that onstream raises. The text names the failure, its values and the remedy."""


class InvalidArgumentError(Error, ValueError):
    """The caller's values cannot work: a rank, a tag, a size, an array that onstream cannot address."""


class UnsupportedError(Error):
    """This machine or this build lacks the requested feature, which the text names."""


class SystemError(Error, OSError):
    """The operating system or the driver refused a call."""


class TimeoutError(Error, builtins.TimeoutError):
    """A deadline passed (parameter timeout_s, or bootstrap_timeout_s while a world starts)."""


class AbortedError(Error):
    """The world failed, or was aborted, before or while the call ran. World.failure() tells the story."""


class ClosedError(Error):
    """The world, plan or stream was closed before the call."""


class TruncatedError(Error):
    """A message was larger than its receive. Neither buffer is whole; later messages are intact."""


class UnmappedError(Error):
    """The buffer of one side was freed before its bytes were copied. Later messages are intact."""


class MisusedError(Error):
    """An operation met a state that only a wrong program makes, such as a plan launched twice at once."""
