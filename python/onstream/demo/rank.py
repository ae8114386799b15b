"""What every rank of the demo runs: python -m onstream.demo.rank FOLDER.

Advances the wave from frame to frame; rank 0 collects frames, gauges and times, says how far it is, and afterwards runs
the whole sea once more in a world of its own to compare bit for bit. Every wait is bounded by the world's deadline.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import Launch, World, _core
from .job import Job

CHUNK_S = 0.2  # how long a call into the solver may last, so that Ctrl-C is heard


class Run:
    """One simulation of the whole job in one world. Rank 0 holds what it collected."""

    def __init__(self, world: World, job: Job, folder: Path, *, capture: bool, title: str) -> None:
        self.world, self.job, self.title = world, job, title
        self.frames: list[NDArray[np.float32]] = []
        self.digests: list[str] = []
        self.volumes: list[float] = []
        self.wall_s = 0.0
        block = _core.tsunami_block(world.rank, world.size, job.rows, job.columns)
        self._area = (np.load(folder / "width.npy") * job.height_m)[:, None]
        self._tsunami = _core.Tsunami(world, **job.part(folder, block), capture=capture)

    def simulate(self) -> None:
        warm = min(2, self.job.steps)  # not timed: memory is touched and code is loaded for the first time
        done, chunk = 0, 8
        for frame, target in enumerate(self.job.frame_steps):
            while done < target:
                steps = warm if done == 0 else min(chunk, target - done)
                steps = min(steps, target - done)
                begin = time.perf_counter()
                self._tsunami.run(steps)
                took = time.perf_counter() - begin
                if done == 0:
                    self._tsunami.reset_times()
                else:
                    self.wall_s += took
                    chunk = max(1, min(4 * chunk, int(steps * CHUNK_S / max(took, 1e-6))))
                done += steps
            self._collect(self._tsunami.gather("elevation"))
            self._tell(frame)
        self.wall_s *= self.job.steps / max(1, self.job.steps - warm)
        self.highest = self._tsunami.gather("highest")
        self.series = [self._tsunami.gauge(k) for k in range(len(self.job.gauges))]
        if self.world.rank == 0:
            self._digest(self.highest, *self.series)

    def describe(self) -> list[dict[str, Any]]:
        """Times and halos of every rank, on every rank. Collective."""
        mine = {"times": self._tsunami.times(), "exchanges": self._tsunami.exchanges(), "device": self.world.device}
        return [json.loads(text) for text in self.world._all_gather("tsunami.describe", json.dumps(mine))]

    @property
    def grid(self) -> list[int]:
        return list(self._tsunami.grid)

    def _collect(self, field: NDArray[np.float64] | None) -> None:
        if field is None:
            return
        self._digest(field)
        self.volumes.append(float((field * self._area).sum()))
        self.frames.append(field.astype(np.float32))
        self.final = field

    def _digest(self, *arrays: Any) -> None:
        for array in arrays:
            self.digests.append(hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).hexdigest())

    def _tell(self, frame: int) -> None:
        last = len(self.job.frame_steps) - 1
        if self.world.rank != 0 or last <= 0:
            return
        tenth = frame * 10 // last
        if tenth != (frame - 1) * 10 // last or frame == last:
            minutes = self.job.frame_steps[frame] * self.job.time_step_s / 60
            bar = "█" * (2 * tenth) + "·" * (20 - 2 * tenth)
            print(
                f"{self.title:>9} {bar} {10 * tenth:3d} %  step {self.job.frame_steps[frame]:>7,}  "
                f"{minutes:5.0f} min of waves in {self.wall_s:5.1f} s",
                flush=True,
            )


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0])
    job = Job.load(folder)
    with World(device=job.device) as world:
        ranks = "1 rank" if world.size == 1 else f"{world.size} ranks"
        run = Run(world, job, folder, capture=job.capture, title=ranks)
        run.simulate()
        described = run.describe()
        rank, grid = world.rank, run.grid
        run._tsunami = None  # frees its memory before the world goes
    if rank != 0:
        return 0
    result: dict[str, Any] = {
        "grid": grid,
        "wall_s": run.wall_s,
        "volumes": run.volumes,
        "ranks": described,
        "check": _compare(job, folder, run) if job.check else None,
    }
    np.savez(
        folder / "result.npz",
        frames=np.stack(run.frames),
        highest=run.highest.astype(np.float32),
        series=np.stack(run.series) if run.series else np.zeros((0, job.steps)),
    )
    (folder / "result.json").write_text(json.dumps(result))
    return 0


def _compare(job: Job, folder: Path, run: Run) -> dict[str, Any]:
    """The same sea once more: on one rank, or, if it was one rank, the other way of enqueueing."""
    capture = job.capture if job.ranks > 1 else not job.capture
    with World(launch=Launch(0, 1, 0, ""), device=job.device) as world:
        alone = Run(world, job, folder, capture=capture, title="check")
        alone.simulate()
        alone._tsunami = None
    return {
        "compared": len(run.digests),
        "equal": sum(a == b for a, b in zip(run.digests, alone.digests, strict=True)),
        "largest_difference_m": float(np.abs(run.final - alone.final).max()),
        "wall_s": alone.wall_s,
        "how": "one rank" if job.ranks > 1 else ("captured" if capture else "eager"),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
