"""The bars: the values that the figures must reach, as data, and whether they do.

A bar against peers takes the better peer's median of the same run. A bar in absolute figures names the hardware that
it was stated for; on other hardware it is not judged. A ring is judged twice, by messages and by a plan. `peer` is the
figure that another library reaches today on that hardware, in words, and `why` says where the time goes if the bar is
missed (docs/decisions/0006 has the measurements). A bar whose figures a run does not have is told as not run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from .cases import GIB, KIB, MIB, RINGS

# Why a bar has no verdict.
NO_CASE = "the case is not in this run"
NO_PEER = "what it is compared with is not in this run"


@dataclass(frozen=True)
class Bar:
    device: str
    mode: str
    submission: str
    bytes: int
    quantity: str  # latency (at most), bandwidth or rate (at least)
    limit: float  # times the better peer; or us, GB/s, million/s
    unit: str
    hardware: str = ""  # must be part of the device's name
    path: str = "auto"  # forced
    max_blocks: int | None = None  # the parameter, when it was set
    peer: str = ""
    why: str = ""


LINES = "one block sends and one receives flagged lines, half of which are flags"
COPY_OF_16_MIB = "the copy alone takes 46.9 us (358 GB/s), and 2.6 us are the announcement, the posting and the arrival"
LAUNCHES = "each operation is a launch by its host, of 2.8 us and more"
ENGINE = "the engine moves 395 GB/s once it runs, 14 to 24 us after it was asked"
STREAM_WAITS = "the engine moves 395 GB/s; the streams' waits before and behind it take 17 us whatever the size"


def _h200(mode: str, submission: str, size: int, limit: float, unit: str, **more: Any) -> Bar:
    quantity = {"us": "latency", "GB/s": "bandwidth", "M/s": "rate"}[unit]
    return Bar("cuda", mode, submission, size, quantity, limit, unit, "H200", **more)


BARS = (
    Bar("host", "ping-pong", "host", 8, "latency", 1.0, "x the better peer"),
    Bar("host", "pipelined", "host", MIB, "bandwidth", 1.0, "x the better peer"),
    _h200("ping-pong", "captured", 8, 1.9, "us", peer="NVSHMEM on stream 7.8, MPI+UCX 15"),
    _h200("ping-pong", "captured", 8 * KIB, 2.4, "us", peer="NVSHMEM on stream 7.3", why=LINES),
    _h200("ping-pong", "captured", 64 * KIB, 4.5, "us", peer="NVSHMEM on stream 7.8"),
    _h200("ping-pong", "captured", MIB, 7.0, "us", peer="NVSHMEM on stream 11.1"),
    _h200("ping-pong", "captured", 16 * MIB, 350.0, "GB/s", peer="317", why=COPY_OF_16_MIB),
    _h200("ping-pong", "captured", 256 * MIB, 390.0, "GB/s", peer="391"),
    _h200("ping-pong", "captured", GIB, 390.0, "GB/s", peer="391"),
    _h200("ping-pong", "eager", 8, 4.0, "us", peer="NVSHMEM on stream 7.8", why=LAUNCHES),
    _h200("ring", "captured", 8, 2.6, "us", peer="NCCL 6.1"),
    _h200("ring", "captured", 256 * KIB, 6.0, "us", peer="NCCL 12.1"),
    _h200("ring", "captured", 2 * MIB, 14.0, "us", peer="NCCL 18.5"),
    _h200("ring", "captured", GIB, 385.0, "GB/s", peer="NCCL 366"),
    _h200("aggregated", "captured", 8, 20.0, "M/s"),
    _h200("ping-pong", "captured", 256 * MIB, 390.0, "GB/s", path="copy", peer="391", why=ENGINE),
    _h200("ping-pong", "captured", 256 * MIB, 390.0, "GB/s", path="memop", peer="391", why=STREAM_WAITS),
    _h200("ping-pong", "captured", 256 * MIB, 365.0, "GB/s", max_blocks=16),
)


@dataclass(frozen=True)
class SetupBar:
    """A bar for starting a world: at most `limit` with `ranks` ranks."""

    quantity: str  # device_bytes or start_s
    ranks: int
    limit: float
    unit: str
    peer: str = ""


SETUP_BARS = (
    SetupBar("start_s", 4, 0.5, "s", peer="NCCL: seconds"),
    SetupBar("device_bytes", 8, 32 * MIB, "B", peer="NCCL: about 0.5 GB"),
)


def judge(result: dict[str, Any]) -> list[dict[str, Any]]:
    """One verdict for every bar, every mode of it, and every kind of memory, whose figures the result has."""
    verdicts = []
    for bar in _stated_for(result):
        ours, peers = _rows_of(result, bar)
        if bar.unit.startswith("x") and not peers:
            continue
        verdicts += [{**asdict(bar), **_verdict(bar, row, peers)} for row in _best_of_each(ours)]
    return verdicts


def not_run(result: dict[str, Any]) -> list[tuple[Bar, str, str]]:
    """Every bar stated for this device, and mode of it, that has no verdict; and why."""
    without = []
    for bar in _stated_for(result):
        ours, peers = _rows_of(result, bar)
        for mode in modes_of(bar):
            if all(row["mode"] != mode for row in ours):
                without.append((bar, mode, NO_CASE))
            elif bar.unit.startswith("x") and not peers:
                without.append((bar, mode, NO_PEER))
    return without


def _stated_for(result: dict[str, Any]) -> Iterable[Bar]:
    return (bar for bar in BARS if bar.device == result["device_kind"] and bar.hardware in result["device"])


def _rows_of(result: dict[str, Any], bar: Bar) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Ours, and the peers'."""
    rows = [row for row in result["rows"] if _matches(row, bar)]
    return [row for row in rows if row["who"] == "onstream"], [row for row in rows if row["who"] != "onstream"]


def headline_sizes(device: str) -> tuple[int, ...]:
    return tuple(sorted({bar.bytes for bar in BARS if bar.device == device}))


def modes_of(bar: Bar) -> tuple[str, ...]:
    return RINGS if bar.mode == "ring" else (bar.mode,)


def _matches(row: dict[str, Any], bar: Bar) -> bool:
    if row["mode"] not in modes_of(bar) or (row["submission"], row["bytes"]) != (bar.submission, bar.bytes):
        return False
    return row["who"] != "onstream" or (row["path"], row.get("max_blocks")) == (bar.path, bar.max_blocks)


def _best_of_each(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        key = (row["mode"], row["memory"])
        if key not in best or row["median_s"] < best[key]["median_s"]:
            best[key] = row
    return list(best.values())


def _verdict(bar: Bar, ours: dict[str, Any], peers: list[dict[str, Any]]) -> dict[str, Any]:
    common = {"memory": ours["memory"], "via": ours["mode"]}
    at_most = bar.quantity == "latency"
    if not bar.unit.startswith("x"):
        value = {
            "latency": ours["median_s"] * 1e6,
            "bandwidth": ours["bytes"] / ours["median_s"] / 1e9,
            "rate": 1e-6 / ours["median_s"],
        }[bar.quantity]
        return {**common, "value": value, "holds": _holds(value, bar.limit, at_most=at_most), "against": None}
    best = min(peers, key=lambda row: float(row["median_s"]))
    slower = ours["median_s"] / best["median_s"]
    value = slower if at_most else 1.0 / slower
    return {
        **common,
        "value": value,
        "holds": _holds(value, bar.limit, at_most=at_most),
        "against": best["who"],
        "median_s": ours["median_s"],
        "peer_median_s": best["median_s"],
    }


def _holds(value: float, limit: float, *, at_most: bool) -> bool:
    return value <= limit if at_most else value >= limit
