"""Worlds under the launchers of MPI: `mpirun` of Open MPI and `mpiexec` of MPICH start the ranks, which use no MPI."""

from __future__ import annotations

import json
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mpi_programs import Mpi, call, mpi_of

RANKS = 3
LAUNCHERS = {"openmpi": {"open mpi"}, "mpich": {"mpich"}, "mpi-here": {"open mpi", "mpich"}}

# Arguments: its folder, the folder of a job that shall run at the same time, a number.
PROGRAM = """
    import json, os, sys, time
    import numpy as np
    import onstream as ons

    folder, other, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with ons.init(device="host") as world:
        rank, size, launch = world.rank, world.size, world.launch
        open(f"{folder}/started{rank}", "w").close()
        limit = time.monotonic() + 60
        while not os.path.exists(f"{other}/started{rank}"):
            assert time.monotonic() < limit
        stream = world.stream()
        came = []
        for tag, nbytes in enumerate((8, 100_000)):  # through the tag's ring, and from buffer to buffer
            box = np.zeros(nbytes, "u1")
            request = world.irecv(box, (rank - 1) % size, tag=tag)
            world.send(np.full(nbytes, number + 10 * tag + rank, "u1"), (rank + 1) % size, tag=tag)
            request.wait()
            assert (box == box[0]).all()
            came.append(int(box[0]))
        sums = [np.array([number + rank, 10.0]), np.array([2.0**rank])]
        world.all_reduce(sums[0])
        world.all_reduce(sums[1], stream=stream)
        stream.synchronize()
    told = {"launcher": launch.launcher, "size": size, "local": [launch.local_rank, launch.local_size], "came": came}
    with open(f"{folder}/rank{rank}.json", "x") as out:
        json.dump({**told, "sums": [one.tolist() for one in sums]}, out)
"""


def run_beside(mpi: Mpi, folder: Path, other: Path, number: int) -> None:
    """Runs a job, and checks the output of each of its ranks."""
    script = folder / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    arguments = [str(script), str(folder), str(other), str(number)]
    status, output = call([*mpi.start(RANKS), sys.executable, *arguments], 120)
    assert status == 0, output
    for rank in range(RANKS):
        told = json.loads((folder / f"rank{rank}.json").read_text())
        assert told["launcher"] in LAUNCHERS[mpi.name]
        assert (told["size"], told["local"]) == (RANKS, [rank, RANKS])
        before = number + (rank - 1) % RANKS
        assert told["came"] == [before, 10 + before]
        assert told["sums"] == [[3 * number + 3, 30], [7]]


@pytest.mark.limit(500)  # the MPI may have to be installed
@pytest.mark.parametrize("name", ["openmpi", "mpich"])
def test_a_world_starts_under_an_mpis_launcher(name: str, tmp_path: Path) -> None:
    run_beside(mpi_of(name), tmp_path, tmp_path, 0)


@pytest.mark.limit(500)
@pytest.mark.parametrize("name", ["openmpi", "mpich"])
def test_jobs_of_one_launcher_at_the_same_time_do_not_meet(name: str, tmp_path: Path) -> None:
    mpi = mpi_of(name)
    folders = tmp_path / "one", tmp_path / "two"
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor() as pool:
        jobs = [pool.submit(run_beside, mpi, folders[i], folders[1 - i], 100 * i) for i in (0, 1)]
    for job in jobs:
        job.result()
