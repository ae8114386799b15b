"""Where a figure was measured: everything that a reader needs to judge it, as plain data.

Only looks, never fails: what cannot be found out is null.
"""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

QUERY_TIMEOUT_S = 20


def collect() -> dict[str, Any]:
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "load_1min": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "gpus": gpus(),
        "git": git(Path(__file__).resolve().parent),
    }


def cpu_model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)


def gpus() -> list[dict[str, str]]:
    answer = _ask(["nvidia-smi", "--query-gpu=name,driver_version,pci.bus_id", "--format=csv,noheader"])
    rows = [line.split(", ") for line in (answer or "").splitlines()]
    return [{"name": row[0], "driver": row[1], "bus": row[2]} for row in rows if len(row) == 3]


def git(folder: Path) -> dict[str, Any] | None:
    """The commit that is checked out, and whether tracked files differ from it."""
    commit = _ask(["git", "-C", str(folder), "rev-parse", "HEAD"])
    if commit is None:
        return None
    changed = _ask(["git", "-C", str(folder), "status", "--porcelain", "--untracked-files=no"])
    return {"commit": commit.strip(), "changed": bool(changed and changed.strip())}


def _ask(command: list[str]) -> str | None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=QUERY_TIMEOUT_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
