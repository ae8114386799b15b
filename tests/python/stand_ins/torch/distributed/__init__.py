"""The process group of the stand-in: a world of onstream."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import onstream

world: Any = None
group = SimpleNamespace(WORLD=SimpleNamespace(group_name="0"))


def init_process_group(backend: str, *, init_method: str, rank: int, world_size: int, **_: Any) -> None:
    global world
    assert init_method.startswith("tcp://127.0.0.1:")
    assert int(init_method.rpartition(":")[2]) > 0
    world = onstream.init(device="host", timeout_s=20)
    assert (world.rank, world.size) == (rank, world_size)


def barrier() -> None:
    world.barrier()


def destroy_process_group() -> None:
    world.close()
