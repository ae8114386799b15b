"""`onstream bench collective`: every kind of collective, with NCCL's columns: time, algorithm and bus bandwidth, errors.

bench/collective/collective.cpp runs onstream, NCCL (`nccl`: with its symmetric windows where it has them; `nccl-plain`:
without registration) and NVSHMEM; bench/collective/torch_collectives.py runs PyTorch's symmetric memory,
bench/collective/mpi_collectives.c MPI between hosts. `engine` is onstream itself where the copy engine moves large
data. A call that a peer cannot capture is measured eagerly, and its row says so. Programs alternate, round by round.
`bytes` counts as NCCL's tests do: the vector of all_reduce, reduce, broadcast and scan; for the others all bytes that a
rank gathers, scatters or exchanges. Bus bandwidth is NCCL's too: comparable with a link's for any number of ranks.
`wrong` counts the elements that were not the expected ones, in the round that had most; "-": such a case is not
checked, as a barrier is not.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from .. import _core
from ..errors import Error, InvalidArgumentError
from . import bars, environment, mpi, peers, programs
from .cases import GIB, KIB, MAX_MESSAGES, MIB, SAMPLE_BYTES, SIZES
from .mpi import PeerMissing
from .programs import Program
from .progress import Say
from .results import preamble
from .samples import summarize

KINDS = (
    "all_reduce", "all_to_all", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "scan", "barrier",
)  # fmt: skip
DEFAULT_KINDS = ("all_reduce", "all_to_all", "all_gather", "reduce_scatter", "broadcast", "barrier")
NCCL_KINDS = ("all_reduce", "all_to_all", "all_gather", "reduce_scatter", "broadcast", "reduce")
NVSHMEM_KINDS = ("all_reduce", "all_to_all", "all_gather", "reduce_scatter", "broadcast", "barrier")
NVSHMEM_TYPES = ("float32", "float64", "int64", "int32", "uint8", "bfloat16", "float16")
TORCH_KINDS = {"all_reduce": ("float32", "bfloat16"), "all_gather": ("float32", "bfloat16", "float64", "int64")}
MPI_TYPES = ("float32", "float64", "int32", "int64", "uint8")
REDUCTIONS = ("all_reduce", "reduce", "reduce_scatter", "scan")
TITLES = {
    **peers.TITLES,
    "engine": "onstream, collective_engine=large",
    "nccl-plain": "NCCL, not registered",
    "torch": "PyTorch symmetric memory",
}
PEERS = ("nccl", "nccl-plain", "nvshmem", "torch", *mpi.MPIS)
OWN_PEERS = ("engine", "nccl-plain", "torch")  # of the collectives alone
ENGINE_MOVES = ("all_to_all", "all_gather", "gather", "scatter")
ENGINE_LEAST = 64 * MIB
DEFAULT_SIZES = {
    "host": (8, KIB, 64 * KIB, MIB),
    "cuda": (8, 64, KIB, 32 * KIB, 256 * KIB, MIB, 2 * MIB, 16 * MIB, 256 * MIB, GIB),
}
MOST_WINDOW = 50  # collectives in one graph
MOST_CROWDED = 1000  # repetitions on the host where ranks share cores
MOST_CROWDED_MPICH = 4  # it never gives its core away: an op takes milliseconds to seconds then


@dataclass(frozen=True)
class Case:
    """Printed as bench/collective/collective_case.hpp reads it."""

    kind: str
    type: str
    submission: str
    bytes: int
    iterations: int
    window: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.type}:sum:{self.submission}:{self.bytes}:{self.iterations}:{self.window}"


@dataclass(frozen=True)
class Settings:
    device: str = "host"
    ranks: int = 4
    kinds: tuple[str, ...] = DEFAULT_KINDS
    types: tuple[str, ...] = ()  # empty: float32; and float64 and int64 of the shortest vector
    sizes: tuple[int, ...] = ()
    submissions: tuple[str, ...] = ()
    memory: str = "device"
    algorithm: str = "auto"
    vs: tuple[str, ...] = ()
    rounds: int = 3
    samples: int = 10
    quick: bool = False
    limit_s: float = 300.0

    def resolved(self) -> Settings:
        if self.device not in SIZES:
            raise InvalidArgumentError(f"device is '{self.device}'; there are {', '.join(SIZES)}")
        if self.ranks < 1:
            raise InvalidArgumentError(f"a collective needs at least one rank, not {self.ranks}")
        _core.CollectiveCall("barrier", 0, 0, 0, "uint8").set_options("sum", 0, 0, self.algorithm)  # is there one?
        submissions = self.submissions or (("host",) if self.device == "host" else ("captured",))
        return replace(self, sizes=self.sizes or DEFAULT_SIZES[self.device], submissions=submissions)


@dataclass(frozen=True)
class Bar:
    """A bar for one kind: at most so many us, at least so many GB/s of bus bandwidth, or times the better peer."""

    device: str
    kind: str
    type: str
    bytes: int
    submission: str
    limit: float
    unit: str  # us, GB/s, x
    peer: str = ""


def _h200(kind: str, size: int, limit: float, unit: str, peer: str, element: str = "float32") -> Bar:
    return Bar("cuda", kind, element, size, "captured", limit, unit, peer)


# On cuda for 4 H200 without multicast.
BARS = (
    Bar("host", "all_reduce", "float32", 8, "host", 1.0, "x"),
    Bar("host", "all_reduce", "float32", MIB, "host", 1.0, "x"),
    Bar("host", "all_to_all", "float32", MIB, "host", 1.0, "x"),
    _h200("all_reduce", 8, 2.4, "us", "3.65"),
    _h200("all_reduce", 8, 2.4, "us", "7.8", "float64"),
    _h200("all_reduce", 8, 2.4, "us", "", "int64"),
    _h200("all_reduce", 32 * KIB, 3.9, "us", "6.4"),
    _h200("all_reduce", 256 * KIB, 6.5, "us", "8.9"),
    _h200("all_reduce", MIB, 9.5, "us", "12.7"),
    _h200("all_reduce", 2 * MIB, 15, "us", "20.2"),
    _h200("all_reduce", 16 * MIB, 80, "us", "92"),
    _h200("all_reduce", 256 * MIB, 350, "GB/s", "340"),
    _h200("all_reduce", GIB, 360, "GB/s", "357"),
    _h200("all_to_all", 64, 2.4, "us", "6.3"),
    _h200("all_to_all", 256 * KIB, 5, "us", "8.3"),
    _h200("all_to_all", 2 * MIB, 12, "us", "14"),
    _h200("all_to_all", GIB, 360, "GB/s", "358"),
    _h200("all_gather", 32, 2.4, "us", "7.2"),
    _h200("reduce_scatter", 32, 2.4, "us", "7.2"),
    _h200("broadcast", 8, 2.4, "us", "7.2"),
    Bar("cuda", "all_gather", "float32", GIB, "captured", 1.0, "x"),
    Bar("cuda", "reduce_scatter", "float32", GIB, "captured", 1.0, "x"),
    Bar("cuda", "broadcast", "float32", GIB, "captured", 1.0, "x"),
    _h200("barrier", 0, 2.2, "us", "5.3"),
)
HARDWARE, HARDWARE_RANKS = "H200", 4


@dataclass
class Contender:
    who: str
    program: Program
    cases: list[Case]
    words: tuple[str, ...] = ()
    heading: dict[str, Any] = field(default_factory=dict)
    rounds_s: dict[Case, list[list[float]]] = field(default_factory=dict)
    lines: dict[Case, dict[str, Any]] = field(default_factory=dict)
    refused: dict[Case, str] = field(default_factory=dict)  # and why


def cases_of(settings: Settings) -> list[Case]:
    """Sizes are rounded up to whole elements, of every rank where a kind divides them."""
    cases: dict[Case, None] = {}
    for kind in settings.kinds:
        for submission in settings.submissions:
            for size in (0,) if kind == "barrier" else settings.sizes:
                for element in _types(settings, kind, size):
                    cases[_case(settings, kind, element, submission, size)] = None
    return list(cases)


def _types(settings: Settings, kind: str, size: int) -> tuple[str, ...]:
    if settings.types:
        return settings.types
    return ("float32", "float64", "int64") if kind in REDUCTIONS and size == min(settings.sizes) else ("float32",)


def _case(settings: Settings, kind: str, element: str, submission: str, size: int) -> Case:
    if kind in ("all_to_all", "all_gather", "reduce_scatter", "gather", "scatter"):
        least = settings.ranks * 8
        size = (size + least - 1) // least * least
    most = MAX_MESSAGES[(settings.device, submission)]
    count = max(4, min(most, SAMPLE_BYTES[settings.device] // max(1, size * settings.ranks)))
    if _crowded(settings):
        count = min(count, MOST_CROWDED)
    if settings.quick:
        count = max(2, count // 20)
    window = min(count, MOST_WINDOW) if submission == "captured" else 1
    return Case(kind, element, submission, size, max(1, count // window), window)


def names_from(text: str, device: str) -> tuple[str, ...]:
    """Reads --vs; auto has both kinds of NCCL's buffers."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    named = peers.names_from(",".join(word for word in words if word not in OWN_PEERS), device, also=OWN_PEERS)
    chosen = tuple(name for name in named if name in PEERS)  # the others have no collectives here
    everything = "auto" in words and device == "cuda"
    return (*chosen, *(name for name in OWN_PEERS if everything or name in words))


def _crowded(settings: Settings) -> bool:
    return settings.device == "host" and settings.ranks > (os.cpu_count() or 1)


def measure(wanted: Settings, say: Say = lambda _line: None) -> dict[str, Any]:
    settings = wanted.resolved()
    where = environment.collect()
    cases = cases_of(settings)
    contenders = [_own("onstream", settings, cases)]
    missing: dict[str, str] = {}
    for name in settings.vs:
        try:
            say(f"preparing {name}")
            contenders.append(_peer(name, settings, cases))
        except PeerMissing as error:
            missing[name] = str(error)
            say(f"without {TITLES[name]}: {error}")
    for number in range(settings.rounds):
        first = number % len(contenders)
        for contender in contenders[first:] + contenders[:first]:
            if contender.who in missing:
                continue
            say(f"round {number + 1} of {settings.rounds}: {contender.who}")
            before = {case: list(rounds) for case, rounds in contender.rounds_s.items()}
            failure = _run(contender, settings)
            if failure is not None and contender.who == "nvshmem" and _without_capture(contender):
                say(
                    f"{TITLES[contender.who]} ended early with captured collectives; once more with eager ones: {failure}"
                )
                contender.rounds_s = before  # the run that ended early measured some cases, which come again
                failure = _run(contender, settings)
            if failure is None:
                continue
            if contender.who == "onstream":
                raise failure
            missing[contender.who] = f"it ended early in round {number + 1}: {failure}"
            say(missing[contender.who])
    result: dict[str, Any] = {
        **preamble("collective", where, asdict(settings)),
        "device": contenders[0].heading["device"],
        "device_kind": contenders[0].heading["device_kind"],
        "ranks": settings.ranks,
        "onstream": contenders[0].heading,
        "peers": {one.who: one.heading for one in contenders[1:] if one.heading},
        "peers_missing": missing,
        "cases_missing": [
            {"who": one.who, **asdict(case), "why": why} for one in contenders for case, why in one.refused.items()
        ],
        "rows": [_row(one, case) for one in contenders for case in one.cases if case in one.rounds_s],
    }
    result["verdicts"] = judge(result)
    return result


def _own(name: str, settings: Settings, cases: list[Case], *parameters: str) -> Contender:
    options = ("--device", settings.device, "--memory", settings.memory)
    program = Program(
        "bench_collective", programs.as_ranks(programs.native("bench_collective"), settings.ranks, options)
    )
    words = [("--set", parameter) for parameter in (f"collective_algorithm={settings.algorithm}", *parameters)]
    return Contender(name, program, cases, tuple(word for pair in words for word in pair))


def _engine(name: str, settings: Settings, cases: list[Case]) -> Contender:
    if settings.algorithm not in ("auto", "simple"):
        raise PeerMissing(
            f"the copy engine works beside algorithm simple alone, and {settings.algorithm} was asked for"
        )
    chosen = [case for case in cases if by_engine(case, settings.ranks)]
    return _own(name, settings, _some(name, chosen), "collective_engine=large")


def by_engine(case: Case, ranks: int) -> bool:
    """Whether collective_engine=large makes a difference, as asks_engine in src/onstream/collective/select/algorithm.cpp has it."""
    each = case.bytes // ranks
    if case.kind == "all_reduce":
        narrow = case.type in ("int8", "uint8") or case.type.startswith("float8")
        return not narrow and each >= (1 if ranks == 2 else 2) * ENGINE_LEAST
    if case.kind == "broadcast":
        return ranks == 2 and case.bytes >= ENGINE_LEAST
    return case.kind in ENGINE_MOVES and each >= ENGINE_LEAST


def _peer(name: str, settings: Settings, cases: list[Case]) -> Contender:
    if name in mpi.MPIS:
        if settings.device != "host":
            raise PeerMissing("MPI's collectives are measured between hosts")
        source = programs.source_folder("collective") / "mpi_collectives.c"
        program = mpi.build(mpi.MPIS[name], source, programs.build_folder() / "peers", ranks=settings.ranks)
        most = MOST_CROWDED_MPICH if name == "mpich" and _crowded(settings) else 1_000_000
        chosen = [
            replace(case, submission="host", iterations=min(most, case.iterations * case.window), window=1)
            for case in cases
            if case.type in MPI_TYPES
        ]
        return Contender(name, program, list(dict.fromkeys(chosen)))
    if settings.device != "cuda":
        raise PeerMissing(f"{TITLES[name]} works between GPUs, and the device is {settings.device}")
    return _BETWEEN_GPUS[name](name, settings, cases)


def _nccl(name: str, settings: Settings, cases: list[Case]) -> Contender:
    file = peers.find_library("nccl", "libnccl.so.2", "nvidia-nccl-cu13")
    plain = ("--plain",) if name == "nccl-plain" else ()
    start = _driver(settings, "nccl", file, plain)
    variables = {"NCCL_NVLS_ENABLE": os.environ.get("NCCL_NVLS_ENABLE", "0")}
    chosen = [case for case in cases if case.kind in NCCL_KINDS and (plain or not _hangs_nccl(case))]
    return Contender(name, Program(name, start, variables), chosen)


def _hangs_nccl(case: Case) -> bool:
    """Over symmetric windows, as 2.28.9 does between two H200 without multicast; without windows it ends."""
    return case.kind == "broadcast" and case.bytes >= 2 << 20


def _nvshmem(name: str, settings: Settings, cases: list[Case]) -> Contender:
    return nvshmem_over(peers.find_nvshmem(), name, settings, cases)


def nvshmem_over(file: str, name: str, settings: Settings, cases: list[Case]) -> Contender:
    """NVSHMEM, with both buffers in its heap and room for its collectives' own. Neither multicast nor NCCL under it."""
    variables = peers.nvshmem_variables(2 * max(settings.sizes, default=0) + 512 * MIB)
    chosen = [
        case
        for case in cases
        if case.kind in NVSHMEM_KINDS and case.type in NVSHMEM_TYPES and case.submission != "host"
    ]
    return Contender(name, Program(name, _driver(settings, "nvshmem", file), variables), _some(name, chosen))


def _torch(name: str, settings: Settings, cases: list[Case]) -> Contender:
    return torch_over(peers.find_torch(), name, settings, cases)


def torch_over(python: str, name: str, settings: Settings, cases: list[Case]) -> Contender:
    """bench/collective/torch_collectives.py with a Python that has torch."""
    source = programs.source_folder("collective") / "torch_collectives.py"
    start = (*programs.as_ranks(Path(python), settings.ranks, (str(source),)),)
    chosen = [case for case in cases if case.type in TORCH_KINDS.get(case.kind, ()) and case.submission != "host"]
    return Contender(name, Program(name, start, {"MASTER_PORT": str(_free_port())}), _some(name, chosen))


def _some(name: str, cases: list[Case]) -> list[Case]:
    if not cases:
        raise PeerMissing(f"{TITLES[name]} has none of the cases")
    return cases


def _driver(settings: Settings, library: str, file: str, options: tuple[str, ...] = ()) -> tuple[str, ...]:
    """bench_collective with a library that it loads."""
    words = ("--device", settings.device, "--library", library, "--file", file, *options)
    return programs.as_ranks(programs.native("bench_collective"), settings.ranks, words)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


_BETWEEN_GPUS: dict[str, Callable[[str, Settings, list[Case]], Contender]] = {
    "engine": _engine,
    "nccl": _nccl,
    "nccl-plain": _nccl,
    "nvshmem": _nvshmem,
    "torch": _torch,
}


def _without_capture(contender: Contender) -> bool:
    """Lets the cases that have no samples yet be eager, once; whether there was one to change."""
    changed = {
        case: replace(case, submission="eager")
        for case in contender.cases
        if case.submission == "captured" and case not in contender.lines
    }
    contender.cases = list(dict.fromkeys(changed.get(case, case) for case in contender.cases))
    return bool(changed)


def _run(contender: Contender, settings: Settings) -> Error | None:
    words = ("--samples", str(settings.samples), *contender.words, *map(str, contender.cases))
    finished = programs.execute(contender.program, words, settings.limit_s)
    by_name = {str(case): case for case in contender.cases}
    for line in programs.rows_of(contender.program.name, finished.out):
        case = by_name.get(line.get("case", ""))
        if case is None:
            contender.heading.update(line)
            continue
        if "refused" in line:
            contender.refused[case] = line["refused"]
            continue
        before = contender.lines.get(case, line)
        contender.lines[case] = {**line, "wrong": max(before["wrong"], line["wrong"])}
        contender.rounds_s.setdefault(case, []).append(line["samples_s"])
    lost = [name for name, case in by_name.items() if case not in contender.lines and case not in contender.refused]
    if finished.error is None and lost:
        return Error(f"{contender.program.name} printed no samples of {', '.join(lost)}")
    return finished.error


def _row(contender: Contender, case: Case) -> dict[str, Any]:
    line = contender.lines[case]
    summary = summarize(contender.rounds_s[case])
    rate = case.bytes / summary.median_s
    return {
        "who": contender.who,
        **asdict(case),
        "submission": line.get("submission", case.submission),
        **asdict(summary),
        "algorithm_bytes_per_s": rate,
        "bus_bytes_per_s": rate * line["bus_factor"],
        "wrong": line["wrong"] if line.get("checked", True) else "-",
        "how": line["how"],
    }


def judge(result: dict[str, Any]) -> list[dict[str, Any]]:
    """One verdict for every bar whose case the result has; absolute ones on the hardware they were stated for."""
    verdicts = []
    for bar in _stated_for(result):
        ours, others = _rows_of(result, bar)
        if not ours or (bar.unit == "x" and not others):
            continue
        best = min(others, key=lambda row: float(row["median_s"]), default=None)
        if bar.unit == "x":
            assert best is not None
            value = ours[0]["median_s"] / best["median_s"]
        else:
            value = ours[0]["median_s"] * 1e6 if bar.unit == "us" else ours[0]["bus_bytes_per_s"] / 1e9
        verdicts.append({
            **asdict(bar),
            "value": value,
            "holds": value >= bar.limit if bar.unit == "GB/s" else value <= bar.limit,
            "median_s": ours[0]["median_s"],
            "against": best["who"] if best else None,
            "peer_median_s": best["median_s"] if best else None,
        })  # fmt: skip
    return verdicts


def not_run(result: dict[str, Any]) -> list[tuple[Bar, str]]:
    """Every bar stated for this device that has no verdict, and why."""
    without = []
    for bar in _stated_for(result):
        ours, others = _rows_of(result, bar)
        if not ours:
            without.append((bar, bars.NO_CASE))
        elif bar.unit == "x" and not others:
            without.append((bar, bars.NO_PEER))
    return without


def _stated_for(result: dict[str, Any]) -> Iterator[Bar]:
    here = HARDWARE in result["device"] and result["ranks"] == HARDWARE_RANKS
    return (bar for bar in BARS if bar.device == result["device_kind"] and (bar.unit == "x" or here))


def _rows_of(result: dict[str, Any], bar: Bar) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of onstream with the bar's submission, and the peers' rows with any."""
    alike = [
        row for row in result["rows"] if (row["kind"], row["type"], row["bytes"]) == (bar.kind, bar.type, bar.bytes)
    ]
    ours = [row for row in alike if row["who"] == "onstream" and row["submission"] == bar.submission]
    return ours, [row for row in alike if row["who"] not in ("onstream", "engine")]
