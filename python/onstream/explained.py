"""The explanations of collectives: the methods of a team or a world, which run nothing and return text."""

from __future__ import annotations

from typing import Any

from . import _core
from .errors import InvalidArgumentError
from .neighbours import Neighbourhood
from .uneven import OtherWay


class Explained(OtherWay):
    """Explains calls: it makes them as usual, and does not run them."""

    def neighbourhood(self, *_: Any, **__: Any) -> Neighbourhood:
        raise InvalidArgumentError(
            "explain: a neighbourhood is made by all ranks together; there is nothing to explain"
        )

    def barrier(self, *, channel: int = 0, stream: Any = None) -> str:
        """Explains Team.barrier(), or World.barrier(stream=...)."""
        return self._members.explain(self._barrier_call(channel))

    def _run(self, call: _core.CollectiveCall, *_: Any) -> Any:
        return self._members.explain(call)
