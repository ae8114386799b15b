"""An episode: a job whose every choice comes from one seed, so that each rank and the driver know all of it.

Nothing here depends on a rank, on time or on the machine.
"""

from __future__ import annotations

import random
from argparse import Namespace
from dataclasses import dataclass
from typing import Any

FAMILIES = (
    "messages",
    "streams",
    "plans",
    "halos",
    "collectives",
    "teams",
    "neighbourhoods",
    "one_sided",
    "worlds",
    "forks",
)
DISTURBANCES = {  # and how often each is taken
    "none": 3,
    "stop": 2,  # ranks stand still for a while
    "kill": 3,  # a rank is killed, the others go on without it
    "kill-twice": 2,  # then another one, perhaps while the world of the others starts
    "stall": 1,  # a rank stands still for longer than the deadline, then all go on
    "signals": 2,  # harmless signals with handlers
    "interrupt": 2,  # Ctrl-C to one rank, then all go on
    "leave": 2,  # a rank ends early, the others go on without it
    "threads": 2,  # several threads of each rank, on tags and channels of their own
    "rank-threads": 2,  # ranks are threads of one process
    "threads-one-tag": 2,  # several threads of each rank send and receive on one tag
    "daemon": 1,  # daemon threads still wait when the program ends
    "close": 1,  # a thread closes the world while others are in calls
}
WAYS_TO_LEAVE = {"close": 0, "exit": 0, "exit 3": 3, "exception": 1}  # and the code that the rank ends with

STALLS = 0.2  # of the deadline are left where a rank stalls


@dataclass(frozen=True)
class Shape:
    """Which episodes there may be."""

    fewest: int
    most: int
    families: tuple[str, ...]
    disturbances: tuple[str, ...]
    device: str
    deadline_s: float  # of every wait of a world
    self_test: bool
    words: tuple[str, ...]  # of the command line, which say this again

    @staticmethod
    def of(given: Namespace) -> Shape:
        fewest, _, most = given.ranks.partition("-")
        wanted, unwanted = _names(given.only), _names(given.without)
        families = [name for name in FAMILIES if name in wanted] or list(FAMILIES)
        disturbances = [name for name in DISTURBANCES if name in wanted] or list(DISTURBANCES)
        words = ["--ranks", given.ranks, "--only", given.only, "--without", given.without, "--device", given.device]
        words += ["--deadline-s", f"{given.deadline_s:g}", *(["--self-test"] if given.self_test else [])]
        shape = Shape(
            int(fewest),
            int(most or fewest),
            tuple(name for name in families if name not in unwanted),
            tuple(name for name in disturbances if name not in unwanted),
            given.device,
            given.deadline_s,
            given.self_test,
            tuple(words),
        )
        if not (shape.families and shape.disturbances and 2 <= shape.fewest <= shape.most):
            raise ValueError("there is no episode of these: needs a family, a disturbance, and 2 ranks or more")
        return shape


def _names(text: str) -> set[str]:
    names = {name.strip() for name in text.split(",") if name.strip()}
    unknown = names - set(FAMILIES) - set(DISTURBANCES)
    if unknown:
        raise ValueError(f"there is no {', '.join(sorted(unknown))}")
    return names


@dataclass(frozen=True)
class Episode:
    seed: int
    size: int
    families: tuple[str, ...]
    disturbance: str
    victim: int
    way: str  # how the victim leaves
    threads: int  # of each rank; in the disturbance "threads" and some others
    blocks: int  # of each life of the world
    lives: int  # worlds, one after the other, of a job that nothing ends
    parameters: dict[str, Any]
    shape: Shape

    @staticmethod
    def of(seed: int, shape: Shape) -> Episode:
        dice = random.Random(f"episode {seed}")
        size = dice.randint(shape.fewest, shape.most)
        disturbance = dice.choices(shape.disturbances, [DISTURBANCES[name] for name in shape.disturbances])[0]
        families = shape.families
        if len(families) > 1 and dice.random() < 0.4:  # a few alone meet each other more often
            families = tuple(dice.sample(families, dice.randint(1, min(3, len(families)))))
        return Episode(
            seed,
            size,
            families,
            disturbance,
            dice.randrange(size),
            dice.choice(list(WAYS_TO_LEAVE)),
            _threads(dice, disturbance),
            dice.randint(5, max(10, 90 // size)),
            dice.choice((1, 1, 2, 3)),
            {
                "device": shape.device,
                "timeout_s": shape.deadline_s * (STALLS if disturbance == "stall" else 1),
                "bootstrap_timeout_s": 4 * shape.deadline_s,  # on a busy machine Python takes seconds to start
                **_parameters(dice),
            },
            shape,
        )

    def dice(self, name: str) -> random.Random:
        return random.Random(f"{name} of {self.seed}")

    @property
    def victims(self) -> list[int]:
        """The ranks that are killed, in this order. One of two at least lives."""
        if self.disturbance == "kill-twice" and self.size > 2:
            return [self.victim, (self.victim + 1 + self.seed % (self.size - 1)) % self.size]
        return [self.victim] if self.disturbance in ("kill", "kill-twice") else []

    @property
    def code(self) -> int:
        """The exit status of the job."""
        if self.victims:
            return 128 + 9
        return WAYS_TO_LEAVE[self.way] if self.disturbance == "leave" else 0


def _threads(dice: random.Random, disturbance: str) -> int:
    """Of each rank. A rank that leaves, or is interrupted, does so between its blocks, or in its first thread."""
    if disturbance == "threads":
        return dice.randint(2, 4)
    return 1 if disturbance in ("leave", "interrupt") or dice.random() < 0.75 else dice.randint(2, 4)


# Other values than the defaults, of which an episode has a few.
_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "tag_bytes": (4096, 1 << 16),
    "host_ll_max_bytes": (0, 256, 1024),
    "offer_min_bytes": (0, 64, 4096),
    "attach": ("off",),
    "attach_min_bytes": (0, 1 << 20),
    "stage_chunk_bytes": (4096, 1 << 16),
    "collective_bytes": (1 << 16, 1 << 20),
    "collective_ll128_bytes": (0, 1 << 18),
    "collective_stage_bytes": (1 << 16,),
    "collective_check": ("on",),
    "collective_engine": ("on",),
    "host_spin_us": (0, 50),
}


def _parameters(dice: random.Random) -> dict[str, Any]:
    if dice.random() < 0.5:
        return {}
    names = dice.sample(list(_PARAMETERS), dice.randint(1, 3))
    return {name: dice.choice(_PARAMETERS[name]) for name in names}
