"""`onstream run --hosts`: ranks on several hosts (hosts.py), which a script enters in place of ssh. The ranks are plain programs."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT
from host_jobs import SOON_S, Job, require_ucx
from hosts import hosts
from jobs import state_of, wait_for, wait_until_gone
from onstream.launcher import hosts as lists
from onstream.launcher.frames import Frame, Frames, Kind
from test_launcher import at_a_terminal

FOR_EVER = "\nsignal.alarm(60)\nwhile True: signal.pause()\n"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    with hosts(3) as net:
        yield Job(net, tmp_path_factory.mktemp("ssh"))


def read_lines(job: subprocess.Popen[str], count: int) -> list[str]:
    assert job.stdout is not None
    return sorted(job.stdout.readline().rstrip("\n") for _ in range(count))


def agents() -> list[int]:
    """The processes of this test that run an agent."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if b"onstream.launcher.agent" in words and state_of(int(folder.name)) not in "ZX":
                found.append(int(folder.name))
    return found


def test_the_tutorials_last_step_goes_between_hosts(job: Job) -> None:
    require_ucx()
    done = job.run("a:2,b:2", (ROOT / "examples" / "tutorial" / "hosts.py").read_text())
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "[0] 4 ranks on 2 hosts"
    assert second.startswith("[0] to rank 1, message of 7.812 KiB: ")


def test_ranks_go_by_host_in_order_and_know_their_place(job: Job) -> None:
    names = ["SIZE", "LOCAL_RANK", "LOCAL_SIZE", "ADDRESS", "PORT", "SECRET"]
    done = job.run("a:1,b:2,c", f"print(host, *(os.environ['ONSTREAM_' + n] for n in {names}))")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in sorted(done.stdout.splitlines())]
    assert [line[:5] for line in lines] == [
        ["[0]", "a", "4", "0", "1"],
        ["[1]", "b", "4", "0", "2"],
        ["[2]", "b", "4", "1", "2"],
        ["[3]", "c", "4", "0", "1"],
    ]
    assert len({tuple(line[5:]) for line in lines}) == 1
    address, port, secret = lines[0][5:]
    assert (address, len(secret)) == (job.net.hosts[0].address, 64)
    assert int(port) in lists.PORTS


def torch_variables(job: Job, places: str, *options: str) -> list[list[str]]:
    names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"]
    names += ["ONSTREAM_ADDRESS", "ONSTREAM_PORT"]
    done = job.run(places, f"print(*(os.environ[name] for name in {names}))", *options)
    assert done.returncode == 0, done.stderr
    return [line.partition("] ")[2].split() for line in sorted(done.stdout.splitlines())]


@pytest.mark.parametrize("places", ["a:1,b:2", "b:1,a:2"])
def test_variables_of_torch_name_rank_0s_host_and_one_port(job: Job, places: str) -> None:
    told = torch_variables(job, places)
    assert [line[:4] for line in told] == [["0", "3", "0", "1"], ["1", "3", "0", "2"], ["2", "3", "1", "2"]]
    ((address, port, own_address, own_port),) = {tuple(line[4:]) for line in told}
    assert address == own_address
    assert int(port) in lists.PORTS
    assert port != own_port


def test_a_port_of_torch_in_the_launchers_environment_holds_on_all_hosts(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert [line[5] for line in torch_variables(job, "a:1,b:1")] == ["29500"] * 2


@pytest.mark.parametrize("places", ["a:2,b:2", "b:2,a:2", "b:1,c:2"])
def test_ranks_reach_rank_0_at_its_address(job: Job, places: str) -> None:
    program = """
where = (os.environ["ONSTREAM_ADDRESS"], int(os.environ["ONSTREAM_PORT"]))
size = int(os.environ["ONSTREAM_SIZE"])
if rank == 0:
    with socket.create_server(("", where[1])) as server:
        sums = 0
        for _ in range(size - 1):
            with server.accept()[0] as one: sums += int(one.recv(10))
    print(host, "sum", sums)
else:
    for _ in range(400):
        try: one = socket.create_connection(where, timeout=10)
        except ConnectionRefusedError: time.sleep(0.05)
        else: break
    with one: one.sendall(str(rank).encode())
"""
    done = job.run(places, program)
    assert done.returncode == 0, done.stderr
    total = {"a:2,b:2": 6, "b:2,a:2": 6, "b:1,c:2": 3}[places]
    assert done.stdout == f"[0] {places[0]} sum {total}\n"


def test_a_smaller_job_fills_the_hosts_in_order(job: Job) -> None:
    done = job.run("b:2,a:2,nowhere:2", "print(host, os.environ['ONSTREAM_LOCAL_SIZE'])", "-n", "3")
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, ["[0] b 2", "[1] b 2", "[2] a 1"])


@pytest.mark.parametrize("place", ["b:2", "localhost:2", "a:2", "10.77.0.1:2", "[fd77::1]:2"])
def test_ranks_of_one_host_meet_at_a_socket_name(job: Job, place: str) -> None:
    ssh = ["--ssh", "false"] if place != "b:2" else []
    done = job.run(place, "print(host, os.environ['ONSTREAM_ADDRESS'][:5], 'ONSTREAM_PORT' in os.environ)", *ssh)
    host = "b" if place == "b:2" else "a"
    assert sorted(done.stdout.splitlines()) == [f"[{rank}] {host} unix: False" for rank in range(2)], done.stderr


def test_an_address_may_be_given(job: Job) -> None:
    done = job.run("a:1,b:1", "print(os.environ['ONSTREAM_ADDRESS'])", "--address", "10.0.0.1")
    assert sorted(done.stdout.splitlines()) == ["[0] 10.0.0.1", "[1] 10.0.0.1"]


@pytest.mark.parametrize(("places", "first"), [("a:1,alias-b:1", 0), ("alias-b:1,c:1", 1), ("alias-b:1,a:1", 1)])
def test_hosts_whose_names_only_ssh_knows_meet_at_an_address(job: Job, places: str, first: int) -> None:
    done = job.run(places, "print(os.environ['ONSTREAM_ADDRESS'])")
    address = job.net.hosts[first].address
    assert sorted(done.stdout.splitlines()) == [f"[0] {address}", f"[1] {address}"], done.stderr


def test_the_command_takes_a_file_of_hosts(job: Job, tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# the first\na slots=1\n\nb:1  # two\nb\n")
    words = [Path(sys.executable).parent / "onstream", "run", "--hostfile", file, "--ssh", job.ssh, "hostname"]
    if not words[0].exists():
        words[:1] = [sys.executable, "-m", "onstream"]
    done = job.net.hosts[0].run(words, capture_output=True, text=True)
    assert sorted(done.stdout.splitlines()) == ["[0] a", "[1] b", "[2] b"], done.stderr


def test_variables_go_along_by_name(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ONSTREAM_TIMEOUT_S", "UCX_TLS", "OTHER", "NAMED", "ONSTREAM_UCX_WHEEL"):
        monkeypatch.setenv(name, f"of {name}")
    program = (
        "print(*(os.environ.get(n) for n in ('ONSTREAM_TIMEOUT_S', 'UCX_TLS', 'NAMED', 'GIVEN', 'OTHER')), sep=', ')"
    )
    done = job.run("a:1,b:1", program, "--env", "NAMED", "--env", "GIVEN=a = b")
    here, there = sorted(done.stdout.splitlines())
    assert here == "[0] of ONSTREAM_TIMEOUT_S, of UCX_TLS, of NAMED, a = b, of OTHER"
    assert there == "[1] of ONSTREAM_TIMEOUT_S, of UCX_TLS, of NAMED, a = b, None"
    there = job.run("b", "print(os.environ.get('ONSTREAM_UCX_WHEEL'))").stdout
    assert "of ONSTREAM_UCX_WHEEL" not in there
    refused = job.run("a:1,b:1", program, "--env", "NOT_SET")
    assert (refused.returncode, "NOT_SET is not set here" in refused.stderr) == (2, True)


def test_ranks_start_in_the_launchers_folder_if_it_is_there(job: Job, tmp_path: Path) -> None:
    a, b, _ = job.net.hosts
    folder = tmp_path / "only" / "here"
    folder.mkdir(parents=True)
    command = job.command("a:1,b:1", "print(os.getcwd())")
    done = a.run(command, cwd=folder, capture_output=True, text=True)
    assert (sorted(done.stdout.splitlines()), done.stderr) == ([f"[0] {folder}", f"[1] {folder}"], "")
    b.run(["mount", "-t", "tmpfs", "tmpfs", folder.parent], check=True)
    done = a.run(command, cwd=folder, capture_output=True, text=True)
    assert sorted(done.stdout.splitlines()) == [f"[0] {folder}", "[1] /tmp"]
    assert done.stderr == f"onstream run: host b: there is no folder {folder} here; the ranks start in /tmp\n"


def test_output_of_all_hosts_is_whole(job: Job) -> None:
    program = "for i in range(20000): sys.stdout.write(f'{rank}:{i}:' + 'x' * (i % 97) + '\\n')"
    done = job.run("a:1,b:2,c:1", program)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for rank in range(4):
        own = [line for line in lines if line.startswith(f"[{rank}] ")]
        assert own == [f"[{rank}] {rank}:{i}:" + "x" * (i % 97) for i in range(20000)]
    assert len(lines) == 4 * 20000


def test_without_prefix_the_output_is_as_the_ranks_wrote_it(job: Job) -> None:
    done = job.run("b", "print('out', end=''); print('err', file=sys.stderr)", "--no-prefix")
    assert (done.stdout, done.stderr) == ("out\n", "err\n")


def test_rank_0_reads_standard_input_wherever_it_is(job: Job, tmp_path: Path) -> None:
    program = "import hashlib\nprint(host, hashlib.md5(sys.stdin.buffer.read()).hexdigest())"
    sums = {
        text: subprocess.run(["md5sum"], input=text.encode(), capture_output=True).stdout.decode()[:32]
        for text in ("", "12" * 500_000)
    }
    question = "12" * 500_000
    for places, first, second in (("a:1,b:1", "a", "b"), ("b:1,a:1", "b", "a")):
        lines = sorted(job.run(places, program, stdin=question).stdout.splitlines())
        assert lines == [f"[0] {first} {sums[question]}", f"[1] {second} {sums['']}"]
    file = tmp_path / "question"
    file.write_text(question)
    for source, text in ((file, question), (Path("/dev/null"), "")):
        with source.open() as stdin:
            done = job.net.hosts[0].run(job.command("b", program), stdin=stdin, capture_output=True, text=True)
        assert done.stdout == f"[0] b {sums[text]}\n", done.stderr


def test_rank_0_on_another_host_reads_what_is_typed_at_a_terminal(job: Job) -> None:
    program = "print('hello', input('name? '), repr(sys.stdin.read()))"
    with at_a_terminal(job.net.hosts[0].command(job.command("b:1", program))) as (running, terminal):
        terminal.wait_for("[0] name? ")
        terminal.type("Ada\nmore\n\x04")
        terminal.wait_for("hello Ada 'more\\n'\n")
        assert running.wait(SOON_S) == 0


def test_input_that_rank_0_does_not_read_holds_nothing_up(job: Job) -> None:
    assert job.run("b:1,c:1", "print('done')", stdin="x" * 1_000_000).returncode == 0


def test_the_first_failing_rank_is_named_with_its_host(job: Job) -> None:
    program = "if rank == 2: sys.exit('the boundary of rank 2 has no neighbour')\n" + FOR_EVER
    done = job.run("a:1,b:2", program, "--grace-s", "0.1")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "[2] the boundary of rank 2 has no neighbour",
        "onstream run: rank 2 on b ended with code 1; the other ranks were ended. Its last lines on standard error are those above.",
    ]


def test_a_rank_that_is_killed_is_named_with_its_signal_and_host(job: Job) -> None:
    done = job.run("a:1,b:1", "if rank == 1: os.kill(os.getpid(), 11)\n" + FOR_EVER, "--grace-s", "0.1")
    assert done.returncode == 128 + 11
    assert "rank 1 on b was killed by signal 11 (SIGSEGV)" in done.stderr.splitlines()[-1]


def test_a_job_past_its_timeout_is_ended_on_all_hosts(job: Job) -> None:
    done = job.run("a:1,b:1,c:1", "print(os.getpid(), flush=True)" + FOR_EVER, "--timeout-s", "1")
    assert (done.returncode, "not done within 1 s" in done.stderr) == (124, True)
    wait_until_gone([int(line.split()[1]) for line in done.stdout.splitlines()])


def test_ranks_on_other_hosts_that_ignore_sigterm_are_killed(job: Job) -> None:
    program = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nif rank == 0: sys.exit(5)\n" + FOR_EVER
    assert job.run("a:1,b:1", program, "--grace-s", "0").returncode == 5


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM, signal.SIGINT])
def test_signals_reach_the_ranks_of_all_hosts(job: Job, number: signal.Signals) -> None:
    program = f"""
def handle(number, frame):
    print("got", number, flush=True)
    sys.exit(0)
signal.signal({int(number)}, handle)
print("ready", flush=True)
"""
    with job.running("a:1,b:2", program + FOR_EVER) as running:
        assert read_lines(running, 3) == ["[0] ready", "[1] ready", "[2] ready"]
        running.send_signal(number)
        assert read_lines(running, 3) == [f"[{rank}] got {int(number)}" for rank in range(3)]
        assert running.wait(SOON_S) == 0


def test_an_interrupt_ends_the_job_with_its_code(job: Job) -> None:
    with job.running("a:1,b:1", "print('ready', flush=True)" + FOR_EVER) as running:
        read_lines(running, 2)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=SOON_S)
        assert running.returncode == 128 + signal.SIGINT
        assert errors.splitlines()[-1] == "onstream run: interrupted by SIGINT"


def test_an_interrupt_ends_the_wait_for_hosts(job: Job) -> None:
    ssh = job.make_ssh("ssh-that-waits", "sleep 60; true")
    told = job.folder / "waits"
    ssh.write_text(ssh.read_text().replace("sleep 60", f"touch {told}; sleep 60"))
    with job.running("a:1,b:1", "", "--ssh", str(ssh)) as running:
        wait_for("ssh runs", told.exists)
        running.send_signal(signal.SIGINT)
        out, errors = running.communicate(timeout=SOON_S)
        assert (running.returncode, out) == (128 + signal.SIGINT, "")
        assert errors == "onstream run: ended by SIGINT before the ranks started\n"


def test_ranks_stop_and_continue_with_the_launcher(job: Job) -> None:
    with job.running("a:1,b:1", "print(os.getpid(), flush=True)" + FOR_EVER) as running:
        pids = [int(line.split()[1]) for line in read_lines(running, 2)]
        for _ in range(2):
            running.send_signal(signal.SIGTSTP)
            wait_for("all stop", lambda: all(state_of(pid) == "T" for pid in (*pids, running.pid)))
            running.send_signal(signal.SIGCONT)
            wait_for("all go on", lambda: all(state_of(pid) != "T" for pid in (*pids, running.pid)))
        running.terminate()
        assert running.wait(SOON_S) == 128 + signal.SIGTERM


def test_signals_that_the_caller_ignores_stay_ignored_there(job: Job) -> None:
    program = (
        "print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN, signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN)"
    )
    done = job.net.hosts[0].run(
        ["nohup", *job.command("b", program)], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.stdout == "[0] True False\n"


def test_a_dead_agent_ends_the_job_and_its_ranks(job: Job) -> None:
    with job.running("a:1,b:2", "print(os.getpid(), flush=True)" + FOR_EVER, "--grace-s", "0") as running:
        pids = [int(line.split()[1]) for line in read_lines(running, 3)]
        (agent,) = set(agents()) & set(job.net.hosts[1].processes())
        os.kill(agent, signal.SIGKILL)
        _, errors = running.communicate(timeout=SOON_S)
        assert running.returncode == 255
        assert errors == (
            "onstream run: rank 1 on b was lost: the connection to its host ended by signal 9; rank 0 was ended with it. "
            "It wrote nothing to standard error.\n"
        )
        wait_until_gone(pids)


def test_a_host_that_does_not_answer_is_given_up(job: Job) -> None:
    with job.running("a:1,b:1", "print(os.getpid(), flush=True)" + FOR_EVER, "--grace-s", "0") as running:
        pids = [int(line.split()[1]) for line in read_lines(running, 2)]
        (agent,) = set(agents()) & set(job.net.hosts[1].processes())
        os.kill(agent, signal.SIGSTOP)
        os.kill(pids[0], signal.SIGKILL)
        begin = time.monotonic()
        _, errors = running.communicate(timeout=SOON_S)
        assert time.monotonic() - begin < 20
        assert running.returncode == 128 + signal.SIGKILL, errors
        wait_until_gone(pids)


@pytest.mark.parametrize("way", ["exec $enter", "$enter"])
def test_ranks_on_other_hosts_die_with_a_launcher_that_is_killed(job: Job, way: str) -> None:
    """Also where the agent is told only by the end of its input."""
    ssh = job.make_ssh("ssh-for-kill", way)
    program = "import subprocess\nprint(os.getpid(), subprocess.Popen(['sleep', '60']).pid, flush=True)" + FOR_EVER
    with job.running("a:1,b:2", program, "--ssh", str(ssh)) as running:
        pids = [[int(word) for word in line.split()[1:]] for line in read_lines(running, 3)]
        running.kill()
        wait_until_gone([rank for rank, _ in pids])
        if way == "$enter":  # so it ends the ranks' groups itself
            wait_until_gone([child for _, child in pids[1:]])


def test_what_ranks_on_other_hosts_left_running_ends_with_the_job(job: Job) -> None:
    program = "import subprocess\nprint(subprocess.Popen(['sleep', '60']).pid, flush=True)"
    with job.running("a:1,b:1", program) as running:
        children = [int(line.split()[1]) for line in read_lines(running, 2)]
        assert running.wait(SOON_S) == 0
        wait_until_gone(children)


def test_a_host_that_cannot_be_reached_is_named_and_nothing_starts(job: Job, tmp_path: Path) -> None:
    begin = time.monotonic()
    done = job.run("a:1,nowhere:1", f"open({str(tmp_path / 'started')!r}, 'w')")
    assert (done.returncode, done.stdout) == (255, "")
    assert done.stderr == (
        f"onstream run: host nowhere starts no ranks: {job.ssh} ended with code 255: ssh: Could not resolve hostname nowhere\n"
    )
    assert time.monotonic() - begin < 10
    assert not (tmp_path / "started").exists()


def test_ssh_itself_says_that_nobody_listens(job: Job) -> None:
    if shutil.which("ssh") is None:
        pytest.skip("ssh is not installed")
    done = job.run("a:1,b:1", "", "--ssh", "ssh -p 2222")
    assert done.returncode == 255
    assert done.stderr == (
        "onstream run: host b starts no ranks: ssh ended with code 255: ssh: connect to host b port 2222: Connection refused\n"
    )


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        (
            "--python",
            "/no/python",
            "host b starts no ranks: {ssh} ended with code 127: sh: 1: exec: /no/python: not found",
        ),
        ("--python", "/usr/bin/env", "host b starts no ranks: {ssh} ended with code "),
        ("--ssh", "/no/ssh", "cannot start '/no/ssh', which reaches host b: No such file or directory"),
    ],
)
def test_a_way_that_leads_nowhere_is_told(job: Job, option: str, value: str, told: str) -> None:
    done = job.run("a:1,b:1", "", option, value)
    assert done.returncode == 255
    assert done.stderr.startswith(f"onstream run: {told.format(ssh=job.ssh)}"), done.stderr


def test_an_agent_of_another_version_is_refused(job: Job) -> None:
    ssh = job.folder / "ssh-to-the-past"
    ssh.write_text("#!/bin/sh\necho welcome\necho 'onstream agent: {\"version\": 0}'\nsleep 60\n")
    ssh.chmod(0o755)
    done = job.run("a:1,b:1", "", "--ssh", str(ssh))
    assert (done.returncode, "host b has another version of onstream" in done.stderr) == (255, True)


def test_lines_that_a_shell_writes_first_do_no_harm(job: Job) -> None:
    ssh = job.make_ssh("ssh-that-talks", "echo welcome; echo motd >&2; exec $enter")
    done = job.run("a:1,b:1", "print(host)", "--ssh", str(ssh))
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, ["[0] a", "[1] b"]), done.stderr


def test_a_program_that_is_missing_there_is_named(job: Job, tmp_path: Path) -> None:
    program = tmp_path / "only-here"
    program.write_text("#!/bin/sh\necho started\n")
    program.chmod(0o755)
    words = [sys.executable, "-m", "onstream.launcher", "--ssh", str(job.ssh), "--hosts", "a:1,b:1", program.name]
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = job.net.hosts[0].run(words, env=env, capture_output=True, text=True)
    assert done.returncode == 127
    assert done.stderr.endswith("onstream run: cannot start 'only-here' on host b: No such file or directory\n")


def test_the_secret_is_on_no_command_line(job: Job) -> None:
    with job.running("a:1,b:1", "print(os.environ['ONSTREAM_SECRET'], flush=True)" + FOR_EVER) as running:
        (secret,) = {line.split()[1].encode() for line in read_lines(running, 2)}
        lines = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                lines.append((folder / "cmdline").read_bytes())
        assert sum(b"onstream.launcher" in line for line in lines) >= 2
        assert not any(secret in line for line in lines)


def test_more_ranks_than_slots_are_refused(job: Job) -> None:
    done = job.run("a:1,b:2", "", "-n", "4")
    assert done.returncode == 2
    assert "4 ranks are more than the hosts have slots, which is 3: a 1, b 2" in done.stderr


def test_a_list_of_hosts_is_read() -> None:
    assert lists.listed("a:2,user@b.example:1, c") == [
        lists.Host("a", 2),
        lists.Host("user@b.example", 1),
        lists.Host("c", 1),
    ]
    assert lists.listed("[fd77::1]:2,a,[fd77::1]") == [lists.Host("[fd77::1]", 3), lists.Host("a", 1)]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("b slots=x", "line 2: 'slots=x' does not belong there"),
        ("b:2 slots=2", "line 2: 'slots=2' does not belong there"),
        ("b:two", "line 2: 'b:two' is no host"),
        ("b slots=0", "line 2: host b has 0 slots"),
        ("-oProxyCommand=x", "line 2: '-oProxyCommand=x' is no host"),
        ("-b", "line 2: '-b' is no host"),
        ("user@-b", "line 2: 'user@-b' is no host"),
    ],
)
def test_a_wrong_line_of_a_file_of_hosts_is_told(tmp_path: Path, line: str, told: str) -> None:
    file = tmp_path / "hosts"
    file.write_text(f"a:1\n{line}\n")
    with pytest.raises(ValueError, match=told):
        lists.asked_for(None, file, None)


def test_a_file_without_hosts_and_one_that_is_not_there_are_told(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        lists.asked_for(None, file, None)
    file.write_text("# none\n")
    with pytest.raises(ValueError, match="names no host"):
        lists.asked_for(None, file, None)
    with pytest.raises(ValueError, match="give one"):
        lists.asked_for("a", file, None)


def test_frames_are_whole_however_they_come() -> None:
    sent = [Frame(Kind.OUTPUT, 3, b"line\n"), Frame(Kind.ENDED, 3, b"-9"), Frame(Kind.ERRORS, 0, b"")]
    data = b"".join(frame.packed() for frame in sent)
    frames = Frames()
    assert [frame for at in range(len(data)) for frame in frames.take(data[at : at + 1])] == sent
    with pytest.raises(ValueError, match="frame"):
        list(Frames().take(b"no frame at all"))
