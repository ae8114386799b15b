"""Messages between ranks: blocking ones in one order, posted ones in any, exchanges round the ranks; and on streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import onstream as ons

from .turn import Turn

PATHS = ("auto", "auto", "auto", "store", "load", "copy", "stage")
LL_MOST = 1024  # bytes of a message by path ll that every tag's ring has room for
POSTED_MOST = 60  # receives of one tag


@dataclass(frozen=True)
class Message:
    source: int
    dest: int
    tag: int
    nbytes: int
    path: str
    memories: tuple[str, str]  # of the sender and of the receiver
    spare: int  # by how much the receive is larger


def messages(turn: Turn) -> None:
    turn.dice.choice((one_after_the_other, one_after_the_other, posted, posted, round_the_ranks, cut_short))(turn)


def streams(turn: Turn) -> None:
    turn.dice.choice((exchange_on_a_stream, two_streams))(turn)


def some_messages(turn: Turn, count: int, paths: tuple[str, ...], *, kernels: bool = False) -> list[Message]:
    found = []
    for _ in range(count):
        path, nbytes = turn.dice.choice(paths), turn.some_bytes()
        peers = path in ("store", "load", "copy")  # which need memory that peers reach
        found.append(
            Message(
                turn.dice.randrange(turn.size),
                turn.dice.randrange(turn.size),
                turn.some_tag(),
                min(nbytes, LL_MOST) if path == "ll" else nbytes,
                path,
                (turn.some_memory(kernels=kernels, peers=peers), turn.some_memory(kernels=kernels, peers=peers)),
                turn.dice.choice((0, 0, 1, 100)),
            )
        )
    return found


def sent(turn: Turn, message: Message, *names: Any) -> np.ndarray:
    return turn.bytes_of(message.nbytes, message.source, message.dest, *names)


def emptied(message: Message) -> np.ndarray:
    return np.full(message.nbytes + message.spare, 0xEE, "u1")


def check_came(turn: Turn, box: Any, message: Message, *names: Any) -> None:
    expected = emptied(message)
    expected[: message.nbytes] = sent(turn, message, *names)
    turn.check(box, expected, f"{message} {names}")


def one_after_the_other(turn: Turn) -> None:
    """All ranks go through one list, so that nobody waits in a circle."""
    listed = some_messages(turn, turn.dice.randint(5, 40), (*PATHS, "ll"))
    for number, message in enumerate(listed):
        if message.source == message.dest:
            continue
        how = {"tag": message.tag, "path": message.path, "stream": turn.dice.choice((None, "host"))}
        if message.source == turn.rank:
            turn.world.send(turn.array(sent(turn, message, number), message.memories[0]), message.dest, **how)
        elif message.dest == turn.rank:
            box = turn.array(emptied(message), message.memories[1])
            came = turn.world.recv(box, message.source, **how)
            if came is not None:
                turn.check_number(came, message.nbytes, "the size of a message")
            check_came(turn, box, message, number)


def posted(turn: Turn) -> None:
    """All receives, then all sends, then all waits, receives first, in any order."""
    listed = some_messages(turn, turn.dice.randint(5, 60), PATHS)[:POSTED_MOST]
    arriving = [
        (number, message, turn.array(emptied(message), message.memories[1]))
        for number, message in enumerate(listed)
        if message.dest == turn.rank
    ]
    receives = [
        turn.world.irecv(box, message.source, tag=message.tag, path=message.path) for _, message, box in arriving
    ]
    sends, kept = [], []
    for number, message in enumerate(listed):
        if message.source == turn.rank:
            kept.append(turn.array(sent(turn, message, number), message.memories[0]))
            sends.append(turn.world.isend(kept[-1], message.dest, tag=message.tag, path=message.path))
    order, way = turn.dice.sample(range(1000), 1000), turn.dice.choice(("all", "each", "test"))
    if way == "all":
        turn.world.wait_all([*sends, *receives])
    for request in sorted(receives, key=lambda one: order[receives.index(one)]):
        if way == "test" and request.test():
            continue
        request.wait()
    for request in sends:
        request.wait()
    for request, (number, message, box) in zip(receives, arriving, strict=True):
        turn.check_number(request.received, message.nbytes, "the size of a posted message")
        check_came(turn, box, message, number)


def round_the_ranks(turn: Turn) -> None:
    for lap in range(turn.dice.randint(1, 10)):
        step, tag, nbytes = turn.dice.randrange(turn.size), turn.some_tag(), turn.some_bytes()
        memories = turn.some_memory(), turn.some_memory()
        dest, source = (turn.rank + step) % turn.size, (turn.rank - step) % turn.size
        mine = turn.array(turn.bytes_of(nbytes, lap, turn.rank), memories[0])
        came = turn.array(np.zeros(nbytes, "u1"), memories[1])
        turn.world.sendrecv(mine, dest, came, source, tag=tag, stream=turn.dice.choice((None, "host")))
        turn.check(came, turn.bytes_of(nbytes, lap, source), f"sendrecv of {nbytes} B from {step} before")


def cut_short(turn: Turn) -> None:
    """A message too large for its receive: both calls tell, and the tag goes on. No other thread of the rank hears of it."""
    if turn.size == 1:
        return
    source, tag, nbytes = turn.dice.randrange(turn.size), turn.some_tag(), turn.dice.choice((20_000, 500_000))
    dest, small = (source + 1) % turn.size, turn.dice.choice((0, 100, 10_000))
    if turn.rank == source:
        truncated(turn, lambda: turn.world.send(turn.bytes_of(nbytes, 0), dest, tag=tag))
        turn.world.send(turn.bytes_of(300, 1), dest, tag=tag)
    elif turn.rank == dest:
        box = np.zeros(300, "u1")
        truncated(turn, lambda: turn.world.recv(np.zeros(small, "u1"), source, tag=tag))
        turn.world.recv(box, source, tag=tag)
        turn.check(box, turn.bytes_of(300, 1), "the message behind one that was cut short")


def truncated(turn: Turn, call: Any) -> None:
    try:
        call()
    except ons.TruncatedError:
        told = True
    else:
        told = False
    turn.check_number(told, True, "whether a message that is too large raises TruncatedError")


# --- on streams ---


class Exchange:
    """Some messages on one stream, the receives posted first."""

    def __init__(self, turn: Turn, tags: Any) -> None:
        self.turn = turn
        # By a forced path a message of any size waits for its receiver, whose stream may stand at its own send.
        self.listed = [
            Message(one.source, one.dest, turn.dice.choice(tags), one.nbytes, "auto", one.memories, one.spare)
            for one in some_messages(turn, turn.dice.randint(2, 20), ("auto",), kernels=True)
        ]
        kinds, tag = (turn.some_memory(kernels=True), turn.some_memory(kernels=True)), turn.dice.choice(tags)
        for rank in range(turn.size):  # so that every rank has something, as a capture of nothing raises
            self.listed.append(Message(rank, (rank + 1) % turn.size, tag, turn.some_bytes(), "auto", kinds, 0))
        self.mine = {
            number: turn.array(sent(turn, one, number, -1), one.memories[0])
            for number, one in enumerate(self.listed)
            if one.source == turn.rank
        }
        self.boxes = {
            number: turn.array(emptied(one), one.memories[1])
            for number, one in enumerate(self.listed)
            if one.dest == turn.rank
        }

    def enqueue(self, stream: Any) -> None:
        world = self.turn.world
        arriving = [
            world.irecv(box, self.listed[number].source, tag=self.listed[number].tag, stream=stream)
            for number, box in self.boxes.items()
        ]
        for number, array in self.mine.items():
            world.send(array, self.listed[number].dest, tag=self.listed[number].tag, stream=stream)
        for request in arriving:
            request.wait()

    def prepare(self, time: int) -> None:
        for number, array in self.mine.items():
            self.turn.fill(array, sent(self.turn, self.listed[number], number, time))
        for number, box in self.boxes.items():
            self.turn.fill(box, emptied(self.listed[number]))

    def verify(self, time: int) -> None:
        for number, box in self.boxes.items():
            check_came(self.turn, box, self.listed[number], number, time)


def exchange_on_a_stream(turn: Turn) -> None:
    exchange = Exchange(turn, turn.tags)
    turn.several(exchange.enqueue, exchange.prepare, exchange.verify, ways=("stream", "graph", "graph"))


def two_streams(turn: Turn) -> None:
    """Two exchanges at once, on tags and streams of their own, with an all_reduce behind one."""
    middle = len(turn.tags) // 2
    exchanges = [Exchange(turn, turn.tags[:middle]), Exchange(turn, turn.tags[middle:])]
    streams = [turn.world.stream() for _ in exchanges]
    total = turn.array(np.zeros(100), turn.some_memory(kernels=True))
    for time in range(turn.dice.randint(1, 3)):
        turn.fill(total, np.full(100, float(turn.rank + time)))
        for exchange, stream in zip(exchanges, streams, strict=True):
            exchange.prepare(time)
            exchange.enqueue(stream)
        turn.world.all_reduce(total, channel=turn.channel, stream=streams[0])
        for exchange, stream in zip(exchanges, streams, strict=True):
            stream.synchronize()
            exchange.verify(time)
        expected = np.full(100, sum(range(turn.size)) + float(time * turn.size))
        turn.check(total, expected, "an all_reduce behind messages")
