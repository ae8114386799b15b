"""Ranks that lose the right to copy from each other's memory behind the start, as services that give up root do: ops
begun before come to their end, and later ones go through bounce buffers.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import test_am
from conftest import build_folder
from jobs import run_job

ASKED = {"ONSTREAM_TEST_DROP_RIGHTS": "1"}  # of the programs that test the way that rights open

PROGRAM = """
    import ctypes
    import os
    import numpy as np
    import onstream as ons

    NOBODY = 65534
    libc = ctypes.CDLL(None)

    def give_up_root():
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)

    def set_dumpable(may):
        assert libc.prctl(4, may, 0, 0, 0) == 0  # PR_SET_DUMPABLE

    if HOW == "dumpable" and os.geteuid() == 0:
        give_up_root()
        set_dumpable(1)

    world = ons.init(device="host", timeout_s=40)
    rank, peer = world.rank, 1 - world.rank
    COUNTS = (100, 3000, 100_000, 300_001)

    def mine(count):
        return np.arange(count) + 1000.0 * rank

    def check(came):
        assert np.array_equal(came, np.arange(came.size) + 1000.0 * peer)

    def sendrecv(count):
        came = np.zeros(count)
        world.sendrecv(mine(count), peer, came, peer)
        return came

    def one_after_the_other(count):
        came, source = np.zeros(count), mine(count)
        if rank == 0:
            world.send(source, peer)
        world.recv(came, peer)
        if rank == 1:
            world.send(source, peer)
        return came

    def to_places(count):
        halves, column, source = np.zeros(2 * count), np.zeros((count, 2)), mine(count)
        layout = ons.Layout.indexed([count // 2, count - count // 2], [0, count], "f8")
        for turn in (0, 1):
            if rank == turn:
                world.send(source, peer)
                world.send(source, peer)
            else:
                world.recv(halves, peer, layout=layout)
                world.recv(column[:, 0], peer)
        came = column[:, 0].copy()
        assert np.array_equal(came, layout.pack(halves).view("f8"))
        return came

    def posted(count):
        came, source = np.zeros(count), mine(count)
        receive, send = world.irecv(came, peer), world.isend(source, peer)
        receive.wait()
        send.wait()
        return came

    def on_a_stream(count):
        came, source, stream = np.zeros(count), mine(count), world.stream()
        world.sendrecv(source, peer, came, peer, stream=stream)
        world.synchronize(stream)
        return came

    def planned(count):
        came, source = np.zeros(count), mine(count)
        world.plan("later").send(source, peer).recv(came, peer).build().launch()
        world.sync()
        return came

    def every_family():
        heap = world.heap(1 << 23, kind="pinned")
        for count in COUNTS:
            for way in (sendrecv, one_after_the_other, to_places, posted, on_a_stream, planned):
                check(way(count))
                world.sync()
            assert world.all_reduce(np.full(count, rank + 1.0))[-1] == 3
            array, came = heap.empty(count), np.zeros(count)
            array.put(mine(count), peer)
            world.barrier()
            check(array.local())
            array.get(came, peer)
            assert np.array_equal(came, mine(count))
            world.barrier()

    every_family()
    if "cross-memory attach" not in world.describe():
        print("skip:", world.describe())
        world.close()
        os._exit(0)

    # Begun before, and ended behind it.
    count = COUNTS[2]
    source, came, again = mine(count), np.zeros(count), np.zeros(count)
    stream = world.stream()
    with world.capture(stream) as graph:
        world.sendrecv(source, peer, again, peer, stream=stream)
    kept = np.zeros(count)
    plan = world.plan("kept").send(source, peer).recv(kept, peer).build()
    receive, send = world.irecv(came, peer, tag=1), world.isend(source, peer, tag=1)
    world.barrier()
    if WHO in ("all", str(rank)):
        give_up_root() if HOW == "setuid" else set_dumpable(0)
    world.barrier()
    receive.wait()
    send.wait()
    check(came)
    for turn in range(2):
        graph.launch()
        world.synchronize(stream)
        check(again)
        again[:] = 0
        plan.launch()
        world.sync()
        check(kept)
        kept[:] = 0
    every_family()
    if WHO == "all":  # who has one user still, or again, meets in a world of its own
        for _ in range(3):
            with ons.init(device="host", timeout_s=30, bootstrap_timeout_s=30) as other:
                assert other.all_reduce(np.full(100, rank + 1.0))[-1] == 3
    told = "through bounce buffers (the system no longer lets rank" in world.describe()
    print("rank", rank, "is right", "and tells it" if told else "")
    world.close()
    os._exit(0)
"""


def run(tmp_path: Path, how: str, who: str) -> tuple[str, str]:
    outcome = run_job(tmp_path, 2, PROGRAM.replace("HOW", repr(how)).replace("WHO", repr(who)), timeout_s=100)
    assert outcome.code == 0, outcome.err
    if "skip:" in outcome.out:
        pytest.skip("the system lets no process copy from another's memory")
    assert outcome.out.count("is right") == 2, outcome.out + outcome.err
    assert "freed" not in outcome.err
    return outcome.out, outcome.err


@pytest.mark.parametrize("who", ["all", "0", "1"])
def test_ranks_that_give_up_root_go_on(who: str, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give up root")
    out, err = run(tmp_path, "setuid", who)
    # Root may still copy in the direction that is left.
    refused = 2 if who == "all" else 1
    assert (out.count("and tells it"), err.count("the system no longer lets rank")) == (refused, refused), out + err


@pytest.mark.parametrize("who", ["all", "0"])
def test_ranks_that_cannot_be_dumped_any_more_go_on(who: str, tmp_path: Path) -> None:
    out, err = run(tmp_path, "dumpable", who)
    refused = 2 if who == "all" else 1
    assert (out.count("and tells it"), err.count("the system no longer lets rank")) == (refused, refused), out + err


def test_every_rule_of_plain_memory_holds_without_rights() -> None:
    program = build_folder() / "tests" / "native" / "test_plain_memory"
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    # One says that the system permits it, one asks for a path that needs it.
    others = ("what_is_copied_once_is_told", "every_forced_path_meets_an_automatic_one")
    rules = [rule for rule in listed if rule.endswith("_between_processes") and not rule.startswith(others)]
    ended = subprocess.run([program, *rules], env={**os.environ, **ASKED}, capture_output=True, text=True, timeout=110)
    assert ended.returncode == 0, ended.stdout + ended.stderr[-6000:]


def test_registered_buffers_are_put_to_without_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ASKED.items():
        monkeypatch.setitem(test_am.SETTINGS, name, value)
    test_am.all_pass(2)
    status, output = test_am.run(2, "memory_that_is_gone_is_refused")
    assert (status, output.count("was told")) == (0, 2), output
