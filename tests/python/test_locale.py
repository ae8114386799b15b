"""Ranks whose locale groups digits and writes decimal commas, all of them or one, set before the start or behind it."""

from __future__ import annotations

from pathlib import Path

import pytest
import test_am
import test_nccl
import test_openshmem
import test_upc
from conftest import build_folder
from jobs import run_job

PROGRAM = """
    import ctypes
    import os
    import numpy as np
    import onstream as ons

    group_digits = ctypes.CDLL(LIBRARY).group_digits

    def sets(when):
        if when == WHEN and WHO in ("all", os.environ["ONSTREAM_RANK"]):
            group_digits()

    sets("before")
    with ons.init(timeout_s=30) as world:
        sets("after")
        rank, size = world.rank, world.size
        segment = world.segment(1 << 21)
        assert world.all_reduce(np.full(10_000, 1.0))[9_999] == size
        team = world.team([rank])
        assert team.all_reduce(np.full(10_000, 1.0))[9_999] == 1
        came = np.zeros(300_000)
        plan = world.plan("p").send(np.full(300_000, rank + 1.0), 1 - rank).recv(came, 1 - rank).build()
        plan.launch()
        world.sync()
        assert came[-1] == 2 - rank
        for text in (plan.explain(), world.describe()):
            assert "300,000" not in text and "2,4" not in text, text
    print("rank", rank, "is right")
"""


def grouping_library() -> Path:
    library = build_folder() / "tests" / "native" / "libstand_in_locale.so"
    assert library.exists(), f"there is no {library}"
    return library


@pytest.mark.parametrize("who", ["all", "0", "1"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_ranks_understand_each_other(when: str, who: str, tmp_path: Path) -> None:
    program = PROGRAM.replace("LIBRARY", repr(str(grouping_library())))
    program = program.replace("WHEN", repr(when)).replace("WHO", repr(who))
    outcome = run_job(tmp_path, 2, program)
    assert outcome.code == 0, outcome.err
    assert outcome.out.count("is right") == 2


# Programs of other interfaces, into which the library is loaded before they begin.
@pytest.mark.limit(240)
@pytest.mark.parametrize("who", ["all", "1"])
def test_other_interfaces_work_beside_it(who: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = {"LD_PRELOAD": str(grouping_library()), "STAND_IN_LOCALE": who}
    test_openshmem.check(2, "openshmem_collectives.c", **beside)
    test_upc.check_all(2, beside)
    cases = test_nccl.cases_of("nccl.c")
    test_nccl.run_cases("nccl.c", "processes", 2, cases, tmp_path, beside)
    for name, value in beside.items():
        monkeypatch.setitem(test_am.SETTINGS, name, value)
    test_am.all_pass(2)
