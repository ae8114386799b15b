"""The collectives of a team or a world that are started: each returns a Handle (handles.py) and does not block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _arrays, _core, scalars
from .errors import InvalidArgumentError
from .handles import Handle, start
from .neighbours import Neighbourhood
from .uneven import OtherWay

if TYPE_CHECKING:
    from .collectives import Op


class Started(OtherWay):
    """The collectives of a team, which return a Handle and do not block. Numbers and functions as plain calls have them."""

    _stream_of_numbers = None  # the handle's

    def barrier(self, *, channel: int = 0) -> Handle:
        """Starts a barrier of the ranks, which has ended once all ranks have started it. wait() returns None."""
        return start(self._home, "barrier", self._members, self._barrier_call(channel), (), None, None)

    def neighbourhood(self, *_: Any, **__: Any) -> Neighbourhood:
        raise InvalidArgumentError("start: a neighbourhood is made by all ranks together, and its ranks wait for it")

    def _run(self, call: _core.CollectiveCall, spans: tuple[_arrays.Span | None, ...], stream: Any, result: Any) -> Any:
        there = [span for span in spans if span is not None]
        return start(self._home, call.kind, self._members, call, there, stream, result)

    def _reduce_number(
        self, kind: str, value: Any, out: Any, options: tuple[Op, float, int, int, str, bool], stream: Any, receives: bool
    ) -> Any:  # fmt: skip
        handle = super()._reduce_number(kind, value, out, options, stream, receives)
        handle._convert = lambda array: scalars.number_of(array, value) if receives else None
        return handle

    def _broadcast_number(self, value: Any, root: int, channel: int, algorithm: str, stream: Any) -> Any:
        handle = super()._broadcast_number(value, root, channel, algorithm, stream)
        handle._convert = lambda array: scalars.number_of(array, value)
        return handle
