"""The table of paths from Python: printed, explained, changed by a file, and the same on all ranks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from jobs import lines_of, run_job

import onstream as ons

KIB, MIB = 1 << 10, 1 << 20


def test_a_send_is_explained_by_one_rank_alone() -> None:
    def body(world: ons.World) -> None:
        if world.rank == 1:
            explain = world.explain
            assert explain.send(np.zeros(8, "u1"), 0).startswith(
                "to rank 0, message of 8 B: ll, 8 B <= host_ll_max_bytes"
            )
            large = explain.send(world.empty(MIB, "u1"), 0)
            assert large.startswith("to rank 0, message of 1 MiB: store, 1 MiB > host_ll_max_bytes")
            assert "\n  store: " in large
            assert "us predicted" in large
            assert "\n  stage: not measured" in large
            asked = explain.send(world.empty(8, "u1"), 0, path="stage")
            assert asked.startswith("to rank 0, message of 8 B: stage, set by the call")
            with pytest.raises(ons.InvalidArgumentError, match="rank 7 does not exist"):
                explain.send(np.zeros(1), 7)
            with pytest.raises(ons.InvalidArgumentError, match="tag 64 does not exist"):
                explain.send(np.zeros(1), 0, tag=64)
            with pytest.raises(ons.InvalidArgumentError, match="no path; the paths are"):
                explain.send(np.zeros(1), 0, path="fast")
        world.barrier()

    ons.run_threads(2, body, device="host", timeout_s=20)


def test_a_file_moves_a_bound_and_the_world_says_so(tmp_path: Path) -> None:
    file = tmp_path / "rules"
    file.write_text("onstream paths 1\nmessage host ll to_bytes=64\nposted host ll to_bytes=64\n")

    def body(world: ons.World) -> None:
        assert "message host ll to_bytes=64 " in world.paths()
        if world.rank == 0:
            told = world.explain.send(world.empty(65, "u1"), 1)
            assert "store, 65 B > path_file 64 B" in told
        data = np.arange(4 * KIB, dtype="u1")  # by the moved bound: buffer to buffer
        if world.rank == 0:
            world.send(data, 1)
        else:
            got = np.zeros_like(data)
            assert world.recv(got, 0) == data.nbytes
            assert np.array_equal(got, data)

    ons.run_threads(2, body, device="host", timeout_s=20, path_file=str(file))


def test_the_printed_table_is_a_file_and_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "rules"
    file.write_text(ons.paths())

    def body(world: ons.World) -> None:
        vector = np.zeros(1000)
        explained = [world.explain.all_reduce(vector[:count], algorithm=algorithm)
                     for count in (1, 10, 100, 1000) for algorithm in ("auto", "ring", "tree")]  # fmt: skip
        explained.append(world.explain.send(vector, 1 - world.rank))
        told.append((world.rank, explained))
        world.barrier()  # a rank that leaves maps nothing any more

    told: list[tuple[int, list[str]]] = []
    ons.run_threads(2, body, device="host", path_file=str(file))
    with_file = sorted(told)
    told.clear()
    ons.run_threads(2, body, device="host")
    assert sorted(told) == [
        (rank, [one.replace("path_file", "host_ll_max_bytes") for one in lines]) for rank, lines in with_file
    ]


def test_the_command_prints_the_table_of_the_environment() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "onstream", "info", "--paths"],
        env={"ONSTREAM_HOST_LL_MAX_BYTES": "100", "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[0] == "onstream paths 1"
    assert any(line.startswith("message host ll to_bytes=100 ") for line in lines)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ons.InvalidArgumentError, match=r"path_file .*/nothing: No such file or directory"):
        ons.run_threads(1, lambda world: world.barrier(), device="host", path_file=str(tmp_path / "nothing"))


def test_ranks_with_different_rules_are_told(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / str(rank)).mkdir()
        (tmp_path / str(rank) / "rules").write_text(f"onstream paths 1\nplan host ll to_bytes={rank + 1}\n")
    program = """
        import os
        import onstream as ons
        os.chdir(os.environ["ONSTREAM_RANK"])  # the file has one name on both ranks
        try:
            ons.init(device="host", path_file="rules")
            print("started")
        except ons.InvalidArgumentError as error:
            print("refused:", "rules of path_file=" in str(error) and "rank 1 has" in str(error))
    """
    ended = run_job(tmp_path, 2, program)
    assert lines_of(ended) == ["refused: True"] * 2, ended
