"""Plans of messages, puts with signals, and sums: against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from .turn import Turn

WORDS = 64  # bytes of a rank's words in the segment of a plan: a counter for each source, 8 ranks
SLOT = 4096  # bytes that each source may put
TABLE = np.arange(48, dtype="f4").reshape(6, 8)


def plans(turn: Turn) -> None:
    one = _Plan(turn)
    turn.several(one.plan.launch, one.prepare, one.verify, ways=("plain", "stream", "graph"))
    turn.world.barrier()  # the segment ends with this function


class _Plan:
    """Strided messages, puts with signals and their waits, and perhaps a sum behind them."""

    def __init__(self, turn: Turn) -> None:
        dice, size = turn.dice, turn.size

        def rank() -> int:
            return dice.randrange(size)

        self.turn = turn
        self.messages = [(rank(), rank(), turn.some_tag()) for _ in range(dice.randint(1, 12))]
        self.puts = sorted({(rank(), rank()) for _ in range(dice.randint(0, size))})
        self.sums = dice.random() < 0.5
        path = dice.choice(("auto", "auto", "auto", "store", "copy", "memop"))
        self.memory = turn.some_memory(kernels=True, peers=path != "auto")
        self.segment = turn.world.segment(WORDS + SLOT * size)
        self.builder = turn.world.plan(turn.name)
        if not self.puts and not self.sums:
            self.builder.use_path(path)
        self.leaving: dict[int, Any] = {}
        self.coming: dict[int, Any] = {}
        self.sources: dict[int, Any] = {}
        self.total = self._array(np.zeros(300))
        self._add_messages()
        self._add_puts()
        if self.sums:
            self.builder.collectives().all_reduce(self.total)
        self.plan = self.builder.build()

    def _array(self, values: np.ndarray) -> Any:
        return self.turn.array(values, self.memory)

    def _add_messages(self) -> None:
        for number, (source, dest, tag) in enumerate(self.messages):
            if source == self.turn.rank:
                self.leaving[number] = self._array(TABLE)
                self.builder.send(self.leaving[number][:, 2:5], dest, tag=tag)
            if dest == self.turn.rank:
                self.coming[number] = self._array(np.zeros((8, 6), "f4"))
                self.builder.recv(self.coming[number].T[:, 1:4], source, tag=tag)

    def _add_puts(self) -> None:
        me, segment = self.turn.rank, self.segment
        for source, dest in self.puts:
            if source == me:
                self.sources[dest] = self._array(np.zeros(SLOT, "u1"))
                self.builder.put(segment.array(SLOT, "u1", offset=WORDS + SLOT * me), self.sources[dest], dest)
                self.builder.signal(segment.array(1, "u8", offset=8 * me), dest)
            if dest == me:
                self.builder.wait(segment.array(1, "u8", offset=8 * source))

    def prepare(self, time: int) -> None:
        turn = self.turn
        for number, array in self.leaving.items():
            turn.fill(array, TABLE + 100 * number + 10_000 * time)
        for array in self.coming.values():
            turn.fill(array, np.zeros((8, 6), "f4"))
        for dest, array in self.sources.items():
            turn.fill(array, turn.bytes_of(SLOT, time, turn.rank, dest))
        turn.fill(self.total, np.full(300, float(turn.rank + time)))
        turn.world.barrier()  # a peer that is ahead stores here

    def verify(self, time: int) -> None:
        turn = self.turn
        for number, array in self.coming.items():
            expected = np.zeros((6, 8), "f4")
            expected[:, 1:4] = (TABLE + 100 * number + 10_000 * time)[:, 2:5]
            turn.check(array, expected.T, f"message {number} of {self.messages} of a plan, launch {time}")
        for source in (source for source, dest in self.puts if dest == turn.rank):
            came = self.segment.local()[WORDS + SLOT * source : WORDS + SLOT * (source + 1)]
            turn.check(came, turn.bytes_of(SLOT, time, source, turn.rank), f"what rank {source} put by a plan")
        if self.sums:
            turn.check(self.total, np.full(300, float(sum(range(turn.size)) + turn.size * time)), "the sum of a plan")
