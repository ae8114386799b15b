"""Threads of a rank that share one thread's usual things: a tag, the end of the program, a world that is closed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

import numpy as np

import onstream as ons

from .rank import Seat
from .turn import Turn, Wrong

CLOSING_S = 3.0  # deadline of worlds that are closed under calls


def run_at_once(world: ons.World, work: Callable[[int], None], count: int) -> None:
    """work(0) to work(count - 1), a thread each. The first exception ends the world, and is raised."""
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)
            if not world.closed:
                world.abort(f"thread {number} ended by {type(error).__name__}")

    threads = [threading.Thread(target=guarded, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def one_lane(seat: Seat) -> None:
    """Threads send to the next rank and receive from the one before, all on one tag: each message comes once, and whole."""
    dice = seat.episode.dice("tag")
    with seat.open() as world:
        seat.ready()
        for part in range(dice.randint(1, 3)):
            senders, receivers, each = dice.randint(1, 3), dice.randint(1, 3), dice.choice((6, 60, 120))
            most, tag, posted = dice.choice((64, 4000, 40_000, 300_000)), dice.randrange(62), dice.random() < 0.5
            turn = Turn(world, dice, f"{seat.episode.seed}.tag.{part}", "messages", seat.score)
            share = senders * each // receivers
            seat.trace.write(
                f"{time.monotonic():.3f} one tag: {senders} send {each}, {receivers} receive {share}, of up to {most} B\n"
            )
            _share_a_lane(turn, tag, (senders, each), receivers, most, posted)
            world.barrier()
    seat.report()


def _share_a_lane(turn: Turn, tag: int, sending: tuple[int, int], receivers: int, most: int, posted: bool) -> None:
    senders, each = sending
    world, before, after = turn.world, (turn.rank - 1) % turn.size, (turn.rank + 1) % turn.size
    count, came = senders * each, []
    shares = [count // receivers + (number < count % receivers) for number in range(receivers)]

    def message(number: int, source: int) -> np.ndarray:
        nbytes = 16 + turn.bytes_of(4, "size", number).view("u4")[0] % most
        whole = np.array(turn.bytes_of(int(nbytes), number, source))
        whole[:8] = np.frombuffer(int(number).to_bytes(8, "little"), "u1")
        return whole

    def work(thread: int) -> None:
        if thread < senders:
            for number in range(thread * each, (thread + 1) * each):
                world.send(message(number, turn.rank), after, tag=tag)
            return
        for _ in range(shares[thread - senders]):
            box = np.zeros(16 + most, "u1")
            if posted:
                request = world.irecv(box, before, tag=tag)
                request.wait()
                came.append((box, request.received))
            else:
                came.append((box, world.recv(box, before, tag=tag)))

    run_at_once(world, work, senders + receivers)
    numbers = Counter(int.from_bytes(box[:8].tobytes(), "little") for box, _ in came)
    lost, twice = set(range(count)) - set(numbers), [number for number, times in numbers.items() if times > 1]
    turn.check_number((sorted(lost), twice), ([], []), "the messages that did not come, and those that came twice")
    for box, nbytes in came:
        expected = message(int.from_bytes(box[:8].tobytes(), "little"), before)
        turn.check(box[:nbytes], expected, "a message of a tag that threads share")


def daemons(seat: Seat) -> None:
    """Daemon threads wait for messages that never come, while the program works, closes the world or not, and ends."""
    dice = seat.episode.dice("daemon")
    world = seat.open()
    seat.ready()
    next_one, waits, began = (world.rank + 1) % world.size, dice.sample(range(4), dice.randint(1, 3)), threading.Event()
    closes = dice.random() < 0.5

    def wait(kind: int) -> None:
        began.set()
        tag, stream = 58 + kind, world.stream()
        if kind == 0:
            world.recv(np.zeros(1), next_one, tag=tag)
        elif kind == 1:
            world.send(np.zeros(300_000), next_one, tag=tag)
        elif kind == 2:
            world.irecv(np.zeros(1), next_one, tag=tag).wait()
        else:
            world.recv(np.zeros(1), next_one, tag=tag, stream=stream)
            stream.synchronize()

    def quietly(kind: int) -> None:
        try:
            wait(kind)
        except ons.Error:
            seat.told["daemon"] = "told"

    for kind in waits:
        threading.Thread(target=quietly, args=(kind,), daemon=True).start()
    began.wait(5)
    seat.live(world, "daemon", seat.episode.blocks // 4 + 1, tags=range(50), names=("messages", "collectives"))
    try:
        world.sync()  # a rank that leaves while others work ends the world: their threads wait for it
    except ons.AbortedError as error:
        if "left the world" not in str(error):
            raise
    seat.report()
    if closes:
        world.close()


def closing(seat: Seat) -> None:
    """A thread closes the world while others are in calls: those get an Error, soon."""
    dice = seat.episode.dice("close")
    for life in range(dice.randint(2, 5)):
        world = seat.open(timeout_s=CLOSING_S)
        if life == 0:
            seat.ready()
        turn = Turn(world, dice, f"{seat.episode.seed}.close.{life}", "messages", seat.score)
        kinds, nbytes, memory = dice.sample(range(5), dice.randint(1, 4)), turn.some_bytes(), turn.some_memory()
        delay_s = dice.uniform(0, 0.05)
        errors: list[BaseException] = []
        threads = [
            threading.Thread(target=_call_until_an_error, args=(world, kind, nbytes, memory, errors), daemon=True)
            for kind in kinds
        ]
        seat.trace.write(f"{time.monotonic():.3f} close {life}: calls {kinds} of {nbytes} B of {memory}\n")
        world.sync()
        for thread in threads:
            thread.start()
        time.sleep(delay_s)
        try:
            world.close()
        except ons.Error as error:
            seat.told["close"] = str(error)
        for thread in threads:
            thread.join(CLOSING_S + 5)
        if any(thread.is_alive() for thread in threads):
            raise Wrong(f"calls {kinds} did not end when their world was closed")
        turn.check_number(
            [error for error in errors if not isinstance(error, ons.Error)], [], "errors of a closed world"
        )
    seat.report()


def _call_until_an_error(world: ons.World, kind: int, nbytes: int, memory: str, errors: list[BaseException]) -> None:
    rank, size = world.rank, world.size
    after, before = (rank + 1) % size, (rank - 1) % size
    try:
        mine, box = (
            np.zeros(nbytes, "u1") if memory == "numpy" else world.zeros(nbytes, "u1", kind=memory) for _ in range(2)
        )
        stream, total = world.stream(), np.ones(10)
        while True:
            if kind == 0:
                world.sendrecv(mine, after, box, before, tag=2)
            elif kind == 1:
                world.recv(np.zeros(1), after, tag=3)
            elif kind == 2:
                world.all_reduce(total, op="max", channel=1)
            elif kind == 3:
                world.sendrecv(mine, after, box, before, tag=4, stream=stream)
                stream.synchronize()
            else:
                world.irecv(np.zeros(1), after, tag=5).wait()
    except BaseException as error:
        errors.append(error)
