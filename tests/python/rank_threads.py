"""Ranks as threads of this process, for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onstream as ons

PATHS = ["auto", "stage"]  # peers' memory is reached directly; by the owner's helper


def run(size: int, body: Callable[[ons.World], Any], **parameters: Any) -> list[Any]:
    return ons.run_threads(size, body, **{"device": "host", "timeout_s": 10, **parameters})
