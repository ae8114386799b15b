"""`onstream bench one_sided`: puts, gets, signals and barriers, from kernels, on streams and by hosts.

bench/one_sided/one_sided.cpp defines the cases; the time is of one op one way. The get from a busy target is measured
twice: as the ranks reach each other, and with path `stage`, where the target's proxy thread serves it. Beside it, in
the same run: on the host device MPI_Put with MPI_Win_flush (bench/one_sided/mpi_one_sided.c), on GPUs the stream calls
of NVSHMEM's host library, as bench_message and bench_collective drive it: put with signal and wait, and barrier.
Programs alternate, round by round. The bars are data here; each is judged by the median over the rounds, and the
verdict tells in how many rounds it was reached.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..errors import Error, InvalidArgumentError
from . import bars, environment, mpi, peers, programs
from .cases import KIB, MIB, SIZES, Case
from .mpi import PeerMissing
from .programs import Program
from .progress import Say
from .results import preamble
from .samples import median, summarize

TITLES = {
    "kernel-put-wait": "put and wait of a word in a kernel",
    "kernel-line-wait": "put and wait of a line in a kernel",
    "kernel-put-signal": "put_signal and wait by a block in a kernel",
    "grid-put": "put_signal by a whole grid",
    "stream-put-signal": "put_signal and wait on streams",
    "stream-put-beside": "put_signal and wait, bytes beside the signal",
    "stream-barrier": "barrier on streams",
    "host-put": "store to peer()",
    "own-put": "the same stores to this rank's own memory",
    "host-get": "load from peer()",
    "own-get": "the same loads from this rank's own memory",
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
NVSHMEM_MESSAGES = (
    Case("ping-pong", "eager", 8, 200, 1),
    Case("ping-pong", "captured", 8, 2, 100),
    Case("ping-pong", "eager", 64 * KIB, 100, 1),
    Case("ping-pong", "captured", 64 * KIB, 2, 50),
    Case("ping-pong", "eager", 16 * MIB, 10, 1),
    Case("ping-pong", "captured", 16 * MIB, 2, 10),
)
NVSHMEM_BARRIERS = ("barrier:float32:sum:eager:0:200:1", "barrier:float32:sum:captured:0:20:50")


@dataclass(frozen=True)
class Settings:
    device: str = "host"
    ranks: int = 2
    rounds: int = 3
    samples: int = 10
    vs: tuple[str, ...] = ()
    quick: bool = False
    limit_s: float = 300.0
    budget_s: float | None = None  # no round is begun that would probably end later


@dataclass(frozen=True)
class Bar:
    """A bar for each of some cases: at most so many us, at least so many GB/s, or times a row of the same run."""

    device: str
    cases: tuple[str, ...]
    submission: str
    bytes: int
    limit: float
    unit: str  # us, GB/s, x
    ranks: int = 2
    against: tuple[str, str] = ("", "")  # of x: whose row of which case. onstream's own is a reference with a spread
    hardware: str = ""  # must be part of the device's name
    peer: str = ""  # another library's figure on that hardware, in words
    why: str = ""  # where the time goes if it is missed; docs/decisions/0014 has the measurements


STORE = "MPI_Put and flush store, and nobody waits for that; this is a trip between two CPUs"
ONE_BLOCK = "one multiprocessor stores 44 GB/s to a peer, 1.5 us of them, behind the 2.2 us of a put_signal of 8 B"
GRID_COPY = "the copy alone, by every block, takes 46.9 us (358 GB/s); the rest is the release and the signal"
ARRIVAL = "before it signals it has to hear that the bytes have arrived: a trip to the peer and back"


def _h200(cases: tuple[str, ...], submission: str, size: int, limit: float, unit: str, **more: Any) -> Bar:
    return Bar("cuda", cases, submission, size, limit, unit, hardware="H200", **more)


# A word that is its own signal and a line that carries any 8 bytes are both puts of 8 B; bytes beside their signal or not
# are both a put with signal on a stream. MPI_Put with MPI_Win_flush is a store into shared memory, as put and quiet are
# here; a put_signal that is waited for is a trip between two CPUs, and so is MPI's with a flag.
BARS = (
    Bar("host", ("host-put",), "host", 8, 1.0, "x", against=("onstream", "own-put")),
    Bar("host", ("host-get",), "host", 8, 1.0, "x", against=("onstream", "own-get")),
    Bar("host", ("host-put-signal",), "host", 8, 1.0, "x", against=("openmpi", "host-put-quiet"), why=STORE),
    Bar("host", ("host-put-signal",), "host", 8, 1.0, "x", against=("openmpi", "host-put-signal")),
    Bar("host", ("host-put-quiet",), "host", 8, 1.0, "x", against=("openmpi", "host-put-quiet")),
    _h200(("kernel-put-wait", "kernel-line-wait"), "kernel", 8, 1.0, "us"),
    _h200(("kernel-put-signal",), "kernel", 64 * KIB, 3.0, "us", why=ONE_BLOCK),
    _h200(("grid-put",), "eager", 256 * MIB, 365.0, "GB/s"),
    _h200(("stream-put-signal", "stream-put-beside"), "captured", 8, 1.9, "us", peer="NVSHMEM 7.5", why=ARRIVAL),
    _h200(("stream-put-signal",), "captured", 16 * MIB, 49.0, "us", peer="NVSHMEM 53.5", why=GRID_COPY),
    _h200(("stream-barrier",), "captured", 0, 2.2, "us", ranks=4),
)

LEAST_SPREAD = 0.01  # on a quiet machine the quartiles of a loop differ by less than two loops that are alike do
MOST_SPREAD = 0.10  # a larger spread excuses nothing

Key = tuple[str, str, int]  # case, submission, bytes


@dataclass
class Contender:
    """One program of the comparison, and its samples so far."""

    who: str
    program: Program
    words: tuple[str, ...]
    path: str = ""
    renamed: str = ""  # the case of ours that all its lines are
    heading: dict[str, Any] = field(default_factory=dict)
    rounds_s: dict[Key, list[list[float]]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        name = peers.TITLES.get(self.who, self.who)
        return f"{name}, {TITLES[self.renamed]}" if self.renamed else name


def measure(settings: Settings, say: Say = lambda _line: None) -> dict[str, Any]:
    """Runs everything and returns the result. Throws if onstream fails; a peer that does is named in the result."""
    if settings.device not in SIZES:
        raise InvalidArgumentError(f"device is '{settings.device}'; there are {', '.join(SIZES)}")
    where = environment.collect()
    contenders = [_own(settings, "auto", ())]
    if settings.ranks == 2:
        contenders.append(_own(settings, "stage", STAGED))
    missing = {}
    for name in settings.vs:
        try:
            say(f"preparing {name}")
            contenders += _nvshmem(settings) if name == "nvshmem" else [_mpi(settings, name)]
        except PeerMissing as error:
            missing[name] = str(error)
    return compare(settings, contenders, missing, where, say)


def compare(
    settings: Settings, contenders: list[Contender], missing: dict[str, str], where: dict[str, Any], say: Say
) -> dict[str, Any]:
    """All rounds of all contenders, the first of which is onstream; fewer where the budget ends before."""
    lost: list[Contender] = []
    began = time.monotonic()
    for number in range(settings.rounds):
        spent = time.monotonic() - began
        if settings.budget_s is not None and number > 0 and spent * (number + 1) / number > settings.budget_s:
            say(f"{number} of {settings.rounds} rounds: the next would end after the budget of {settings.budget_s:g} s")
            settings = replace(settings, rounds=number)
            break
        first = number % len(contenders)
        for contender in contenders[first:] + contenders[:first]:
            if contender in lost:
                continue
            path = f", path {contender.path}" if contender.path else ""
            say(f"round {number + 1} of {settings.rounds}: {contender.title}{path}")
            failure = _run(contender, settings)
            if failure is None:
                continue
            if contender.who == "onstream":
                raise failure
            lost.append(contender)
            missing[contender.title] = f"it ended early in round {number + 1}: {failure}"
    result: dict[str, Any] = {
        **preamble("one_sided", where, asdict(settings)),
        "device": contenders[0].heading["device"],
        "device_kind": contenders[0].heading["device_kind"],
        "ranks": settings.ranks,
        "onstream": contenders[0].heading,
        "rows": [_row(one, key, rounds) for one in contenders for key, rounds in one.rounds_s.items()],
        "peers_missing": missing,
    }
    result["verdicts"] = judge(result)
    return result


def _own(settings: Settings, path: str, cases: tuple[str, ...]) -> Contender:
    program = Program("bench_one_sided", programs.as_ranks(programs.native("bench_one_sided"), settings.ranks, ()))
    quick = ("--quick",) if settings.quick else ()
    return Contender(
        "onstream", program, ("--device", settings.device, "--set", f"path={path}", *quick, *cases), path=path
    )


def _mpi(settings: Settings, name: str) -> Contender:
    if settings.device != "host":
        raise PeerMissing("MPI's one-sided calls are measured between hosts")
    if settings.ranks != 2:
        raise PeerMissing(f"MPI's one-sided calls are measured between 2 ranks, not {settings.ranks}")
    source = programs.source_folder("one_sided") / "mpi_one_sided.c"
    program = mpi.build(mpi.MPIS[name], source, programs.build_folder() / "peers")
    rounds = MPI_ROUNDS // 20 if settings.quick else MPI_ROUNDS
    return Contender(name, program, ("--rounds", str(rounds), *MPI_SIZES))


def _nvshmem(settings: Settings) -> list[Contender]:
    if settings.device != "cuda":
        raise PeerMissing(f"{peers.TITLES['nvshmem']} works between GPUs, and the device is {settings.device}")
    return nvshmem_over(peers.find_nvshmem(), settings)


def nvshmem_over(file: str, settings: Settings) -> list[Contender]:
    """The comparable calls of NVSHMEM's host library. Messages take two ranks, a barrier any number."""
    options = ("--library", "nvshmem", "--file", file)
    variables = peers.nvshmem_variables(2 * 16 * MIB + 64 * MIB)
    barriers = programs.as_ranks(
        programs.native("bench_collective"), settings.ranks, ("--device", settings.device, *options)
    )
    found = [Contender("nvshmem", Program("nvshmem", barriers, variables), NVSHMEM_BARRIERS, renamed="stream-barrier")]
    if settings.ranks == 2:
        messages = programs.message_program(settings.device, options=options)
        cases = tuple(str(case) for case in NVSHMEM_MESSAGES)
        program = Program("nvshmem", messages.start, variables)
        found.insert(0, Contender("nvshmem", program, cases, renamed="stream-put-signal"))
    return found


def _run(contender: Contender, settings: Settings) -> Error | None:
    words = ("--samples", str(settings.samples), *contender.words)
    finished = programs.execute(contender.program, words, settings.limit_s)
    seen = set()  # a case that cannot be captured is measured eagerly once more
    for line in programs.rows_of(contender.program.name, finished.out):
        if "samples_s" not in line:
            contender.heading.update(line)
            continue
        key = (contender.renamed or line["case"], line["submission"], line.get("bytes", 0))
        if key not in seen:
            contender.rounds_s.setdefault(key, []).append(line["samples_s"])
        seen.add(key)
    return finished.error


def _row(contender: Contender, key: Key, rounds: list[list[float]]) -> dict[str, Any]:
    case, submission, size = key
    what = {"case": case, "submission": submission, "bytes": size, "who": contender.who, "path": contender.path}
    return {**what, **asdict(summarize(rounds)), "rounds_median_s": [median(samples) for samples in rounds]}


# --- verdicts ---


def judge(result: dict[str, Any]) -> list[dict[str, Any]]:
    """One verdict for every case of every bar that the result has, with its reference if the bar has one; absolute ones
    on the hardware they were stated for. Beside this rank's own memory the bar is the limit or, where that is more, the
    spread of the reference itself in the same run: its third quartile over its median, LEAST_SPREAD to MOST_SPREAD.
    """
    verdicts = []
    for bar in _stated_for(result):
        reference = _found(result, bar, *bar.against)
        for case in bar.cases:
            ours = _found(result, bar, "onstream", case)
            if ours is not None and (reference is not None or bar.unit != "x"):
                verdicts.append({**asdict(bar), "case": case, **_verdict(bar, ours, reference)})
    return verdicts


def not_run(result: dict[str, Any]) -> list[tuple[Bar, str, str]]:
    """Every bar stated for this device and number of ranks, and case of it, that has no verdict; and why."""
    without = []
    for bar in _stated_for(result):
        for case in bar.cases:
            if _found(result, bar, "onstream", case) is None:
                without.append((bar, case, bars.NO_CASE))
            elif bar.unit == "x" and _found(result, bar, *bar.against) is None:
                without.append((bar, case, bars.NO_PEER))
    return without


def _stated_for(result: dict[str, Any]) -> Iterator[Bar]:
    device, ranks = result["device_kind"], result["ranks"]
    return (bar for bar in BARS if (bar.device, bar.ranks) == (device, ranks) and bar.hardware in result["device"])


def _found(result: dict[str, Any], bar: Bar, who: str, case: str) -> dict[str, Any] | None:
    wanted = (who, case, bar.submission, bar.bytes)
    for row in result["rows"]:
        if (row["who"], row["case"], row["submission"], row["bytes"]) == wanted and row["path"] in ("auto", ""):
            found: dict[str, Any] = row
            return found
    return None


def _verdict(bar: Bar, ours: dict[str, Any], reference: dict[str, Any] | None) -> dict[str, Any]:
    limit = bar.limit
    if reference is not None and reference["who"] == "onstream":
        limit *= min(1 + MOST_SPREAD, max(1 + LEAST_SPREAD, reference["p75_s"] / reference["median_s"]))
    reference_s = None if reference is None else reference["median_s"]
    rounds = _rounds_of(ours)
    beside = _rounds_of(reference) if reference is not None else [None] * len(rounds)
    values = [_value(bar, seconds, other) for seconds, other in zip(rounds, beside, strict=False)]
    value = _value(bar, ours["median_s"], reference_s)
    return {
        "value": value,
        "within": limit,
        "holds": _holds(bar, value, limit),
        "rounds": len(values),
        "rounds_held": sum(_holds(bar, one, limit) for one in values),
        "median_s": ours["median_s"],
        "reference_median_s": reference_s,
    }


def _rounds_of(row: dict[str, Any]) -> list[float]:
    """Medians of the rounds; earlier results have one round and do not tell it."""
    return list(row.get("rounds_median_s", [row["median_s"]]))


def _value(bar: Bar, seconds: float, reference_s: float | None) -> float:
    if bar.unit == "x":
        assert reference_s is not None
        return seconds / reference_s
    return seconds * 1e6 if bar.unit == "us" else bar.bytes / seconds / 1e9


def _holds(bar: Bar, value: float, limit: float) -> bool:
    return value >= limit if bar.unit == "GB/s" else value <= limit
