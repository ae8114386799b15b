"""The native suites once more, with the ranks of one machine taken for several hosts.

Over `sim`, whose seed decides which messages overtake, and over UCX's TCP. A case that needs one host skips itself, with
the text by which the library refuses it. ONSTREAM_SEEDS=N runs so many more seeds of `sim` (nightly; none by default).
"""

from __future__ import annotations

import os
import subprocess

import pytest
from conftest import build_folder

from onstream import _ucx

LIMIT_S = 400
SKIPPED = 77

PROGRAMS = [
    "message",
    "message_capture",
    "message_errors",
    "message_order",
    "message_threads",
    "requests",
    "sendrecv",
    "posted_waits",
    "probe",
    "collective",
    "collective_errors",
    "collective_many",
    "collective_order",
    "collective_repeated",
    "collective_threads",
    "user_reduction",
    "leaving",
    "neighbours",
    "plan",
    "plan_errors",
    "plan_grid",
    "plan_match",
    "halo",
    "tsunami",
    "one_sided",
    "one_sided_failed",
    "one_sided_refused",
    "put_signal",
    "segments",
    "freed_segments",
    "failed_waits",
    "heap",
    "teams",
]


def run(program: str, network: str, host_ranks: int, seed: int = 1) -> None:
    path = build_folder() / "tests" / "native" / f"test_{program}"
    environment = dict(os.environ, TEST_NET=network, TEST_NET_RANKS=str(host_ranks), TEST_NET_SEED=str(seed))
    ended = subprocess.run([path], env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    passed = ended.stdout.rstrip().rpartition("\n")[2]
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert not passed.startswith("0 passed"), ended.stdout


@pytest.mark.parametrize("host_ranks", [1, 2])
@pytest.mark.parametrize("program", PROGRAMS)
def test_over_the_simulated_network(program: str, host_ranks: int) -> None:
    run(program, "sim", host_ranks)


@pytest.mark.parametrize("host_ranks", [1, 2])
@pytest.mark.parametrize("program", PROGRAMS)
def test_over_ucx(program: str, host_ranks: int) -> None:
    if _ucx.find_library() is None:
        pytest.skip("no UCX: pip install libucx-cu13")
    run(program, "ucx", host_ranks)


@pytest.mark.parametrize("seed", range(2, 2 + int(os.environ.get("ONSTREAM_SEEDS", "0"))))
def test_more_orders_of_messages(seed: int) -> None:
    run("message_order", "sim", 1, seed)
