"""The program of every rank of the demo: python -m onstream.demo.rank FOLDER.

Advances the wave from frame to frame; rank 0 collects frames, gauges and times, says how far it is, and afterwards runs
the whole sea once more in a world of its own to compare bit for bit. Every wait is bounded by the world's deadline.
"""

from __future__ import annotations

import hashlib
import json
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import Launch, World, _core
from ..errors import Error
from ..launcher import standard
from .bathymetry import Array
from .job import Job

CHUNK_S = 0.2  # how long a call into the solver may last, so that Ctrl-C is heard
WARM_STEPS = 2  # not timed: memory is touched and code is loaded for the first time


@dataclass
class Collected:
    """Rank 0's record of a simulation; on other ranks only `ranks` is filled."""

    ranks: list[dict[str, Any]] = field(default_factory=list)  # times, exchanges and device of each
    grid: list[int] = field(default_factory=list)
    wall_s: float = 0.0
    frames: list[NDArray[np.float32]] = field(default_factory=list)
    volumes: list[float] = field(default_factory=list)  # above sea level, of each frame, m^3
    digests: list[str] = field(default_factory=list)  # of every frame, the highest water, every gauge's series
    series: list[Array] = field(default_factory=list)
    final: Array = field(default_factory=lambda: np.zeros(0))
    highest: Array = field(default_factory=lambda: np.zeros(0))

    def add_frame(self, elevation: Array, area: Array, stride: int) -> None:
        self.final = elevation
        self.frames.append(_thinned(elevation, stride))
        self.volumes.append(float((elevation * area).sum()))
        self.digests.append(_digest(elevation))


def simulate(world: World, job: Job, folder: Path, *, capture: bool, title: str) -> Collected:
    """The whole job in this world. Collective."""
    block = _core.tsunami_block(world.rank, world.size, job.rows, job.columns)
    tsunami = _core.Tsunami(world, **job.part(folder, block), capture=capture)
    area = (np.load(folder / "width.npy") * job.height_m)[:, None]
    clock = _Clock(tsunami, job.steps)
    got = Collected(grid=list(tsunami.grid))
    for number, target in enumerate(job.frame_steps):
        clock.advance_to(target)
        elevation = tsunami.gather("elevation")
        if elevation is not None:
            got.add_frame(elevation, area, job.stride)
            _tell(job, number, title, clock.wall_s)
    highest = tsunami.gather("highest")
    series = [tsunami.gauge(k) for k in range(len(job.gauges))]
    if highest is not None:
        got.highest = highest
        got.series = [one for one in series if one is not None]
        got.digests += [_digest(array) for array in (highest, *got.series)]
    got.wall_s = clock.wall_s
    mine = {"times": tsunami.times(), "exchanges": tsunami.exchanges(), "device": world.device}
    got.ranks = [json.loads(text) for text in world._all_gather("tsunami.ranks", json.dumps(mine))]
    return got


class _Clock:
    """Advances a solver in calls of CHUNK_S and adds up their times; untimed steps count as long as the timed ones."""

    def __init__(self, tsunami: _core.Tsunami, steps: int) -> None:
        self._tsunami = tsunami
        self._warm = WARM_STEPS if steps > WARM_STEPS else 0
        self._done = 0
        self._chunk = 8
        self._timed = 0
        self._seconds = 0.0

    @property
    def wall_s(self) -> float:
        return self._seconds * self._done / max(self._timed, 1)

    def advance_to(self, target: int) -> None:
        while self._done < target:
            warming = self._done < self._warm
            steps = min(self._warm - self._done if warming else self._chunk, target - self._done)
            begin = time.perf_counter()
            self._tsunami.run(steps)
            took = time.perf_counter() - begin
            self._done += steps
            if warming:
                self._tsunami.reset_times()
                continue
            self._timed += steps
            self._seconds += took
            self._chunk = max(1, min(4 * self._chunk, int(steps * CHUNK_S / max(took, 1e-6))))


def _thinned(field: Array, stride: int) -> NDArray[np.float32]:
    return field[stride // 2 :: stride, stride // 2 :: stride].astype(np.float32)


def _digest(array: Array) -> str:
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).hexdigest()


def _tell(job: Job, frame: int, title: str, seconds: float) -> None:
    last = len(job.frame_steps) - 1
    tenth = frame * 10 // max(last, 1)
    if frame != last and tenth == (frame - 1) * 10 // max(last, 1):
        return
    done = job.frame_steps[frame]
    bar = "█" * (2 * tenth) + "·" * (20 - 2 * tenth)
    minutes = done * job.time_step_s / 60
    print(
        f"{title:<10} {bar} {10 * tenth:3d} %  step {done:>7,}  {minutes:5.0f} min of waves in {seconds:5.1f} s",
        flush=True,
    )


def _compare(job: Job, folder: Path, first: Collected) -> dict[str, Any]:
    """Runs the same sea once more: on one rank, or, if it was one rank, with the other way of enqueueing."""
    capture = job.capture if job.ranks > 1 else not job.capture
    with World(launch=Launch(0, 1, 0, ""), device=job.device) as world:
        again = simulate(world, job, folder, capture=capture, title="check")
    return {
        "compared": len(first.digests),
        "equal": sum(a == b for a, b in zip(first.digests, again.digests, strict=True)),
        "largest_difference_m": float(np.abs(first.final - again.final).max()),
        "wall_s": again.wall_s,
        "how": "one rank" if job.ranks > 1 else ("captured" if capture else "eager"),
    }


def run_job(folder: Path) -> None:
    """The simulation, and on rank 0 the comparison and the result's files."""
    job = Job.load(folder)
    with World(device=job.device) as world:
        title = "1 rank" if world.size == 1 else f"{world.size} ranks"
        got = simulate(world, job, folder, capture=job.capture, title=title)
        rank = world.rank
    if rank != 0:
        return
    result = {
        "grid": got.grid,
        "wall_s": got.wall_s,
        "volumes": got.volumes,
        "ranks": got.ranks,
        "check": _compare(job, folder, got) if job.check else None,
    }
    series = np.stack(got.series) if got.series else np.zeros((0, job.steps))
    highest = _thinned(got.highest, job.stride)
    np.savez(folder / "result.npz", frames=np.stack(got.frames), highest=highest, series=series)
    (folder / "result.json").write_text(json.dumps(result))


def main(arguments: list[str]) -> int:
    """Runs the job. A rank that ends early prints its error in one line, without a traceback."""
    try:
        run_job(Path(arguments[0]))
    except Error as error:
        print(f"onstream demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


if __name__ == "__main__":
    with standard.guarded("onstream demo"):
        sys.exit(main(sys.argv[1:]))
