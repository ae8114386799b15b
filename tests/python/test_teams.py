"""Teams from Python: splits, and barriers of hosts and of streams, captured too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from memories import DEVICES

import onstream


def run(size: int, body: Callable[[onstream.World], Any], **parameters: Any) -> list[Any]:
    return onstream.run_threads(size, body, **{"device": "host", "timeout_s": 10, **parameters})


def test_teams_are_split_by_colour_stride_and_rows() -> None:
    def body(world: onstream.World) -> None:
        everyone = world.team()
        assert (everyone.rank, everyone.size, everyone.members) == (world.rank, 5, [0, 1, 2, 3, 4])
        halves = everyone.split(world.rank % 2, key=-world.rank)
        assert halves is not None
        assert halves.members == ([4, 2, 0] if world.rank % 2 == 0 else [3, 1])
        assert halves.members[halves.rank] == world.rank
        nobody = everyone.split(None if world.rank == 2 else 0)
        assert (nobody is None) == (world.rank == 2)
        strided = everyone.split_strided(1, 2, 2)
        assert (strided.members if strided else None) == ([1, 3] if world.rank in (1, 3) else None)
        row, column = everyone.split_2d(3)
        assert row.members == ([0, 1, 2] if world.rank < 3 else [3, 4])
        assert column.members == [rank for rank in range(5) if rank % 3 == world.rank % 3]
        everyone.barrier()

    run(5, body)


@pytest.mark.parametrize("device", DEVICES)
def test_a_barrier_of_a_team_orders_its_streams_and_replays(device: str) -> None:
    def body(world: onstream.World) -> None:
        segment = world.segment(64, "pinned")
        pair = world.team().split(world.rank // 2)
        assert pair is not None
        other = pair.members[1 - pair.rank]
        stream = world.stream()
        word = world.empty(1, "u8", kind="pinned")
        with world.capture(stream) as graph:
            segment.signal(other, offset=0, value=1)
            pair.barrier(stream=stream)
            segment.get(word, world.rank, offset=0)
            pair.barrier(stream=stream)
        for turn in range(1, 11):
            graph.launch(stream)
            world.synchronize(stream)
            assert int(np.asarray(word)[0]) == turn
        del pair
        graph.launch(stream)  # keeps its teams
        world.synchronize(stream)
        world.barrier()

    run(4, body, device=device)


def test_what_cannot_be_is_told() -> None:
    def body(world: onstream.World) -> None:
        team = world.team()
        with pytest.raises(onstream.InvalidArgumentError, match="colour=-3"):
            team.split(-3)
        with pytest.raises(onstream.InvalidArgumentError, match="split_strided: members 0, 2"):
            team.split_strided(0, 2, 2)
        with pytest.raises(onstream.InvalidArgumentError, match="rows of 0"):
            team.split_2d(0)
        world.barrier()
        world.close()
        with pytest.raises(onstream.ClosedError):
            team.barrier()

    run(2, body)
