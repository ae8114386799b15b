"""Rings over a machine's links, for teams that go round them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from . import _core
from .errors import InvalidArgumentError


def find_rings(machine: str | Path) -> list[list[int]]:
    """The edge-disjoint rings over a machine's links: the GPUs of each in its order, the last joined to the first.

    A file that describes it (lines `gpus 8`, `switch NAME...`, `link A B [COUNT]`, or `torus X Y Z`), or a machine that
    comes with onstream: dgx1-p100, dgx1-v100, nvswitch-8, pcie-two-sockets, torus-4x4x4. Algorithm `ring` of
    world.team(ring) goes round one both ways, so of a ring and its reverse, which `onstream rings` prints as two, this
    gives one. Several share no link, so a part of the data may go round each at once. Raises InvalidArgumentError with
    the line that is wrong.
    """
    kept, without_reverse = [], Counter[tuple[int, ...]]()
    for ring in _core.find_rings(description_of(machine)):
        reverse = _from_first(ring[::-1])
        if without_reverse[reverse] > 0:
            without_reverse[reverse] -= 1
        else:
            without_reverse[_from_first(ring)] += 1
            kept.append(ring)
    return kept


def _from_first(ring: list[int]) -> tuple[int, ...]:
    first = ring.index(min(ring))
    return (*ring[first:], *ring[:first])


def description_of(machine: str | Path) -> bytes:
    shipped = Path(__file__).with_name("machines")
    try:
        file = Path(machine) if Path(machine).is_file() else shipped / f"{machine}.txt"
        if file.is_file():
            return file.read_bytes()
    except OSError as error:
        raise InvalidArgumentError(f"the file '{machine}' cannot be read: {error.strerror}") from error
    known = ", ".join(sorted(one.stem for one in shipped.glob("*.txt")))
    raise InvalidArgumentError(f"there is no file '{machine}', and no machine of that name; there are {known}")
