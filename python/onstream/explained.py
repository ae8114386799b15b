"""The explanations of collectives: the methods of a team or a world, which run nothing and return text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _core
from .errors import InvalidArgumentError
from .neighbours import Neighbourhood
from .uneven import Uneven

if TYPE_CHECKING:
    from .world import World


class Explained(Uneven):
    """Explains calls: it makes them as usual, and does not run them."""

    def __init__(self, of: Uneven) -> None:
        self._of = of
        self._members = of._members

    @property
    def _home(self) -> World:
        return self._of._home

    def neighbourhood(self, *_: Any, **__: Any) -> Neighbourhood:
        raise InvalidArgumentError(
            "explain: a neighbourhood is made by all ranks together; there is nothing to explain"
        )

    def __repr__(self) -> str:
        return f"<Explained: {self._of!r}>"

    def barrier(self, *, channel: int = 0, stream: Any = None) -> str:
        """Explains Team.barrier(), or World.barrier(stream=...)."""
        return self._members.explain(self._barrier_call(channel))

    def _run_plain(self, *_: Any) -> bool:
        return False

    def _run(self, call: _core.CollectiveCall, *_: Any) -> Any:
        return self._members.explain(call)
