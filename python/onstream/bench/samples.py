"""The statistics of every bench, in full.

A round is one start of a program, which gives several samples of each case; a sample is the mean seconds of one message
over many. Rounds of the programs that are compared alternate.

- median: the median over rounds of the round's median sample. So a disturbed round weighs no more than another.
- min, p25, p75, max: over all samples of all rounds. p25 and p75 interpolate linearly between neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """Seconds, except the counts."""

    median_s: float
    min_s: float
    p25_s: float
    p75_s: float
    max_s: float
    rounds: int
    samples: int


def quantile(values: Sequence[float], fraction: float) -> float:
    """The value below which `fraction` of the values lie, interpolated; 0.5 is the median."""
    if not values:
        raise ValueError("no values to take a quantile of")
    if not 0.0 <= fraction <= 1.0:
        raise ValueError(f"a quantile's fraction is from 0 to 1, not {fraction}")
    ordered = sorted(values)
    place = fraction * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median(values: Sequence[float]) -> float:
    return quantile(values, 0.5)


def summarize(rounds: Sequence[Sequence[float]]) -> Summary:
    """rounds: the samples of each round, in seconds."""
    everything = [sample for samples in rounds for sample in samples]
    bad = [sample for sample in everything if not (math.isfinite(sample) and sample > 0)]
    if bad:
        raise ValueError(f"a sample is a positive number of seconds, not {bad[0]}")
    return Summary(
        median_s=median([median(samples) for samples in rounds]),
        min_s=min(everything),
        p25_s=quantile(everything, 0.25),
        p75_s=quantile(everything, 0.75),
        max_s=max(everything),
        rounds=len(rounds),
        samples=len(everything),
    )
