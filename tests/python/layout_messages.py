"""Messages by random layouts, between two ranks that know both sides' truth: for tests/python/test_layout_messages.py."""

from __future__ import annotations

import functools
import random
from typing import Any

import layout_reference as reference
import numpy as np

import onstream as ons
from onstream import Layout

FORMS = ("blocking", "requests", "stream", "stream requests", "sendrecv", "stream sendrecv", "any source", "captured")
SIZES = (0, 1, 40, 64, 65, 200, 1000, 4000, 4096, 4097, 20_000, 70_000, 300_000, 700_000)
LAUNCHES = 2


def spread_over(draw: random.Random, nbytes: int) -> reference.Case:
    """A destination of so many bytes: blocks of random sizes with gaps, in random order."""
    cuts = sorted(draw.sample(range(1, nbytes), min(nbytes - 1, draw.randint(0, 40)))) if nbytes > 1 else []
    lengths = [end - begin for begin, end in zip([0, *cuts], [*cuts, nbytes], strict=True)]
    starts, at = [0] * len(lengths), 0
    for i in draw.sample(range(len(lengths)), len(lengths)):
        starts[i] = at
        at += lengths[i] + draw.choice([0, 0, 1, 8, 13])
    pieces = [np.arange(start, start + n, dtype=np.int64) for start, n in zip(starts, lengths, strict=True)]
    offsets = np.concatenate([np.empty(0, np.int64), *pieces])
    return reference.Case(Layout.indexed(lengths, starts, 1), offsets, 0, at, f"spread over {at} B")


def columns(draw: random.Random, nbytes: int) -> reference.Case:
    """Blocks of one size, a stride apart, and the bytes that are left."""
    block = draw.choice([1, 2, 4, 8, 12, 24, 100, 1024])
    count, rest = divmod(nbytes, block)
    stride = block + draw.choice([1, 8, 40])
    starts = np.arange(count + 1, dtype=np.int64) * stride
    layout = Layout.struct([(0, Layout.hvector(count, 1, stride, block)), (count * stride, rest)])
    ends = [np.arange(rest, dtype=np.int64) + starts[-1]]
    offsets = np.concatenate([(starts[:-1, None] + np.arange(block)).ravel(), *ends])
    return reference.Case(layout, offsets, 0, int(starts[-1]) + rest, f"{count} columns of {block} B")


def repeated(draw: random.Random, nbytes: int) -> reference.Case:
    """A random nest, as often as it takes, and what is missing."""
    one = reference.inside(reference.nest(draw, draw.randint(1, 3)))
    span = int(one.offsets.max(initial=-1)) + 1
    count, rest = divmod(nbytes, max(one.offsets.size, 1))
    if one.offsets.size == 0 or count * span > 4_000_000:
        return columns(draw, nbytes)
    pitch = span + draw.choice([0, 3])
    layout = Layout.struct([(0, Layout.hvector(count, 1, pitch, one.layout)), (count * pitch, rest)])
    starts = np.arange(count, dtype=np.int64)[:, None] * pitch
    offsets = np.concatenate([(starts + one.offsets).ravel(), np.arange(rest, dtype=np.int64) + count * pitch])
    return reference.Case(layout, offsets, 0, count * pitch + rest, f"{count} x {one.text}")


def whole(draw: random.Random, nbytes: int) -> reference.Case:
    case = reference.plain(nbytes)
    by = draw.choice([0, 5])
    return reference.Case(case.layout.moved(by), case.offsets + by, by, by + nbytes, "whole")


@functools.lru_cache
def messages(seed: int, count: int) -> list[tuple[reference.Case, reference.Case]]:
    """Pairs of a source and a destination, alike on both ranks."""
    draw = random.Random(seed)
    made = []
    while len(made) < count:
        nbytes = draw.choice(SIZES)
        source = draw.choice([columns, repeated, spread_over, whole])(draw, nbytes)
        destination = draw.choice([columns, repeated, spread_over, whole])(draw, nbytes)
        if not reference.overlaps(destination):
            made.append((source, destination))
    return made


def room_of(case: reference.Case) -> int:
    return int(case.offsets.max(initial=-1)) + 4


def memory_of(case: reference.Case, seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 256, room_of(case), np.uint8)


def check(case: reference.Case, got: Any, before: Any, source: reference.Case, seed: int, form: str) -> None:
    """Every byte of the destination's buffer: the message's in their places, and the others as they were."""
    expected = before.copy()
    expected[case.offsets] = memory_of(source, seed)[source.offsets]
    assert np.array_equal(got, expected), (form, source.text, case.text)


def exchange_all(world: ons.World, form: str, seed: int, count: int) -> None:
    """Rank 0 sends each message to rank 1; of a sendrecv each sends."""
    stream = world.stream() if "stream" in form or form == "captured" else "host"
    for number, (source, destination) in enumerate(messages(seed, count)):
        data, room = memory_of(source, number), memory_of(destination, number + 1)
        before = room.copy()
        one_message(world, form, stream, data, source.layout, room, destination.layout)
        if stream != "host":
            world.synchronize(stream)
        if world.rank == 1 or "sendrecv" in form:
            check(destination, room, before, source, number, form)
    world.barrier()


def one_message(
    world: ons.World, form: str, stream: Any, data: Any, out: ons.Layout, room: Any, by: ons.Layout
) -> None:
    if form == "captured":
        with world.capture(stream) as graph:
            one_message(world, "stream", stream, data, out, room, by)
            one_message(world, "stream requests", stream, data, out, room, by)
        for _ in range(LAUNCHES):
            graph.launch(stream)
        return
    if "sendrecv" in form:
        peer = 1 - world.rank
        got = world.sendrecv(data, peer, room, peer, stream=stream, send_layout=out, recv_layout=by)
        assert got in (by.nbytes, None)
    elif "requests" in form:
        request = (
            world.irecv(room, 0, stream=stream, layout=by)
            if world.rank
            else world.isend(data, 1, stream=stream, layout=out)
        )
        request.wait()
    elif world.rank == 0:
        world.send(data, 1, stream=stream, layout=out)
    elif form == "any source":
        got = world.recv(room, ons.any_source, layout=by)
        assert got.peer == 0
        assert got.nbytes == by.nbytes
    else:
        assert world.recv(room, 0, stream=stream, layout=by) in (by.nbytes, None)


def every_form(world: ons.World, seed: int, count: int) -> None:
    for form in FORMS:
        exchange_all(world, form, seed, count)
