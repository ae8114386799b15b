"""The resources that processes take of their machine, seen from inside: each function is any rank of any number."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import onstream as ons

PLACES = ("/dev/shm/", "/tmp/", "/run/", "/var/")


def use_everything(world: ons.World) -> list[object]:
    """Memory of every kind that ranks share, all of it in use."""
    after, before = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    segments = [world.segment(100_000, kind=kind) for kind in ("device", "pinned")]
    field = world.zeros((66, 66))
    halo = world.halo(field, ghost=1)
    halo.launch()
    large = world.zeros(10**6, "u1")
    own = np.zeros(10**6, "u1")
    for out, box in ((large, own), (own, large)):
        arriving = world.irecv(box, before)
        world.send(out, after)
        arriving.wait()
    world.all_reduce(field)
    world.all_gather(world.zeros(10**4), world.zeros(world.size * 10**4))
    return [segments, field, halo, large]


def shared_mappings() -> set[str]:
    """The names of the memory that this process shares with others."""
    fields = (line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines())
    return {field[5] for field in fields if len(field) > 5 and field[1].endswith("s")}


def no_shared_memory_has_a_name(world: ons.World) -> None:
    """Nothing for anybody to find, nor to be left behind by a rank that is killed."""
    held = use_everything(world)
    shared = shared_mappings()
    assert [name for name in shared if name.startswith(PLACES)] == []
    if world.device == "host":  # a GPU's driver maps shared memory in its own way
        assert any(name.startswith("/memfd:onstream") for name in shared), shared  # it is there, and has no name
    del held


def part_of_a_core(wait: Callable[[], object]) -> float:
    """The part of a core's time that all threads of this process take until wait() is over."""
    begun, before = time.monotonic(), time.process_time()
    wait()
    return (time.process_time() - before) / (time.monotonic() - begun)


def a_rank_that_waits_leaves_the_cores_to_others(world: ons.World) -> None:
    """Each way of waiting for rank 0, which is busy elsewhere for a second, takes less than a fifth of a core."""
    stream = world.stream()
    box, many = np.zeros(8, "u1"), np.zeros(100)

    def on_a_stream() -> None:
        world.recv(box, 0, stream=stream)
        stream.synchronize()

    for wait in (lambda: world.recv(box, 0), lambda: world.irecv(box, 0).wait(), on_a_stream):
        world.barrier()
        if world.rank == 0:
            time.sleep(1)
            for peer in range(1, world.size):
                world.send(box, peer)
        else:
            assert part_of_a_core(wait) < 0.2
    for together in (world.barrier, lambda: world.all_reduce(many)):
        world.barrier()
        if world.rank == 0:
            time.sleep(1)
            together()
        else:
            assert part_of_a_core(together) < 0.2
