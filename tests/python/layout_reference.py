"""Random nested layouts, each with the offsets of its bytes as numpy computes them: slow, plain, and apart from onstream."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import onstream as ons

Offsets = NDArray[np.int64]
MOST_BYTES = 3000


@dataclass
class Case:
    """A layout, and the truth about it: the offset of each byte of its data in order, and its bounds."""

    layout: ons.Layout
    offsets: Offsets
    lower: int
    upper: int
    text: str

    @property
    def extent(self) -> int:
        return self.upper - self.lower


def plain(nbytes: int) -> Case:
    return Case(ons.Layout.contiguous(nbytes, 1), np.arange(nbytes, dtype=np.int64), 0, nbytes, f"{nbytes} B")


def joined(layout: ons.Layout, blocks: list[tuple[int, Case]], text: str) -> Case:
    """Of cases at offsets, in this order."""
    counted = [(at, case) for at, case in blocks if case.offsets.size or case.extent]
    offsets = np.concatenate([np.empty(0, np.int64), *(at + case.offsets for at, case in blocks)])
    lower = min((at + case.lower for at, case in counted), default=0)
    upper = max((at + case.upper for at, case in counted), default=0)
    return Case(layout, offsets, lower, upper, text)


def row(count: int, of: Case) -> list[tuple[int, Case]]:
    return [(i * of.extent, of) for i in range(count)]


def blocks_of(starts: list[int], lengths: list[int], of: Case) -> list[tuple[int, Case]]:
    return [(start + at, case) for start, n in zip(starts, lengths, strict=True) for at, case in row(n, of)]


def vector(draw: random.Random, of: Case) -> Case:
    count, length, stride = draw.randint(1, 4), draw.randint(1, 3), draw.randint(-4, 5)
    blocks = blocks_of([i * stride * of.extent for i in range(count)], [length] * count, of)
    return joined(
        ons.Layout.vector(count, length, stride, of.layout), blocks, f"vector({count}, {length}, {stride}, {of.text})"
    )


def hvector(draw: random.Random, of: Case) -> Case:
    count, length, stride = draw.randint(1, 4), draw.randint(1, 3), draw.randint(-40, 60)
    blocks = blocks_of([i * stride for i in range(count)], [length] * count, of)
    return joined(
        ons.Layout.hvector(count, length, stride, of.layout), blocks, f"hvector({count}, {length}, {stride}, {of.text})"
    )


def subarray(draw: random.Random, of: Case) -> Case:
    dims = draw.randint(1, 4)
    shape = [draw.randint(1, 4) for _ in range(dims)]
    part = [draw.randint(1, extent) for extent in shape]
    start = [draw.randint(0, extent - inner) for extent, inner in zip(shape, part, strict=True)]
    order: Any = draw.choice("CF")
    numbers = np.arange(int(np.prod(shape))).reshape(shape, order=order)
    box = numbers[tuple(slice(at, at + n) for at, n in zip(start, part, strict=True))]
    blocks = [(int(number) * of.extent, of) for number in box.ravel(order=order)]
    text = f"subarray({shape}, {part}, {start}, {of.text}, {order})"
    case = joined(ons.Layout.subarray(shape, part, start, of.layout, order=order), blocks, text)
    case.lower, case.upper = of.lower, of.lower + numbers.size * of.extent
    return case


def indexed(draw: random.Random, of: Case) -> Case:
    count = draw.randint(1, 6)
    lengths = [draw.randint(0, 3) for _ in range(count)]
    starts = [draw.randint(-6, 12) for _ in range(count)]
    blocks = blocks_of([start * of.extent for start in starts], lengths, of)
    return joined(ons.Layout.indexed(lengths, starts, of.layout), blocks, f"indexed({lengths}, {starts}, {of.text})")


def indexed_block(draw: random.Random, of: Case) -> Case:
    length = draw.randint(1, 3)
    starts = sorted(draw.sample(range(-8, 20), draw.randint(1, 8)))
    blocks = blocks_of([start * of.extent for start in starts], [length] * len(starts), of)
    return joined(
        ons.Layout.indexed_block(length, np.array(starts), of.layout),
        blocks,
        f"indexed_block({length}, {starts}, {of.text})",
    )


def struct(draw: random.Random, of: Case) -> Case:
    fields = [
        (draw.randint(-50, 200), draw.choice([of, plain(draw.randint(0, 16)), nest(draw, 1)]))
        for _ in range(draw.randint(1, 3))
    ]
    text = ", ".join(f"({at}, {case.text})" for at, case in fields)
    return joined(ons.Layout.struct([(at, case.layout) for at, case in fields]), fields, f"struct({text})")


def resized(draw: random.Random, of: Case) -> Case:
    lower, extent = draw.randint(-20, 20), draw.randint(0, 60)
    return Case(
        of.layout.resized(lower, extent), of.offsets, lower, lower + extent, f"{of.text}.resized({lower}, {extent})"
    )


def moved(draw: random.Random, of: Case) -> Case:
    by = draw.randint(-30, 30)
    return Case(of.layout.moved(by), of.offsets + by, of.lower + by, of.upper + by, f"{of.text}.moved({by})")


MAKERS = (vector, hvector, subarray, indexed, indexed_block, struct, resized, moved)


def nest(draw: random.Random, depth: int) -> Case:
    case = plain(draw.choice([1, 2, 4, 8, 8, 12, 16, 24, 40]))
    for _ in range(depth):
        made = draw.choice(MAKERS)(draw, case)
        if made.offsets.size <= MOST_BYTES:
            case = made
    return case


def inside(case: Case) -> Case:
    """Moved to where its first byte is the buffer's first."""
    by = -int(case.offsets.min(initial=0))
    return Case(case.layout.moved(by), case.offsets + by, case.lower + by, case.upper + by, f"{case.text}.moved({by})")


def overlaps(case: Case) -> bool:
    return np.unique(case.offsets).size != case.offsets.size
