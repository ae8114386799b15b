"""Results of the bench that no run has measured, for tests of the reports made of them; and a program's line."""

from __future__ import annotations

import json
from typing import Any

from onstream.bench import bars
from onstream.bench.cases import Case

CASE = Case("ping-pong", "host", 8, 10, 1)

LINE = json.dumps(
    {"mode": "ping-pong", "submission": "host", "bytes": 8, "iterations": 10, "window": 1, "samples_s": [1e-6]}
)


def row(who: str, mode: str, submission: str, size: int, median_s: float, memory: str = "device") -> dict[str, Any]:
    return {
        "who": who, "memory": memory, "path": "auto", "mode": mode, "submission": submission, "bytes": size,
        "iterations": 1, "window": 64, "median_s": median_s, "min_s": median_s, "p25_s": median_s, "p75_s": median_s,
        "max_s": 2 * median_s, "rounds": 5, "samples": 50, "bytes_per_s": size / median_s,
        "messages_per_s": 1 / median_s, "rounds_median_s": [median_s] * 5,
    }  # fmt: skip


def made_up(rows: list[dict[str, Any]], kind: str = "host", device: str = "A CPU (2 cores)") -> dict[str, Any]:
    result = {
        "schema": 1, "kind": "message", "command": "onstream bench message", "device_kind": kind, "device": device, "ranks": "2 processes",
        "settings": {"rounds": 5, "samples": 10}, "peers_missing": {},
        "environment": {"cpu": "A CPU", "cores": 2, "load_1min": 0.1, "date": "2026-01-02T03:04:05+00:00", "git": {"commit": "c" * 40}},
        "onstream": {"library": "onstream 0.1.0", "build_type": "Release"},
        "peers": {"openmpi": {"library": "Open MPI v5.0.11, package"}}, "rows": rows,
    }  # fmt: skip
    result["verdicts"] = bars.judge(result)
    return result
