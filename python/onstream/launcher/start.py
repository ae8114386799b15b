"""How a rank starts, on the launcher's host and on every other: its environment and its process."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .hosts import free_port
from .rank import LocalRank

MEETING_NAMES = {"MASTER_ADDR", "MASTER_PORT"}  # of torchrun, which this process's environment may give
TORCH_NAMES = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", *MEETING_NAMES}
NOT_PASSED_ON = {"ONSTREAM_UCX_WHEEL"}  # a file that every host has in a place of its own: `import onstream` names it


@dataclass(frozen=True)
class Meeting:
    """Where the ranks of a job meet, and their secret."""

    size: int
    address: str
    port: int | None = None  # none at an abstract socket name
    torch_address: str = "127.0.0.1"  # MASTER_ADDR and MASTER_PORT, where programs of torch.distributed meet
    torch_port: int = 0
    secret: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)


def meeting_on_one_host(size: int) -> Meeting:
    return Meeting(size, f"unix:onstream-run-{secrets.token_hex(16)}", torch_port=free_port())


def given_meeting() -> set[str]:
    """The names of a meeting of torch that this process's environment may give: in a rank of another job it has that one's."""
    return set() if "ONSTREAM_RANK" in os.environ else MEETING_NAMES


def environment(added: Mapping[str, str], meeting: Meeting, local_size: int) -> dict[str, str]:
    """The variables that all ranks of this host have: this process's, the added ones, and the job's."""
    shared = {**os.environ, **added}
    shared.pop("ONSTREAM_PORT", None)
    shared.setdefault("PYTHONUNBUFFERED", "1")  # the output of a killed rank must not be lost
    # numpy's, torch's and OpenMP's threads: else each rank has as many as there are cores, and all spin on the same.
    shared.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // local_size)))
    # So that `python` is the one that has onstream, also when no environment was activated.
    shared["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), shared.get("PATH", os.defpath)])
    shared["ONSTREAM_SIZE"] = str(meeting.size)
    shared["ONSTREAM_LOCAL_SIZE"] = str(local_size)
    shared["ONSTREAM_ADDRESS"] = meeting.address
    shared["ONSTREAM_SECRET"] = meeting.secret
    if meeting.port is not None:
        shared["ONSTREAM_PORT"] = str(meeting.port)
    # No number of this process is right for all its ranks.
    for name in TORCH_NAMES - given_meeting() - set(added):
        shared.pop(name, None)
    torch = meeting.size, local_size, meeting.torch_address, meeting.torch_port
    for name, value in zip(("WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"), torch, strict=True):
        shared.setdefault(name, str(value))
    return shared


def passed_on(added: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """The variables that ranks on other hosts get: of this process's environment, and the added ones."""
    given = {*names, *given_meeting()}
    own = {
        name: value
        for name, value in os.environ.items()
        if name in given or (name.startswith(("ONSTREAM_", "UCX_")) and name not in NOT_PASSED_ON)
    }
    return {**own, **added}


def start_rank(
    command: Sequence[str],
    shared: Mapping[str, str],
    number: int,
    local_number: int,
    *,
    stdin: int | None,
    stdout: int | None,
    descriptors: Sequence[int],
    prepare: Callable[[], None],
) -> LocalRank:
    """Starts one. stdin, stdout: as of Popen. descriptors: from 3 on. prepare: of child_preparation(). Throws OSError."""
    numbers = {"ONSTREAM_RANK": str(number), "ONSTREAM_LOCAL_RANK": str(local_number)}
    process = subprocess.Popen(
        command,
        env={"RANK": str(number), "LOCAL_RANK": str(local_number), **shared, **numbers},
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        preexec_fn=prepare,
        pass_fds=descriptors,
    )
    return LocalRank(number, process)
