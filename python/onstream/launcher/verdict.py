"""How a job with failures came to its end: the rank where it began, and the others' part in it."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

from .rank import Rank

CRASHES = (
    signal.SIGKILL,
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGILL,
    signal.SIGFPE,
)  # never an answer to another's end
CLEARING_S = 0.2


def first_failed(failed: Sequence[Rank]) -> Rank | None:
    """The cause: a crash, else the rank that the first to fail names, else that rank itself. `failed`: in the order seen.

    A peer may see a crash, and end, while the kernel still clears the crashed process away; and of ranks that end
    by one failure, those that only heard of it may be the faster.
    """
    if not failed:
        return None
    first = failed[0]
    for rank in failed:
        if -(rank.code or 0) in CRASHES and rank.seen_at - first.seen_at < CLEARING_S and not rank.ended_by_us:
            return rank
    named = first.cause()
    return next((rank for rank in failed if rank.number == named and not rank.ended_by_us), first)


def bystanders(ranks: Sequence[Rank], failed: Rank) -> str:
    """Facts that the launcher alone knows of the ranks in the error: they had ended well, or still ran."""
    text = b"\n".join(failed.tail).decode(errors="replace")
    told = []
    for rank in ranks:
        if rank is failed or not re.search(rf"\brank {rank.number}\b", text):
            continue
        if rank.code == 0:
            told.append(f"{rank.name} had ended with code 0")
        elif rank.ended_by_us and rank.number == failed.cause():
            told.append(f"{rank.name} was still running")
    return "; ".join(told)


def ended_with_it(ranks: Sequence[Rank]) -> str:
    """Whom this launcher ended because of a failure. The others ended by themselves, however they did."""
    ended = [rank.number for rank in ranks if rank.ended_by_us]
    if not ended:
        return ""
    if len(ended) == len(ranks) - 1:
        return "; the other ranks were ended" if len(ranks) > 2 else "; the other rank was ended"
    told = f"rank {ended[0]} was" if len(ended) == 1 else f"ranks {', '.join(map(str, ended))} were"
    return f"; {told} ended with it"
