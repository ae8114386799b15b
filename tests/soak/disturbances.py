"""The conduct of a rank under each disturbance: which errors it expects, and how it goes on after them.

Signals come from outside (job.py); here is how the ranks take them.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

import onstream as ons

from .blocks import IN_THREADS
from .episode import Episode
from .rank import Seat
from .turn import Wrong
from .under_threads import closing, daemons, one_lane, run_at_once

AFTER = 6  # blocks once the world has failed


def work(seat: Seat, world: ons.World, life: Any, count: int | None) -> None:
    """Blocks, by several threads of the rank if the episode says so: on tags and a channel for each."""
    threads = seat.episode.threads
    if threads == 1:
        seat.live(world, life, count)
        return
    names = tuple(name for name in seat.episode.families if name in IN_THREADS) or IN_THREADS[:1]

    def one(number: int) -> None:
        tags = range(62 * number // threads, 62 * (number + 1) // threads)
        more: dict[str, Any] = {"tags": tags, "channel": number, "names": names}
        seat.live(world, f"{life}.thread{number}", count, **more)

    run_at_once(world, one, threads)
    if count is not None:
        seat.live(world, f"{life}.alone", 3)


def calm(seat: Seat) -> None:
    """Lives one after the other, in which nothing may fail."""
    for life in range(seat.episode.lives):
        with seat.open() as world:
            if life == 0:
                seat.ready()
            work(seat, world, life, seat.episode.blocks)
    seat.report()


def signals(seat: Seat) -> None:
    """Handlers of Python's run all the time; SIGUSR1 comes from outside as well."""
    seen = {"alarm": 0, "user": 0}

    def count(name: str) -> Callable[[int, FrameType | None], None]:
        def handler(_number: int, _frame: FrameType | None) -> None:
            seen[name] += 1

        return handler

    signal.signal(signal.SIGUSR1, count("user"))
    signal.signal(signal.SIGALRM, count("alarm"))
    period_s = seat.episode.dice("alarm").uniform(0.0005, 0.02)
    signal.setitimer(signal.ITIMER_REAL, period_s, period_s)
    try:
        calm(seat)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # until the end


def killed(seat: Seat) -> None:
    world = seat.open()
    seat.ready()
    error = until_an_error(seat, world, None)
    failure = failure_of(seat, world)
    if not aborted(seat, error) or failure is None or failure.dead != [seat.episode.victim]:
        not_expected(seat, world, error)
    go_on(seat, world, failure.dead)


def killed_twice(seat: Seat) -> None:
    """Behind the first death the living go on without end in worlds without the dead, until the second one."""
    victims = seat.episode.victims
    if len(victims) == 1:
        return killed(seat)
    world = seat.open()
    launch = world.launch
    seat.ready()
    error = until_an_error(seat, world, None)
    failure = failure_of(seat, world)
    if not aborted(seat, error) or failure is None or not {*failure.dead} <= {*victims}:
        not_expected(seat, world, error)
    world.close()
    if victims[1] not in failure.dead:
        try:
            with seat.open(launch.without(victims[:1]), bootstrap_timeout_s=seat.episode.shape.deadline_s) as again:
                seat.live(again, "again", None)
        except ons.Error as second:
            seat.told["second"] = f"{type(second).__name__}: {second}"
    for attempt in range(3):  # ranks that heard of both deaths at once come first, and may wait in vain
        try:
            rest = seat.open(launch.without(victims), bootstrap_timeout_s=1.5 * seat.episode.shape.deadline_s)
        except ons.Error as late:
            seat.told[f"attempt {attempt}"] = str(late)
        else:
            with rest:
                seat.live(rest, "after", AFTER)
            seat.report()
            return None
    raise Wrong(f"no world without {victims} came to be: {seat.told}")


def stalled(seat: Seat) -> None:
    """All are told, by the deadline or by the rank that reaches it first, and start again."""
    world = seat.open()
    seat.ready()
    error = until_an_error(seat, world, None)
    if not (isinstance(error, ons.TimeoutError) or aborted(seat, error)):
        not_expected(seat, world, error)
    go_on(seat, world, [])


def interrupted(seat: Seat) -> None:
    came = []

    def handler(number: int, frame: FrameType | None) -> NoReturn:
        came.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, handler)
    world = seat.open()
    seat.ready()
    if seat.number == seat.episode.victim:
        try:
            with world:
                for life in range(10_000):  # an interrupt within a destructor is lost
                    if came:
                        raise KeyboardInterrupt
                    seat.live(world, f"endless{life}", 1)
        except KeyboardInterrupt:
            pass
    else:
        error = until_an_error(seat, world, [f"endless{life}" for life in range(10_000)])
        failure = failure_of(seat, world)
        text = f"{error} {failure.story if failure else ''}"
        named = any(
            words in text
            for words in (
                f"rank {seat.episode.victim} was interrupted",
                "ended by KeyboardInterrupt",
                ": KeyboardInterrupt",
            )
        )
        if not aborted(seat, error) or not (named or seat.family == "worlds" or isinstance(error, ons.ClosedError)):
            not_expected(seat, world, error)
    go_on(seat, world, [])


def left(seat: Seat) -> int:
    """A rank ends early; the others come to need it, are told so, and go on without it."""
    episode, dice = seat.episode, seat.episode.dice("leave")
    count = dice.randint(0, 15)
    world = seat.open()
    seat.ready()
    if seat.number == episode.victim:
        seat.live(world, "before", count)
        seat.report()
        if episode.way == "exception":
            raise ZeroDivisionError("as the episode says")
        if episode.way == "close":
            world.close()
            return 0
        sys.exit(3 if episode.way == "exit 3" else 0)
    error = until_an_error(seat, world, None, "before")
    failure = world.failure()
    told = isinstance(error, (ons.ClosedError, ons.AbortedError)) and not (failure and failure.dead)
    if not told or (episode.way == "exception" and "ZeroDivisionError" not in str(error)):
        not_expected(seat, world, error)
    if isinstance(error, ons.ClosedError):  # of a call that did not start; work under way ends when the world does
        try:
            world.close()
        except ons.AbortedError as late:
            seat.told["close"] = str(late)
    go_on(seat, world, [episode.victim])
    return 0


def until_an_error(seat: Seat, world: ons.World, lives: list[str] | None, name: str = "endless") -> ons.Error:
    """Blocks until the world fails. `lives` has one block each."""
    try:
        if lives is None:
            work(seat, world, name, None)
        for life in lives or []:
            seat.live(world, life, 1)
    except ons.Error as error:
        seat.told["heard_at"], seat.told["error"] = time.monotonic(), f"{type(error).__name__}: {error}"
        return error
    raise Wrong("the blocks ended, and nothing failed")


def aborted(seat: Seat, error: ons.Error) -> bool:
    """Whether it is the error of a world that fails. The start of another world beside it may tell otherwise; a rank to which that
    start told it first leaves the world before the world has failed."""
    left_behind = isinstance(error, ons.ClosedError) and "worlds" in seat.episode.families
    return isinstance(error, ons.AbortedError) or seat.family == "worlds" or left_behind


def failure_of(seat: Seat, world: ons.World) -> ons.Failure | None:
    """Each of several worlds of a process hears of an end by itself, soon."""
    until = time.monotonic() + (5 if seat.family == "worlds" else 0)
    while world.failure() is None and time.monotonic() < until:
        time.sleep(0.002)
    return world.failure()


def not_expected(seat: Seat, world: ons.World, error: ons.Error) -> NoReturn:
    failure = world.failure()
    told = "none" if failure is None else f"{failure.reason}; dead {failure.dead}, left {failure.left}"
    raise Wrong(f"another error was to come of {seat.episode.disturbance}: failure {told}") from error


def go_on(seat: Seat, world: ons.World, gone: list[int]) -> None:
    launch = world.launch.without(gone) if gone else world.launch
    world.close()
    if (
        not gone and "worlds" in seat.episode.families
    ):  # a rank may have missed the start of a world that others still make
        seat.report()
        return
    deadline_s = seat.episode.shape.deadline_s
    with seat.open(launch, timeout_s=deadline_s, bootstrap_timeout_s=2 * deadline_s) as again:
        seat.live(again, "after", AFTER)
    seat.report()


def a_rank_that_is_a_thread(episode: Episode, world: ons.World) -> None:
    seat = Seat(episode, world.rank)
    seat.ready()
    seat.live(world, 0, episode.blocks)
    seat.report()


DISTURBED: dict[str, Callable[[Seat], int | None]] = {
    "none": calm,
    "stop": calm,
    "kill": killed,
    "kill-twice": killed_twice,
    "signals": signals,
    "interrupt": interrupted,
    "leave": left,
    "threads": calm,
    "stall": stalled,
    "threads-one-tag": one_lane,
    "daemon": daemons,
    "close": closing,
}
