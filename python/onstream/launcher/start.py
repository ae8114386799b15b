"""How a rank starts, on the launcher's host and on every other: its environment and its process."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .rank import LocalRank

NOT_PASSED_ON = {"ONSTREAM_UCX_WHEEL"}  # a file that every host has in a place of its own: `import onstream` names it


@dataclass(frozen=True)
class Meeting:
    """Where the ranks of a job meet, and their secret."""

    size: int
    address: str
    port: int | None = None  # none at an abstract socket name
    secret: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)


def meeting_on_one_host(size: int) -> Meeting:
    return Meeting(size, f"unix:onstream-run-{secrets.token_hex(16)}")


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
    return shared


def passed_on(added: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """The variables that ranks on other hosts get: of this process's environment, and the added ones."""
    own = {
        name: value
        for name, value in os.environ.items()
        if name in names or (name.startswith(("ONSTREAM_", "UCX_")) and name not in NOT_PASSED_ON)
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
        env={**shared, **numbers},
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        preexec_fn=prepare,
        pass_fds=descriptors,
    )
    return LocalRank(number, process)
