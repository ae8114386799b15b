"""The command line: which episodes there may be, and how many. A job's ranks get its words too."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from .episode import DISTURBANCES, FAMILIES, Episode, Shape


@dataclass(frozen=True)
class Options:
    """How long, how many at once, and where failures are kept."""

    seconds: float
    seed: int
    jobs: int
    limit_s: float
    keep: str


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        shape = Shape.of(given)
    except ValueError as error:
        parser.error(str(error))
    if given.rank_of is not None:
        from .rank import run_rank

        return run_rank(Episode.of(given.rank_of, shape))
    from .driver import replay, soak

    limit_s = given.limit_s or 6 * given.deadline_s
    options = Options(given.seconds, given.seed, given.jobs, limit_s, given.keep)
    return soak(shape, options) if given.replay is None else replay(given.replay, shape, options)


def _parser() -> argparse.ArgumentParser:
    names = f"families: {', '.join(FAMILIES)}; disturbances: {', '.join(DISTURBANCES)}"
    parser = argparse.ArgumentParser(prog="python tests/soak", description="A soak of onstream.", epilog=names)
    parser.add_argument("--seconds", type=float, default=60, help="how long episodes are begun (60)")
    parser.add_argument("--seed", type=int, default=1, help="from which all episodes' seeds come (1)")
    parser.add_argument("--ranks", default="2-8", help="fewest and most ranks of an episode (2-8)")
    parser.add_argument("--only", default="", help="families and disturbances, by commas")
    parser.add_argument("--without", default="", help="families and disturbances that are left out")
    parser.add_argument("--device", default="host", help="device of the ranks (host)")
    parser.add_argument("--jobs", type=int, default=1, help="how many episodes run at once (1)")
    parser.add_argument("--deadline-s", type=float, default=10, help="of waits; longer on a machine that is busy (10)")
    parser.add_argument("--limit-s", type=float, help="an episode that takes longer hangs (six deadlines)")
    parser.add_argument("--keep", default="soak-failures", help="folder for the output of episodes that fail")
    parser.add_argument("--replay", type=int, metavar="SEED", help="runs this episode alone")
    parser.add_argument("--self-test", action="store_true", help="one rank of each episode expects a wrong value")
    parser.add_argument("--rank-of", type=int, metavar="SEED", help=argparse.SUPPRESS)
    return parser
