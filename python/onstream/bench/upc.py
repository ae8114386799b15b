"""`onstream bench upc`: UPC's calls on device memory, against a program that has none of it in the shared space.

Three C programs of bench/, which know no more than onstream_upc.h: memput and memget of 2 threads from 1 B to 4 MiB; a
memget of 8 KiB from a thread that multiplies matrices, directly and (path `stage`) by its proxy thread; and a product
of matrices over all threads. `naive` does as such programs do without shared device memory: copies into and out of
temporary buffers, and two barriers. The data of every case are checked.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import InvalidArgumentError, UnsupportedError
from . import environment, programs
from .cases import SIZES
from .programs import Program
from .progress import Say
from .results import preamble
from .samples import quantile

COMPILE_TIMEOUT_S = 120
TITLES = {
    "memput": "upc_memput",
    "memget": "upc_memget",
    "idle-memget": "upc_memget from a thread that waits",
    "busy-memget": "upc_memget from a thread that multiplies",
    "matmul": "product of matrices, one iteration",
}
WAYS = {"naive": "naive", "onstream": "onstream", "local": "without moving data"}
PROGRAMS = ("upc_latency", "upc_busy", "upc_matmul")
MATRIX = {"host": 512, "cuda": 4096}  # the default; BUSY_MATRIX keeps a thread busy
BUSY_MATRIX = {"host": 192, "cuda": 4096}


@dataclass(frozen=True)
class Settings:
    device: str = "host"
    threads: int = 0  # of the product; 0: 4, or as many as there are cores
    size: int = 0  # of its matrices; 0: MATRIX
    samples: int = 10
    quick: bool = False
    limit_s: float = 300.0


def measure(settings: Settings, say: Say = lambda _line: None) -> dict[str, Any]:
    if settings.device not in SIZES:
        raise InvalidArgumentError(f"device is '{settings.device}'; there are {', '.join(SIZES)}")
    threads = settings.threads or min(4, max(2, len(os.sched_getaffinity(0))))
    for name in PROGRAMS:  # first: a missing compiler is told before anything is measured
        compiled(name)
    where = environment.collect()
    rows = []
    for name, ranks, path, size in (
        ("upc_latency", 2, "auto", 0),
        ("upc_busy", 2, "auto", BUSY_MATRIX[settings.device]),
        ("upc_busy", 2, "stage", BUSY_MATRIX[settings.device]),
        ("upc_matmul", threads, "auto", settings.size or MATRIX[settings.device]),
    ):
        say(f"{name}, {ranks} threads, path {path}")
        rows += _run(settings, name, ranks, path, size)
    return {
        **preamble("upc", where, asdict(settings)),
        "device": device_name(settings.device, where),
        "device_kind": settings.device,
        "rows": rows,
        "gains": gains_of(rows),
    }


def device_name(kind: str, where: dict[str, Any]) -> str:
    if kind == "cuda" and where["gpus"]:
        return str(where["gpus"][0]["name"])
    return f"{where['cpu']}, {where['cores']} cores"


def compiled(name: str) -> Path:
    """A program of bench/compat, newer than its sources."""
    bench, build = programs.source_folder("compat"), programs.build_folder()
    library, headers = build / "compat" / "upc", bench.parents[1] / "compat" / "upc" / "include"
    if not (library / "libonstream_upc.so").exists():
        raise UnsupportedError(f"there is no libonstream_upc.so in {library}; build with ONSTREAM_COMPAT=ON")
    compiler = shutil.which("cc")
    if compiler is None:
        raise UnsupportedError("the UPC programs are compiled with cc, and there is none")
    source, program = bench / f"{name}.c", build / "bench" / name
    parts = (source, bench / "upc_bench.h", headers / "onstream_upc.h")
    if program.exists() and program.stat().st_mtime > max(part.stat().st_mtime for part in parts):
        return program
    words = [compiler, "-std=gnu11", "-O3", "-Wall", f"-I{headers}", str(source), "-o", str(program)]
    words += [f"-L{library}", f"-Wl,-rpath,{library}", "-lonstream_upc", "-ldl"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S)
    if done.returncode != 0:
        raise UnsupportedError(f"compiling {source.name} failed: {programs.failure_of(done.stderr)}")
    return program


def _run(settings: Settings, name: str, ranks: int, path: str, size: int) -> list[dict[str, Any]]:
    least = 64 << 20
    part = str(max(least, 2 * (4 * 8 * size * size + (1 << 20))))  # four matrices in half of it
    variables = {
        "ONSTREAM_DEVICE": settings.device,
        "ONSTREAM_PATH": path,
        "ONSTREAM_UPC_HOST_BYTES": part,
        "ONSTREAM_UPC_DEVICE_BYTES": part,
    }
    program = Program(name, programs.as_ranks(compiled(name), ranks, ()), variables)
    words = ["--device", settings.device, "--samples", str(settings.samples)]
    words += ["--size", str(size)] if size else []
    words += ["--quick"] if settings.quick else []
    finished = programs.execute(program, tuple(words), settings.limit_s)
    if finished.error is not None:
        raise finished.error
    return [_row(row, path, size) for row in programs.rows_of(name, finished.out)]


def _row(row: dict[str, Any], path: str, size: int) -> dict[str, Any]:
    samples_s = row["samples_s"]
    return {
        **{key: row[key] for key in ("case", "way", "bytes", "threads")},
        "size": size,
        "path": path,
        "median_s": quantile(samples_s, 0.5),
        "min_s": min(samples_s),
        "p25_s": quantile(samples_s, 0.25),
        "p75_s": quantile(samples_s, 0.75),
        "samples": len(samples_s),
    }


def gains_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The ratio of the naive time to onstream's, for each case and size that was measured both ways."""
    naive = {(row["case"], row["bytes"], row["path"]): row["median_s"] for row in rows if row["way"] == "naive"}
    return [
        {"case": row["case"], "bytes": row["bytes"], "path": row["path"], "gain": naive[key] / row["median_s"]}
        for row in rows
        if row["way"] == "onstream" and (key := (row["case"], row["bytes"], row["path"])) in naive
    ]
