"""The devices of this machine, and arrays in each kind of their memory that a test can fill and read."""

from __future__ import annotations

from typing import Any

import numpy as np

import onstream as ons

# The same tests run on every device: a machine with GPUs has a row more of each.
DEVICES = ["host", *(["cuda"] if any(row.kind == "cuda" for row in ons.devices()) else [])]
MEMORIES = ["numpy", "pinned", "device"]
OWN_LANE = 63  # of a rank to itself, for copies to and from a GPU without cupy and torch


def array_of(world: ons.World, values: np.ndarray, memory: str) -> Any:
    """A copy of the values in a kind of memory."""
    if memory == "numpy":
        return values.copy()
    array = world.empty(values.shape, values.dtype, kind=memory)
    if isinstance(array, np.ndarray):
        array[...] = values
    else:
        _copy(world, array, values)
    return array


def values_of(world: ons.World, array: Any) -> np.ndarray:
    """What the array holds now. The work that fills it must have finished."""
    if isinstance(array, np.ndarray):
        return array
    nbytes = array.nbytes
    values = np.zeros(nbytes, "u1")
    _copy(world, values, array)
    return values


def _copy(world: ons.World, target: Any, source: Any) -> None:
    request = world.irecv(target, world.rank, lane=OWN_LANE, stream="host")
    world.send(source, world.rank, lane=OWN_LANE, stream="host")
    request.wait("host")
