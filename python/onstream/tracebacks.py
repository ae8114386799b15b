"""The traceback of an uncaught exception shows the program's own frames, and hides those of this package.

ONSTREAM_TRACEBACK=full in the environment leaves all of them. Other programs of the exception, such as a debugger or
pytest, see every frame anyway: they are hidden where the traceback is printed, and only there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType

from .errors import Error

_FOLDER = str(Path(__file__).parent)
_TOLD = (Error, TypeError, ValueError, IndexError, KeyboardInterrupt)  # others within the package are its own mistakes


def shorten_uncaught() -> None:
    """From now on, unless the program has a hook of its own."""
    if sys.excepthook is sys.__excepthook__ and os.environ.get("ONSTREAM_TRACEBACK") != "full":
        sys.excepthook = _print_short


def _print_short(kind: type[BaseException], error: BaseException, frames: TracebackType | None) -> None:
    whole: list[tuple[BaseException, TracebackType | None]] = []
    link: BaseException | None = error
    while link is not None and all(link is not seen for seen, _ in whole):
        whole.append((link, link.__traceback__))
        link = link.__cause__ or link.__context__
    try:
        for one, its in whole:
            one.__traceback__ = shortened(one, its)
        sys.__excepthook__(kind, error, error.__traceback__)
    finally:
        for one, its in whole:
            one.__traceback__ = its


def shortened(error: BaseException, frames: TracebackType | None) -> TracebackType | None:
    """The frames of the program; all of them if there are no others, or if the error is a mistake of the package."""
    every = []
    while frames is not None:
        every.append(frames)
        frames = frames.tb_next
    if not every or (_is_ours(every[-1]) and not isinstance(error, _TOLD)):
        return every[0] if every else None
    shown: TracebackType | None = None
    for frame in reversed([one for one in every if not _is_ours(one)]):
        shown = TracebackType(shown, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return shown or every[0]


def _is_ours(frame: TracebackType) -> bool:
    """Of a module of the package itself, and not of the programs in its folders."""
    return os.path.dirname(frame.tb_frame.f_code.co_filename) == _FOLDER
