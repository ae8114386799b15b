"""`onstream bench programs`: whole programs, each with onstream and with the library that it would use without it.

bench/programs/ has them, and says in each file what it times. Those in NCCL's calls are one binary: NCCL's own library
takes the place of ours through LD_LIBRARY_PATH. The programs print a JSON line for each case; every figure of it is a
row, its median over the rounds beside the peer's. Rows in which the peer is faster come first.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import InvalidArgumentError, UnsupportedError
from . import environment, peers, programs
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
}
TITLES = {
    "nccl_groups": "groups of NCCL's sends and receives",
    "jacobi_nccl": "Jacobi in NCCL's calls",
    "jacobi": "Jacobi in onstream's calls",
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
    of_nccl: bool  # NCCL's library can take the place of ours
    steps: dict[str, int]  # of each device: rounds within the program, or steps
    sizes: dict[str, tuple[int, ...]]

    def words(self, settings: Settings, file: str) -> tuple[str, ...]:
        steps = self.steps[settings.device]
        sizes = self.sizes[settings.device]
        if settings.quick:
            steps, sizes = max(1, steps // 10), sizes[:1]
        return (*((file,) if self.of_nccl else ()), str(steps), *map(str, sizes))


APPLICATIONS = (
    Application(
        "nccl_groups",
        True,
        {"host": 15, "cuda": 15},
        {"host": (8, 4 * KIB, 64 * KIB), "cuda": (8, 4 * KIB, 16 * KIB, 64 * KIB, MIB)},
    ),
    Application("jacobi_nccl", True, {"host": 50, "cuda": 200}, {"host": (128, 512), "cuda": (1024, 4096, 16384)}),
    Application("jacobi", False, {"host": 10, "cuda": 20}, {"host": (128, 512), "cuda": (1024, 4096, 16384)}),
)


def names_from(text: str, device: str) -> tuple[str, ...]:
    """Reads --vs. auto: NCCL where there are GPUs."""
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    for name in names:
        if name not in ("auto", "none", "nccl"):
            raise InvalidArgumentError(f"--vs is '{text}'; there are auto, none, nccl")
    return ("nccl",) if "nccl" in names or ("auto" in names and device == "cuda") else ()


def measure(settings: Settings, say: Say = lambda _line: None) -> dict[str, Any]:
    if settings.device not in SIZES:
        raise InvalidArgumentError(f"device is '{settings.device}'; there are {', '.join(SIZES)}")
    if settings.ranks < 2:
        raise InvalidArgumentError(f"--ranks is {settings.ranks}; a program of these needs two")
    for application in APPLICATIONS:
        _program(settings, application)
    where = environment.collect()
    folders, missing = _folders(settings)
    samples: dict[tuple[str, str, int, str], dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for turn in range(1 if settings.quick else settings.rounds):
            for application in APPLICATIONS:
                for who in folders if application.of_nccl else ("onstream",):
                    say(f"round {turn + 1}: {application.name}, {who}")
                    file = str(Path(scratch) / f"{application.name}-{who}-{turn}")
                    for row in _run(settings, application, folders[who], file):
                        _keep(samples, row, who)
    return {
        **preamble("programs", where, asdict(settings)),
        "device": where["gpus"][0]["name"] if settings.device == "cuda" and where["gpus"] else where["cpu"],
        "device_kind": settings.device,
        "ranks": settings.ranks,
        "missing": missing,
        "rows": sorted((_summary(*one) for one in samples.items()), key=_slower_first),
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


def _folders(settings: Settings) -> tuple[dict[str, str], dict[str, str]]:
    """The folder of the library of NCCL's interface that each run uses; and why a peer is missing."""
    folders, missing = {"onstream": str(_build(settings.device) / "compat" / "nccl" / "drop_in")}, {}
    if "nccl" in settings.vs:
        try:
            if settings.device != "cuda":
                raise PeerMissing("NCCL needs GPUs, and the device is host")
            folders["nccl"] = str(Path(peers.find_library("nccl", "libnccl.so.2", "nvidia-nccl-cu13")).parent)
        except PeerMissing as why:
            missing["nccl"] = str(why)
    return folders, missing


def _run(settings: Settings, application: Application, folder: str, file: str) -> list[dict[str, Any]]:
    variables = {"ONSTREAM_DEVICE": settings.device}
    path = os.environ.get("LD_LIBRARY_PATH", "")
    variables |= {"LD_LIBRARY_PATH": f"{folder}:{path}" if path else folder}
    variables |= {"NCCL_NVLS_ENABLE": os.environ.get("NCCL_NVLS_ENABLE", "0")}
    name = f"program_{application.name}"
    start = programs.as_ranks(_program(settings, application), settings.ranks, application.words(settings, file))
    finished = programs.execute(Program(name, start, variables), (), settings.limit_s)
    if finished.error is not None:
        raise finished.error
    return programs.rows_of(name, finished.out)


def _keep(samples: dict[Any, dict[str, list[float]]], row: dict[str, Any], who: str) -> None:
    for figure in FIGURES:
        if figure in row:
            key = (row["program"], row["case"], row.get("bytes", row.get("columns", 0)), figure)
            samples.setdefault(key, {}).setdefault(who, []).append(row[figure] * 1e-6)


def _summary(key: tuple[str, str, int, str], times: dict[str, list[float]]) -> dict[str, Any]:
    program, case, size, figure = key
    row: dict[str, Any] = {"program": program, "case": case, "size": size, "figure": figure, "samples_s": times}
    row["median_s"] = {who: quantile(each, 0.5) for who, each in times.items()}
    others = [median for who, median in row["median_s"].items() if who != "onstream"]
    row["ratio"] = row["median_s"]["onstream"] / min(others) if others else None
    return row


def _slower_first(row: dict[str, Any]) -> bool:
    return not is_slower(row)


def is_slower(row: dict[str, Any]) -> bool:
    """Whether a peer is faster. The kernels alone run without any library."""
    return row["ratio"] is not None and row["ratio"] > 1 and row["case"] != "alone"


def cells_of(row: dict[str, Any], names: Iterable[str]) -> list[str]:
    size = f"{row['size']}²" if "jacobi" in row["program"] else size_text(row["size"])
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
        f"{'program':<36} {'case':<11} {'size':>8} {'figure':<17}"
        + "".join(f"{name:>11}" for name in names)
        + "  ratio"
    )
    colours = (RED, PLAIN) if sys.stdout.isatty() else ("", "")
    for row in result["rows"]:
        title, case, size, figure, *times, ratio = cells_of(row, names)
        text = (
            f"{title:<36} {case:<11} {size:>8} {figure:<17}" + "".join(f"{one:>11}" for one in times) + f"  {ratio:>5}"
        )
        yield f"{colours[0]}{text}  slower{colours[1]}" if is_slower(row) else text
