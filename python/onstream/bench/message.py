"""`onstream bench message`: runs the message cases, beside the peers in the same call, and makes the result.

The programs of a round run one after another and each round starts with another one, so that a change of the machine's
speed meets all of them. It writes only the JSON file asked for and the peers' folders. Without a forced path onstream
must run every case. The result names, with the reason, the cases that a forced path cannot carry, and each peer that
cannot run here or ends early.
"""

from __future__ import annotations

import signal
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..errors import Error, InvalidArgumentError
from . import bars, environment, peers, programs
from .cases import DEFAULT_MODES, MEMORIES, MODES, RINGS, SIZES, SUBMISSIONS, WINDOW, Case, case_of, cases_of, offered
from .mpi import PeerMissing
from .progress import Progress, Say
from .results import preamble
from .samples import summarize

PATHS = ("auto", "ll", "store", "load", "copy", "stage", "memop")
WRONG = "wrong data in"  # bench/message/message_modes.cpp's own words: no path's limit


@dataclass(frozen=True)
class Variant:
    """One way to set onstream up: a forced path, a cap of thread blocks, memory of both ends."""

    path: str = "auto"
    max_blocks: int | None = None
    source: str = "device"
    target: str = "device"

    @property
    def memory(self) -> str:
        return self.source if self.source == self.target else f"{self.source} to {self.target}"

    def options(self) -> tuple[str, ...]:
        cap = () if self.max_blocks is None else ("--set", f"max_blocks={self.max_blocks}")
        return ("--from", self.source, "--to", self.target, "--path", self.path, *cap)


@dataclass(frozen=True)
class Settings:
    """device: host or cuda. sizes: of device's default list if empty. vs: names of peers.

    headline: only the cases, paths and caps that a bar was stated for.
    """

    device: str = "host"
    ranks: int = 2
    modes: tuple[str, ...] = ()
    submissions: tuple[str, ...] = SUBMISSIONS
    sizes: tuple[int, ...] = ()
    memories: tuple[str, ...] = ()
    path: str = "auto"
    max_blocks: int | None = None
    rounds: int = 5
    samples: int = 10
    window: int = WINDOW
    vs: tuple[str, ...] = ()
    threads: bool = False
    quick: bool = False
    headline: bool = False
    limit_s: float = programs.RUN_TIMEOUT_S
    budget_s: float | None = None  # no round is begun that would probably end later

    def resolved(self) -> Settings:
        """With the device's defaults filled in, or the reason why these values cannot work."""
        if self.device not in SIZES:
            raise InvalidArgumentError(f"device is '{self.device}'; there are {', '.join(SIZES)}")
        for what, chosen, known in (
            ("modes", self.modes, MODES),
            ("submissions", self.submissions, SUBMISSIONS),
            ("memories", self.memories, MEMORIES),
            ("path", (self.path,), PATHS),
            ("vs", self.vs, tuple(peers.PEERS)),
        ):
            unknown = [one for one in chosen if one not in known]
            if unknown:
                raise InvalidArgumentError(f"{what}: unknown {', '.join(unknown)}; there are {', '.join(known)}")
        for what, count in (("rounds", self.rounds), ("samples", self.samples), ("window", self.window)):
            if not 1 <= count <= 1000:
                raise InvalidArgumentError(f"{what} is {count}, not a number from 1 to 1000")
        if not 2 <= self.ranks <= 1024:
            raise InvalidArgumentError(f"ranks is {self.ranks}, not a number from 2 to 1024")
        if self.threads and self.ranks != 2:
            raise InvalidArgumentError(f"ranks as threads are two, not {self.ranks}")
        return replace(
            self,
            modes=self._modes(),
            submissions=tuple(one for one in self.submissions if (self.path, one) != ("memop", "host")),
            sizes=self.sizes or SIZES[self.device],
            memories=self.memories or self._memories(),
        )

    def without_cases(self) -> list[str]:
        """Pairs of a mode and a submission that were both asked for by name, and of which there is no case."""
        if not self.modes or self.submissions == SUBMISSIONS:
            return []
        sizes = self.sizes or SIZES[self.device]
        return [
            f"{mode}, {submission}"
            for mode in self.modes
            for submission in self.submissions
            if not any(offered(mode, submission, size) for size in sizes)
        ]

    def without_path(self) -> str:
        """The submission and memory that path memop leaves out: the host's waits, and plain memory by default."""
        if self.path != "memop":
            return ""
        left = ["submission host"] if "host" in self.submissions else []
        left += ["memory host"] if not self.memories and self.device == "host" else []
        return ", ".join(left)

    def _modes(self) -> tuple[str, ...]:
        if self.ranks == 2:
            return self.modes or DEFAULT_MODES
        rings = tuple(mode for mode in self.modes or RINGS if mode in RINGS)
        if not rings:
            raise InvalidArgumentError(
                f"modes {', '.join(self.modes)} are between 2 ranks, not {self.ranks}; with more there are {', '.join(RINGS)}"
            )
        return rings

    def _memories(self) -> tuple[str, ...]:
        plain = self.device == "host" and not self.headline and self.path != "memop"
        return ("device", "host") if plain else ("device",)


@dataclass
class Contender:
    """One program of the comparison, and its samples so far. onstream's cases after its first that failed are dropped
    from then on."""

    who: str
    variant: Variant
    program: programs.Program
    cases: list[Case]
    heading: dict[str, Any] = field(default_factory=dict)
    rounds_s: dict[Case, list[list[float]]] = field(default_factory=dict)
    failed: Case | None = None
    why: str = ""

    def title(self) -> str:
        how = f", path {self.variant.path}, {self.cases[0].mode} {self.cases[0].submission}" if self.forced() else ""
        return f"{self.who}, {self.variant.memory} memory{how}"

    def forced(self) -> bool:
        return self.who == "onstream" and self.variant.path != "auto"


def measure(wanted: Settings, say: Say = lambda _line: None) -> dict[str, Any]:
    """Runs everything and returns the result: plain data, as --json writes it."""
    settings = wanted.resolved()
    for pair in wanted.without_cases():
        say(f"left out, as onstream has no such case: {pair}")
    if left := wanted.without_path():
        say(f"left out, as path memop is of plans, on streams, into memory that the sender reaches: {left}")
    result = compare("message", settings, own_contenders(settings), say)
    result["verdicts"] = bars.judge(result)
    return result


def compare(kind: str, settings: Settings, contenders: list[Contender], say: Say) -> dict[str, Any]:
    """Runs onstream's contenders and those peers of the settings that can be had, round by round."""
    where = environment.collect()  # before there is load of our own
    missing = _add_peers(contenders, settings, say)
    progress = Progress(settings.rounds * sum(len(one.cases) for one in contenders), say)
    say(
        f"{progress.total} cases: {settings.rounds} round(s) of {', '.join(dict.fromkeys(one.who for one in contenders))}"
    )
    stopped = None
    try:
        settings = _all_rounds(contenders, settings, missing, progress, say)
    except (KeyboardInterrupt, SystemExit) as stop:  # the samples until then are not lost
        if not _measured(contenders):
            raise
        stopped = _stopped(stop, progress)
        say(f"{stopped['by']} after {progress.done} of {progress.total} cases")
    if not _measured(contenders):
        raise Error("\n".join(dict.fromkeys(one.why for one in contenders if one.why)))
    result = _result(kind, settings, where, contenders, missing)
    if stopped is not None:
        result["stopped"] = stopped
    return result


def _measured(contenders: list[Contender]) -> list[Contender]:
    """Those of onstream that have shown something."""
    return [one for one in contenders if one.who == "onstream" and one.rounds_s]


def _all_rounds(
    contenders: list[Contender], settings: Settings, missing: dict[str, str], progress: Progress, say: Say
) -> Settings:
    """Returns the settings with the rounds that there were time for."""
    began = time.monotonic()
    for number in range(settings.rounds):
        passed_s = time.monotonic() - began
        if settings.budget_s is not None and number and passed_s * (number + 1) / number > settings.budget_s:
            say(f"no time for round {number + 1}: {passed_s:.0f} s of {settings.budget_s:g} s have passed")
            return replace(settings, rounds=number)
        first = number % len(contenders)
        for contender in contenders[first:] + contenders[:first]:
            if contender.who in missing:
                progress.leave_out(len(contender.cases))
                continue
            if not contender.cases:
                continue
            say(f"round {number + 1} of {settings.rounds}: {contender.title()}")
            output = _run(contender, settings, progress)
            if output.error is None:
                continue
            if contender.who == "onstream":
                progress.leave_out(_leave_out(contender, output) * (settings.rounds - number))
                say(f"failed: {contender.why}")
                if contender.forced():
                    continue
                return replace(settings, rounds=number + 1)  # a fault, and no path's limit: check() raises it
            missing[contender.who] = f"it ended early in round {number + 1}: {output.error}"
            say(missing[contender.who])
    return settings


def _leave_out(contender: Contender, output: programs.Output) -> int:
    """From the case on that the program did not come through; returns how many those are."""
    done = [case for case in contender.cases if output.samples_s.get(case)]
    left = [case for case in contender.cases if case not in done]
    contender.failed = left[0] if left else contender.cases[-1]
    contender.why = output.reason or str(output.error)
    contender.cases = done
    return len(left)


def check(result: dict[str, Any]) -> None:
    """Throws if something failed that is no forced path's limit: automatic choice carries everything, and data are right."""
    for one in result["cases_missing"]:
        if one["path"] == "auto" or WRONG in one["why"]:
            raise Error(f"{one['mode']} {one['submission']} of {one['bytes']} B failed: {one['why']}")


def _run(contender: Contender, settings: Settings, progress: Progress) -> programs.Output:
    lines: list[str] = []

    def take(line: str) -> None:
        lines.append(line)
        if line.startswith("{") and '"samples_s"' in line:
            progress.case_done()

    try:
        output = programs.attempt(contender.program, contender.cases, settings.samples, settings.limit_s, take)
    except (KeyboardInterrupt, SystemExit):
        whole = [line for line in lines if line.endswith("\n")]
        _keep(contender, *programs.read(contender.program.name, "".join(whole)))
        raise
    _keep(contender, output.heading, output.samples_s)
    return output


def _keep(contender: Contender, heading: dict[str, Any], samples_s: dict[Case, list[float]]) -> None:
    contender.heading = {**contender.heading, **heading}
    for case, samples in samples_s.items():
        contender.rounds_s.setdefault(case, []).append(samples)


def _stopped(stop: KeyboardInterrupt | SystemExit, progress: Progress) -> dict[str, Any]:
    status = stop.code if isinstance(stop, SystemExit) else 128 + signal.SIGINT
    by = "stopped by Ctrl-C" if isinstance(stop, KeyboardInterrupt) else "stopped by SIGTERM"
    return {"by": by, "cases": progress.done, "of": progress.total, "status": status}


def own_contenders(settings: Settings) -> list[Contender]:
    if settings.headline:
        wanted = _headline(settings)
    else:
        cases = cases_of(
            settings.device, settings.modes, settings.submissions, settings.sizes,
            window=settings.window, quick=settings.quick,
        )  # fmt: skip
        wanted = {Variant(settings.path, settings.max_blocks, memory, memory): cases for memory in settings.memories}
    if not any(wanted.values()):
        raise InvalidArgumentError("these modes, submissions, sizes and this path leave no case to measure")
    return [
        Contender("onstream", variant, own_program(settings, variant), cases)
        for variant, all_cases in wanted.items()
        for cases in _parts(variant, all_cases)
    ]


def _parts(variant: Variant, cases: list[Case]) -> list[list[Case]]:
    """The cases of each start; with a forced path one mode and submission, as a case it cannot carry ends the world."""
    if variant.path == "auto":
        return [cases] if cases else []
    parts: dict[tuple[str, str], list[Case]] = {}
    for case in sorted(cases, key=lambda case: case.bytes):
        parts.setdefault((case.mode, case.submission), []).append(case)
    return list(parts.values())


def own_program(settings: Settings, variant: Variant) -> programs.Program:
    return programs.message_program(
        settings.device, ranks=settings.ranks, options=variant.options(), threads=settings.threads
    )


def _headline(settings: Settings) -> dict[Variant, list[Case]]:
    """The cases of the bars, by the variant that each asks for."""
    wanted: dict[Variant, list[Case]] = {}
    for bar in bars.BARS:
        if bar.device != settings.device:
            continue
        for memory in settings.memories:
            cases = wanted.setdefault(Variant(bar.path, bar.max_blocks, memory, memory), [])
            cases += [
                case_of(bar.device, mode, bar.submission, bar.bytes, window=settings.window, quick=settings.quick)
                for mode in bars.modes_of(bar)
                if mode in settings.modes
            ]
    return {variant: list(dict.fromkeys(cases)) for variant, cases in wanted.items()}


def _add_peers(contenders: list[Contender], settings: Settings, say: Say) -> dict[str, str]:
    """Adds the peers that can be had; returns why the others are not here."""
    missing = {}
    for name in settings.vs:
        peer = peers.PEERS[name]
        cases = _peer_cases(peer, contenders, settings)
        try:
            if not cases:
                raise PeerMissing(f"{peer.title} has none of these modes and submissions")
            say(f"preparing {name}")
            largest = max(
                case.bytes * (case.window if case.mode in ("separate", "aggregated") else 1) for case in cases
            )
            folder = programs.build_folder() / "peers"
            program = peer.prepare(peers.Job(settings.device, settings.ranks, largest, folder))
        except PeerMissing as error:
            missing[name] = str(error)
            say(f"without {peer.title}: {error}")
            continue
        memory = peer.memory if settings.device == "cuda" else "host"
        contenders.append(Contender(name, Variant("its own", None, memory, memory), program, cases))
    return missing


def _peer_cases(peer: peers.Peer, contenders: list[Contender], settings: Settings) -> list[Case]:
    """onstream's own cases, as far as the peer has them; a peer whose host always waits gets them in that form."""
    cases: dict[Case, None] = {}
    for own in (case for contender in contenders for case in contender.cases):
        case = own
        if peer.submissions == ("host",) and own.submission != "host":
            case = case_of(settings.device, own.mode, "host", own.bytes, window=settings.window, quick=settings.quick)
        if case.submission in peer.submissions and peer.has(case):
            cases[case] = None
    return sorted(cases, key=lambda case: SUBMISSIONS.index(case.submission))  # a peer may die of capture


def _result(
    kind: str, settings: Settings, where: dict[str, Any], contenders: list[Contender], missing: dict[str, str]
) -> dict[str, Any]:
    own = _measured(contenders)[0].heading
    processes = f"{settings.ranks} processes"
    result: dict[str, Any] = {
        **preamble(kind, where, asdict(settings)),
        "device_kind": own["device_kind"],
        "device": own["device"],
        "ranks": "2 threads of one process" if settings.threads else processes,
        "clock": "steady clock of rank 0's host, from the first operation enqueued to the stream synchronised",
        "onstream": own,
        "peers": {one.who: one.heading for one in contenders if one.who != "onstream" and one.heading},
        "peers_missing": missing,
        "cases_missing": [_missing(one) for one in contenders if one.failed is not None],
        "rows": [_row(one, case, rounds) for one in contenders for case, rounds in one.rounds_s.items()],
    }
    return result


def _missing(contender: Contender) -> dict[str, Any]:
    """The first case that failed, of those of one start."""
    assert contender.failed is not None
    variant = contender.variant
    how = {"memory": variant.memory, "path": variant.path, "max_blocks": variant.max_blocks}
    return {"who": contender.who, **how, **asdict(contender.failed), "why": contender.why}


def _row(contender: Contender, case: Case, rounds_s: list[list[float]]) -> dict[str, Any]:
    summary = summarize(rounds_s)
    return {
        "who": contender.who,
        "memory": contender.variant.memory,
        "path": contender.variant.path,
        "max_blocks": contender.variant.max_blocks,
        **asdict(case),
        **asdict(summary),
        "bytes_per_s": case.bytes / summary.median_s,
        "messages_per_s": 1.0 / summary.median_s,
        "rounds_median_s": [summarize([samples]).median_s for samples in rounds_s],
    }
