"""The peers of `--vs`: which there are, which cases each has, and how each is had or why it is not.

NCCL and NVSHMEM run in onstream's own bench program, which opens them at run time (library_nccl.cpp and
library_nvshmem.cpp of bench/message); MPI libraries run bench/message/mpi_peer.c. A peer that cannot be had is never an
error: the result names it with the reason.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import InvalidArgumentError
from . import mpi, programs
from .cases import MIB, ON_STREAM, SPREAD, Case
from .mpi import PeerMissing
from .programs import Program

LOOK_TIMEOUT_S = 30
NVSHMEM = ("libnvshmem_host.so.3", "nvidia-nvshmem-cu13")  # and the package that has it


@dataclass(frozen=True)
class Job:
    """The job that a peer is to run."""

    device: str
    ranks: int
    largest: int  # bytes of a buffer
    folder: Path  # for installed packages and compiled programs


@dataclass(frozen=True)
class Peer:
    name: str
    title: str
    memory: str  # of messages between GPUs: device
    submissions: tuple[str, ...]
    has: Callable[[Case], bool]
    prepare: Callable[[Job], Program]


def _nccl(job: Job) -> Program:
    return _on_stream("nccl", "libnccl.so.2", "nvidia-nccl-cu13", job, {"NCCL_NVLS_ENABLE": "0"})


def _nvshmem(job: Job) -> Program:
    return _on_stream("nvshmem", *NVSHMEM, job, nvshmem_variables(2 * job.largest + 64 * MIB))


def find_nvshmem() -> str:
    """NVSHMEM's host library, as find_library() finds it."""
    return find_library("nvshmem", *NVSHMEM)


def nvshmem_variables(heap_bytes: int) -> dict[str, str]:
    """Variables of NVSHMEM's programs, where the user's environment does not set them. The ranks are of one host:
    neither networks nor multicast are of use, and NCCL is not to be measured here."""
    variables = {
        "NVSHMEM_SYMMETRIC_SIZE": str(heap_bytes),
        "NVSHMEM_DISABLE_NVLS": "1",
        "NVSHMEM_DISABLE_NCCL": "1",
        "NVSHMEM_REMOTE_TRANSPORT": "none",
    }
    return {key: os.environ.get(key, value) for key, value in variables.items()}


def _on_stream(name: str, soname: str, package: str, job: Job, settings: dict[str, str]) -> Program:
    if job.device != "cuda":
        raise PeerMissing(f"{TITLES[name]} moves messages between GPUs, and the device is {job.device}")
    file = find_library(name, soname, package)
    own = programs.message_program(job.device, ranks=job.ranks, options=("--library", name, "--file", file))
    environment = {key: os.environ.get(key, value) for key, value in settings.items()}
    return Program(name, own.start, environment)


def _mpi(name: str) -> Callable[[Job], Program]:
    def prepare(job: Job) -> Program:
        memory = "device" if job.device == "cuda" else "host"
        source = programs.source_folder("message") / "mpi_peer.c"
        return mpi.prepare(mpi.MPIS[name], source, job.folder, ranks=job.ranks, memory=memory)

    return prepare


def _no_plan(case: Case) -> bool:
    return case.mode != "ring-plan"


def _acknowledged(case: Case) -> bool:
    """NVSHMEM has no flow control of its own: where nothing comes back, a sender would run over its receiver."""
    one_way = case.mode in (*SPREAD, "ring-plan")
    return not one_way and (case.mode, case.submission) != ("bidirectional", "captured")


def _plain(case: Case) -> bool:
    return case.mode not in (*SPREAD, "ring-plan")


PEERS = {
    peer.name: peer
    for peer in (
        Peer("nccl", "NCCL", "device", ON_STREAM, _no_plan, _nccl),
        Peer("nvshmem", "NVSHMEM", "device", ON_STREAM, _acknowledged, _nvshmem),
        Peer("mpi-here", "MPI of this machine", "device", ("host",), _plain, _mpi("mpi-here")),
        Peer("openmpi", "Open MPI", "device", ("host",), _plain, _mpi("openmpi")),
        Peer("mpich", "MPICH", "device", ("host",), _plain, _mpi("mpich")),
    )
}
TITLES = {"onstream": "onstream", **{peer.name: peer.title for peer in PEERS.values()}}
MPI_NAMES = ("openmpi", "mpich")
WORDS = ("auto", "none", "mpi", *PEERS)


def names_from(text: str, device: str, *, also: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Reads --vs. auto: all that may be had for the device; mpi: every MPI library; `also`: names of the caller."""
    names: list[str] = []
    for word in (part.strip() for part in text.split(",") if part.strip()):
        if word not in WORDS:
            raise InvalidArgumentError(f"--vs is '{text}'; there are {', '.join((*WORDS, *also))}")
        mpis = [*(["mpi-here"] if shutil.which("mpicc") else []), *MPI_NAMES]
        if word == "auto":
            names += ["nccl", "nvshmem", *mpis] if device == "cuda" else mpis
        elif word == "mpi":
            names += mpis
        elif word != "none":
            names.append(word)
    return tuple(dict.fromkeys(names))


def find_library(name: str, soname: str, package: str) -> str:
    """The file for dlopen: of the wheel in this Python, of the one in the python3 of PATH, or the loader's own."""
    places = [*_wheel_folders(name), *_loader_folders(soname)]
    for place in places:
        if (place / soname).exists():
            return str(place / soname)
    raise PeerMissing(
        f"there is no {soname}: not in nvidia.{name} of this Python or of the python3 on PATH, nor on the loader's path; "
        f"pip install {package}"
    )


def find_torch() -> str:
    """A Python that has torch with its symmetric memory and a GPU: this one, or the python3 of PATH."""
    code = "import torch, torch.distributed._symmetric_memory as s; s.empty; raise SystemExit(not torch.cuda.is_available() and 'torch sees no GPU')"
    reasons = []
    for python in dict.fromkeys(filter(None, (sys.executable, shutil.which("python3")))):
        try:
            done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=2 * LOOK_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            reasons.append(f"{python}: {error}")
            continue
        if done.returncode == 0:
            return python
        reasons.append(f"{python}: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1]}")
    raise PeerMissing(f"no Python here has torch with symmetric memory: {'; '.join(reasons)}; pip install torch")


def _wheel_folders(name: str) -> list[Path]:
    folders: list[str] = []
    try:
        spec = importlib.util.find_spec(f"nvidia.{name}")
        folders += (spec and spec.submodule_search_locations) or []
    except ModuleNotFoundError:
        pass
    code = f"import importlib.util as u; s = u.find_spec('nvidia.{name}'); print(*(s.submodule_search_locations if s else []), sep=chr(10))"
    python = shutil.which("python3")
    if python is not None:
        try:
            done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=LOOK_TIMEOUT_S)
            folders += done.stdout.splitlines() if done.returncode == 0 else []
        except (OSError, subprocess.TimeoutExpired):
            pass
    return [Path(folder) / "lib" for folder in folders]


def _loader_folders(soname: str) -> list[Path]:
    folders = [Path(part) for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part]
    ldconfig = shutil.which("ldconfig", path=os.environ.get("PATH", "") + ":/sbin:/usr/sbin")
    if ldconfig is not None:
        try:
            done = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, timeout=LOOK_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired):
            return folders
        lines = [line for line in done.stdout.splitlines() if line.split(" ")[0].strip() == soname and "=>" in line]
        folders += [Path(line.split("=>")[1].strip()).parent for line in lines]
    cuda = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return [*folders, Path(cuda) / "lib64", Path(cuda) / "lib"]
