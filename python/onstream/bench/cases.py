"""The cases of `onstream bench message`: modes, submissions, sizes, and how often each is repeated in a sample.

A case is the text MODE:SUBMISSION:BYTES:ITERATIONS:WINDOW that both native programs read
(bench/message/message_case.hpp explains the words). Peers get the same modes, sizes, iterations and windows as
onstream.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import InvalidArgumentError

MODES = ("ping-pong", "pipelined", "bidirectional", "ring", "ring-plan", "separate", "aggregated")
RINGS = ("ring", "ring-plan")  # for any number of ranks; the others are between two
SPREAD = ("separate", "aggregated")  # each message of a window has its own bytes: for small ones
DEFAULT_MODES = ("ping-pong", "pipelined", "bidirectional", "ring", "ring-plan", "aggregated")
SUBMISSIONS = ("host", "eager", "captured")
ON_STREAM = ("eager", "captured")
MEMORIES = ("device", "pinned", "managed", "host")

KIB, MIB, GIB = 2**10, 2**20, 2**30
SIZES = {
    "host": (8, KIB, 8 * KIB, 64 * KIB, MIB, 16 * MIB),
    "cuda": (8, KIB, 8 * KIB, 64 * KIB, 256 * KIB, MIB, 2 * MIB, 16 * MIB, 256 * MIB, GIB),
}
SWEEP_TO = {"host": 64 * MIB, "cuda": GIB}  # from 1 B, in steps of 4, and of 2 where paths change
LARGEST_SPREAD = 8 * KIB
WINDOW = 64  # messages in flight, as in the OSU benchmarks
MAX_BYTES = 2**31 - 1  # the largest MPI count

# Bytes that one sample moves one way, about, and how many messages it has at most.
SAMPLE_BYTES = {"host": 64 * MIB, "cuda": 4 * GIB}
MAX_MESSAGES = {
    ("host", "host"): 10_000,
    ("host", "eager"): 2_000,
    ("host", "captured"): 2_000,
    ("cuda", "host"): 300,
    ("cuda", "eager"): 200,  # fewer launches than a queue holds, so that submission is not throttled
    ("cuda", "captured"): 2_000,
}
GRAPH_ROUND_TRIPS = 100
GRAPH_WINDOWS = 20  # of separate and aggregated; kWindowsPerGraph in bench/message/message_case.hpp
MIN_RING_STEPS = 8  # in a graph: not fewer than ranks (bench/message/library_nvshmem.cpp)


@dataclass(frozen=True)
class Case:
    mode: str
    submission: str
    bytes: int
    iterations: int
    window: int

    def __str__(self) -> str:
        return f"{self.mode}:{self.submission}:{self.bytes}:{self.iterations}:{self.window}"


def bytes_from(text: str) -> int:
    """Reads 8, 64KiB, 1MiB, 64k, 1m: units are powers of 1024."""
    match = re.fullmatch(r"\s*(\d+)\s*([kmg]?)(i?b)?\s*", text.lower())
    if match is None:
        raise InvalidArgumentError(f"'{text}' is not a size; write 8, 64KiB, 1MiB")
    size = int(match[1]) * {"": 1, "k": KIB, "m": MIB, "g": GIB}[match[2]]
    if size > MAX_BYTES:
        raise InvalidArgumentError(f"{text} is larger than {MAX_BYTES} B, the most that a case may have")
    return size


def sizes_from(text: str, device: str) -> tuple[int, ...]:
    """Reads a list with commas, or `sweep`: 1 B to the largest, for plots. Empty: the device's default list."""
    if text != "sweep":
        return tuple(dict.fromkeys(bytes_from(size) for size in text.split(","))) if text else ()
    sizes = {4**k for k in range(16)} | {8, 2 * KIB, 8 * KIB, 32 * KIB, 128 * KIB, 512 * KIB}
    return tuple(sorted(size for size in sizes if size <= SWEEP_TO.get(device, GIB)))


def choices_from(text: str, known: tuple[str, ...], what: str) -> tuple[str, ...]:
    """Reads a list with commas, each of `known`, each once."""
    chosen = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    unknown = [word for word in chosen if word not in known]
    if unknown or not chosen:
        raise InvalidArgumentError(f"{what} is '{text}'; there are {', '.join(known)}")
    return chosen


def offered(mode: str, submission: str, size: int) -> bool:
    """Whether there is such a case of onstream."""
    if mode in RINGS + SPREAD and submission == "host":
        return False
    return mode not in SPREAD or 0 < size <= LARGEST_SPREAD


def case_of(device: str, mode: str, submission: str, size: int, *, window: int = WINDOW, quick: bool = False) -> Case:
    """device: host or cuda. A quick case has a tenth of the messages: it shows that things work."""
    most = MAX_MESSAGES[device, submission] // (10 if quick else 1)
    messages = max(4, min(most, SAMPLE_BYTES[device] // max(size, 1) // (10 if quick else 1)))
    if mode == "ping-pong":
        per_step = min(GRAPH_ROUND_TRIPS, messages // 2) if submission == "captured" else 1
        return Case(mode, submission, size, max(1, messages // per_step), per_step)
    if mode in RINGS:
        per_step = max(MIN_RING_STEPS, min(GRAPH_ROUND_TRIPS, messages // 2)) if submission == "captured" else 1
        return Case(mode, submission, size, max(1, messages // per_step), per_step)
    if mode == "aggregated":  # a launch holds the whole window
        launches = max(2, messages // (GRAPH_WINDOWS if submission == "captured" else 1))
        return Case(mode, submission, size, launches, window)
    fits = max(1, SAMPLE_BYTES[device] * 4 // max(size, 1))  # very large messages: fewer in flight
    in_flight = min(window, fits)
    per_graph = GRAPH_WINDOWS if mode == "separate" and submission == "captured" else 1
    return Case(mode, submission, size, max(1, messages // in_flight // per_graph), in_flight)


def cases_of(
    device: str,
    modes: tuple[str, ...],
    submissions: tuple[str, ...],
    sizes: tuple[int, ...],
    *,
    window: int = WINDOW,
    quick: bool = False,
) -> list[Case]:
    return [
        case_of(device, mode, submission, size, window=window, quick=quick)
        for mode in modes
        for submission in submissions
        for size in sizes
        if offered(mode, submission, size)
    ]
