"""Episodes one after the other, or some at once, a line for each, and a table at the end."""

from __future__ import annotations

import random
import shlex
import shutil
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from .episode import Episode, Shape
from .job import Outcome, run_episode
from .judge import faults_of

if TYPE_CHECKING:
    from .command import Options


@dataclass
class Tally:
    """The episodes that have run so far."""

    episodes: Counter[str] = field(default_factory=Counter)  # by disturbance
    failed: Counter[str] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)  # by family
    failures: list[tuple[int, list[str]]] = field(default_factory=list)

    def add(self, outcome: Outcome, faults: list[str]) -> None:
        self.episodes[outcome.episode.disturbance] += 1
        for report in outcome.reports.values():
            self.checked.update(report["checked"])
        if faults:
            self.failed[outcome.episode.disturbance] += 1
            self.failures.append((outcome.episode.seed, faults))


def seeds_from(base: int) -> random.Random:
    return random.Random(f"soak {base}")


def soak(shape: Shape, options: Options) -> int:
    """Begins episodes for so many seconds. 0 if none failed."""
    tally, seeds, until = Tally(), seeds_from(options.seed), time.monotonic() + options.seconds
    running: set[Future[Outcome]] = set()
    with ThreadPoolExecutor(options.jobs) as pool:
        while time.monotonic() < until or running:
            while time.monotonic() < until and len(running) < options.jobs:
                seed = seeds.randrange(1 << 32)
                running.add(pool.submit(_one, seed, shape, options))
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                tell(future.result(), shape, tally)
    show(tally, shape)
    return 1 if tally.failures else 0


def replay(seed: int, shape: Shape, options: Options) -> int:
    tally = Tally()
    outcome = _one(seed, shape, options)
    tell(outcome, shape, tally)
    if tally.failures:
        print(outcome.out, outcome.err, outcome.stacks, sep="\n")
    show(tally, shape)
    return 1 if tally.failures else 0


def _one(seed: int, shape: Shape, options: Options) -> Outcome:
    episode = Episode.of(seed, shape)
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    try:
        outcome = run_episode(episode, folder, options.limit_s)
        if faults_of(outcome) and options.keep:
            (folder / "stacks").write_text(outcome.stacks)
            kept = Path(options.keep) / f"{seed}-{episode.disturbance}"
            shutil.copytree(folder, kept, dirs_exist_ok=True)
        return outcome
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def tell(outcome: Outcome, shape: Shape, tally: Tally) -> None:
    """The line of an episode."""
    episode, faults = outcome.episode, faults_of(outcome)
    tally.add(outcome, faults)
    families = "all" if episode.families == shape.families else ",".join(episode.families)
    checks = sum(sum(report["checked"].values()) for report in outcome.reports.values())
    print(
        f"{episode.seed:>10} {episode.size} ranks {episode.disturbance:<16} {families:<40} {checks:>6} checks "
        f"{outcome.seconds:>5.1f} s  {'FAILED' if faults else 'ok'}",
        flush=True,
    )
    for fault in faults:
        print(f"           {fault}", flush=True)


def show(tally: Tally, shape: Shape) -> None:
    print(f"\n{sum(tally.episodes.values())} episodes, {sum(tally.checked.values())} results checked")
    for name in sorted(tally.episodes):
        print(f"  {name:<18} {tally.episodes[name]:>6} episodes {tally.failed[name]:>4} failed")
    for name in sorted(tally.checked):
        print(f"  {name:<18} {tally.checked[name]:>8} results")
    for seed, faults in tally.failures:
        words = [sys.executable, sys.argv[0], "--replay", str(seed), *shape.words]
        print(f"\nFAILED: {'; '.join(faults)}\n  {shlex.join(words)}")
