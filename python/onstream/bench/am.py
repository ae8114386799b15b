"""`onstream bench am`: registered buffers (onstream_am.h) - latency of a put, and a stencil with and without bounce copies.

The programs are C and use only that interface; am_latency.c and am_stencil.c of bench/compat define the timed
intervals. They are compiled when first needed. The steps of a message are measured in a run of its own, as clocks cost
time.
"""

from __future__ import annotations

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

COMPILE_LIMIT_S = 120
LATENCY_BYTES = (32, 64, 128, 256, 512, 1024, 2048, 4096)
ITERATIONS = 1000
TORI = ("2x1x1", "2x2x1")
STEPS = 100
TILES = {"host": 256, "cuda": 2048}
MEMORIES = {"host": ("device", "plain"), "cuda": ("host", "device")}
STEP_TITLES = ("payload there", "event written", "event seen")


@dataclass(frozen=True)
class Settings:
    device: str = "host"
    tori: tuple[str, ...] = TORI
    samples: int = 20
    quick: bool = False
    limit_s: float = 300.0


def measure(settings: Settings, say: Say = lambda _line: None) -> dict[str, Any]:
    if settings.device not in SIZES:
        raise InvalidArgumentError(f"device is '{settings.device}'; there are {', '.join(SIZES)}")
    # Compiled first, so that a missing compiler or library is told before anything is measured.
    plain, stamped = (_latency(settings, stamps) for stamps in ("off", "on"))
    stencils = {torus: _stencil(settings, torus) for torus in settings.tori}
    where = environment.collect()
    say("latency")
    latency = _rows(settings, plain)
    say("steps of a message")
    steps = _rows(settings, stamped)
    stencil = []
    for torus, program in stencils.items():
        say(f"stencil on {torus}")
        stencil += _rows(settings, program)
    return {
        **preamble("am", where, asdict(settings)),
        "device": where["gpus"][0]["name"] if settings.device == "cuda" and where["gpus"] else where["cpu"],
        "device_kind": settings.device,
        "latency": latency,
        "steps": [row for row in steps if "steps_ns" in row],
        "stencil": stencil,
    }


def compiled(name: str, device: str) -> Path:
    """A C program of bench/compat, newer than its sources. The stencil's cells are C too, or kernels."""
    build, folder = programs.build_folder(), programs.source_folder("compat")
    library = build / "compat" / "am"
    if not (library / "libonstream_am.so").exists():
        raise UnsupportedError(f"there is no libonstream_am.so in {library}; build with ONSTREAM_COMPAT=ON")
    options: tuple[str, ...] = ()
    if name == "am_stencil" and device == "cuda":
        cells = build / "bench"
        options = (f"-L{cells}", f"-Wl,-rpath,{cells}", "-lam_stencil_cells")
    elif name == "am_stencil":
        options = (str(folder / "am_stencil_cells.c"),)
    return compile_program(folder / f"{name}.c", library, library / "programs" / f"{name}-{device}", *options)


def compile_program(source: Path, library: Path, program: Path, *options: str) -> Path:
    """With cc, against libonstream_am.so in `library`."""
    folder = programs.source_folder("compat")
    headers = folder.parents[1] / "compat" / "am" / "include"
    parts = [*source.parent.glob("am*"), *folder.glob("am*.h"), *headers.glob("*.h")]
    if program.exists() and program.stat().st_mtime > max(part.stat().st_mtime for part in parts):
        return program
    compiler = shutil.which("cc")
    if compiler is None:
        raise UnsupportedError("programs of registered buffers are compiled with cc, and there is none")
    program.parent.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-O2", f"-I{headers}", str(source), *options, "-o", str(program)]
    command += [f"-L{library}", f"-Wl,-rpath,{library}", "-lonstream_am"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_LIMIT_S)
    if done.returncode != 0:
        raise UnsupportedError(f"{source.name} does not compile: {programs.failure_of(done.stderr)}")
    return program


def _job(settings: Settings, name: str, ranks: int, words: tuple[str, ...], **parameters: str) -> Program:
    variables = {f"ONSTREAM_{key.upper()}": value for key, value in parameters.items()}
    start = programs.as_ranks(compiled(name, settings.device), ranks, words)
    return Program(name, start, {"ONSTREAM_DEVICE": settings.device, **variables})


def _latency(settings: Settings, stamps: str) -> Program:
    iterations = str(ITERATIONS // 10 if settings.quick else ITERATIONS)
    words = ("--memory", ",".join(MEMORIES[settings.device]), "--samples", str(settings.samples))
    sizes = tuple(map(str, LATENCY_BYTES))
    return _job(settings, "am_latency", 2, (*words, "--iterations", iterations, *sizes), am_stamps=stamps)


def _stencil(settings: Settings, torus: str) -> Program:
    tile, steps = str(TILES[settings.device]), str(STEPS // 10 if settings.quick else STEPS)
    words = ("--nx", tile, "--ny", tile, "--steps", steps, "--samples", str(settings.samples), "--check")
    return _job(settings, "am_stencil", ranks_of(torus), words, torus=torus)


def ranks_of(torus: str) -> int:
    try:
        x, y, z = map(int, torus.split("x"))
    except ValueError:
        raise InvalidArgumentError(f"the torus '{torus}' is not three numbers such as 2x2x1") from None
    if min(x, y) < 1 or z != 1:
        raise InvalidArgumentError(f"the stencil is of two dimensions: a torus such as 2x2x1, not {torus}")
    return x * y


def _rows(settings: Settings, program: Program) -> list[dict[str, Any]]:
    finished = programs.execute(program, (), settings.limit_s)
    if finished.error is not None:
        raise finished.error
    return [_summary(line) for line in programs.rows_of(program.name, finished.out)]


def _summary(line: dict[str, Any]) -> dict[str, Any]:
    samples = line.pop("samples_s")
    return {
        **line,
        "median_s": quantile(samples, 0.5),
        "min_s": min(samples),
        "p25_s": quantile(samples, 0.25),
        "p75_s": quantile(samples, 0.75),
        "samples": len(samples),
    }
