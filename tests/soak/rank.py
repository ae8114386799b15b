"""One rank of an episode: its work, and its report, which the driver reads.

A rank writes `readyN` (its process) once it is in the world, `traceN` (a line for each block), and at its end
`reportN`. It raises an error that it does not expect, as any program would.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import onstream as ons

from .blocks import turns
from .episode import Episode
from .turn import Score, Turn


def run_rank(episode: Episode) -> int:
    from .disturbances import DISTURBED, a_rank_that_is_a_thread

    if episode.disturbance == "rank-threads":
        catch_stacks(0)
        parameters = episode.parameters
        ons.run_threads(episode.size, partial(a_rank_that_is_a_thread, episode), **parameters)
        return 0
    seat = Seat(episode, ons.launch_from_environment().rank)
    catch_stacks(seat.number)
    return DISTURBED[episode.disturbance](seat) or 0


def catch_stacks(number: int) -> None:
    """The driver asks a hanging rank by SIGUSR2 for the stacks of all its threads."""
    faulthandler.register(signal.SIGUSR2, file=Path(f"stacks{number}").open("w"), all_threads=True)  # noqa: SIM115


class Seat:
    """A rank's number in the job's first world, its score, and its files."""

    def __init__(self, episode: Episode, number: int) -> None:
        self.episode = episode
        self.number = number
        spoilt = episode.shape.self_test and number == episode.victim
        self.score = Score(spoilt_at=2 if spoilt else None)
        self.trace = Path(f"trace{number}").open("w", buffering=1)  # noqa: SIM115
        self.told: dict[str, Any] = {}
        self.family = ""  # of the newest block

    def open(self, launch: ons.Launch | None = None, **parameters: Any) -> ons.World:
        return ons.init(launch=launch, **{**self.episode.parameters, **parameters})

    def ready(self) -> None:
        path = Path(f"ready{self.number}")
        path.with_suffix(".new").write_text(str(os.getpid()))
        path.with_suffix(".new").rename(path)

    def live(self, world: ons.World, life: Any, count: int | None, **more: Any) -> None:
        """Blocks of the episode in this world; `more` goes to their turns."""
        names, deadline_s = more.pop("names", self.episode.families), self.episode.parameters["timeout_s"]

        def make(**given: Any) -> Turn:
            self.family = given["family"]
            self.trace.write(f"{time.monotonic():.3f} {given['name']}\n")
            return Turn(world=world, score=self.score, deadline_s=deadline_s, **given, **more)

        turns(names, f"{self.episode.seed}.{life}", count, make)

    def report(self) -> None:
        told = {"checked": dict(self.score.checked), **self.told}
        Path(f"report{self.number}").write_text(json.dumps(told))
