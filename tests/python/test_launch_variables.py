"""Worlds whose ranks learn rank and job from variables alone: those of torchrun, those of srun, and set by hand."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys

import pytest

RANKS = 3
LIMIT_S = 60

PROGRAM = """
import numpy as np
import onstream as ons

with ons.init(device="host") as world:
    box = np.zeros(2)
    world.sendrecv(np.array([world.rank, 7.0]), (world.rank + 1) % world.size, box, (world.rank - 1) % world.size)
    total = np.array([2.0**world.rank])
    world.all_reduce(total)
    world.barrier()
    launch = world.launch
print(launch.launcher, launch.local_rank, launch.local_size, box.tolist(), total[0])
"""


def free_port() -> int:
    """None that the system gives to other connections meanwhile: those begin at 32768."""
    while True:
        with socket.socket() as one:
            port = 20000 + secrets.randbelow(10000)
            if one.connect_ex(("127.0.0.1", port)) != 0:
                return port


def of_torchrun(port: int) -> list[dict[str, object]]:
    job = {"LOCAL_WORLD_SIZE": RANKS, "TORCHELASTIC_RUN_ID": secrets.token_hex(8), "TORCHELASTIC_RESTART_COUNT": 0}
    return [{**rank, **job, "LOCAL_RANK": rank["RANK"]} for rank in as_torch_has_them(port)]


def as_torch_has_them(port: int) -> list[dict[str, object]]:
    """Set by hand: nobody says that the ranks are on one host, so they meet by TCP."""
    job = {"WORLD_SIZE": RANKS, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [{"RANK": rank, **job} for rank in range(RANKS)]


def of_srun(port: int) -> list[dict[str, object]]:
    job = {"SLURM_JOB_ID": secrets.randbelow(10**9), "SLURM_STEP_ID": 0, "SLURM_NTASKS": RANKS, "SLURM_NODEID": 0}
    tasks = {"SLURM_STEP_NUM_TASKS": RANKS, "SLURM_STEP_TASKS_PER_NODE": f"{RANKS}", "SLURM_STEP_NODELIST": "here"}
    return [{"SLURM_PROCID": rank, "SLURM_LOCALID": rank, **job, **tasks} for rank in range(RANKS)]


def of_onstream(port: int) -> list[dict[str, object]]:
    job = {"ONSTREAM_SIZE": RANKS, "ONSTREAM_PORT": port, "ONSTREAM_SECRET": secrets.token_hex(16)}
    return [{"ONSTREAM_RANK": rank, **job} for rank in range(RANKS)]


@pytest.mark.parametrize(
    ("variables", "launcher"),
    [(of_torchrun, "torchrun"), (as_torch_has_them, "torchrun"), (of_srun, "slurm"), (of_onstream, "onstream")],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_ranks_meet_by_the_variables_of(variables: object, launcher: str) -> None:
    assert callable(variables)
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, **{name: str(value) for name, value in own.items()}},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for own in variables(free_port())
    ]
    try:
        said = [rank.communicate(timeout=LIMIT_S)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [one.strip() for one in said] == [
        f"{launcher} {rank} {RANKS} [{(rank - 1) % RANKS:.1f}, 7.0] 7.0" for rank in range(RANKS)
    ]
    assert [rank.returncode for rank in ranks] == [0] * RANKS
