"""The algorithms of collectives, and which of them a call may ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onstream as ons

ALGORITHMS = (
    "auto", "auto", "auto", "lines", "two_shot", "wide", "direct", "copy", "ring", "tree", "halving_doubling",
    "hierarchical",
)  # fmt: skip


def allowed(explain: Callable[..., Any], algorithm: str) -> str:
    """The algorithm, or auto where it cannot do the call, which all ranks find alike."""
    try:
        explain(algorithm=algorithm)
    except (ons.InvalidArgumentError, ons.UnsupportedError):
        return "auto"
    return algorithm
