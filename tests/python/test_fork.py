"""A forked child of a rank has none of the world's threads: it lets go of the world, and its parent's goes on."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from jobs import run_job

PROGRAM = """
import gc
import multiprocessing
import os
import sys
import numpy as np
import onstream as ons

world = ons.init(device="host", timeout_s=60)
peer = (world.rank + 1) % world.size
before = (world.rank - 1) % world.size


def exchange(value):
    out, got = np.full(20_000, value + world.rank), np.zeros(20_000)
    world.sendrecv(out, peer, got, before)
    assert (got == value + before).all()
    world.barrier()


# Of all that has threads or waits for work: streams with work, a graph of two branches, a plan, a helper, requests.
stream, other = world.stream(), world.stream()
queued = np.zeros(100)
late = world.irecv(queued, before, tag=1)
field = np.zeros((10, 10))
halo = world.halo(field, grid=[world.size, 1], periodic=True)
halo.launch(stream)
context = world.context()
heap = world.heap(1 << 16)
cells = heap.zeros(100)
segment = world.segment(4096)
window_of_plain_memory = np.zeros(100)
team = world.team(range(world.size))
summed = world.all_reduce(np.ones(4), stream=stream)
with world.capture(stream) as graph:
    halo.launch(stream)
    world.irecv(queued, before, tag=2, stream=stream).wait(stream)
exchange(1.0)
world.recv(np.zeros(8), before, tag=3, stream=other) if WAITS else None


def refused(call):
    try:
        call()
    except ons.ClosedError as error:
        assert f"made in process {os.getppid()}" in str(error), error
        assert "a forked child makes its own" in str(error), error
    else:
        os._exit(9)


def in_child():
    assert world.closed
    refused(world.barrier)
    refused(lambda: world.send(np.zeros(8), peer))
    refused(lambda: world.abort("a child"))
    refused(world.failure)
    refused(lambda: halo.launch(stream))
    refused(late.test)
    refused(stream.synchronize)
    world.close()


def forget():
    global world, stream, other, late, halo, context, heap, cells, segment, team, graph
    world = stream = other = late = halo = context = heap = cells = segment = team = graph = None
    gc.collect()


def awaited(pid):
    status = os.waitpid(pid, 0)[1]
    assert status == 0, status


sys.stdout.flush()
CHILD
exchange(2.0)
world.send(np.zeros(8), peer, tag=3) if WAITS else None
world.send(np.full(100, 3.0), peer, tag=1)
late.wait()
assert (queued == 3.0).all()
world.barrier()
world.close()
print("rank is right")
"""

CHILDREN = {
    "sys.exit": "pid = os.fork()\nif pid == 0:\n    in_child()\n    sys.exit(0)\nawaited(pid)",
    "sys.exit at once": "pid = os.fork()\nif pid == 0:\n    sys.exit(0)\nawaited(pid)",
    "sys.exit without the world": "pid = os.fork()\nif pid == 0:\n    forget()\n    sys.exit(0)\nawaited(pid)",
    "os._exit": "pid = os.fork()\nif pid == 0:\n    in_child()\n    os._exit(0)\nawaited(pid)",
    "an exception": "pid = os.fork()\nif pid == 0:\n    sys.last_value = KeyError('of the child')\n    sys.exit(0)\nawaited(pid)",
    "multiprocessing": """
child = multiprocessing.get_context("fork").Process(target=forget)
child.start()
child.join(50)
assert child.exitcode == 0, child.exitcode
""",
    "a world of its own": """
pid = os.fork()
if pid == 0:
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as own:
        got = own.irecv(np.zeros(8), 0)
        own.send(np.ones(8), 0)
        got.wait()
    sys.exit(0)
awaited(pid)
""",
}


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("child", CHILDREN)
def test_a_forked_child_leaves_the_world_to_its_parent(child: str, size: int, tmp_path: Path) -> None:
    program = PROGRAM.replace("CHILD", textwrap.dedent(CHILDREN[child])).replace("WAITS", str(size > 1))
    outcome = run_job(tmp_path, size, program, timeout_s=100)
    assert outcome.code == 0, outcome.out + outcome.err
    assert outcome.out.count("rank is right") == size
    assert "Error" not in outcome.err, outcome.err
