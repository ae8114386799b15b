"""The bars: what the figures must reach, as data, and whether they do.

A bar against peers takes the better peer's median of the same run. A bar in absolute figures names the hardware that
it was stated for; on other hardware it is not judged.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .cases import KIB, MIB


@dataclass(frozen=True)
class Bar:
    device: str
    mode: str
    submission: str
    bytes: int
    quantity: str  # latency (at most) or bandwidth (at least)
    limit: float  # times the better peer; or us, or GB/s
    unit: str
    hardware: str = ""  # must be part of the device's name


BARS = (
    Bar("host", "ping-pong", "host", 8, "latency", 1.0, "x the better peer"),
    Bar("host", "pipelined", "host", MIB, "bandwidth", 1.0, "x the better peer"),
    Bar("cuda", "ping-pong", "captured", 8, "latency", 2.2, "us", "H200"),
    Bar("cuda", "ping-pong", "captured", 64 * KIB, "latency", 5.5, "us", "H200"),
    Bar("cuda", "ping-pong", "captured", 256 * MIB, "bandwidth", 360.0, "GB/s", "H200"),
    Bar("cuda", "ping-pong", "eager", 8, "latency", 6.0, "us", "H200"),
)


def judge(result: dict[str, Any]) -> list[dict[str, Any]]:
    """One verdict for every bar, and every kind of memory, whose figures the result has."""
    verdicts = []
    for bar in BARS:
        if bar.device != result["device_kind"] or bar.hardware not in result["device"]:
            continue
        rows = [row for row in result["rows"] if _matches(row, bar)]
        peers = [row for row in rows if row["who"] != "onstream"]
        if bar.unit.startswith("x") and not peers:
            continue
        ours = [row for row in rows if row["who"] == "onstream"]
        verdicts += [{**asdict(bar), "memory": row["memory"], **_verdict(bar, row, peers)} for row in ours]
    return verdicts


def _matches(row: dict[str, Any], bar: Bar) -> bool:
    return (row["mode"], row["submission"], row["bytes"]) == (bar.mode, bar.submission, bar.bytes)


def _verdict(bar: Bar, ours: dict[str, Any], peers: list[dict[str, Any]]) -> dict[str, Any]:
    if not bar.unit.startswith("x"):
        value = ours["median_s"] * 1e6 if bar.quantity == "latency" else ours["bytes"] / ours["median_s"] / 1e9
        holds = value <= bar.limit if bar.quantity == "latency" else value >= bar.limit
        return {"value": value, "holds": holds, "against": None}
    best = min(peers, key=lambda row: float(row["median_s"]))
    slower = ours["median_s"] / best["median_s"]
    value = slower if bar.quantity == "latency" else 1.0 / slower
    holds = value <= bar.limit if bar.quantity == "latency" else value >= bar.limit
    return {
        "value": value,
        "holds": holds,
        "against": best["who"],
        "median_s": ours["median_s"],
        "peer_median_s": best["median_s"],
    }
