"""Jobs over several hosts (hosts.py) by `onstream run --hosts`, which a script enters in place of ssh."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts import Net

from onstream import _ucx

SOON_S = 60.0
RANK = "import os, signal, socket, sys, time\nrank = int(os.environ['ONSTREAM_RANK'])\nhost = socket.gethostname()\n"

# As ssh: a host, then words that a shell there gets; nothing of the caller's environment goes along.
SSH = """#!/bin/sh
case "$1" in
{cases}
*) echo "ssh: Could not resolve hostname $1" >&2; exit 255;;
esac
shift
{run} env --ignore-environment --chdir=/tmp PATH=/usr/bin:/bin SSH_CONNECTION="10.77.0.1 40000 $address 22" sh -c "exec $*"
"""


def require_ucx() -> None:
    if _ucx.find_library() is None:
        pytest.skip("no UCX: pip install libucx-cu13")


class Job:
    """Runs the launcher on host a. `program` is a text, whose first lines are RANK."""

    def __init__(self, net: Net, folder: Path) -> None:
        self.net = net
        self.folder = folder
        self.ssh = self.make_ssh("ssh-to", "exec $enter")

    def make_ssh(self, name: str, run: str) -> Path:
        file = self.folder / name
        # Each host has a name that only ssh knows, too.
        cases = "\n".join(
            f"{host.name}|alias-{host.name}) address={host.address} enter={shlex.quote(shlex.join(host.enter))};;"
            for host in self.net.hosts
        )
        file.write_text(SSH.format(cases=cases, run=run))
        file.chmod(0o755)
        return file

    def command(self, places: str, program: str, *options: str) -> list[str]:
        where = [*(() if "--ssh" in options else ("--ssh", str(self.ssh))), "--hosts", places]
        return [sys.executable, "-m", "onstream.launcher", *where, *options, sys.executable, "-c", RANK + program]

    def run(self, places: str, program: str, *options: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return self.net.hosts[0].run(
            self.command(places, program, *options), input=stdin, capture_output=True, text=True, timeout=SOON_S
        )

    @contextlib.contextmanager
    def running(self, places: str, program: str, *options: str) -> Iterator[subprocess.Popen[str]]:
        job = self.net.hosts[0].start(
            self.command(places, program, *options),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.setpgid(0, 0),
        )
        try:
            yield job
        finally:
            job.kill()
