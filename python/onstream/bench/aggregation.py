"""`onstream bench aggregation`: prepare many operations and post them at once, against one launch each.

The same messages go both ways of posting: as single operations on the stream (mode separate) and as one plan, launched
once (mode aggregated). The gain is how many times less a message costs when posted with others.
"""

from __future__ import annotations

from typing import Any

from .cases import ON_STREAM, SPREAD, case_of
from .message import Contender, Settings, Variant, check, compare, own_program
from .progress import Say

COUNTS = (1, 4, 16, 64)


def measure(wanted: Settings, counts: tuple[int, ...] = COUNTS, say: Say = lambda _line: None) -> dict[str, Any]:
    settings = wanted.resolved()
    variant = Variant(settings.path, settings.max_blocks, settings.memories[0], settings.memories[0])
    cases = [
        case_of(settings.device, mode, submission, size, window=count, quick=settings.quick)
        for size in wanted.sizes or (8,)
        for submission in settings.submissions
        if submission in ON_STREAM
        for mode in SPREAD
        for count in counts
    ]
    own = Contender("onstream", variant, own_program(settings, variant), cases)
    result = compare("aggregation", settings, [own], say)
    check(result)
    result["gains"] = gains_of(result["rows"])
    return result


def gains_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One a library, submission, size and count whose two ways were measured."""
    separate = {_key(row): row["median_s"] for row in rows if row["mode"] == "separate"}
    gains = []
    for row in rows:
        if row["mode"] != "aggregated" or _key(row) not in separate:
            continue
        alone = separate[_key(row)]
        gains.append(
            {
                "who": row["who"],
                "submission": row["submission"],
                "bytes": row["bytes"],
                "count": row["window"],
                "separate_s": alone,
                "aggregated_s": row["median_s"],
                "gain": alone / row["median_s"],
            }
        )
    return gains


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["who"], row["submission"], row["bytes"], row["window"]
