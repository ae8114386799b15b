"""Segments, symmetric arrays, contexts: puts with signals, gets, atomics."""

from __future__ import annotations

from typing import Any

import numpy as np

from .turn import Turn


def one_sided(turn: Turn) -> None:
    turn.dice.choice((puts_with_signals, puts_with_signals, gets, sums_of_words, by_a_context, pieces_of_a_heap))(turn)


def some_pairs(turn: Turn) -> list[tuple[int, int]]:
    """The ranks that put, and their targets."""
    size = turn.size
    return sorted(
        {(turn.dice.randrange(size), turn.dice.randrange(size)) for _ in range(turn.dice.randint(1, 2 * size))}
    )


def puts_with_signals(turn: Turn) -> None:
    """Each source has a slot and a word of each rank's part."""
    dice, size, me, nbytes = turn.dice, turn.size, turn.rank, turn.some_bytes(300_000)
    slot = (nbytes + 63) // 64 * 64 + 64
    segment = turn.world.segment(slot * size + 8 * size, kind=dice.choice(("device", "pinned", "device")))
    words, local = slot * size, segment.local()
    way, memory = dice.choice(("host", "plain", "stream")), turn.some_memory()
    stream = turn.world.stream() if way == "stream" else "host" if way == "host" else None
    for time in range(1, dice.randint(2, 5)):
        pairs, setting = some_pairs(turn), dice.random() < 0.3
        kept = []
        for source, dest in pairs:
            if source == me:
                kept.append(turn.array(turn.bytes_of(nbytes, time, me, dest), memory))
                value, op = (100 * time, "set") if setting else (1 << 20, "add")
                segment.put(kept[-1], dest, offset=slot * me, signal=words + 8 * me, value=value, op=op, stream=stream)
        came = [source for source, dest in pairs if dest == me]
        for source in came:
            segment.wait(offset=words + 8 * source, value=100 * time if setting else 1 << 20, stream=stream)
        if way == "stream":
            stream.synchronize()
        for source in came:
            expected = turn.bytes_of(nbytes, time, source, me)
            turn.check(
                local[slot * source : slot * source + nbytes], expected, f"put of {nbytes} B from {source} by {way}"
            )
        for source in came:
            segment.atomic("swap", me, offset=words + 8 * source, value=0)
        turn.world.barrier()
    if dice.random() < 0.5:
        segment.free()


def gets(turn: Turn) -> None:
    dice, size, me = turn.dice, turn.size, turn.rank
    count = max(1, turn.some_bytes(400_000) // 4)
    whole = turn.world.segment(4 * count + 64).array(count, "i4", offset=64)
    memory, way = turn.some_memory(), dice.choice(("host", "plain", "stream"))
    for time in range(dice.randint(1, 3)):
        turn.fill(whole.local(), turn.numbers_of(count, "i4", time, me))
        turn.world.barrier()
        stream = turn.world.stream() if way == "stream" else "host" if way == "host" else None
        step, source = dice.choice((1, 1, 2, 3)), (me + dice.randrange(size)) % size
        expected = turn.numbers_of(count, "i4", time, source)[::step]
        box = turn.array(np.zeros(len(expected), "i4"), memory)
        whole[::step].get(box, source, stream=stream)
        if way == "stream":
            stream.synchronize()
        turn.check(box, expected, f"get of {len(expected)} i4, every {step}th, from {source} by {way}")
        turn.world.barrier()


def sums_of_words(turn: Turn) -> None:
    dice, size, me = turn.dice, turn.size, turn.rank
    dtype, target, turns = dice.choice(("u4", "u8", "i4", "i8")), dice.randrange(size), dice.randint(1, 60)
    words = turn.world.segment(64).array(4, dtype)
    context = turn.world.context()
    seen = []
    for _ in range(turns):
        seen.append(int(words[0].atomic("add", target, value=1, stream="host")))
        context.fetch_add(words[1], me + 1, target)
    context.fetch_or(words[2], 1 << me, target)
    turn.check_number(seen, sorted(set(seen)), "what fetch_add returns, which only grows")
    context.barrier()
    got = [int(context.fetch(words[number], target)) for number in range(3)]
    turn.check_number(got, [turns * size, turns * sum(range(1, size + 1)), (1 << size) - 1], "the sums of words")
    context.barrier()


def by_a_context(turn: Turn) -> None:
    """Strided puts of the host, now or later, each rank's own to each rank."""
    dice, size, me = turn.dice, turn.size, turn.rank
    count = max(1, turn.some_bytes(60_000) // 4)
    later, apart = dice.random() < 0.5, dice.choice((1, 2))
    segment = turn.world.segment(4 * count * apart * size + 8 * size)
    table = segment.array((size, count * apart), "i4", offset=8 * size)
    flags, context = segment.array(size, "i8"), turn.world.context()
    put: Any = context.put_later if later else context.put
    targets = dice.sample(range(size), size)
    for time in range(1, dice.randint(2, 4)):
        for dest in targets:
            values = turn.numbers_of(count, "i4", time, me, dest)
            put(table[me, ::apart], values, dest, signal=flags[me], value=time, op="set")
        context.quiet()
        context.wait_all(flags, time)
        for source in range(size):
            expected = turn.numbers_of(count, "i4", time, source, me)
            turn.check(table.local()[source, ::apart], expected, f"put of {count} i4 from {source}, every {apart}th")
        context.barrier()


def pieces_of_a_heap(turn: Turn) -> None:
    """The same calls on all ranks; data put into pieces stays there while other pieces come and go."""
    dice, size, me = turn.dice, turn.size, turn.rank
    right, left = (me + 1) % size, (me - 1) % size
    with turn.world.heap(1 << 18, grow_nbytes=1 << 18) as heap:
        pieces: list[tuple[Any, np.ndarray]] = []
        for step in range(dice.randint(2, 12)):
            if pieces and dice.random() < 0.3:
                heap.free(pieces.pop(dice.randrange(len(pieces)))[0])
                continue
            if pieces and dice.random() < 0.2:
                array, held = pieces.pop(dice.randrange(len(pieces)))
                length = dice.randint(1, 20_000)
                array, held = heap.resize(array, length), held[:length]
                turn.check(array.local()[: len(held)], held, "a piece that was resized")
                heap.free(array)
                continue
            count = dice.randint(1, 20_000)
            array = heap.empty(count, "i4", alignment=dice.choice((64, 64, 4096)))
            array.put(turn.numbers_of(count, "i4", step, me), right)
            turn.world.barrier()
            pieces.append((array, turn.numbers_of(count, "i4", step, left)))
            for piece, held in pieces:
                turn.check(piece.local(), held, f"a piece of {held.size} i4 of a heap with {len(pieces)}")
        turn.world.barrier()
