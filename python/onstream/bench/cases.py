"""What `onstream bench message` measures: modes, submissions, sizes, and how often each is repeated in a sample.

A case is the text MODE:SUBMISSION:BYTES:ITERATIONS:WINDOW that both native programs read (bench/message_case.hpp tells
what the words mean). Peers get the same modes, sizes, iterations and windows as onstream's host submission.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import InvalidArgumentError

MODES = ("ping-pong", "pipelined", "bidirectional")
SUBMISSIONS = ("host", "eager", "captured")
MEMORIES = ("device", "pinned", "host")

KIB, MIB, GIB = 2**10, 2**20, 2**30
SIZES = {
    "host": (8, KIB, 8 * KIB, 64 * KIB, MIB, 16 * MIB),
    "cuda": (8, KIB, 8 * KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB),
}
WINDOW = 64  # messages in flight, as in the OSU benchmarks
MAX_BYTES = 2**31 - 1  # what an MPI count can say

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


def choices_from(text: str, known: tuple[str, ...], what: str) -> tuple[str, ...]:
    """Reads a list with commas, each of `known`, each once."""
    chosen = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    unknown = [word for word in chosen if word not in known]
    if unknown or not chosen:
        raise InvalidArgumentError(f"{what} is '{text}'; there are {', '.join(known)}")
    return chosen


def case_of(device: str, mode: str, submission: str, size: int, *, window: int = WINDOW, quick: bool = False) -> Case:
    """device: host or cuda. A quick case has a tenth of the messages: it shows that things work."""
    most = MAX_MESSAGES[device, submission] // (10 if quick else 1)
    messages = max(4, min(most, SAMPLE_BYTES[device] // max(size, 1) // (10 if quick else 1)))
    if mode == "ping-pong":
        per_step = min(GRAPH_ROUND_TRIPS, messages // 2) if submission == "captured" else 1
        return Case(mode, submission, size, max(1, messages // per_step), per_step)
    fits = max(1, SAMPLE_BYTES[device] * 16 // max(size, 1))  # very large messages: fewer in flight
    in_flight = min(window, fits)
    return Case(mode, submission, size, max(1, messages // in_flight), in_flight)


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
    ]
