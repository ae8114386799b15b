"""`onstream run`: output, signals, failures and leftovers. The ranks are plain Python programs."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest
from jobs import SOON_S, wait_until_gone
from onstream.launcher import hosts, relay
from onstream.launcher import rank as ranks

LAUNCHER = Path(__file__).resolve().parents[2] / "python" / "onstream" / "launcher"

RANK = "import os, signal, sys, time\nrank = int(os.environ['ONSTREAM_RANK'])\n"
# Ends only when it is made to; should the test fail, the alarm does it.
FOR_EVER = "\nsignal.alarm(60)\nwhile True: signal.pause()\n"


def command(size: int, program: str, *options: str) -> list[str]:
    return [sys.executable, str(LAUNCHER), "-n", str(size), *options, sys.executable, "-c", RANK + program]


def run(size: int, program: str, *options: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(size, program, *options), input=stdin, capture_output=True, text=True, timeout=SOON_S, check=False
    )


@contextlib.contextmanager
def running(size: int, program: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command(size, program, *options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as job:
        try:
            yield job
        finally:
            job.kill()


def read_lines(job: subprocess.Popen[str], count: int) -> list[str]:
    assert job.stdout is not None
    return sorted(job.stdout.readline().rstrip("\n") for _ in range(count))


def test_every_rank_knows_who_it_is_and_shares_address_and_secret() -> None:
    names = ["SIZE", "LOCAL_RANK", "LOCAL_SIZE", "ADDRESS", "SECRET"]
    job = run(3, f"print(rank, *(os.environ['ONSTREAM_' + n] for n in {names}))")
    assert job.returncode == 0, job.stderr
    lines = sorted(job.stdout.splitlines())
    assert len(lines) == 3
    shared = set()
    for rank, line in enumerate(lines):
        prefix, own, size, local_rank, local_size, address, secret = line.split()
        assert (prefix, own, size, local_rank, local_size) == (f"[{rank}]", str(rank), "3", str(rank), "3")
        shared.add((address, secret))
    assert len(shared) == 1
    address, secret = shared.pop()
    assert re.fullmatch(r"unix:onstream-run-[0-9a-f]{32}", address)
    assert re.fullmatch(r"[0-9a-f]{64}", secret)


TORCH_NAMES = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"]
TORCH_PROGRAM = f"sys.stdout.write(' '.join(os.environ[name] for name in {TORCH_NAMES}) + '\\n')"  # in one piece


def torch_variables(done: subprocess.CompletedProcess[str]) -> list[list[str]]:
    assert done.returncode == 0, done.stderr
    return [line.partition("] ")[2].split() for line in sorted(done.stdout.splitlines())]


def test_every_rank_has_the_variables_of_torch() -> None:
    told = torch_variables(run(3, TORCH_PROGRAM))
    assert [line[:5] for line in told] == [[str(rank), "3", str(rank), "3", "127.0.0.1"] for rank in range(3)]
    (port,) = {line[5] for line in told}
    assert int(port) in hosts.PORTS
    assert torch_variables(run(1, TORCH_PROGRAM))[0][5] != port


def test_a_meeting_of_torch_that_is_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "here.example")
    told = torch_variables(run(2, TORCH_PROGRAM, "--env", "MASTER_PORT=29500"))
    assert [line[4:] for line in told] == [["here.example", "29500"]] * 2


def test_ranks_do_not_have_the_numbers_of_their_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in TORCH_NAMES[:4]:
        monkeypatch.setenv(name, "7")
    told = torch_variables(run(2, TORCH_PROGRAM))
    assert [line[:4] for line in told] == [["0", "2", "0", "2"], ["1", "2", "1", "2"]]
    assert torch_variables(run(1, TORCH_PROGRAM, "--env", "WORLD_SIZE=9"))[0][:2] == ["0", "9"]


def test_a_job_of_a_rank_has_variables_of_torch_of_its_own() -> None:
    inner = command(2, TORCH_PROGRAM, "--no-prefix")
    done = run(2, f"import subprocess\nif rank == 1: sys.exit(subprocess.run({inner}).returncode)\n{TORCH_PROGRAM}")
    outer, *told = torch_variables(done)
    assert [line[:5] for line in [outer, *sorted(told)]] == [
        ["0", "2", "0", "2", "127.0.0.1"], ["0", "2", "0", "2", "127.0.0.1"], ["1", "2", "1", "2", "127.0.0.1"],
    ]  # fmt: skip
    assert len({line[5] for line in told}) == 1
    assert told[0][5] != outer[5]


def test_python_is_the_one_that_runs_the_launcher() -> None:
    search = os.pathsep.join(["/usr/bin", "/bin"])
    command = [sys.executable, str(LAUNCHER), "-n", "1", "python", "-c", "import sys; print(sys.executable)"]
    job = subprocess.run(command, env={"PATH": search}, capture_output=True, text=True, timeout=SOON_S, check=False)
    assert job.stdout == f"[0] {Path(sys.executable).parent / 'python'}\n", job.stderr


def test_two_jobs_have_different_addresses_and_secrets() -> None:
    program = "print(os.environ['ONSTREAM_ADDRESS'], os.environ['ONSTREAM_SECRET'])"
    one, two = (run(1, program).stdout.split() for _ in range(2))
    assert not set(one[1:]) & set(two[1:])


def test_lines_of_different_ranks_are_never_torn() -> None:
    job = run(4, "for i in range(3000): sys.stdout.write(f'{rank}:{i}:' + 'x' * (i % 97) + '\\n')")
    assert job.returncode == 0
    lines = job.stdout.splitlines()
    for rank in range(4):
        own = [line for line in lines if line.startswith(f"[{rank}] ")]
        assert own == [f"[{rank}] {rank}:{i}:" + "x" * (i % 97) for i in range(3000)]
    assert len(lines) == 4 * 3000


def test_bytes_that_are_no_text_and_a_last_line_without_end_come_through() -> None:
    program = "sys.stdout.buffer.write(b'\\xff\\xfe\\n\\n\\rtail'); sys.stdout.flush()"
    job = subprocess.run(command(1, program), capture_output=True, timeout=SOON_S, check=False)
    assert job.stdout == b"[0] \xff\xfe\n[0] \n[0] \rtail\n"


def test_a_line_that_never_ends_goes_out_at_the_end() -> None:
    assert run(1, "sys.stdout.write('y' * 1_000_000)").stdout == "[0] " + "y" * 1_000_000 + "\n"


def test_without_prefix_the_output_is_as_the_ranks_wrote_it() -> None:
    job = run(1, "print('out', end=''); print('err', file=sys.stderr)", "--no-prefix")
    assert (job.stdout, job.stderr) == ("out", "err\n")


def test_only_rank_0_reads_standard_input() -> None:
    job = run(2, "print(repr(sys.stdin.read()))", stdin="question")
    assert sorted(job.stdout.splitlines()) == ["[0] 'question'", "[1] ''"]


def test_the_first_failing_rank_gives_the_code_and_its_error_is_last() -> None:
    program = "if rank == 1: sys.exit('the boundary of rank 1 has no neighbour')\n" + FOR_EVER
    job = run(3, program, "--grace-s", "0.1")
    assert job.returncode == 1
    assert job.stderr.splitlines() == [
        "[1] the boundary of rank 1 has no neighbour",
        "onstream run: rank 1 ended with code 1; the other ranks were ended. Its last lines on standard error are those above.",
    ]


def test_an_error_that_was_just_written_is_not_repeated() -> None:
    """Not even where the rank wrote other lines long before, and the launcher reports another rank in between."""
    program = """
if rank == 1: sys.exit(0)
print("a warning", file=sys.stderr)
time.sleep(0.2)
print("what it computes")
print("error: rank 1 has left\\nlook there", file=sys.stderr)
sys.exit(1)
"""
    job = run(2, program)
    assert job.stderr.splitlines() == [
        "[0] a warning",
        "[0] error: rank 1 has left",
        "[0] look there",
        "onstream run: rank 1 had ended with code 0",
        "onstream run: rank 0 ended with code 1. Its last lines on standard error are those above.",
    ]


def test_only_whom_the_launcher_ended_was_ended_with_the_failed_rank() -> None:
    fails = "if rank == 1: sys.exit('no')\n"
    job = run(3, fails + "if rank == 0: sys.exit(0)\n" + FOR_EVER, "--grace-s", "0.5")
    assert job.returncode == 1
    assert "rank 1 ended with code 1; rank 2 was ended with it. Its last" in job.stderr
    job = run(3, fails, "--grace-s", "inf")
    assert job.returncode == 1
    assert "rank 1 ended with code 1. Its last" in job.stderr


def test_of_an_error_that_others_wrote_after_the_traceback_is_repeated() -> None:
    with subprocess.Popen(["true"]) as process:
        rank = ranks.LocalRank(1, process)
        first, second = (f"Traceback (most recent call last):\n  File {name}\n{name}: the end" for name in ("A", "B"))
        rank.tail.extend(b"all is well\nstill\n".splitlines())
        assert rank.last_words() == [b"all is well", b"still"]
        rank.tail.extend(first.encode().splitlines())
        rank.tail.append(b"onstream error: the world failed: rank 1 ended by A")
        assert rank.last_words() == first.encode().splitlines()
        rank.tail.extend(second.encode().splitlines())
        assert rank.last_words() == second.encode().splitlines()
        rank.tail.clear()
        chained = f"{first}\n\nDuring handling of the above exception, another exception occurred:\n\n{second}"
        rank.tail.extend(chained.encode().splitlines())
        assert rank.last_words() == chained.encode().splitlines()


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (
            b"rank 0 (pid 5) died, or gave up, while the ranks connected; the first failure was of rank 2 (pid 7): no GPU",
            2,
        ),
        (b"rank 0 (pid 5) died, or gave up, while the ranks connected", 0),
        (b"the world has failed: aborted: rank 1 ended by KeyError", 1),
        (b"nothing of that", None),
    ],
)
def test_a_ranks_words_name_where_the_failure_began(line: bytes, cause: int | None) -> None:
    with subprocess.Popen(["true"]) as process:
        rank = ranks.LocalRank(1, process)
        rank.tail.extend([b"rank 3 (pid 9) died" if cause is not None else b"", line, b"Segmentation fault"])
        assert rank.cause() == cause


def test_what_a_rank_writes_to_standard_error_without_a_pause_stays_together() -> None:
    sink, screen = io.BytesIO(), relay.Screen()
    pipes = [os.pipe() for _ in range(2)]
    sources = [
        relay.Source(os.fdopen(out, "rb"), sink, screen, f"[{rank}] ".encode(), deque())
        for rank, (out, _) in enumerate(pipes)
    ]
    for line in range(3):
        for source, (_, end) in zip(sources, pipes, strict=True):
            os.write(end, f"line {line}\n".encode())
            assert source.read()
            assert source.due is not None
    assert sink.getvalue() == b""
    for source, (_, end) in zip(sources, pipes, strict=True):
        source.release()
        assert source.due is None
        source.pipe.close()
        os.close(end)
    assert sink.getvalue().decode().splitlines() == [f"[{rank}] line {line}" for rank in range(2) for line in range(3)]


def test_a_rank_killed_by_a_signal_is_named_with_it() -> None:
    job = run(2, "if rank == 1: os.kill(os.getpid(), 9)\n" + FOR_EVER, "--grace-s", "0.1")
    assert job.returncode == 128 + 9
    last = job.stderr.splitlines()[-1]
    assert "rank 1 was killed by signal 9 (SIGKILL)" in last
    assert last.endswith("It wrote nothing to standard error.")


def test_the_other_ranks_may_still_say_what_they_saw(tmp_path: Path) -> None:
    # The named pipe lets rank 0 go on when rank 1 has ended, and not before.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    program = f"""
if rank == 1:
    writer = open({str(pipe)!r}, "w")
    os.kill(os.getpid(), 11)
assert open({str(pipe)!r}).read() == ""
sys.exit("rank 0 lost its peer")
"""
    job = run(2, program)
    assert job.returncode == 128 + 11
    assert "[0] rank 0 lost its peer" in job.stderr
    assert "rank 1 was killed by signal 11 (SIGSEGV)" in job.stderr.splitlines()[-1]


def test_ranks_that_ignore_sigterm_are_killed() -> None:
    program = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nif rank == 0: sys.exit(5)\n" + FOR_EVER
    begin = time.monotonic()
    job = run(2, program, "--grace-s", "0")
    assert job.returncode == 5
    assert time.monotonic() - begin < 30


def test_stopped_ranks_are_killed_too() -> None:
    job = run(2, "if rank == 0: sys.exit(6)\nos.kill(os.getpid(), signal.SIGSTOP)", "--grace-s", "0")
    assert job.returncode == 6


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_signals_reach_every_rank(number: signal.Signals) -> None:
    program = (
        f"""
def handle(number, frame):
    print("got", number, flush=True)
    sys.exit(0)
signal.signal({int(number)}, handle)
print("ready", flush=True)
"""
        + FOR_EVER
    )
    with running(3, program) as job:
        assert read_lines(job, 3) == ["[0] ready", "[1] ready", "[2] ready"]
        job.send_signal(number)
        assert read_lines(job, 3) == [f"[{rank}] got {int(number)}" for rank in range(3)]
        assert job.wait(SOON_S) == 0


def test_an_interrupt_ends_the_job_with_its_code() -> None:
    with running(2, "print('ready', flush=True)\n" + FOR_EVER) as job:
        read_lines(job, 2)
        job.send_signal(signal.SIGINT)
        _, errors = job.communicate(timeout=SOON_S)
        assert job.returncode == 128 + signal.SIGINT
        assert errors.splitlines()[-1] == "onstream run: interrupted by SIGINT"


def test_an_interrupt_is_the_last_word_although_a_rank_ends_by_what_it_heard_from_another() -> None:
    program = """
def handle(number, frame):
    if rank == 0: sys.exit("the world has failed: rank 1 was interrupted")
    sys.exit(128 + number)
signal.signal(signal.SIGINT, handle)
print("ready", flush=True)
"""
    with running(2, program + FOR_EVER) as job:
        read_lines(job, 2)
        job.send_signal(signal.SIGINT)
        _, errors = job.communicate(timeout=SOON_S)
        assert job.returncode == 128 + signal.SIGINT
        assert errors.splitlines()[-1] == "onstream run: interrupted by SIGINT"


def test_a_second_interrupt_does_not_wait_for_the_grace_period() -> None:
    program = (
        """
signal.signal(signal.SIGINT, lambda *_: print("not yet", flush=True))
print("ready", flush=True)
"""
        + FOR_EVER
    )
    with running(2, program, "--grace-s", "1000") as job:
        read_lines(job, 2)
        job.send_signal(signal.SIGINT)
        assert read_lines(job, 2) == ["[0] not yet", "[1] not yet"]
        job.send_signal(signal.SIGINT)
        assert job.wait(SOON_S) == 128 + signal.SIGINT


def test_ranks_die_with_a_launcher_that_is_killed() -> None:
    with running(3, "print(os.getpid(), flush=True)\n" + FOR_EVER) as job:
        ranks = [int(line.split()[1]) for line in read_lines(job, 3)]
        job.kill()
        wait_until_gone(ranks)


def test_what_ranks_left_running_ends_with_the_job() -> None:
    program = "import subprocess\nprint(subprocess.Popen(['sleep', '60']).pid, flush=True)"
    with running(2, program) as job:
        children = [int(line.split()[1]) for line in read_lines(job, 2)]
        assert job.wait(SOON_S) == 0
        wait_until_gone(children)


def test_a_job_past_its_timeout_is_ended() -> None:
    job = run(2, FOR_EVER, "--timeout-s", "0.2")
    assert job.returncode == 124
    assert "not done within 0.2 s" in job.stderr


def test_a_reader_that_goes_ends_the_job() -> None:
    with running(2, "while True: print('line', flush=True)", "--grace-s", "0") as job:
        assert job.stdout is not None
        job.stdout.readline()
        job.stdout.close()
        assert job.wait(SOON_S) == 128 + signal.SIGPIPE


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("missing", 127, "No such file or directory"),
        ("script.py", 127, "it is a Python script: onstream run -n 2 python script.py"),
        ("./script.py", 126, "it is a Python script: onstream run -n 2 python ./script.py"),
        ("program", 127, "on the PATH; the one in this folder is ./program"),
    ],
)
def test_a_program_that_cannot_start_is_named(tmp_path: Path, name: str, code: int, text: str) -> None:
    (tmp_path / "script.py").write_text("print('never')")
    (tmp_path / "program").write_text("a binary")
    job = subprocess.run(
        [sys.executable, str(LAUNCHER), "-n", "2", name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SOON_S,
        check=False,
    )
    assert job.returncode == code
    assert f"cannot start '{name}'" in job.stderr
    assert text in job.stderr
    assert "Traceback" not in job.stderr


def test_a_rank_is_named_once_a_line() -> None:
    program = "sys.stderr.write(f'onstream[{rank}] error: the\\nonstream[9] of another\\n'); sys.exit(3)"
    told = run(2, program).stderr
    assert "[1] onstream error: the\n" in told
    assert "[1] onstream[9] of another\n" in told
    assert "onstream[1] error: the\n" in run(2, program, "--no-prefix").stderr


@pytest.mark.parametrize("options", [["-n", "0", "true"], ["-n", "two", "true"], ["-n", "2"]])
def test_bad_arguments_are_refused(options: list[str]) -> None:
    job = subprocess.run(
        [sys.executable, str(LAUNCHER), *options], capture_output=True, text=True, timeout=SOON_S, check=False
    )
    assert job.returncode == 2
    assert "usage:" in job.stderr
