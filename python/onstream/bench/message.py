"""`onstream bench message`: runs the message cases, beside the peers in the same call, and makes the result.

The programs of a round run one after another and each round starts with another one, so that a change of the machine's
speed meets all of them. Nothing else is written than the JSON file asked for and the peers' folders.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import InvalidArgumentError
from . import bars, environment, peers, programs
from .cases import MEMORIES, MODES, SIZES, SUBMISSIONS, WINDOW, Case, cases_of
from .samples import summarize

SCHEMA = 1
PATHS = ("auto", "ll", "store", "load", "copy", "stage")
DEFAULT_PEERS = ("openmpi", "mpich")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """device: host or cuda. sizes: of device's default list if empty. peers: None takes those that can be had."""

    device: str = "host"
    modes: tuple[str, ...] = MODES
    submissions: tuple[str, ...] = SUBMISSIONS
    sizes: tuple[int, ...] = ()
    memories: tuple[str, ...] = ()
    path: str = "auto"
    rounds: int = 5
    samples: int = 10
    window: int = WINDOW
    peers: tuple[str, ...] | None = None
    threads: bool = False
    quick: bool = False

    def resolved(self) -> Settings:
        """With the device's defaults filled in, or the reason why these values cannot work."""
        if self.device not in SIZES:
            raise InvalidArgumentError(f"device is '{self.device}'; there are {', '.join(SIZES)}")
        for what, chosen, known in (
            ("modes", self.modes, MODES),
            ("submissions", self.submissions, SUBMISSIONS),
            ("memories", self.memories, MEMORIES),
            ("path", (self.path,), PATHS),
            ("peers", self.peers or (), tuple(peers.PEERS)),
        ):
            unknown = [one for one in chosen if one not in known]
            if unknown:
                raise InvalidArgumentError(f"{what}: unknown {', '.join(unknown)}; there are {', '.join(known)}")
        for what, count in (("rounds", self.rounds), ("samples", self.samples), ("window", self.window)):
            if not 1 <= count <= 1000:
                raise InvalidArgumentError(f"{what} is {count}, not a number from 1 to 1000")
        if self.device == "cuda" and self.peers:
            raise InvalidArgumentError("peers are measured in host memory only; leave --peers out with --device cuda")
        default_memories = ("device", "host") if self.device == "host" else ("device",)
        return Settings(
            **{
                **asdict(self),
                "sizes": self.sizes or SIZES[self.device],
                "memories": self.memories or default_memories,
                "peers": () if self.device == "cuda" else self.peers,
            }
        )


@dataclass
class Contender:
    """One program of the comparison, and what it has shown so far."""

    who: str
    memory: str
    program: programs.Program
    cases: list[Case]
    heading: dict[str, Any]
    rounds_s: dict[Case, list[list[float]]]


def measure(wanted: Settings, say: Say = lambda _line: None) -> dict[str, Any]:
    """Runs everything and returns the result: plain data, what --json writes."""
    settings = wanted.resolved()
    where = environment.collect()  # before there is load of our own
    contenders = _own(settings)
    missing = _add_peers(contenders, settings, say)
    for number in range(settings.rounds):
        order = contenders[number % len(contenders) :] + contenders[: number % len(contenders)]
        for contender in order:
            say(f"round {number + 1} of {settings.rounds}: {contender.who}, {contender.memory} memory")
            output = programs.run(contender.program, contender.cases, settings.samples)
            contender.heading = output.heading
            for case, samples_s in output.samples_s.items():
                contender.rounds_s.setdefault(case, []).append(samples_s)
    return _result(settings, where, contenders, missing)


def _cases(settings: Settings, submissions: tuple[str, ...]) -> list[Case]:
    return cases_of(
        settings.device, settings.modes, submissions, settings.sizes, window=settings.window, quick=settings.quick
    )


def _own(settings: Settings) -> list[Contender]:
    cases = _cases(settings, settings.submissions)
    return [
        Contender(
            "onstream",
            memory,
            programs.message_program(settings.device, memory, settings.path, threads=settings.threads),
            cases,
            {},
            {},
        )
        for memory in settings.memories
    ]


def _add_peers(contenders: list[Contender], settings: Settings, say: Say) -> dict[str, str]:
    """Adds the peers that can be had. Peers asked for by name must be; returns why the others are not here."""
    by_name = settings.peers is not None
    names = DEFAULT_PEERS if settings.peers is None else settings.peers
    cases = _cases(settings, ("host",))
    missing = {}
    for name in names:
        try:
            say(f"preparing {name}")
            folder = programs.build_folder() / "peers"
            program = peers.prepare(peers.PEERS[name], programs.source_folder() / "mpi_peer.c", folder)
        except peers.PeerMissing as error:
            if by_name:
                raise
            say(str(error))
            missing[name] = str(error)
            continue
        contenders.append(Contender(name, "host", program, cases, {}, {}))
    return missing


def _result(
    settings: Settings, where: dict[str, Any], contenders: list[Contender], missing: dict[str, str]
) -> dict[str, Any]:
    own = contenders[0].heading
    result: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": "message",
        "command": shlex.join(["onstream", *sys.argv[1:]]),
        "environment": where,
        "settings": asdict(settings),
        "device_kind": own["device_kind"],
        "device": own["device"],
        "ranks": "2 threads of one process" if settings.threads else "2 processes",
        "clock": "steady clock of rank 0's host, from the first operation enqueued to the stream synchronised",
        "onstream": own,
        "peers": {one.who: one.heading for one in contenders if one.who != "onstream"},
        "peers_missing": missing,
        "rows": [_row(one, case, rounds, settings) for one in contenders for case, rounds in one.rounds_s.items()],
    }
    result["verdicts"] = bars.judge(result)
    return result


def _row(contender: Contender, case: Case, rounds_s: list[list[float]], settings: Settings) -> dict[str, Any]:
    summary = summarize(rounds_s)
    return {
        "who": contender.who,
        "memory": contender.memory,
        "path": settings.path if contender.who == "onstream" else "its own",
        **asdict(case),
        **asdict(summary),
        "bytes_per_s": case.bytes / summary.median_s,
        "messages_per_s": 1.0 / summary.median_s,
        "rounds_median_s": [summarize([samples]).median_s for samples in rounds_s],
    }


def write(result: dict[str, Any], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n")
