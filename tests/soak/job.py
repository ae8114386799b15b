"""One episode's job from outside: starts it, sends its signals, bounds it, takes stacks of hanging ranks, cleans up."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .episode import Episode

HERE = Path(__file__).resolve().parent
TOKEN = "SOAK_EPISODE"  # in the environment of every process of an episode
GONE_S = 3.0  # in which the last process of a job ends


@dataclass
class Outcome:
    episode: Episode
    code: int | None = None
    hung: bool = False
    ended_at: float = 0  # on the clock of the traces; of a job that hung, when its limit had passed
    out: str = ""
    err: str = ""
    seconds: float = 0
    reports: dict[int, dict[str, Any]] = field(default_factory=dict)
    traces: dict[int, str] = field(default_factory=dict)  # the last block of each rank
    sent: list[tuple[float, int, int]] = field(default_factory=list)  # signals: when, to which rank, which
    stacks: str = ""
    lingering: list[str] = field(default_factory=list)
    left_files: list[str] = field(default_factory=list)  # of /dev/shm


def run_episode(episode: Episode, folder: Path, limit_s: float) -> Outcome:
    outcome, token, shared = Outcome(episode), secrets.token_hex(8), _shared_files()
    begun = time.monotonic()
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        job = subprocess.Popen(
            _command(episode), cwd=folder, env={**os.environ, TOKEN: token}, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            start_new_session=True, preexec_fn=_end_with_driver,
        )  # fmt: skip
        try:
            _attend(job, outcome, folder, begun + limit_s)
            outcome.hung, outcome.ended_at = job.poll() is None, time.monotonic()
            if outcome.hung:
                outcome.stacks = _stacks(token, folder)
        finally:
            outcome.code = job.poll()
            if outcome.code is None:
                _kill(job)
    outcome.seconds = time.monotonic() - begun
    outcome.lingering = _end_all(token, wait_s=0 if outcome.code is None else GONE_S)
    outcome.left_files = sorted(name for name in _shared_files() - shared if "onstream" in name)
    _read(outcome, folder)
    return outcome


def _end_with_driver() -> None:
    """In the launcher's process, whose ranks end with it."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _command(episode: Episode) -> list[str]:
    rank = [sys.executable, str(HERE), "--rank-of", str(episode.seed), *episode.shape.words]
    if episode.disturbance == "rank-threads":
        return rank
    return [sys.executable, "-m", "onstream", "run", "-n", str(episode.size), "--grace-s", "inf", *rank]


def signals_of(episode: Episode) -> list[tuple[float, int, int]]:
    """Each signal's time, in seconds after all ranks are ready, its rank, and its number."""
    dice, found = episode.dice("outside"), []
    if episode.disturbance == "stop":
        for _ in range(dice.randint(1, 5)):
            rank, at, hold = dice.randrange(episode.size), dice.uniform(0, 2), dice.uniform(0.01, 1.5)
            found += [(at, rank, signal.SIGSTOP), (at + hold, rank, signal.SIGCONT)]
    elif episode.disturbance == "stall":
        at = dice.uniform(0, 2)
        found += [
            (at, episode.victim, signal.SIGSTOP),
            (at + 2 * episode.parameters["timeout_s"], episode.victim, signal.SIGCONT),
        ]
    elif episode.disturbance == "signals":
        at, pause = 0.0, dice.uniform(0.001, 0.03)
        while at < 10:
            at += dice.expovariate(1 / pause)
            found.append((at, dice.randrange(episode.size), signal.SIGUSR1))
    elif episode.victims:
        at = dice.uniform(0, 2.5)
        for victim in episode.victims:
            found.append((at, victim, signal.SIGKILL))
            at += dice.choice((0, dice.uniform(0, 0.1), dice.uniform(0, 2)))
    elif episode.disturbance == "interrupt":
        found.append((dice.uniform(0, 2.5), episode.victim, signal.SIGINT))
    return sorted(found)


def _attend(job: subprocess.Popen[bytes], outcome: Outcome, folder: Path, until: float) -> None:
    episode, pids = outcome.episode, {}
    waiting = signals_of(episode)
    while job.poll() is None and time.monotonic() < until and len(pids) < episode.size:
        for rank in range(episode.size):
            with contextlib.suppress(FileNotFoundError):
                pids[rank] = int((folder / f"ready{rank}").read_text())
        time.sleep(0.01)
    ready_at = time.monotonic()
    while job.poll() is None and time.monotonic() < until:
        now = time.monotonic()
        while waiting and ready_at + waiting[0][0] <= now:
            _, rank, number = waiting.pop(0)
            with contextlib.suppress(ProcessLookupError):
                outcome.sent.append((time.monotonic(), rank, int(number)))
                os.kill(pids[rank], number)
        time.sleep(0.005 if waiting else 0.02)


# --- hanging ranks, and leftovers ---


def _processes(token: str) -> list[int]:
    """The processes of an episode that have not ended."""
    found, word = [], f"{TOKEN}={token}".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if word in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
    return found


def _stacks(token: str, folder: Path) -> str:
    """Every thread's stack in Python, and in the library where gdb is here."""
    texts = []
    for pid in _processes(token):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        if "--rank-of" not in command or " run -n " in command:
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        if shutil.which("gdb"):
            with contextlib.suppress(subprocess.TimeoutExpired):
                asked = ["gdb", "-p", str(pid), "-batch", "-nx", "-ex", "thread apply all bt 25"]
                told = subprocess.run(asked, capture_output=True, text=True, timeout=60)
                texts.append(f"=== process {pid}: {command}\n{told.stdout}")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGUSR2)
    time.sleep(0.5)
    texts += [f"=== {path.name}\n{path.read_text()}" for path in sorted(folder.glob("stacks*"))]
    return "\n".join(texts)


def _kill(job: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(job.pid, signal.SIGKILL)
    job.wait()


def _end_all(token: str, wait_s: float) -> list[str]:
    """Kills the processes still there after wait_s, and names them."""
    until = time.monotonic() + wait_s
    while _processes(token) and time.monotonic() < until:
        time.sleep(0.02)
    found = []
    for pid in _processes(token):
        with contextlib.suppress(OSError):
            found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
            os.kill(pid, signal.SIGKILL)
    return found


def _shared_files() -> set[str]:
    return {path.name for path in Path("/dev/shm").iterdir()} if Path("/dev/shm").is_dir() else set()


def _read(outcome: Outcome, folder: Path) -> None:
    outcome.out, outcome.err = ((folder / name).read_text(errors="replace") for name in ("out", "err"))
    for rank in range(outcome.episode.size):
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            outcome.reports[rank] = json.loads((folder / f"report{rank}").read_text())
        with contextlib.suppress(FileNotFoundError, IndexError):
            outcome.traces[rank] = (folder / f"trace{rank}").read_text().splitlines()[-1]
