"""`onstream run` and its surroundings: the caller's ignored signals, Ctrl-Z, standard streams that are closed, full or a
terminal, and inherited descriptors. The ranks are plain programs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from jobs import SOON_S, state_of, wait_for
from onstream.launcher import relay, standard

LAUNCHER = Path(__file__).resolve().parents[2] / "python" / "onstream" / "launcher"

RANK = "import os, signal, sys, time\nrank = int(os.environ['ONSTREAM_RANK'])\n"
# Ends when a line comes, else by the alarm.
WAIT = "\nsignal.alarm(60)\nprint('ready', os.getpid(), flush=True)\n"


def command(size: int, program: str, *options: str) -> list[str]:
    return [sys.executable, str(LAUNCHER), "-n", str(size), *options, sys.executable, "-c", RANK + program]


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """Runs a line of bash, in which $RUN is the launcher."""
    env = {**os.environ, "RUN": f"{sys.executable} {LAUNCHER}", "PYTHON": sys.executable}
    return subprocess.run(["bash", "-c", line], env=env, capture_output=True, text=True, timeout=SOON_S, check=False)


@contextlib.contextmanager
def group_of(size: int, program: str, *options: str, ignored: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """A job in a process group of its own, as a shell has it, so that it can be stopped."""

    def prepare() -> None:
        os.setpgid(0, 0)
        if ignored is not None:
            signal.signal(ignored, signal.SIG_IGN)

    with subprocess.Popen(
        command(size, program, *options),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=prepare,
    ) as job:
        try:
            yield job
        finally:
            job.kill()


def pids_of(job: subprocess.Popen[str], size: int) -> list[int]:
    assert job.stdout is not None
    return [int(job.stdout.readline().split()[-1]) for _ in range(size)]


@pytest.mark.parametrize(
    "number",
    [signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1, signal.SIGTSTP],
)
def test_signals_that_the_caller_ignores_stay_ignored(number: signal.Signals) -> None:
    program = f"print(signal.getsignal({int(number)}) == signal.SIG_IGN, flush=True)" + WAIT + "sys.stdin.readline()"
    with group_of(1, program, ignored=number) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "[0] True\n"
        pids_of(job, 1)
        job.send_signal(number)
        # The launcher had the signal before the line, so had it answered, it would answer now.
        assert job.communicate("go on\n", timeout=SOON_S) == ("", "")
        assert job.returncode == 0


def test_ranks_have_sigpipe_as_usual_and_what_nobody_ignores() -> None:
    ignored = int(shell("$RUN -n 1 grep SigIgn /proc/self/status").stdout.split()[-1], 16)
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        assert not ignored & 1 << (number - 1), number


def test_quit_ends_the_job() -> None:
    with group_of(2, WAIT + "sys.stdin.readline()\nsignal.pause()") as job:
        pids_of(job, 2)
        job.send_signal(signal.SIGQUIT)
        _, errors = job.communicate(timeout=SOON_S)
        assert job.returncode == 128 + signal.SIGQUIT
        assert errors.splitlines()[-1] == "onstream run: ended by SIGQUIT"


def test_ranks_stop_and_continue_with_the_launcher(tmp_path: Path) -> None:
    over = tmp_path / "over"  # opened by rank 0 once it has read its line, and by rank 1
    os.mkfifo(over)
    program = "import subprocess\nchild = subprocess.Popen(['sleep', '60'])\nprint(child.pid, flush=True)" + WAIT
    program += f"if rank == 0: sys.stdin.readline()\nopen({str(over)!r}, 'r' if rank else 'w').close()\nchild.kill()"
    with group_of(2, program) as job:
        pids = pids_of(job, 4)
        for _ in range(2):
            job.send_signal(signal.SIGTSTP)
            wait_for("all stop", lambda: all(state_of(pid) == "T" for pid in (*pids, job.pid)))
            job.send_signal(signal.SIGCONT)
            wait_for("all go on", lambda: all(state_of(pid) != "T" for pid in (*pids, job.pid)))
        _, errors = job.communicate("end\n", timeout=SOON_S)
        assert job.returncode == 0, errors


def test_a_caller_that_ignores_the_ends_of_children_gets_the_jobs_status() -> None:
    with group_of(2, "import sys; sys.exit(3 if sys.argv[-1] == 'x' else 0)", ignored=signal.SIGCHLD) as job:
        out, err = job.communicate(timeout=SOON_S)
        assert (job.returncode, out, err) == (0, "", "")


def test_the_time_stopped_does_not_count() -> None:
    with group_of(1, WAIT + "sys.stdin.readline()", "--timeout-s", "8") as job:
        begin = time.monotonic()
        pids_of(job, 1)
        job.send_signal(signal.SIGTSTP)
        wait_for("the launcher stops", lambda: state_of(job.pid) == "T")
        wait_for("more than the time limit", lambda: time.monotonic() > begin + 8.5)
        job.send_signal(signal.SIGCONT)
        assert job.communicate("end\n", timeout=SOON_S) == ("", "")
        assert job.returncode == 0


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_standard_stream_may_be_closed(closed: str) -> None:
    job = shell(f"$RUN -n 2 sh -c 'cat; echo out; echo err >&2' {closed}")
    assert job.returncode == 0, job.stderr
    assert (job.stdout.count("out"), job.stderr.count("err")) == (
        2 * (">&-" not in closed.split()),
        2 * ("2>&-" not in closed),
    )
    assert "Traceback" not in job.stderr


def test_a_full_disk_ends_the_job_with_one_line() -> None:
    job = shell("$RUN -n 2 yes > /dev/full")
    assert job.returncode == 1
    assert (
        job.stderr == "onstream run: standard output cannot be written: No space left on device; the ranks were ended\n"
    )
    assert shell("$RUN -n 1 sh -c 'echo error >&2' 2> /dev/full").returncode == 1
    job = shell("$RUN --help > /dev/full")
    assert (job.returncode, job.stderr.count("\n")) == (1, 1)


def test_output_that_another_made_one_that_does_not_block_comes_whole() -> None:
    program = "import os; os.set_blocking(1, False)"
    job = shell(f"($PYTHON -c '{program}'; $RUN -n 1 seq 200000) | (sleep 0.5; cat) | md5sum")
    assert job.stdout == shell("seq 200000 | sed 's/^/[0] /' | md5sum").stdout
    assert job.stderr == ""


def test_inherited_descriptors_reach_every_rank_and_the_launchers_own_do_not() -> None:
    assert shell("$RUN -n 1 cat <(echo hi)").stdout == "[0] hi\n"
    job = shell("exec 7< /dev/zero; $RUN -n 2 sh -c 'ls -l /proc/$$/fd'")
    shown = [line.split()[-3:] for line in job.stdout.splitlines() if "->" in line]
    assert sorted(line[0] for line in shown) == sorted(2 * ["0", "1", "2", "7"]), job.stdout
    assert [line[2] for line in shown if line[0] == "7"] == ["/dev/zero"] * 2


def test_a_long_line_is_whole_and_the_longest_are_cut() -> None:
    job = subprocess.run(command(1, "print('x' * 200_000)"), capture_output=True, timeout=SOON_S, check=False)
    assert job.stdout == b"[0] " + b"x" * 200_000 + b"\n"
    more = 1 << 20
    size = relay.LONGEST_LINE + more
    job = subprocess.run(command(1, f"print('y' * {size})"), capture_output=True, timeout=SOON_S, check=False)
    first, second = job.stdout.splitlines()
    assert first == b"[0] " + b"y" * relay.LONGEST_LINE + relay.CUT
    assert second.removeprefix(b"[0] ") == b"y" * more


class Terminal:
    """A pseudo-terminal, and all that its other end gave."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        os.set_blocking(self.master, False)
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def shows(self, text: str) -> bool:
        with contextlib.suppress(BlockingIOError, OSError):  # EIO: nobody has the other end
            self.shown += os.read(self.master, 1 << 16).decode().replace("\r\n", "\n")
        return text in self.shown

    def wait_for(self, text: str) -> None:
        wait_for(f"{text!r} is on the screen", lambda: self.shows(text))


@contextlib.contextmanager
def at_a_terminal(command: list[str], modes: int = 0) -> Iterator[tuple[subprocess.Popen[bytes], Terminal]]:
    """A program in the foreground of a terminal of its own, which has these local modes too."""
    terminal = Terminal()
    settings = termios.tcgetattr(terminal.slave)
    settings[3] |= modes
    termios.tcsetattr(terminal.slave, termios.TCSANOW, settings)
    with subprocess.Popen(
        command,
        stdin=terminal.slave,
        stdout=terminal.slave,
        stderr=terminal.slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as program:
        try:
            yield program, terminal
        finally:
            program.kill()
            os.close(terminal.slave)
            os.close(terminal.master)


# Has a job in the background, and brings it to the foreground later.
SHELL = """
import os, signal, subprocess, sys, termios
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
def prepare():
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
job = subprocess.Popen({command!r}, preexec_fn=prepare)
{meanwhile}
os.tcsetpgrp(0, job.pid)
os.kill(job.pid, signal.SIGCONT)
sys.exit(job.wait())
"""


def under_a_shell(command: list[str], meanwhile: str) -> list[str]:
    return [sys.executable, "-c", SHELL.format(command=command, meanwhile=meanwhile)]


def test_rank_0_reads_what_is_typed_at_a_terminal() -> None:
    program = "print('hello', input('name? ') if rank == 0 else repr(sys.stdin.read()))"
    for size in (1, 2):
        with at_a_terminal(command(size, program)) as (job, terminal):
            terminal.wait_for("[0] name? ")
            if size == 2:
                terminal.wait_for("[1] hello ''\n")
            terminal.type("Ada\n")
            terminal.wait_for("Ada\n[0] hello Ada\n")
            assert job.wait(SOON_S) == 0
        assert size == 2 or "[0] name? Ada\n" in terminal.shown


def test_ctrl_d_is_the_end_of_what_is_typed() -> None:
    with at_a_terminal(command(1, "print('ready', flush=True)\nprint(repr(sys.stdin.read()))")) as (job, terminal):
        terminal.wait_for("[0] ready")
        terminal.type("one\ntwo\n\x04")
        terminal.wait_for("[0] 'one\\ntwo\\n'\n")
        assert job.wait(SOON_S) == 0


@pytest.mark.parametrize("options", [[], ["--no-prefix"]])
def test_ctrl_c_at_a_terminal_ends_the_job(options: list[str]) -> None:
    program = WAIT + "sys.stdin.readline() if rank == 0 else signal.pause()"
    with at_a_terminal(command(2, program, *options)) as (job, terminal):
        terminal.wait_for("ready")
        terminal.type("\x03")
        terminal.wait_for("onstream run: interrupted by SIGINT\n")
        assert job.wait(SOON_S) == 128 + signal.SIGINT


def test_a_rank_that_uses_the_terminal_itself_is_told_and_ends_by_ctrl_c() -> None:
    program = "open('/dev/tty').readline() if rank == 1 else signal.pause()"
    with at_a_terminal(command(2, program)) as (job, terminal):
        terminal.wait_for("onstream run: rank 1 is stopped, as it uses the terminal itself")
        terminal.type("\x03")
        terminal.wait_for("onstream run: interrupted by SIGINT\n")
        assert job.wait(SOON_S) == 128 + signal.SIGINT


def test_a_job_in_the_background_leaves_what_is_typed_to_others() -> None:
    """As under a shell's `&`: the launcher neither stops nor reads, and reads the next line once it is in the foreground."""
    job = command(1, "print('heard', input('name? '))")
    with at_a_terminal(under_a_shell(job, "print('shell read', sys.stdin.readline(), flush=True)")) as (
        leader,
        terminal,
    ):
        terminal.wait_for("name? ")
        terminal.type("for the shell\n")
        terminal.wait_for("shell read for the shell\n")
        terminal.type("for the job\n")
        terminal.wait_for("heard for the job\n")
        assert leader.wait(SOON_S) == 0


def test_a_job_that_may_not_write_from_the_background_stops_whole() -> None:
    """`stty tostop`: the launcher's line stops it, and the ranks with it."""
    job = command(1, WAIT + "sys.stdin.readline()")
    stopped = """
os.waitid(os.P_PID, job.pid, os.WSTOPPED | os.WNOWAIT)
print("launcher stopped", flush=True)
(rank,) = open(f"/proc/{job.pid}/task/{job.pid}/children").read().split()
signal.alarm(60)
while open(f"/proc/{rank}/stat").read().rpartition(")")[2].split()[0] != "T": pass
print("rank stopped", flush=True)
"""
    with at_a_terminal(under_a_shell(job, stopped), termios.TOSTOP) as (leader, terminal):
        terminal.wait_for("launcher stopped\nrank stopped\n")
        terminal.wait_for("[0] ready")
        terminal.type("end\n")
        assert leader.wait(SOON_S) == 0


def test_what_an_encoding_lacks_is_written_in_plain_ascii() -> None:
    standard.prepare()
    assert "2 \u00d7 3 µs · ├─┤ é — ☃".encode("ascii", standard.ENCODE_ERRORS) == b"2 x 3 us - +-+ e - ?"
    assert "é ─".encode("iso-8859-2", standard.ENCODE_ERRORS) == b"\xe9 -"
    assert (
        b"a\xff\xc3\xa9".decode("ascii", "surrogateescape").encode("utf-8", standard.ENCODE_ERRORS) == b"a\xff\xc3\xa9"
    )


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-2", "utf-8"])
def test_ranks_bytes_come_through_whatever_the_encoding(encoding: str) -> None:
    program = """
sys.stdout.buffer.write(b'\\xe9\\xff \\xc3\\xa9\\n')
sys.stdout.flush()
if rank == 1: sys.stderr.buffer.write(b'bad \\xe9\\xff \\xc3\\xa9\\n'); sys.stderr.flush(); sys.exit(3)
signal.signal(signal.SIGTERM, lambda *_: sys.exit('later'))
signal.alarm(60)
signal.pause()
"""
    job = subprocess.run(
        command(2, program, "--grace-s", "0.5"),
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        timeout=SOON_S,
        check=False,
    )
    assert job.returncode == 3
    assert sorted(job.stdout.splitlines()) == [b"[0] \xe9\xff \xc3\xa9", b"[1] \xe9\xff \xc3\xa9"]
    assert job.stderr.splitlines()[0] == b"[1] bad \xe9\xff \xc3\xa9"
    assert job.stderr.splitlines()[-1] == b"[1] bad \xe9\xff \xc3\xa9"


@pytest.mark.parametrize("given", [None, "7"])
def test_the_ranks_share_the_cores_of_their_host(given: str | None) -> None:
    cores = len(os.sched_getaffinity(0))
    setting = "env -u OMP_NUM_THREADS" if given is None else f"env OMP_NUM_THREADS={given}"
    for size in (1, 2 * cores):
        said = shell(f"{setting} $RUN -n {size} $PYTHON -c 'import os; print(os.environ[\"OMP_NUM_THREADS\"])'")
        told = [line.split()[-1] for line in said.stdout.splitlines()]
        assert told == [given or str(max(1, cores // size))] * size, said
