"""`onstream bench ping-kernel-pong`: wait, compute, send, between two ranks; driven by the host, the stream, or the kernel.

bench/world/ping_kernel_pong.cpp describes the timed step and the ways of driving it. The gain is the synchronous step's
time over the way's; CPU time is that of the calling thread, which a stream-ordered program leaves free.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..errors import InvalidArgumentError
from . import environment, programs
from .cases import SIZES
from .programs import Program
from .progress import Say
from .results import preamble
from .samples import quantile

WAYS = {
    "synchronous": "the host waits for each",
    "ordered": "stream-ordered, eager",
    "captured": "stream-ordered, captured",
    "kernel": "one kernel a batch puts and waits",
}


@dataclass(frozen=True)
class Settings:
    device: str = "host"
    kernel_us: tuple[int, ...] = (0, 5, 20, 100)
    bytes: int = 1024
    steps_per_batch: int = 20
    batches_inflight: int = 2
    batches: int = 20
    samples: int = 5
    quick: bool = False
    limit_s: float = 300.0

    def words(self) -> tuple[str, ...]:
        durations = ",".join(map(str, self.kernel_us))
        return (
            "--device", self.device, "--kernel-us", durations, "--bytes", str(self.bytes),
            "--steps-per-batch", str(self.steps_per_batch), "--batches-inflight", str(self.batches_inflight),
            "--batches", str(self.batches), "--samples", str(self.samples),
        )  # fmt: skip


def quick_batches(batches: int, inflight: int) -> int:
    """A tenth, and a multiple of those in flight still."""
    return max(1, batches // 10 // max(1, inflight)) * inflight


def measure(settings: Settings, say: Say = lambda _line: None) -> dict[str, Any]:
    if settings.device not in SIZES:
        raise InvalidArgumentError(f"device is '{settings.device}'; there are {', '.join(SIZES)}")
    where = environment.collect()
    say(f"kernels of {', '.join(map(str, settings.kernel_us))} us")
    program = Program("bench_ping_kernel_pong", programs.as_ranks(programs.native("bench_ping_kernel_pong"), 2, ()))
    finished = programs.execute(program, settings.words(), settings.limit_s)
    if finished.error is not None:
        raise finished.error
    heading, *lines = programs.rows_of("bench_ping_kernel_pong", finished.out)
    return {
        **preamble("ping-kernel-pong", where, asdict(settings)),
        "device": heading["device"],
        "device_kind": heading["device_kind"],
        "onstream": heading,
        "rows": rows_of(lines),
    }


def rows_of(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    medians = {(line["way"], line["kernel_us"]): quantile(line["step_s"], 0.5) for line in lines}
    return [
        {
            "way": line["way"],
            "kernel_us": line["kernel_us"],
            "median_s": medians[line["way"], line["kernel_us"]],
            "p25_s": quantile(line["step_s"], 0.25),
            "p75_s": quantile(line["step_s"], 0.75),
            "thread_cpu_s": quantile(line["thread_cpu_s"], 0.5),
            "process_cpu_s": quantile(line["process_cpu_s"], 0.5),
            "gain": medians["synchronous", line["kernel_us"]] / medians[line["way"], line["kernel_us"]],
        }
        for line in lines
    ]
