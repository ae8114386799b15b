"""run_demo(): prepares the sea, starts the ranks, judges their results and has the report written.

Every error of the user is found before a rank starts, told in one line on standard error, and gives exit code 2; a
check that fails gives 1. Blocks until all is done.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import _core, launcher
from ..errors import InvalidArgumentError, UnsupportedError
from . import bathymetry, page, picture, sea, voyage
from .job import Job
from .outcome import Check, Outcome, RankTimes, clock, coordinates

CELLS = 691_200  # of a grid that nobody asked for: 720 x 960
FRAMES = 60
FRAME_CELLS = 60 * 4_000_000  # of all frames together: a larger sea gets fewer, 6 at least
PICTURE_CELLS = 1600  # about, each way; larger seas are thinned for the report
HUMP_M = 5.0
BYTES_A_CELL = 100  # to prepare the sea, about: a dozen fields of doubles
MOST_STEPS = 100_000_000  # a year of a coarse sea; each is kept for every gauge
VOLUME_TOLERANCE = 1e-12  # relative; rounding of one addition a cell and step, of random sign

Point = tuple[float, float]

_SIDES = {
    "axis 0+": "northern row",
    "axis 0-": "southern row",
    "axis 1+": "eastern column",
    "axis 1-": "western column",
}
_REPORT, _IMAGE = "index.html", "tsunami.png"


def _check_matplotlib() -> None:
    """Now, and not when hours of waves are there to be drawn."""
    try:
        import matplotlib as _  # noqa: F401
    except ImportError as error:
        raise InvalidArgumentError(
            f"the demo draws with matplotlib ({error}): python -m pip install matplotlib, or the extra: pip install '.[demo]'"
        ) from error


def run_demo(
    *,
    ranks: int | None = None,
    grid: tuple[int, int] | None = None,
    steps: int | None = None,
    hours: float | None = None,
    bathymetry: str | Path | None = None,
    device: str = "auto",
    ranks_per_gpu: int = 1,
    out: str | Path = "out/demo",
    source: Point | None = None,
    gauges: Sequence[Point] | None = None,
    capture: bool = True,
    check: bool = True,
) -> int:
    """Simulates, checks and reports. Returns 0; 1 if a rank or a check failed, 2 for arguments that
    cannot work, 128 + number for a signal.

    grid is rows x columns; source and gauges are (longitude, latitude), or metres on a map without coordinates; steps
    wins over hours. Without ranks: one for each GPU if there are two, else 4.
    """
    begin = time.perf_counter()
    try:
        _check_matplotlib()
        where, count, why = choose_device(device, ranks, ranks_per_gpu)
        plan = _Plan(bathymetry, grid, source, gauges, steps, hours, count)
        folder = _folder(Path(out))
    except (InvalidArgumentError, UnsupportedError, OSError) as error:
        print(f"onstream demo: {error}", file=sys.stderr)
        return 2
    plan.tell(count, where, why)
    with tempfile.TemporaryDirectory(prefix="onstream-demo-") as scratch:
        job = plan.job(count, where, capture, check)
        job.save(Path(scratch), plan.sea, plan.surface)
        command = [sys.executable, "-m", "onstream.demo.rank", scratch]
        code = launcher.run(count, command, output="relayed", called="onstream demo")
        if code != 0:
            return code if code > 128 else 1  # ended by a signal, such as Ctrl-C, or failed
        outcome = _judge(plan, job, Path(scratch))
    _conclude(outcome)
    report, image = folder / _REPORT, folder / _IMAGE
    try:
        page.write(outcome, report)
        picture.write(outcome, image)
    except OSError as error:
        print(f"onstream demo: {error.filename or folder} cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    print(f"report     {report}  (and {image}), {time.perf_counter() - begin:.0f} s in all")
    return 0 if outcome.passed else 1


def _folder(out: Path) -> Path:
    if out.exists() and not out.is_dir():
        raise InvalidArgumentError(f"{out} is a file; --out names a folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except NotADirectoryError as error:
        raise InvalidArgumentError(f"--out {out}: there is a file in the way") from error
    except OSError as error:
        raise InvalidArgumentError(f"--out {out} cannot be made: {error.strerror}") from error
    try:
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        raise InvalidArgumentError(f"--out {out}: nothing can be written there: {error.strerror}") from error
    for file in (out / _REPORT, out / _IMAGE):
        if file.is_dir() or (file.exists() and not os.access(file, os.W_OK)):
            raise InvalidArgumentError(f"{file} cannot be written" + (": it is a folder" if file.is_dir() else ""))
    return out


def choose_device(device: str, ranks: int | None, ranks_per_gpu: int) -> tuple[str, int, str]:
    """Device, number of ranks, and why this device."""
    if ranks is not None and ranks < 1:
        raise InvalidArgumentError(f"{ranks} ranks cannot compute anything; ask for 1 or more")
    if ranks_per_gpu < 1:
        raise InvalidArgumentError(f"--ranks-per-gpu {ranks_per_gpu}: a GPU takes at least 1 rank")
    if device not in ("auto", "host", "cuda"):
        raise InvalidArgumentError(f"device '{device}' is none of auto, host, cuda")
    gpus = sum(row.kind == "cuda" for row in _core.devices())
    room = gpus * ranks_per_gpu
    if device == "host":
        return "host", ranks or 4, "as asked"
    if device == "cuda":
        if gpus == 0:
            raise UnsupportedError(f"--device cuda: {_core.no_cuda_reason()}; use --device host")
        if ranks is not None and ranks > room:
            raise InvalidArgumentError(
                f"{ranks} ranks do not fit {gpus} GPUs with {ranks_per_gpu} a GPU; use --ranks-per-gpu {-(-ranks // gpus)}"
            )
        return "cuda", ranks or room, "as asked"
    if gpus == 0:
        return "host", ranks or 4, f"no GPU: {_core.no_cuda_reason()}"
    if room < 2 or (ranks or room) > room:
        return (
            "host",
            ranks or 4,
            f"{gpus} GPUs with {ranks_per_gpu} ranks each are too few; --ranks-per-gpu takes more",
        )
    return "cuda", ranks or room, f"{gpus} GPUs"


class _Plan:
    """Everything about the sea and the wave that is decided before a rank starts."""

    def __init__(
        self,
        file: str | Path | None,
        grid: tuple[int, int] | None,
        source: Point | None,
        gauges: Sequence[Point] | None,
        steps: int | None,
        hours: float | None,
        ranks: int,
    ) -> None:
        floor = bathymetry.load(file)
        rows, columns = grid if grid is not None else _grid_for(floor)
        _check_cells(rows, columns)
        _core.tsunami_grid(ranks, rows, columns)  # refuses more ranks than cells
        self.sea = sea.build(floor, rows, columns)
        self.radius_m = voyage.default_radius_m(self.sea)
        if source is not None:
            self.source = voyage.check_source(self.sea, source)
        else:
            self.source = voyage.choose_source(self.sea, self.radius_m)
        self.travel = voyage.travel(self.sea, self.source, self.radius_m)
        if gauges:
            named = [(f"Gauge {k + 1}", x, y) for k, (x, y) in enumerate(gauges)]
            self.gauges = [voyage.gauge_at(self.sea, self.travel, x, y, name) for name, x, y in named]
        else:
            self.gauges = voyage.choose_gauges(self.sea, self.travel)
        self.surface = sea.hump(self.sea, self.source, HUMP_M, self.radius_m)
        self.time_step_s = self.sea.time_step_s()
        self.steps = _steps(steps, hours, self.time_step_s, self.travel)

    def job(self, ranks: int, device: str, capture: bool, check: bool) -> Job:
        count = max(6, min(FRAMES, FRAME_CELLS // (self.sea.rows * self.sea.columns)))
        frames = sorted({round(k * self.steps / count) for k in range(count + 1)})
        return Job(
            ranks=ranks,
            device=device,
            capture=capture,
            check=check,
            rows=self.sea.rows,
            columns=self.sea.columns,
            height_m=self.sea.height_m,
            time_step_s=self.time_step_s,
            steps=self.steps,
            frame_steps=frames,
            stride=_stride(self.sea.rows, self.sea.columns),
            gauges=[gauge.row * self.sea.columns + gauge.column for gauge in self.gauges],
        )

    def tell(self, ranks: int, device: str, why: str) -> None:
        here = self.sea
        wet = float(here.wet.mean())
        print(f"sea floor  {here.source}, {here.points[0]} x {here.points[1]} points, ", end="")
        print(f"interpolated to {here.rows} x {here.columns} cells: {100 * wet:.0f} % water, ", end="")
        print(f"{-here.elevation.min():.0f} m at the deepest")
        print(f"wave       {HUMP_M:g} m high at {coordinates(*self.source, here.geographic)}; ", end="")
        print(f"{self.steps:,} steps of {self.time_step_s:.3f} s are {clock(self.steps * self.time_step_s / 60)}")
        print(f"gauges     {', '.join(gauge.name for gauge in self.gauges)}")
        print(f"ranks      {ranks} on the {device} device ({why})", flush=True)


def _check_cells(rows: int, columns: int) -> None:
    if rows < 1 or columns < 1:
        raise InvalidArgumentError(f"a grid of {rows} x {columns} cells has none")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    needed = rows * columns * BYTES_A_CELL
    if needed > memory:
        raise InvalidArgumentError(
            f"a grid of {rows} x {columns} cells takes about {needed / 1e9:.3g} GB to prepare, and this machine has "
            f"{memory / 1e9:.3g} GB; ask for fewer cells"
        )


def _grid_for(floor: bathymetry.Bathymetry) -> tuple[int, int]:
    """About CELLS cells, as tall as they are wide."""
    across, up = float(floor.x[-1] - floor.x[0]), float(floor.y[-1] - floor.y[0])
    if floor.geographic:
        across *= math.cos(math.radians(float(floor.y.mean())))
    rows = math.sqrt(CELLS * up / across)
    return max(16, 8 * round(rows / 8)), max(16, 8 * round(CELLS / rows / 8))


def _stride(rows: int, columns: int) -> int:
    """The stride of the cells in pictures: about PICTURE_CELLS each way, but two rows and columns at least."""
    return max(1, min(-(-max(rows, columns) // PICTURE_CELLS), min(rows, columns) // 2))


def _steps(steps: int | None, hours: float | None, time_step_s: float, travel: voyage.Travel) -> int:
    if steps is not None:
        if steps < 1:
            raise InvalidArgumentError(f"{steps} steps are no simulation; ask for 1 or more")
        return _bounded(steps)
    if hours is not None and not (math.isfinite(hours) and hours > 0):
        raise InvalidArgumentError(f"{hours} hours are no simulation; ask for more than 0")
    wanted = hours if hours is not None else voyage.hours_to_simulate(travel)
    return _bounded(max(1, round(wanted * 3600 / time_step_s)))


def _bounded(steps: int) -> int:
    if steps > MOST_STEPS:
        raise InvalidArgumentError(f"{steps:,} steps are too many; ask for {MOST_STEPS:,} at most")
    return steps


def _judge(plan: _Plan, job: Job, folder: Path) -> Outcome:
    result = json.loads((folder / "result.json").read_text())
    with np.load(folder / "result.npz") as data:
        arrays = {name: data[name] for name in data.files}
    exchanges = [_exchange(rank, row) for rank, one in enumerate(result["ranks"]) for row in one["exchanges"]]
    exchanges.sort(key=lambda row: (row["rank"], row["peer"], row["kind"]))
    return Outcome(
        sea=plan.sea.thinned(job.stride) if job.stride > 1 else plan.sea,
        rows=plan.sea.rows,
        columns=plan.sea.columns,
        cell_m=(float(plan.sea.width_m.min()), float(plan.sea.width_m.max()), plan.sea.height_m),
        source=plan.source,
        hump_m=HUMP_M,
        radius_m=plan.radius_m,
        travel=plan.travel,
        gauges=plan.gauges,
        time_step_s=job.time_step_s,
        steps=job.steps,
        frame_steps=job.frame_steps,
        frames=arrays["frames"],
        highest=arrays["highest"],
        series=arrays["series"],
        ranks=job.ranks,
        grid=(result["grid"][0], result["grid"][1]),
        device=job.device,
        captured=job.capture,
        wall_s=result["wall_s"],
        alone_s=_alone_s(result),
        cores=len(os.sched_getaffinity(0)),
        times=[_times(rank, one["times"]) for rank, one in enumerate(result["ranks"])],
        exchanges=exchanges,
        checks=_checks(result, arrays),
    )


def _alone_s(result: dict[str, Any]) -> float | None:
    """Seconds that one rank took for the same steps, if that was the comparison."""
    same = result["check"]
    return same["wall_s"] if same is not None and same["how"] == "one rank" else None


def _exchange(rank: int, row: dict[str, Any]) -> dict[str, Any]:
    """A row of the halo's table, in the words of a map: row 0 is the southernmost, column 0 the westernmost."""
    layout = row["layout"] if "stride" in row["layout"] else f"contiguous, {row['layout']}"
    side = next((name for sign, name in _SIDES.items() if row["note"].endswith(sign)), "")
    return {**row, "rank": rank, "layout": layout, "note": f"{row['note']}, {side}" if side else row["note"]}


def _times(rank: int, times: dict[str, int]) -> RankTimes:
    per_step = 1e-3 / max(1, times["steps"])
    return RankTimes(
        rank=rank,
        compute=times["compute_ns"] * per_step,
        wait=times["wait_ns"] * per_step,
        move=times["exchange_move_ns"] * per_step,
        neighbour=times["exchange_wait_ns"] * per_step,
    )


def _checks(result: dict[str, Any], arrays: dict[str, Any]) -> list[Check]:
    volumes = np.array(result["volumes"])
    drift = float(np.abs(volumes / volumes[0] - 1.0).max())
    checks = [
        Check(
            "Water is conserved",
            drift <= VOLUME_TOLERANCE,
            f"The water above sea level, {volumes[0] / 1e9:.3f} km³, changed by {drift:.1e} of itself at most, over all frames "
            f"(tolerance {VOLUME_TOLERANCE:.0e}: rounding only, as the scheme conserves it exactly).",
        ),
        Check(
            "All values are finite",
            bool(np.isfinite(arrays["frames"]).all() and np.isfinite(arrays["series"]).all()),
            f"{arrays['frames'].size:,} elevations in {len(arrays['frames'])} frames, {arrays['series'].size:,} at the gauges.",
        ),
    ]
    same = result["check"]
    if same is not None:
        checks.insert(0, _same_bits(same))
    return checks


def _same_bits(same: dict[str, Any]) -> Check:
    equal, compared = same["equal"], same["compared"]
    text = (
        f"{equal} of {compared} fields (every frame, the highest water, every gauge's series) have the same bits; the largest "
        f"difference at the end is {same['largest_difference_m']:.1e} m (tolerance 0: the arithmetic and its order are the same). "
        f"The other run took {same['wall_s']:.1f} s."
    )
    return Check(
        f"Bit for bit the same as a run {'on one rank' if same['how'] == 'one rank' else same['how']}",
        equal == compared,
        text,
    )


def _conclude(outcome: Outcome) -> None:
    for check in outcome.checks:
        print(f"{'ok' if check.passed else 'FAILED':<10} {check.name}. {check.text}")
    each = 1e9 * outcome.wall_s / outcome.cells / outcome.steps
    print(
        f"speed      {outcome.wall_s:.1f} s for {outcome.steps:,} steps, {each:.2f} ns a cell and step over all ranks"
    )
    if outcome.alone_s is not None:
        print(f"           {outcome.speed_up()}")
