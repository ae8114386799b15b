"""`onstream bench one_sided`: puts, gets, signals and barriers, from kernels, on streams and by hosts.

What each case does stands in bench/one_sided.cpp; the time is of one op one way. The get from a busy target is measured
twice: as the ranks reach each other, and with path `stage`, where the target's helper thread serves it. Beside it, in
the same run: on the host device MPI_Put with MPI_Win_flush (bench/mpi_one_sided.c), on GPUs NVSHMEM's put with signal and
wait, both on a stream, as bench_message does them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..errors import InvalidArgumentError
from . import environment, mpi, peers, programs
from .cases import KIB, MIB, SIZES, Case
from .message import Say, preamble
from .mpi import PeerMissing
from .programs import Program
from .samples import quantile

TITLES = {
    "kernel-put-wait": "put and wait of a word in a kernel",
    "kernel-line-wait": "put and wait of a line in a kernel",
    "kernel-put-signal": "put_signal and wait by a block in a kernel",
    "grid-put": "put_signal by a whole grid",
    "stream-put-signal": "put_signal and wait on streams",
    "stream-put-beside": "the same, the bytes beside their signal",
    "stream-barrier": "barrier on streams",
    "host-put": "store to peer()",
    "host-get": "load from peer()",
    "host-put-signal": "put_signal and wait by hosts",
    "host-put-quiet": "put and quiet by a host",
    "host-barrier": "barrier of hosts",
    "idle-get": "get from a rank that waits",
    "busy-get": "get from a rank whose kernel and CPU are busy",
}
STAGED = ("stream-put-signal:8", "host-put-quiet:8", "busy-get:8192")
PEERS = ("nvshmem", *mpi.MPIS)
MPI_SIZES = ("8", "1024", "65536")
MPI_ROUNDS = 2000
NVSHMEM_CASES = (
    Case("ping-pong", "eager", 8, 200, 1),
    Case("ping-pong", "captured", 8, 2, 100),
    Case("ping-pong", "eager", 64 * KIB, 100, 1),
    Case("ping-pong", "captured", 64 * KIB, 2, 50),
    Case("ping-pong", "eager", 16 * MIB, 10, 1),
    Case("ping-pong", "captured", 16 * MIB, 2, 10),
)


@dataclass(frozen=True)
class Settings:
    device: str = "host"
    ranks: int = 2
    samples: int = 10
    vs: tuple[str, ...] = ()
    quick: bool = False
    limit_s: float = 300.0


def measure(settings: Settings, say: Say = lambda _line: None) -> dict[str, Any]:
    if settings.device not in SIZES:
        raise InvalidArgumentError(f"device is '{settings.device}'; there are {', '.join(SIZES)}")
    where = environment.collect()
    heading, rows = _own(settings, "auto", (), say)
    if settings.ranks == 2:
        rows += _own(settings, "stage", STAGED, say)[1]
    missing = {}
    for name in settings.vs if settings.ranks == 2 else ():
        try:
            rows += _nvshmem(settings, say) if name == "nvshmem" else _mpi(settings, name, say)
        except PeerMissing as error:
            missing[name] = str(error)
    return {
        **preamble("one_sided", where, asdict(settings)),
        "device": heading["device"],
        "device_kind": heading["device_kind"],
        "ranks": settings.ranks,
        "onstream": heading,
        "rows": rows,
        "peers_missing": missing,
    }


def _own(
    settings: Settings, path: str, cases: tuple[str, ...], say: Say
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    say(f"onstream, path {path}")
    program = Program("bench_one_sided", programs.as_ranks(programs.native("bench_one_sided"), settings.ranks, ()))
    words = ("--device", settings.device, "--samples", str(settings.samples), "--set", f"path={path}")
    return _rows(settings, program, (*words, *(("--quick",) if settings.quick else ()), *cases), "onstream", path)


def _mpi(settings: Settings, name: str, say: Say) -> list[dict[str, Any]]:
    if settings.device != "host":
        raise PeerMissing("MPI's one-sided calls are measured between hosts")
    say(name)
    source = programs.source_folder() / "mpi_one_sided.c"
    program = mpi.build(mpi.MPIS[name], source, programs.build_folder() / "peers")
    rounds = MPI_ROUNDS // 20 if settings.quick else MPI_ROUNDS
    words = ("--samples", str(settings.samples), "--rounds", str(rounds), *MPI_SIZES)
    return _rows(settings, program, words, name, "")[1]


def _nvshmem(settings: Settings, say: Say) -> list[dict[str, Any]]:
    say("nvshmem")
    job = peers.Job(settings.device, settings.ranks, 16 * MIB, programs.build_folder() / "peers")
    program = peers.PEERS["nvshmem"].prepare(job)
    output = programs.run(program, list(NVSHMEM_CASES), settings.samples, settings.limit_s)
    return [
        _row({"case": "stream-put-signal", "submission": case.submission, "bytes": case.bytes}, samples, "nvshmem", "")
        for case, samples in output.samples_s.items()
    ]


def _row(what: dict[str, Any], samples_s: list[float], who: str, path: str) -> dict[str, Any]:
    return {
        **what,
        "who": who,
        "path": path,
        "median_s": quantile(samples_s, 0.5),
        "min_s": min(samples_s),
        "p25_s": quantile(samples_s, 0.25),
        "p75_s": quantile(samples_s, 0.75),
        "samples": len(samples_s),
    }


def _rows(
    settings: Settings, program: Program, words: tuple[str, ...], who: str, path: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    finished = programs.execute(program, words, settings.limit_s)
    if finished.error is not None:
        raise finished.error
    heading, *lines = programs.rows_of(program.name, finished.out)
    keys = ("case", "submission", "bytes")
    return heading, [_row({key: line[key] for key in keys}, line["samples_s"], who, path) for line in lines]
