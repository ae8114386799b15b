"""Teams from Python: splits by colour, by step and into rows and columns; numbers; meetings; collectives over them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onstream as ons


def run(size: int, body: Callable[[ons.World], Any], **parameters: Any) -> list[Any]:
    return ons.run_threads(size, body, **{"device": "host", "timeout_s": 20, **parameters})


def test_a_split_has_those_of_one_colour_by_key() -> None:
    def body(world: ons.World) -> tuple[list[int], int]:
        team = world.split(world.rank % 2, key=-world.rank)
        total = team.all_reduce(np.array([10**world.rank]))
        assert total[0] == sum(10**rank for rank in team.ranks)
        gathered = np.zeros(team.size, dtype=int)
        team.all_gather(np.array([world.rank]), gathered)
        assert gathered.tolist() == team.ranks
        return team.ranks, team.rank

    assert run(5, body) == [([4, 2, 0], 2), ([3, 1], 1), ([4, 2, 0], 1), ([3, 1], 0), ([4, 2, 0], 0)]


def test_a_rank_may_be_left_out_where_collectives_are_checked() -> None:
    def body(world: ons.World) -> None:
        team = world.split(None if world.rank == 0 else 1)
        if world.rank > 0:
            assert team.all_reduce(np.array([1]))[0] == 2

    ons.run_threads(3, body, device="host", timeout_s=20, collective_check="on")


def test_a_rank_without_colour_is_in_no_team() -> None:
    def body(world: ons.World) -> None:
        team = world.split(None if world.rank == 1 else 7)
        if world.rank == 1:
            assert (team.rank, team.size, team.ranks) == (-1, 0, [])
            with pytest.raises(ons.InvalidArgumentError, match="there is no member 0; this team has none"):
                team.world_rank(0)
            with pytest.raises(ons.InvalidArgumentError, match="not in this team"):
                team.sync()
        else:
            assert team.ranks == [0, 2]
            team.sync()
            team.barrier()

    run(3, body)


def test_steps_and_rows_and_columns() -> None:
    def body(world: ons.World) -> None:
        odd = world.split_strided(1, 2, 2)
        assert odd.ranks == ([1, 3] if world.rank in (1, 3) else [])
        backwards = world.split_strided(4, -1, 5)
        assert backwards.ranks == [4, 3, 2, 1, 0]
        row, column = world.split_2d(2)
        assert row.ranks == [[0, 1], [0, 1], [2, 3], [2, 3], [4]][world.rank]
        assert column.ranks == [[0, 2, 4], [1, 3], [0, 2, 4], [1, 3], [0, 2, 4]][world.rank]
        value = np.array([float(world.rank)])
        assert row.broadcast(value.copy(), root=0)[0] == row.ranks[0]
        assert column.all_reduce(value.copy(), op="max")[0] == column.ranks[-1]
        with pytest.raises(ons.InvalidArgumentError, match="members 3, 5, ... 2 of them, of a team of 5"):
            world.split_strided(3, 2, 2)
        with pytest.raises(ons.InvalidArgumentError, match="rows of 0 members"):
            world.split_2d(0)

    run(5, body)


def test_teams_are_split_again_and_translate_ranks() -> None:
    def body(world: ons.World) -> None:
        half = world.split(world.rank // 3)
        assert half.ranks == ([0, 1, 2] if world.rank < 3 else [3, 4, 5])
        ends = half.split(0 if half.rank != 1 else None)
        assert ends.ranks == ([] if half.rank == 1 else [half.ranks[0], half.ranks[2]])
        assert half.world_rank(1) == half.ranks[1]
        assert world.world_rank(4) == 4
        assert half.member_of(half.ranks[2]) == 2
        assert half.member_of(5 - world.rank) is None
        assert half.translate(2, world) == half.ranks[2]
        if ends.size:
            assert half.translate(2, ends) == 1
            assert half.translate(1, ends) is None
            assert ends.all_reduce(np.array([1]))[0] == 2

    run(6, body)


def test_teams_of_a_split_meet_alone() -> None:
    met = threading.Event()

    def body(world: ons.World) -> None:
        team = world.split(world.rank % 2)
        if world.rank % 2 == 1:
            assert met.wait(15)  # until the others have met without us
        team.sync()
        stream = world.stream()
        team.barrier(stream=stream)
        world.synchronize(stream)
        world.context().barrier(team)
        met.set()
        world.sync()

    run(4, body)


def test_splits_of_different_teams_are_told_apart() -> None:
    def body(world: ons.World) -> None:
        pair = world.split(world.rank // 2)
        with pytest.raises(ons.InvalidArgumentError, match=r"rank 0 splits the team of ranks \[0,1\], but rank 1"):
            (world if world.rank == 1 else pair).split(0)

    run(4, body)


def test_members_that_name_a_team_differently_are_told_on_every_rank() -> None:
    def body(world: ons.World) -> None:
        named = [[0, 1], [1, 0], [2], []][world.rank]
        with pytest.raises(ons.InvalidArgumentError, match="rank 0 names ranks 0 1, and rank 1 names 1 0; all members"):
            world.team(named)
        named = [[0, 1], [0, 1], [1, 2], []][world.rank]
        with pytest.raises(ons.InvalidArgumentError, match="rank 2 names ranks 1 2, and rank 1 names 0 1; all members"):
            world.team(named)
        named = [[0, 3], [1, 2], [1, 2], []][world.rank]
        with pytest.raises(
            ons.InvalidArgumentError, match="rank 0 names ranks 0 3, and rank 3 names none; all members"
        ):
            world.team(named)
        with pytest.raises(ons.InvalidArgumentError, match="as many channels on every rank, but rank 0 asks for 1"):
            world.team(range(4), channels=1 if world.rank == 0 else 2)
        assert world.team([[3, 0], [1], [2], [3, 0]][world.rank]).all_reduce(np.ones(1))[0] in (1, 2)

    run(4, body)


def test_splits_that_members_call_with_other_numbers_are_told_on_every_rank() -> None:
    def body(world: ons.World) -> None:
        half = world.split(world.rank // 2)
        told = "split_strided: rank 0 names 0,1,1, but rank 1 names 0,1,2; all members of a team name the same"
        with pytest.raises(ons.InvalidArgumentError, match=told):
            half.split_strided(0, 1, 1 if world.rank == 0 else 2)
        with pytest.raises(ons.InvalidArgumentError, match="split_2d: rank 2 names 1, but rank 3 names 2"):
            half.split_2d(2 if world.rank == 3 else 1)
        assert half.split_strided(0, 1, world.rank // 2 + 1).size == (2 if world.rank >= 2 else 1 - world.rank)

    run(4, body)


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ([[0], [0], [0]], "rank 1 names ranks 0, and is not among them; a rank of no team names none"),
        ([[0, 1], [0, 1], [2, 2]], "rank 2 names ranks 2 2, of which one is named twice"),
        ([[0], [1, 3], []], "rank 1 names rank 3, but rank 3 does not exist; the world has ranks 0 to 2"),
    ],
)
def test_a_rank_that_names_its_team_wrongly_is_told_on_every_rank(named: list[list[int]], told: str) -> None:
    def body(world: ons.World) -> None:
        with pytest.raises(ons.InvalidArgumentError, match=told):
            world.team(named[world.rank])
        team = world.team([2, 0] if world.rank != 1 else [])
        if world.rank != 1:
            assert team.all_reduce(np.array([world.rank + 1]))[0] == 4

    run(3, body)


def test_what_is_wrong_on_one_rank_is_told_on_all() -> None:
    def body(world: ons.World) -> None:
        half = world.split(world.rank // 2)
        with pytest.raises(ons.InvalidArgumentError, match="members 0, 5, ... 2 of them, of a team of 2"):
            half.split_strided(0, 5 if world.rank < 2 else 1, 2)
        colour: Any = "red" if world.rank == 1 else 0
        with pytest.raises(TypeError if world.rank == 1 else ons.InvalidArgumentError, match="colour is 'red'"):
            world.split(colour)
        with pytest.raises(ons.InvalidArgumentError, match="rows of 0 members"):
            half.split_2d(0 if world.rank == 3 else 1)
        with pytest.raises(ons.InvalidArgumentError, match="at least one channel, not 0"):
            world.split(0, channels=0 if world.rank == 2 else 1)
        assert world.split(0).size == 4

    run(4, body)


def test_hosts_meet_whatever_streams_wait_for() -> None:
    def body(world: ons.World) -> None:
        team = world.split(0)
        gate = world.segment(64).array(1, "u8")
        stream, other = world.stream(), world.stream()
        array, more = np.ones(4), np.ones(4)
        for one in (stream, other):
            gate[0].wait(1, stream=one)
        world.all_reduce(array, stream=stream)
        team.all_reduce(more, stream=other)
        world.sync()
        team.sync()
        world.context().barrier(team)
        assert not stream.idle
        gate.local()[...] = 1
        world.synchronize()
        assert (array.tolist(), more.tolist()) == ([2] * 4, [2] * 4)
        with pytest.raises(ons.InvalidArgumentError, match="channel 1"):
            team.all_reduce(more, channel=1)

    run(2, body, timeout_s=5)


def test_a_colour_is_an_integer() -> None:
    def body(world: ons.World) -> None:
        with pytest.raises(TypeError, match="colour is 'red' of type str"):
            world.split("red")  # type: ignore[arg-type]

    run(1, body)


def test_parts_of_a_sum_go_round_the_rings_of_a_machine_at_once() -> None:
    rings = ons.find_rings("dgx1-p100")
    assert len(rings) == 2
    links = [frozenset((ring[i - 1], ring[i])) for ring in rings for i in range(8)]
    assert all(sorted(ring) == list(range(8)) for ring in rings)
    assert len(set(links)) == 2 * 8  # no two share one in any direction
    assert [len(ons.find_rings(machine)) for machine in ("dgx1-v100", "torus-4x4x4")] == [3, 3]

    def body(world: ons.World) -> None:
        teams = [world.team(ring) for ring in rings]
        streams = [world.stream() for _ in rings]
        data = np.arange(2 * 5000, dtype="int64") * (world.rank + 1)
        for team, part, stream in zip(teams, data.reshape(2, 5000), streams, strict=True):
            assert "ring, " in team.explain.all_reduce(part, algorithm="ring")
            team.all_reduce(part, algorithm="ring", stream=stream)
        for stream in streams:
            stream.synchronize()
        assert data.tolist() == (np.arange(2 * 5000) * 36).tolist()

    run(8, body)


def test_a_machine_may_be_a_file_and_must_be_one_or_known(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("gpus 3\nlink 0 1\nlink 1 2\nlink 2 0\n")
    assert [sorted(ring) for ring in ons.find_rings(file)] == [[0, 1, 2]]
    file.write_text("gpus 3\nlink 0 1\nlink 1 2\n")
    assert ons.find_rings(file) == []
    file.write_bytes(b"# caf\xe9\ngpus 3\nlink 0 1 # \xff\nlink 1 2\nlink 2 0\n")
    assert [sorted(ring) for ring in ons.find_rings(file)] == [[0, 1, 2]]
    file.write_bytes(b"gpus 3\nlink 0 1\nlink 1 \xe9\n")
    with pytest.raises(ons.InvalidArgumentError, match="line 3 of the machine is not text in UTF-8"):
        ons.find_rings(file)
    with pytest.raises(ons.InvalidArgumentError, match="cannot be read: File name too long"):
        ons.find_rings("n" * 1000)
    with pytest.raises(ons.InvalidArgumentError, match="no machine of that name; there are dgx1-p100"):
        ons.find_rings("nothing")
