"""Whether an episode went as its seed says: codes, reports, output, times, and leftovers."""

from __future__ import annotations

import re
import signal

from .job import Outcome

SLACK_S = 5.0  # after the deadline, within which a rank that waits for a dead one is told
# Words that no rank writes in any episode.
CRASHES = re.compile(
    r"Fatal Python error|Segmentation fault|SIGSEGV|SIGABRT|SIGBUS|SIGFPE|SIGILL|terminate called|Assertion|"
    r"AddressSanitizer|ThreadSanitizer|SystemError|MemoryError|corrupted|double free|Wrong: "
)
TRACEBACK = "Traceback (most recent call last)"
# Where a signal's handler raises in a destructor, Python says so and goes on.
IGNORED = "Exception ignored in"
FAILS = (
    "kill",
    "kill-twice",
    "stall",
    "interrupt",
    "leave",
    "daemon",
    "close",
)  # in which a world may fail, and says so


def faults_of(outcome: Outcome) -> list[str]:
    """The faults; none if all is as it should be."""
    if outcome.hung:
        since = [outcome.ended_at - float(trace.split()[0]) for trace in outcome.traces.values()]
        newest = f"no rank began a block in the last {min(since):.0f} s" if since else "no rank began a block"
        return [f"did not end within {outcome.seconds:.0f} s; {newest}: {outcome.traces}"]
    return [*_of_ends(outcome), *_of_words(outcome), *_of_times(outcome)]


def _of_ends(outcome: Outcome) -> list[str]:
    episode, found = outcome.episode, []
    if outcome.code != episode.code:
        found.append(f"the job ended with code {outcome.code}, not {episode.code}")
    living = [rank for rank in range(episode.size) if rank not in episode.victims]
    silent = [rank for rank in living if rank not in outcome.reports]
    if silent:
        found.append(f"ranks {silent} did not come to their ends, in {[outcome.traces.get(rank) for rank in silent]}")
    if outcome.lingering:
        found.append(f"processes outlived the job: {outcome.lingering}")
    if outcome.left_files:
        found.append(f"files are left in /dev/shm: {outcome.left_files}")
    return found


def _of_words(outcome: Outcome) -> list[str]:
    """The faults in the output of the ranks."""
    episode, text = outcome.episode, outcome.out + outcome.err
    found = [f"a rank wrote {line.strip()!r}" for line in text.splitlines() if CRASHES.search(line)][:3]
    raised = text.count(TRACEBACK)
    expected = 1 if episode.disturbance == "leave" and episode.way == "exception" else 0
    shown = 2 if expected else 0  # the launcher repeats the first failure's words
    if episode.disturbance != "interrupt" and raised > max(expected, shown):
        found.append(f"{raised} tracebacks")
    if IGNORED in text and episode.disturbance != "interrupt":
        found.append(f"a rank wrote {IGNORED!r}")
    if episode.disturbance not in FAILS and re.search(r"onstream\S* error:", text):
        found.append("a rank logged an error")
    return found


def _of_times(outcome: Outcome) -> list[str]:
    """How soon the ranks that waited for a dead or interrupted one were told."""
    ends = [at for at, _, number in outcome.sent if number in (signal.SIGKILL, signal.SIGINT)]
    ends += [
        at for at, _, number in outcome.sent if outcome.episode.disturbance == "stall" and number == signal.SIGSTOP
    ]
    late = {
        rank: f"{report['heard_at'] - ends[0]:.1f} s"
        for rank, report in outcome.reports.items()
        if ends and report.get("heard_at", 0) - ends[0] > outcome.episode.shape.deadline_s + SLACK_S
    }
    return [f"ranks were told late: {late}"] if late else []
