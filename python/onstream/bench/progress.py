"""How far a comparison is: cases that were measured of all that will be, and about how long the rest takes.

The estimate takes the rest for as slow as the measured cases. The thread that reads the programs' output tells it, at
most every few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

TELL_EVERY_S = 5.0

Say = Callable[[str], None]  # shows a line to the user


class Progress:
    def __init__(self, total: int, say: Say, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = total
        self.done = 0
        self._say = say
        self._clock = clock
        self._began = self._told = clock()

    def case_done(self) -> None:
        self.done += 1
        now = self._clock()
        if now - self._told < TELL_EVERY_S or self.done >= self.total:
            return
        self._told = now
        left_s = (now - self._began) / self.done * (self.total - self.done)
        self._say(f"{self.done} of {self.total} cases, about {duration_text(left_s)} left")

    def leave_out(self, cases: int) -> None:
        """They will not be measured after all."""
        self.total -= cases


def duration_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
