"""`onstream bench programs`: whole programs, each with onstream and with the library that it would use without it.

bench/programs/ has them; each file says what it times. Those in NCCL's calls are one binary: NCCL's own library takes
the place of ours through LD_LIBRARY_PATH. Those of the host are in Python, with onstream or with mpi4py, and each way of
ours stands beside all of MPI's. The programs print a JSON line for each case; every figure of it is a row, its median
over the rounds beside the peers'. Rows in which a peer is faster come first.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import Error, InvalidArgumentError, UnsupportedError
from . import environment, mpi, peers, programs
from .cases import KIB, MIB, SIZES
from .mpi import PeerMissing
from .programs import Program
from .progress import Say
from .results import preamble
from .samples import quantile
from .table import size_text, time_text

RED, PLAIN = "\x1b[31m", "\x1b[0m"
FIGURES = {
    "call_us": "host call",
    "pipelined_us": "in a row",
    "synchronised_us": "with synchronise",
    "captured_us": "in a graph",
    "step_us": "a step",
    "one_way_us": "one way",
}
TITLES = {
    "nccl_groups": "groups of NCCL's sends and receives",
    "jacobi_nccl": "Jacobi in NCCL's calls",
    "jacobi": "Jacobi in onstream's calls",
    "heat": "heat equation, Python",
    "conjugate_gradient": "conjugate gradients, Python",
    "ping_pong": "ping-pong of arrays, Python",
    "in_a_row": "eight arrays in a row, Python",
    "all_reduce": "all_reduce, Python",
}


@dataclass(frozen=True)
class Settings:
    device: str = "host"
    ranks: int = 2
    vs: tuple[str, ...] = ("nccl",)
    rounds: int = 3
    quick: bool = False
    limit_s: float = 120.0


@dataclass(frozen=True)
class Application:
    name: str
    kind: str  # "nccl": its library can take the place of ours; "own": in our calls alone; "python": a script
    steps: dict[str, int]  # of each device that it is for: rounds within the program, or steps
    sizes: dict[str, tuple[int, ...]]

    def words(self, settings: Settings, file: str) -> tuple[str, ...]:
        steps = self.steps[settings.device]
        sizes = self.sizes[settings.device]
        if settings.quick:
            steps, sizes = max(1, steps // 10), sizes[:1]
        return (*((file,) if self.kind == "nccl" else ()), str(steps), *map(str, sizes))


@dataclass(frozen=True)
class Start:
    """How an application is started with one library: the command up to its own words, and its variables."""

    command: tuple[str, ...]
    variables: dict[str, str]


APPLICATIONS = (
    Application(
        "nccl_groups",
        "nccl",
        {"host": 15, "cuda": 15},
        {"host": (8, 4 * KIB, 64 * KIB), "cuda": (8, 4 * KIB, 16 * KIB, 64 * KIB, MIB)},
    ),
    Application("jacobi_nccl", "nccl", {"host": 50, "cuda": 200}, {"host": (128, 512), "cuda": (1024, 4096, 16384)}),
    Application("jacobi", "own", {"host": 10, "cuda": 20}, {"host": (128, 512), "cuda": (1024, 4096, 16384)}),
    Application("heat", "python", {"host": 200}, {"host": (128, 512)}),
    Application("conjugate_gradient", "python", {"host": 200}, {"host": (64, 256)}),
    Application("network", "python", {"host": 400}, {"host": (8, 4 * KIB, 64 * KIB, MIB)}),
)


def names_from(text: str, device: str) -> tuple[str, ...]:
    """Reads --vs. auto: NCCL where there are GPUs, MPI on the host."""
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    for name in names:
        if name not in ("auto", "none", "nccl", "mpi"):
            raise InvalidArgumentError(f"--vs is '{text}'; there are auto, none, nccl, mpi")
    own = "nccl" if device == "cuda" else "mpi"
    return tuple(name for name in ("nccl", "mpi") if name in names or ("auto" in names and name == own))


def measure(settings: Settings, say: Say = lambda _line: None) -> dict[str, Any]:
    if settings.device not in SIZES:
        raise InvalidArgumentError(f"device is '{settings.device}'; there are {', '.join(SIZES)}")
    if settings.ranks < 2:
        raise InvalidArgumentError(f"--ranks is {settings.ranks}; a program of these needs two")
    applications = [one for one in APPLICATIONS if settings.device in one.steps]
    libraries, missing = _libraries(settings)
    starts = {one.name: _starts(settings, one, libraries) for one in applications}
    where = environment.collect()
    samples = Samples()
    with tempfile.TemporaryDirectory() as scratch:
        for turn in range(1 if settings.quick else settings.rounds):
            for application in applications:
                for who, start in starts[application.name].items():
                    say(f"round {turn + 1}: {application.name}, {who}")
                    file = str(Path(scratch) / f"{application.name}-{who}-{turn}")
                    for row in _run(settings, application, start, file):
                        samples.keep(application, row, who)
    return {
        **preamble("programs", where, asdict(settings)),
        "device": where["gpus"][0]["name"] if settings.device == "cuda" and where["gpus"] else where["cpu"],
        "device_kind": settings.device,
        "ranks": settings.ranks,
        "missing": missing,
        "rows": sorted(samples.rows(), key=_slower_first),
    }


def _build(device: str) -> Path:
    """The CMake tree whose programs run on the device: of the host, one without CUDA."""
    folder = programs.build_folder()
    has_cuda = "\nCMAKE_CUDA_COMPILER:" in (folder / "CMakeCache.txt").read_text()
    return folder.with_name(f"{folder.name}-libmp") if has_cuda and device == "host" else folder


def _program(settings: Settings, application: Application) -> Path:
    program = _build(settings.device) / "bench" / f"program_{application.name}"
    if not program.exists():
        raise UnsupportedError(
            f"there is no {program}; `make build` makes it, and where that has CUDA, `make libmp` those of the host device "
            "on a machine without GPUs"
        )
    return program


def _libraries(settings: Settings) -> tuple[dict[str, Any], dict[str, str]]:
    """Of each library: the folder of its NCCL interface, or the command of MPI's ranks. And why a peer is missing."""
    libraries: dict[str, Any] = {"onstream": str(_build(settings.device) / "compat" / "nccl" / "drop_in")}
    missing = {}
    try:
        if "nccl" in settings.vs:
            if settings.device != "cuda":
                raise PeerMissing("NCCL needs GPUs, and the device is host")
            libraries["nccl"] = str(Path(peers.find_library("nccl", "libnccl.so.2", "nvidia-nccl-cu13")).parent)
    except PeerMissing as why:
        missing["nccl"] = str(why)
    try:
        if "mpi" in settings.vs:
            if settings.device != "host":
                raise PeerMissing("the programs in MPI's calls are of the host device")
            libraries["mpi"] = mpi.for_python(mpi.MPIS["openmpi"], programs.build_folder() / "peers", settings.ranks)
    except PeerMissing as why:
        missing["mpi"] = str(why)
    return libraries, missing


def _starts(settings: Settings, application: Application, libraries: dict[str, Any]) -> dict[str, Start]:
    if application.kind == "python":
        return _script_starts(settings, application, libraries)
    start = programs.as_ranks(_program(settings, application), settings.ranks, ())
    return {
        who: Start(start, _variables(settings, libraries[who]))
        for who in ("onstream", "nccl")
        if who in libraries and (who == "onstream" or application.kind == "nccl")
    }


def _script_starts(settings: Settings, application: Application, libraries: dict[str, Any]) -> dict[str, Start]:
    """Each rank has one thread: those of numpy would share the cores with the ranks."""
    script = str(programs.source_folder("programs") / f"{application.name}.py")
    variables = {"OMP_NUM_THREADS": "1"}
    own = programs.as_ranks(Path(sys.executable), settings.ranks, (script, "onstream"))
    package = str(programs.build_folder() / "python")
    here = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    starts = {"onstream": Start(own, {**variables, "PYTHONPATH": here})}
    if "mpi" in libraries:
        ranks = libraries["mpi"]
        starts["mpi"] = Start((*ranks.start, script, "mpi"), {**variables, **ranks.environment})
    return starts


def _variables(settings: Settings, folder: str) -> dict[str, str]:
    path = os.environ.get("LD_LIBRARY_PATH", "")
    return {
        "ONSTREAM_DEVICE": settings.device,
        "LD_LIBRARY_PATH": f"{folder}:{path}" if path else folder,
        "NCCL_NVLS_ENABLE": os.environ.get("NCCL_NVLS_ENABLE", "0"),
    }


def _run(settings: Settings, application: Application, start: Start, file: str) -> list[dict[str, Any]]:
    name = f"program_{application.name}"
    finished = programs.execute(
        Program(name, start.command, start.variables), application.words(settings, file), settings.limit_s
    )
    if finished.error is not None:
        raise finished.error
    return programs.rows_of(name, finished.out)


class Samples:
    """The figures of all runs."""

    def __init__(self) -> None:
        self._times: dict[tuple[str, str, int, str], dict[str, list[float]]] = {}
        self._beside: dict[tuple[str, int, str], dict[str, list[float]]] = {}  # for all cases of a program and a size
        self._checks: dict[tuple[str, int], float] = {}
        self._in_bytes: set[tuple[str, int]] = set()  # the others have a size in columns

    def keep(self, application: Application, row: dict[str, Any], who: str) -> None:
        program, size = row["program"], row.get("bytes", row.get("columns", 0))
        if "bytes" in row:
            self._in_bytes.add((program, size))
        if "check" in row:
            first = self._checks.setdefault((program, size), row["check"])
            if not math.isclose(first, row["check"], rel_tol=1e-9):
                raise Error(f"{program} of {size}²: {who}, {row['case']}, comes to {row['check']}, not to {first}")
        for figure in FIGURES:
            if figure not in row:
                continue
            if application.kind == "python" and who != "onstream":
                times = self._beside.setdefault((program, size, figure), {}).setdefault(f"{who} {row['case']}", [])
            else:
                times = self._times.setdefault((program, row["case"], size, figure), {}).setdefault(who, [])
            times.append(row[figure] * 1e-6)

    def rows(self) -> Iterator[dict[str, Any]]:
        for (program, case, size, figure), own in self._times.items():
            times = {**own, **self._beside.get((program, size, figure), {})}
            row: dict[str, Any] = {"program": program, "case": case, "size": size, "figure": figure, "samples_s": times}
            row["in_bytes"] = (program, size) in self._in_bytes
            row["median_s"] = {who: quantile(each, 0.5) for who, each in times.items()}
            others = [median for who, median in row["median_s"].items() if who != "onstream"]
            row["ratio"] = row["median_s"]["onstream"] / min(others) if others else None
            yield row


def _slower_first(row: dict[str, Any]) -> bool:
    return not is_slower(row)


def is_slower(row: dict[str, Any]) -> bool:
    """Whether a peer is faster. The kernels alone run without any library."""
    return row["ratio"] is not None and row["ratio"] > 1 and row["case"] != "alone"


def cells_of(row: dict[str, Any], names: Iterable[str]) -> list[str]:
    size = size_text(row["size"]) if row["in_bytes"] else f"{row['size']}²"
    times = [time_text(row["median_s"][who]) if who in row["median_s"] else "" for who in names]
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
    return [TITLES[row["program"]], row["case"], size, FIGURES[row["figure"]], *times, ratio]


def names_of(result: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(who for row in result["rows"] for who in row["median_s"]))


def lines_of(result: dict[str, Any]) -> Iterator[str]:
    names = names_of(result)
    yield f"{result['device']}, {result['ranks']} processes; medians of {result['settings']['rounds']} starts that alternate"
    for name, why in result["missing"].items():
        yield f"without {name}: {why}"
    yield ""
    yield (
        f"{'program':<36} {'case':<13} {'size':>8} {'figure':<17}"
        + "".join(f"{name:>{max(11, len(name) + 2)}}" for name in names)
        + "  ratio"
    )
    colours = (RED, PLAIN) if sys.stdout.isatty() else ("", "")
    for row in result["rows"]:
        title, case, size, figure, *times, ratio = cells_of(row, names)
        text = (
            f"{title:<36} {case:<13} {size:>8} {figure:<17}"
            + "".join(f"{one:>{max(11, len(name) + 2)}}" for one, name in zip(times, names, strict=True))
            + f"  {ratio:>5}"
        )
        yield f"{colours[0]}{text}  slower{colours[1]}" if is_slower(row) else text
