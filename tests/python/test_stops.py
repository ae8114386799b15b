"""A job that is stopped for longer than its deadline, as by Ctrl-Z, goes on when it is continued."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

TIMEOUT_S = 4

# Rank 0 waits in several calls at once, each in a thread of its own, and then in one that the hosts of both make.
PROGRAM = """
import os, threading, time
from pathlib import Path
import numpy as np
import onstream as ons

w = ons.init(timeout_s={timeout})
words = w.heap(1 << 16).zeros(8, "uint64")
team = w.team([0, 1])
x, y = np.full(100000, 7.0), np.zeros(100000)
small = np.zeros(1)
stream = w.stream()
ends = []

def on_a_stream():
    w.recv(small, 1, tag=4, stream=stream)
    stream.synchronize()

WAITS = {{
    "recv": lambda: w.recv(y, 1, tag=1),
    "wait": lambda: w.irecv(np.zeros(2), 1, tag=2).wait(),
    "send": lambda: w.send(x, 1, tag=3),
    "stream": on_a_stream,
    "word": lambda: words[0:1].wait(1, stream="host"),
    "team": lambda: team.all_reduce(np.ones(1)),
}}

def wait(name, call):
    call()
    ends.append(name)

w.barrier()
threads = [threading.Thread(target=wait, args=item) for item in WAITS.items()] if w.rank == 0 else []
for thread in threads:
    thread.start()
print("pid", os.getpid(), flush=True)
if w.rank == 1:
    while not Path("go").exists():
        time.sleep(0.01)
w.barrier()
if w.rank == 1:
    w.send(x, 0, tag=1)
    w.send(x[:2], 0, tag=2)
    w.recv(y, 0, tag=3)
    w.send(x[:1], 0, tag=4)
    words[0:1].signal(0)
    team.all_reduce(np.ones(1))
for thread in threads:
    thread.join()
print(f"ends {{sorted(ends)}}", flush=True)
"""


def test_a_job_that_stood_still_for_longer_than_its_deadline_goes_on(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.format(timeout=TIMEOUT_S))
    command = [sys.executable, "-m", "onstream", "run", "-n", "2", sys.executable, "program.py"]
    job = subprocess.Popen(command, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        assert job.stdout is not None
        pids = [int(job.stdout.readline().split()[-1]) for _ in range(2)]
        time.sleep(0.5)  # its threads wait
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(TIMEOUT_S + 1.5)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        time.sleep(0.5)
        (tmp_path / "go").touch()
        out, _ = job.communicate(timeout=60)
    finally:
        job.kill()
    assert job.returncode == 0, out
    assert "ends ['recv', 'send', 'stream', 'team', 'wait', 'word']" in out


# Rank 0 asks rank 2, which stands still, to attach to its memory: it cannot know where a send goes before.
SILENT = """
import os, signal, time
import numpy as np
import onstream as ons

w = ons.init(timeout_s=1)
w.barrier()
if w.rank == 2:
    print("pid", os.getpid(), flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)
end = time.monotonic() + 20
if w.rank == 0:
    time.sleep(0.5)
    try:
        w.send(np.zeros(100000), 2)
    except ons.TimeoutError as error:
        print("told", str(error).splitlines()[0], flush=True)
while w.failure() is None and time.monotonic() < end:
    time.sleep(0.01)
print("failed", w.failure() is not None, flush=True)
os._exit(0)
"""


def test_a_peer_that_does_not_answer_for_a_buffer_fails_the_world_on_every_rank(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SILENT)
    command = [sys.executable, "-m", "onstream", "run", "-n", "3", sys.executable, "program.py"]
    job = subprocess.Popen(command, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert job.stdout is not None
    lines: list[str] = []
    pid = 0
    try:
        while sum(" failed " in line for line in lines) < 2:
            line = job.stdout.readline()
            assert line, lines
            lines.append(line)
            if " pid " in line:
                pid = int(line.split()[-1])
    finally:
        if pid:
            os.kill(pid, signal.SIGCONT)
        job.wait(60)
        job.stdout.close()
    assert sum("failed True" in line for line in lines) == 2, lines
    assert any("told" in line and "did not answer" in line for line in lines), lines
