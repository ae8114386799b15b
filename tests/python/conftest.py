"""The set-up every Python test may rely on: the build folder, a time limit, and no inherited settings or job.

A test that runs past its limit fails; one that cannot even be interrupted ends the run with every thread's stack, so
nothing hangs. A test states a longer limit with `@pytest.mark.limit(seconds)`.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 120
GRACE_S = 30  # between the limit and the end of a run that cannot be interrupted

# Settings of the Makefile, which no world reads.
HOUSE_VARIABLES = {"ONSTREAM_BUILD", "ONSTREAM_OFFLINE", "ONSTREAM_CUDA"}

# Launchers set these. Tests that run inside somebody's job must not take themselves for its ranks.
LAUNCHER_VARIABLES = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
LAUNCHER_PREFIXES = ("ONSTREAM_", "OMPI_", "PMIX_", "PMI_", "MPI_", "SLURM_", "TORCHELASTIC_")


def build_folder() -> Path:
    """The CMake tree under test: $ONSTREAM_BUILD, or build/."""
    return ROOT / os.environ.get("ONSTREAM_BUILD", "build")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--libmp", metavar="PATH", help="a checkout of github.com/gpudirect/libmp, to run its programs")
    parser.addoption("--openshmem", metavar="PATH", help="a checkout of github.com/openshmem-org/tests-sos, likewise")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """How many files `make test` runs at once. Kernels that wait take turns of a GPU."""
    return 2 if Path("/dev/nvidia0").exists() else min(8, len(os.sched_getaffinity(0)))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "limit(seconds): how long the test may take, if not 120 s")
    config.addinivalue_line("markers", "install: compiles the library anew; `make check` runs it, `make test` does not")
    config.addinivalue_line("markers", "gpu: uses the GPUs that there are; rows of a cuda device are marked")
    # A shell's background job is born ignoring Ctrl-C, one under nohup SIGHUP, and would pass that on to the programs that
    # tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    # A copy of standard error that pytest does not capture.
    config.stash[STDERR] = os.fdopen(os.dup(2), "w")
    for name in list(os.environ):
        inherited = name.startswith(LAUNCHER_PREFIXES) or name in LAUNCHER_VARIABLES
        if inherited and name not in HOUSE_VARIABLES:
            del os.environ[name]


STDERR = pytest.StashKey["object"]()


def pytest_itemcollected(item: pytest.Item) -> None:
    callspec = getattr(item, "callspec", None)
    if callspec is not None and callspec.params.get("device") == "cuda":
        item.add_marker("gpu")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    mark = item.get_closest_marker("limit")
    limit = float(mark.args[0]) if mark else LIMIT_S

    def too_long(_signal: int, _frame: FrameType | None) -> None:
        pytest.fail(f"ran past its limit of {limit:g} s")

    previous = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, limit)
    faulthandler.dump_traceback_later(limit + GRACE_S, exit=True, file=item.config.stash[STDERR])
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, previous)


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def build() -> Path:
    return build_folder()


@pytest.fixture(scope="session")
def python() -> str:
    """The interpreter for programs that a test starts."""
    return sys.executable
