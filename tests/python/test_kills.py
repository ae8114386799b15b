"""Ranks that are killed: in any wait, the others are told which rank died and with which consequences, and live on."""

from __future__ import annotations

import json
import os
import random
import re
import secrets
import signal
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from jobs import run_job
from memories import DEVICES, LIBRARIES

DEATH = """
    import json, os, signal, sys, threading, time
    import numpy as np
    import onstream as ons

    world = ons.init(device=DEVICE)
    rank, device, living = world.rank, world.device, [rank for rank in range(world.size) if rank != 1]
    if device == "host":
        box, many = bytearray(64), np.ones(8)
    else:
        box, many = world.empty(64, "u1"), world.zeros(8)
    stream = world.stream()
    segment = world.segment(64)

    def planned():
        builder = world.plan("jacobi")
        if rank != 1:
            return builder.recv(box, 1, tag=5).build()
        for peer in living:
            builder.send(box, peer, tag=5)
        return builder.build()

    def captured():
        with world.capture(stream) as graph:
            world.recv(box, 1, tag=5, stream=stream)
        return graph

    def of_torch():
        import torch
        tensor = torch.zeros(10**6, dtype=torch.uint8, device=device)
        torch.cuda.synchronize(device)
        return tensor

    def hear():
        limit = time.monotonic() + 30
        while world.failure() is None and time.monotonic() < limit:
            time.sleep(0.001)

    prepared = PREPARE
    if rank == 1:
        with open("pid", "w") as out:
            out.write(str(os.getpid()))
        for peer in living:
            world.recv(bytearray(2), peer)
        os.kill(os.getpid(), signal.SIGKILL)
    # The last words that rank 1 waits for are sent when this thread lets go of the GIL, which only the wait makes it do.
    begun = threading.Event()
    def go():
        begun.wait()
        world.send(b"go", 1)
    thread = threading.Thread(target=go)
    thread.start()
    ENQUEUE
    started = time.monotonic()
    sys.setswitchinterval(1000)
    try:
        begun.set()
        HEAR
        WAIT
    except ons.Error as error:
        told = {"type": type(error).__name__, "text": str(error), "after_s": time.monotonic() - started}
    sys.setswitchinterval(0.005)
    thread.join()
    told["reason"], told["dead"] = world.failure().reason, world.failure().dead
    world.close()
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device=device) as again:
        again.send(b"alive", 0)
        told["again"] = again.recv(bytearray(5), 0)
        ones = np.ones(3) if device == "host" else again.zeros(3, kind="pinned")
        ones[:] = 1
        told["sum"] = float(again.all_reduce(ones).sum())
        sent, came = again.zeros(50_000, "u1"), np.ones(50_000, "u1")
        request = again.irecv(came, 0, stream="host")
        again.send(sent, 0, stream="host")
        request.wait()
        told["large"] = bool((came == 0).all())
    with open(f"rank{rank}.json", "w") as out:
        json.dump(told, out)
"""


@dataclass(frozen=True)
class Way:
    """How the living wait for the dead, and a pattern for the error's text."""

    wait: str
    told: str
    prepare: str = "None"  # all ranks run this first
    enqueue: str = "pass"  # the living enqueue this on the stream that they wait for


def message(op: str, nbytes: int) -> str:
    """The report of a message that waited, or that a busy machine let come too late to wait at all."""
    return rf"{op} of {nbytes} B (from|to) rank 1 with tag 5( was waiting|[^:]* did not start)"


RECV = message("recv", 64)
LARGE_SEND = message("send", 10**6)
WORD = r"wait for a word of 8 B to be at least 1 \(at byte 0 of a segment of 64 B\) was waiting"
WAYS = {
    "recv": Way("world.recv(box, 1, tag=5)", RECV),
    "wait": Way("world.irecv(box, 1, tag=5).wait()", RECV),
    "stream": Way("stream.synchronize()", RECV, enqueue="world.recv(box, 1, tag=5, stream=stream)"),
    "large send": Way("world.send(bytes(10**6), 1, tag=5)", LARGE_SEND),
    "sendrecv": Way("world.sendrecv(b'out', 1, box, 1, tag=5)", RECV),
    "sendrecv on a stream": Way(
        "stream.synchronize()", RECV, enqueue="world.sendrecv(many, 1, box, 1, tag=5, stream=stream)"
    ),
    "plan": Way(
        "stream.synchronize()",
        r"recv of 64 B from rank 1 with tag 5 \(op 0 of plan 'jacobi'\) was waiting",
        prepare="planned()",
        enqueue="prepared.launch(stream)",
    ),
    "graph": Way("stream.synchronize()", RECV, prepare="captured()", enqueue="prepared.launch()"),
    "word": Way("segment.wait(offset=0, value=1, stream='host')", WORD),
    "word on a stream": Way("stream.synchronize()", WORD, enqueue="segment.wait(offset=0, value=1, stream=stream)"),
    "all_reduce": Way(
        "stream.synchronize()",
        "all_reduce of 64 B, waiting for rank [01], .* was waiting",
        prepare="world.all_reduce(many)",  # the first one makes the channel that the others use
        enqueue="world.all_reduce(many, stream=stream)",
    ),
    "first all_reduce": Way(
        "world.all_reduce(many)",
        r"(all_reduce of 8 float64 sum did not start|the first collective of a channel did not (end|start))",
    ),
    "build": Way("world.plan('jacobi').build()", "the build of a plan did not (end|start)"),
    "segment": Way("world.segment(64)", "the allocation of a segment did not (end|start)"),
    "barrier": Way("world.barrier()", "a barrier did not (end|start)"),
}


# The same on GPUs, of which two ranks have one each: in device memory, where nothing else is said.
GPU_WAYS = {
    "recv": Way("world.recv(bytearray(64), 1, tag=5)", RECV),
    "recv into device memory": Way("world.recv(box, 1, tag=5, stream='host')", RECV),
    "wait": Way("world.irecv(box, 1, tag=5, stream='host').wait()", RECV),
    "large send": Way("world.send(prepared, 1, tag=5, stream='host')", LARGE_SEND, prepare="world.zeros(10**6, 'u1')"),
    "large send of torch's memory": Way(
        "world.send(prepared, 1, tag=5, stream='host')", LARGE_SEND, prepare="of_torch()"
    ),
    "recv into torch's memory": Way(
        "stream.synchronize()",
        message("recv", 10**6),
        prepare="of_torch()",
        enqueue="world.recv(prepared, 1, tag=5, stream=stream)",
    ),
    **{way: WAYS[way] for way in ("stream", "plan", "graph", "word on a stream", "all_reduce", "barrier")},
}


def way_of(device: str, _size: int, way: str) -> Way:
    return WAYS[way] if device == "host" else GPU_WAYS[way]


DEATHS = [
    *(("host", 3, way) for way in WAYS),
    *(("cuda", 2, way) for way in GPU_WAYS if "cuda" in DEVICES and ("torch" not in way or "torch" in LIBRARIES)),
]


@pytest.mark.parametrize(("device", "size", "way"), DEATHS)
def test_a_killed_rank_is_named_at_once(device: str, size: int, way: str, tmp_path: Path) -> None:
    check_death(device, size, way, "pass", tmp_path)


@pytest.mark.parametrize(("device", "size", "way"), [death for death in DEATHS if way_of(*death).enqueue == "pass"])
def test_a_call_after_a_death_names_itself(device: str, size: int, way: str, tmp_path: Path) -> None:
    check_death(device, size, way, "hear()", tmp_path)


def check_death(device: str, size: int, way: str, hear: str, tmp_path: Path) -> None:
    """The living run `hear` between the death's cause and their wait."""
    one = way_of(device, size, way)
    program = DEATH.replace("PREPARE", one.prepare).replace("ENQUEUE", one.enqueue).replace("WAIT", one.wait)
    program = program.replace("HEAR", hear)
    program = program.replace("DEVICE", repr(device))
    outcome = run_job(tmp_path, size, program, options=("--grace-s", "inf"), timeout_s=100)
    assert outcome.code != 0
    died = f"rank 1 (pid {(tmp_path / 'pid').read_text()}) died"
    for rank in (rank for rank in range(size) if rank != 1):
        told = json.loads((tmp_path / f"rank{rank}.json").read_text())
        assert told["type"] == "AbortedError"
        assert told["reason"].startswith(died)
        assert told["dead"] == [1]
        assert died in told["text"]
        assert re.search(f"rank {rank}: .*{one.told}", told["text"]), told["text"]
        assert told["after_s"] < 30  # half of timeout_s: no wait has seen its deadline
        assert (told["again"], told["sum"], told["large"]) == (5, 3, True)


LEFT_FOR_IT = """
    import json, os, signal, time
    import onstream as ons

    def wait_until(holds):
        limit = time.monotonic() + 60
        while not holds() and time.monotonic() < limit:
            time.sleep(0.001)

    def state_of(pid):
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0]

    world = ons.init(device="host")
    rank, pids = world.rank, bytearray(8)
    if rank != 1:
        world.send(os.getpid().to_bytes(8, "little"), 1)
        try:
            world.barrier()
        except ons.Error as error:
            with open("told.json", "w") as out:
                json.dump({"text": str(error), "dead": world.failure().dead if world.failure() else []}, out)
            raise
    pid = []
    for peer in (0, 2):
        world.recv(pids, peer)
        pid.append(int.from_bytes(pids, "little"))
    time.sleep(0.1)  # so that rank 0 is likely in the barrier; the text is the same if it is not
    os.kill(pid[0], signal.SIGSTOP)
    wait_until(lambda: state_of(pid[0]) == "T")
    os.kill(pid[1], signal.SIGKILL)
    wait_until(lambda: world.failure() is not None)
    world.close()
    os.kill(pid[0], signal.SIGCONT)
"""


def test_a_death_is_told_though_another_rank_has_left_for_it(tmp_path: Path) -> None:
    outcome = run_job(tmp_path, 3, LEFT_FOR_IT, options=("--grace-s", "inf"), timeout_s=100)
    told = json.loads((tmp_path / "told.json").read_text())
    assert re.search(r"rank 0: a barrier did not (end|start): .*rank 2 \(pid \d+\) died", told["text"]), outcome.err
    assert told["dead"] == [2]


BUSY = """
    import json, os, time
    import numpy as np
    import onstream as ons

    world = ons.init(device="host")
    rank, size = world.rank, world.size
    after, before = (rank + 1) % size, (rank - 1) % size
    small, large, many = np.zeros(64, "u1"), np.zeros(100_000, "u1"), np.zeros(1000)
    box, large_box, planned = small.copy(), large.copy(), large.copy()
    stream = world.stream()
    limit, turn = time.monotonic() + 60, 0
    if rank == 1:
        with open("pid.new", "w") as out:
            out.write(str(os.getpid()))
        os.rename("pid.new", "pid")
    try:
        while time.monotonic() < limit:
            if turn % 16 == 0:
                plan = world.plan("round").send(large, after).recv(planned, before).build()
            world.sendrecv(small, after, box, before)
            request = world.irecv(large_box, before, tag=1)
            world.send(large, after, tag=1)
            request.wait()
            plan.launch(stream)
            world.all_reduce(many, stream=stream)
            world.recv(box, before, tag=2, stream=stream)
            world.send(small, after, tag=2)
            stream.synchronize()
            world.all_reduce(many)
            turn += 1
    except ons.AbortedError as error:
        with open(f"rank{rank}.json", "w") as out:
            json.dump({"text": str(error), "reason": world.failure().reason}, out)
"""


@pytest.mark.parametrize("turn", range(3))
def test_a_rank_killed_at_any_moment_is_named_and_nobody_hangs(turn: int, tmp_path: Path) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")  # shown if the test fails
    delay_s = random.Random(seed).uniform(0, 0.3)
    over = threading.Event()

    def kill() -> None:
        while not (tmp_path / "pid").exists():
            if over.wait(0.002):
                return
        if over.wait(delay_s):
            return
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        outcome = run_job(tmp_path, 3, BUSY, options=("--grace-s", "inf"), timeout_s=100)
    finally:
        over.set()
        killer.join()
    died = f"rank 1 (pid {(tmp_path / 'pid').read_text()}) died"
    assert outcome.code != 0
    for rank in (0, 2):
        assert (tmp_path / f"rank{rank}.json").exists(), outcome.err
        told = json.loads((tmp_path / f"rank{rank}.json").read_text())
        assert told["reason"].startswith(died), told
        assert died in told["text"], told
