"""`onstream bench startup`: seconds to make a world, and the device memory that it holds.

The device is open before the clock starts (a GPU's context is not the library's); bench/world/startup.cpp defines the
time.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..errors import InvalidArgumentError
from . import bars, environment, programs
from .cases import SIZES
from .programs import Program
from .progress import Say
from .results import preamble
from .samples import median


@dataclass(frozen=True)
class Settings:
    device: str = "host"
    ranks: tuple[int, ...] = (4, 8)
    samples: int = 5
    quick: bool = False
    limit_s: float = 120.0


def measure(settings: Settings, say: Say = lambda _line: None) -> dict[str, Any]:
    if settings.device not in SIZES:
        raise InvalidArgumentError(f"device is '{settings.device}'; there are {', '.join(SIZES)}")
    where = environment.collect()
    rows = []
    for ranks in settings.ranks:
        say(f"{ranks} ranks")
        program = Program("bench_startup", programs.as_ranks(programs.native("bench_startup"), ranks, ()))
        words = ("--device", settings.device, "--samples", str(settings.samples))
        finished = programs.execute(program, words, settings.limit_s)
        if finished.error is not None:
            raise finished.error
        (row,) = programs.rows_of("bench_startup", finished.out)
        rows.append({**row, "start_s": median(row["samples_s"])})
    result = {
        **preamble("startup", where, asdict(settings)),
        "device": rows[0]["device"],
        "device_kind": rows[0]["device_kind"],
        "rows": rows,
    }
    result["verdicts"] = judge(result)
    return result


def judge(result: dict[str, Any]) -> list[dict[str, Any]]:
    """One verdict for every bar whose number of ranks the result has."""
    verdicts = []
    for bar in bars.SETUP_BARS:
        for row in result["rows"]:
            if row["ranks"] == bar.ranks:
                value = row[bar.quantity]
                verdicts.append({**asdict(bar), "value": value, "holds": value < bar.limit})
    return verdicts


def not_run(result: dict[str, Any]) -> list[bars.SetupBar]:
    """The others."""
    return [bar for bar in bars.SETUP_BARS if all(row["ranks"] != bar.ranks for row in result["rows"])]
