"""Cartesian: the ranks of a team as a grid, row-major, and the neighbours of each. Arithmetic alone: no rank waits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from . import _core, _values
from ._null import null
from .errors import InvalidArgumentError
from .neighbours import flags_per_dimension


class Cartesian:
    """Ranks that lie in a grid, the last dimension the fastest. Made by World.cartesian() or Team.cartesian().

    Its ranks are those of the world or team that made it.
    """

    def __init__(self, rank: int, size: int, dims: Sequence[int], periodic: bool | Sequence[bool]) -> None:
        if not _values.is_several(dims):
            raise TypeError(f"cartesian: dims is {dims!r} of type {type(dims).__name__}, but must be a sequence")
        if rank < 0:
            raise InvalidArgumentError("cartesian: this rank is not in the team")
        wanted = [_values.rank_of(dim, "dims") for dim in dims]
        self._rank = rank
        self._dims = _filled(wanted, size)
        self._periodic = tuple(flags_per_dimension(periodic, len(wanted)))
        if len(self._periodic) != len(wanted):
            raise InvalidArgumentError(
                f"cartesian: periodic={list(self._periodic)} has {len(self._periodic)} values for {len(wanted)} dimensions"
            )

    @property
    def dims(self) -> tuple[int, ...]:
        """Ranks along each dimension."""
        return self._dims

    @property
    def periodic(self) -> tuple[bool, ...]:
        """Whether each dimension closes to a ring."""
        return self._periodic

    @property
    def rank(self) -> int:
        """This rank."""
        return self._rank

    @property
    def size(self) -> int:
        """The number of ranks."""
        return math.prod(self._dims)

    @property
    def coords(self) -> tuple[int, ...]:
        """This rank's place."""
        return self.coords_of(self._rank)

    def coords_of(self, rank: int) -> tuple[int, ...]:
        """A rank's place. Raises InvalidArgumentError for one that does not exist."""
        number = _values.rank_of(rank)
        if not 0 <= number < self.size:
            raise InvalidArgumentError(
                f"cartesian: rank {number} does not exist; the grid has ranks 0 to {self.size - 1}"
            )
        return tuple(_core.coordinates_of(number, self._dims))

    def rank_of(self, coords: Sequence[int]) -> int:
        """The rank at a place, around the grid along periodic dimensions; onstream.null beyond an open edge."""
        place = [_values.rank_of(at, "coords") for at in coords]
        if len(place) != len(self._dims):
            raise InvalidArgumentError(f"cartesian: coords {place} has {len(place)} values for a grid of {self._dims}")
        rank = _core.rank_at(place, self._dims, self._periodic)
        return null if rank < 0 else rank

    def shift(self, axis: int, displacement: int = 1) -> tuple[int, int]:
        """The ranks that this one hears from and sends to when all send `displacement` places up along a dimension.

        (source, dest), as sendrecv() takes them; onstream.null for one beyond an open edge. A negative displacement goes
        down.
        """
        along, by = _values.rank_of(axis, "axis"), _values.rank_of(displacement, "displacement")
        if not 0 <= along < len(self._dims):
            raise InvalidArgumentError(
                f"cartesian: axis {along} does not exist; the grid has {len(self._dims)} dimensions"
            )
        return self._beside(along, -by), self._beside(along, by)

    @property
    def neighbours(self) -> list[tuple[int, int]]:
        """For each dimension the lower and the upper neighbour; onstream.null beyond an open edge."""
        return [self.shift(axis) for axis in range(len(self._dims))]

    def _beside(self, axis: int, by: int) -> int:
        place = list(self.coords)
        place[axis] += by
        if self._periodic[axis]:
            place[axis] %= self._dims[axis]
        return self.rank_of(place) if 0 <= place[axis] < self._dims[axis] else null

    def __repr__(self) -> str:
        return f"<Cartesian: rank {self._rank} at {self.coords} of {self._dims}, periodic {self._periodic}>"


def _filled(dims: Sequence[int], size: int) -> tuple[int, ...]:
    """As MPI_Dims_create: zeros become near each other, and none is larger than one before it."""
    given, free = math.prod(dim for dim in dims if dim != 0), list(dims).count(0)
    if any(dim < 0 for dim in dims):
        raise InvalidArgumentError(f"cartesian: dims {list(dims)} has a negative entry")
    if size % given != 0 or (free == 0 and given != size):
        raise InvalidArgumentError(
            f"cartesian: dims {list(dims)} cannot hold {size} ranks: "
            + (f"{given} does not divide them" if free else f"they have room for {given}")
        )
    found = (
        iter(min(_factors(size // given, free, size), key=lambda one: (one[0] - one[-1], one))) if free else iter(())
    )
    return tuple(next(found) if dim == 0 else dim for dim in dims)


def _factors(number: int, count: int, most: Any) -> Iterator[tuple[int, ...]]:
    """Every way to write a number as `count` factors, none larger than one before it."""
    if count == 1:
        if number <= most:
            yield (number,)
        return
    for first in range(1, min(number, most) + 1):
        if number % first == 0:
            for rest in _factors(number // first, count - 1, first):
                yield (first, *rest)
