"""The devices of this machine, and arrays in each kind of their memory that a test can fill and read."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

import onstream as ons

# The same tests run on every device: a machine with GPUs has a row more of each.
DEVICES = ["host", *(["cuda"] if any(row.kind == "cuda" for row in ons.devices()) else [])]
MEMORIES = ["numpy", "pinned", "device"]
# Libraries whose arrays lie in GPU memory that the user allocates: kinds of memory as well, in worlds on cuda.
LIBRARIES = [name for name in ("torch", "cupy") if "cuda" in DEVICES and importlib.util.find_spec(name) is not None]
OWN_LANE = 63  # of a rank to itself, for copies to and from a GPU without cupy and torch


def array_of(world: ons.World, values: np.ndarray, memory: str) -> Any:
    """A copy of the values in a kind of memory."""
    if memory == "numpy":
        return values.copy()
    if memory in LIBRARIES:
        array = _of_library(memory, values, world.device)
    else:
        array = world.empty(values.shape, values.dtype, kind=memory)
    fill(world, array, values)
    return array


def fill(world: ons.World, array: Any, values: np.ndarray) -> None:
    """Other values for an array that nobody uses now."""
    if isinstance(array, np.ndarray):
        array[...] = values
    else:
        _copy(world, array, values)


def for_kernels(world: ons.World, values: np.ndarray) -> np.ndarray:
    """A numpy array that the kernels of the world's device reach."""
    copy: np.ndarray = array_of(world, values, "numpy" if world.device == "host" else "pinned")
    return copy


def values_of(world: ons.World, array: Any) -> np.ndarray:
    """The array's values now. The work that fills it must have finished."""
    if isinstance(array, np.ndarray):
        return array
    nbytes = array.nbytes
    values = np.zeros(nbytes, "u1")
    _copy(world, values, array)
    return values


def _copy(world: ons.World, target: Any, source: Any) -> None:
    request = world.irecv(target, world.rank, tag=OWN_LANE, stream="host")
    world.send(source, world.rank, tag=OWN_LANE, stream="host")
    request.wait("host")


def _of_library(library: str, values: np.ndarray, device: str) -> Any:
    """An array as the library itself allocates it, of the same shape and type."""
    if library == "torch":
        import torch

        return torch.empty(values.shape, dtype=getattr(torch, values.dtype.name), device=device)
    import cupy

    with cupy.cuda.Device(gpu_of(device)):
        return cupy.empty(values.shape, values.dtype)


def gpu_of(device: str) -> int:
    """The number of a GPU: "cuda:1" is 1."""
    return int(device.partition(":")[2])
