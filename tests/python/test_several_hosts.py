"""Worlds over several hosts: messages, collectives, one-sided ops, and the calls that need one host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import host_collectives
import host_messages
import host_one_sided
import pytest
from host_jobs import Job, require_ucx
from hosts import hosts
from jobs import RANK as BODIES


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    require_ucx()
    with hosts(5) as net:
        yield Job(net, tmp_path_factory.mktemp("ssh"))


def run_ranks(job: Job, places: str, bodies: list[Callable[..., None]], **parameters: Any) -> None:
    """As jobs.run_ranks(), over hosts."""
    names = [body.__name__ for body in bodies]
    tests = str(Path(__file__).parent)
    settings = {"device": "host", "timeout_s": 30, **parameters}
    program = BODIES.format(tests=tests, module=bodies[0].__module__, names=names, arguments=(), parameters=settings)
    done = job.run(places, program)
    assert done.returncode == 0, done.stderr
    ranks = len(done.stdout.splitlines())
    assert done.stdout.count("is right") == ranks > 1


@pytest.mark.parametrize("places", ["a,b", "a:2,b:2", "a,b,c"])
def test_messages_arrive_between_all_ranks(job: Job, places: str) -> None:
    run_ranks(job, places, host_messages.EVERYTHING)


@pytest.mark.parametrize("places", ["a,b", "a:2,b:2", "a,b,c"])
def test_collectives_have_the_results_of_one_host(job: Job, places: str) -> None:
    run_ranks(job, places, host_collectives.EVERYTHING)


@pytest.mark.parametrize("places", ["a,b", "a:2,b:2", "a,b,c"])
def test_one_sided_ops_reach_all_ranks(job: Job, places: str) -> None:
    run_ranks(job, places, host_one_sided.EVERYTHING)


def test_a_world_of_five_hosts_does_both(job: Job) -> None:
    run_ranks(job, "a,b,c,d,e", [host_messages.requests_that_are_waited_for, host_messages.graphs_that_are_replayed])
    run_ranks(job, "e,d,c,b,a", [host_collectives.a_world, host_collectives.teams])


def test_collectives_that_are_checked_have_the_same_results(job: Job) -> None:
    run_ranks(job, "a:2,b:1", host_collectives.EVERYTHING, collective_check="on")
