"""Where a figure was measured: everything that a reader needs to judge it, as plain data.

Only looks, never fails: a value that cannot be found out is null.
"""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

QUERY_TIMEOUT_S = 20
# Variables that change the figures: of this library, of the peers and of the libraries below them.
VARIABLES = re.compile(
    r"(ONSTREAM|NCCL|NVSHMEM|SHMEM|CUDA|NVIDIA|TORCH|OMPI|OPAL|PMIX|PRTE|UCX|MPICH|MPIR|FI|OMP|GOMP)_(?!.*SECRET)"
)


def collect() -> dict[str, Any]:
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "governor": governor(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": system(),
        "kernel": platform.release(),
        "load_1min": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "gpus": gpus(),
        "variables": variables(os.environ),
        "git": git(Path(__file__).resolve().parent),
    }


def cpu_model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)


def governor() -> str | None:
    """How the kernel chooses the first core's clock; null in most virtual machines, which cannot choose."""
    try:
        return Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").read_text().strip()
    except OSError:
        return None


def system() -> str | None:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return None


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in sorted(environment.items()) if VARIABLES.match(name)}


GPU_FACTS = {
    "name": "name",
    "driver": "driver_version",
    "bus": "pci.bus_id",
    "sm_clock": "clocks.sm",
    "sm_clock_max": "clocks.max.sm",
    "memory_clock": "clocks.mem",
    "power_limit": "power.limit",
}


def gpus() -> list[dict[str, str]]:
    answer = _ask(["nvidia-smi", f"--query-gpu={','.join(GPU_FACTS.values())}", "--format=csv,noheader"])
    rows = [line.split(", ") for line in (answer or "").splitlines()]
    return [dict(zip(GPU_FACTS, row, strict=True)) for row in rows if len(row) == len(GPU_FACTS)]


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
