"""Threads of a rank: one closes the world, or the program ends, while others are inside calls that block."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import lines_of, run_job

# Calls of a thread. Where rank 1 must not come to rank 0's call, it waits in a receive that nobody sends.
CALLS = {
    "recv": "w.recv(np.zeros(1), peer, tag=3)",
    "recv into symmetric memory": "w.recv(x, peer, tag=3)",
    "send": "w.send(np.zeros(300000), peer, tag=3)",
    "wait": "w.irecv(np.zeros(1), peer, tag=3).wait()",
    "sendrecv": "w.sendrecv(np.zeros(300000), peer, np.zeros(300000), peer, tag=3 + w.rank)",
    "all_reduce": "w.all_reduce(np.ones(1)) if w.rank == 0 else w.recv(np.zeros(1), peer)",
    "gather of many": "w.all_gather(np.ones(10**6), np.ones(2 * 10**6)) if w.rank == 0 else w.recv(np.zeros(1), peer)",
    "barrier": "w.barrier() if w.rank == 0 else w.recv(np.zeros(1), peer)",
    "team": "w.team([0, 1]) if w.rank == 0 else w.recv(np.zeros(1), peer)",
    "plan": "plan.launch(stream='host') if w.rank == 0 else w.recv(np.zeros(1), peer)",
    "build": "w.plan('b').recv(np.zeros(1), peer).build() if w.rank == 0 else w.recv(np.zeros(1), peer)",
    "stream": "(w.recv(np.zeros(1), peer, tag=3, stream=stream), stream.synchronize())",
    "world, of a stream": "(w.recv(np.zeros(1), peer, tag=3, stream=stream), w.synchronize(stream))",
    "word": "context.wait(words[0:1], 1)",
    "word of symmetric memory": "words[0:1].wait(1, stream='host')",
}

MAKE = """
import sys, threading, time
import numpy as np
import onstream as ons

w = ons.init(timeout_s=20)
peer = 1 - w.rank
x = w.zeros(300000)
plan = w.plan("both").send(np.ones(4), peer).recv(np.zeros(4), peer).build()
words = w.heap(1 << 16).zeros(8, "uint64")
context, stream = w.context(), w.stream()
begun = threading.Event()
"""


@pytest.mark.parametrize("what", CALLS)
def test_a_thread_inside_a_call_gets_an_error_when_another_closes_the_world(what: str, tmp_path: Path) -> None:
    program = f"""{MAKE}
ends = []
def call():
    begun.set()
    try:
        ends.append({CALLS[what]})
    except ons.Error as error:
        ends.append(type(error).__name__)
thread = threading.Thread(target=call)
thread.start()
begun.wait()
time.sleep(0.1)  # it waits by now; were it not yet there, it would find the world closed
start = time.monotonic()
w.close()
thread.join(60)
print("ends", ends, "late" if time.monotonic() - start > 10 else "soon", flush=True)
"""
    ended = run_job(tmp_path, 2, program)
    assert ended.code == 0, ended.err
    lines = [line.partition("ends ")[2] for line in ended.out.splitlines() if "ends " in line]
    # A rank that waits for one that closed first may hear of that before it closes itself.
    assert len(lines) == 2
    assert all(line in ("['ClosedError'] soon", "['AbortedError'] soon") for line in lines), ended.out
    assert "['ClosedError'] soon" in lines, ended.out


@pytest.mark.parametrize("buffers", ["np.ones", "w.zeros"])
def test_threads_that_exchange_all_the_time_survive_a_close_at_any_moment(buffers: str, tmp_path: Path) -> None:
    program = f"""
import threading, time
import numpy as np
import onstream as ons

for k in range(12):
    w = ons.init(timeout_s=10)
    after, before = (w.rank + 1) % w.size, (w.rank - 1) % w.size
    x, y = {buffers}(30000), {buffers}(30000)
    ends = []
    def exchange():
        try:
            while True:
                w.sendrecv(x, after, y, before, tag=2)
        except ons.Error as error:
            ends.append(type(error).__name__)
    thread = threading.Thread(target=exchange)
    w.barrier()
    thread.start()
    time.sleep(0.01 + 0.002 * k)
    try:
        w.close()
    except ons.Error:
        pass
    thread.join(60)
    assert ends in (["ClosedError"], ["AbortedError"]), ends
print("fine", flush=True)
"""
    ended = run_job(tmp_path, 2, program)
    assert ended.code == 0, ended.err
    assert ended.out.count("fine") == 2


@pytest.mark.parametrize(
    ("what", "close"),
    [*((what, "") for what in ("recv", "send", "wait", "barrier", "plan", "stream", "word")), ("recv", "w.close()")],
)
def test_a_program_ends_well_though_a_daemon_thread_is_inside_a_call(what: str, close: str, tmp_path: Path) -> None:
    program = f"""{MAKE}
def call():
    begun.set()
    {CALLS[what]}
threading.Thread(target=call, daemon=True).start()
begun.wait()
time.sleep(0.1)
print("result", 2, flush=True)
{close}
"""
    ended = run_job(tmp_path, 2, program)
    assert ended.code == 0, ended.err
    assert ended.out.count("result 2") == 2
    assert "Fatal" not in ended.err  # the rank that ends last may hear, and say, that the other has left


def test_a_signal_handler_may_close_the_world_that_its_thread_waits_in(tmp_path: Path) -> None:
    program = f"""{MAKE}
import os, signal
def handle(number, frame):
    w.close()
signal.signal(signal.SIGUSR1, handle)
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
start = time.monotonic()
try:
    w.recv(np.zeros(1), peer, tag=3)
except ons.Error as error:
    print("ended", type(error).__name__, "late" if time.monotonic() - start > 10 else "soon", flush=True)
"""
    ended = run_job(tmp_path, 2, program)
    assert ended.code == 0, ended.err
    assert ended.out.count("ended ClosedError soon") + ended.out.count("ended AbortedError soon") == 2, ended.out
    assert "ended ClosedError soon" in ended.out


def test_closing_beside_a_thread_that_listens_loses_no_work_of_streams(tmp_path: Path) -> None:
    """The send waits for a receive that comes late, and for which the listener's call may not be broken off before."""
    program = f"""{MAKE}
big = np.full(300000, 7.0)
def listen():
    begun.set()
    try:
        w.recv(np.zeros(1), peer, tag=3)
    except ons.Error as error:
        print("listener", type(error).__name__, flush=True)
if w.rank == 0:
    thread = threading.Thread(target=listen)
    thread.start()
    begun.wait()
    w.send(big, peer, tag=4, stream=stream)
    w.close()
    thread.join()
else:
    time.sleep(1)
    w.recv(x, peer, tag=4)
    print("came", x.min(), x.max(), flush=True)
"""
    ended = run_job(tmp_path, 2, program)
    assert ended.code == 0, ended.err
    assert sorted(lines_of(ended)) == ["came 7.0 7.0", "listener ClosedError"]


def test_a_buffer_that_a_peer_may_write_outlasts_a_close_within_a_call(tmp_path: Path) -> None:
    """A handler closes the world inside a call of its thread, which keeps the world: a receive that was posted and let go
    keeps its array, too. Only rank 0 does so: a rank whose peer has left ends its call before its own handler comes."""
    program = f"""{MAKE}
import os, pathlib, signal, weakref
class Array(np.ndarray):
    pass
array = np.zeros(1000).view(Array)
gone = weakref.ref(array)
request = w.irecv(array, peer, tag=5)
del array, request
told = pathlib.Path("told")
def handle(number, frame):
    w.close()
    print("kept" if gone() is not None else "gone", flush=True)
    told.touch()
if w.rank == 0:
    signal.signal(signal.SIGUSR1, handle)
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
    try:
        w.recv(np.zeros(1), peer, tag=3)
    except ons.Error:
        pass
else:
    while not told.exists():
        time.sleep(0.01)
"""
    ended = run_job(tmp_path, 2, program)
    assert ended.code == 0, ended.err
    assert lines_of(ended) == ["kept"]
