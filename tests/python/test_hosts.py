"""The hosts that tests run jobs on (hosts.py): they reach each other, differ as hosts do, and leave nothing behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hosts import Host, Net, hosts
from jobs import wait_until_gone

SERVER = """
import socket, sys
with socket.create_server((sys.argv[1], 5000), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET) as server:
    print("listening", flush=True)
    connection, _ = server.accept()
    with connection, connection.makefile("rwb") as stream:
        for line in stream:
            stream.write(line.upper())
            stream.flush()
"""

# Sends the lines that it reads, and prints the answers.
CLIENT = """
import socket, sys
with socket.create_connection((sys.argv[1], 5000), timeout=10) as connection, connection.makefile("rwb") as stream:
    for line in sys.stdin.buffer:
        stream.write(line)
        stream.flush()
        print(stream.readline().decode(), end="", flush=True)
"""

# Whether a connection comes about within two seconds: of a closed port too the answer shows that the host is reached.
REACH = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 9), timeout=2)
except ConnectionRefusedError:
    print("reached")
except OSError as error:
    print("lost:", error)
"""


def reach(one: Host, other: Host) -> str:
    return one.run([sys.executable, "-c", REACH, other.address], capture_output=True, text=True).stdout.strip()


def conversation(server: Host, client: Host, address: str) -> subprocess.Popen[str]:
    """A client's process that has its server's answer to a first line."""
    serving = server.start([sys.executable, "-c", SERVER, address], stdout=subprocess.PIPE, text=True)
    assert serving.stdout.readline() == "listening\n"
    asking = client.start(
        [sys.executable, "-c", CLIENT, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert ask(asking, "hello\n") == "HELLO\n"
    return asking


def ask(client: subprocess.Popen[str], line: str) -> str:
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write(line)
    client.stdin.flush()
    return client.stdout.readline()


@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
def test_two_hosts_exchange_bytes(family: str) -> None:
    with hosts(2) as net:
        a, b = net.hosts
        address = a.address if family == "IPv4" else a.address6
        if not address:
            pytest.skip("this kernel has no IPv6")
        assert ask(conversation(a, b, address), "again\n") == "AGAIN\n"


def test_hosts_differ_as_hosts_do() -> None:
    kinds = ("net", "ipc", "uts", "mnt")
    show = ["sh", "-c", "hostname; ls /sys/class/net; readlink " + " ".join(f"/proc/self/ns/{kind}" for kind in kinds)]
    with hosts(3) as net:
        told = [host.run(show, capture_output=True, text=True).stdout.split() for host in net.hosts]
    here = [os.readlink(f"/proc/self/ns/{kind}") for kind in kinds]
    assert [lines[0] for lines in told] == ["a", "b", "c"]
    assert all({"lo", "eth0"} <= set(lines[1 : -len(kinds)]) for lines in told)
    for place in range(len(kinds)):
        assert len({here[place], *(lines[place - len(kinds)] for lines in told)}) == 4, kinds[place]


def test_a_host_knows_the_names_of_all() -> None:
    with hosts(2) as net:
        a, b = net.hosts
        known = a.run(["getent", "ahostsv4", b.name], capture_output=True, text=True).stdout
        assert known.split()[0] == b.address


def test_a_command_runs_in_the_folder_that_it_is_given(tmp_path: Path) -> None:
    with hosts(1) as net:
        (host,) = net.hosts
        assert host.run(["pwd"], cwd=tmp_path, capture_output=True, text=True).stdout == f"{tmp_path}\n"
        assert host.run(["pwd"], capture_output=True, text=True).stdout == f"{os.getcwd()}\n"


def test_a_cut_cable_carries_nothing_until_it_heals() -> None:
    with hosts(3) as net:
        a, b, c = net.hosts
        assert reach(a, b) == "reached"
        net.cut(b)
        assert not b.link_is_up()
        assert reach(a, b).startswith("lost: ")
        assert reach(a, c) == "reached"
        net.heal(b)
        assert reach(a, b) == "reached"


def test_a_connection_outlives_lost_packets() -> None:
    with hosts(2) as net:
        a, b = net.hosts
        client = conversation(a, b, a.address)
        net.drop(b)
        assert b.link_is_up()
        assert reach(a, b).startswith("lost: ")
        net.heal(b)
        assert ask(client, "back\n") == "BACK\n"


def seconds_to_send(net: Net, size: int) -> float:
    """How long a answers a line of this many bytes from b: it goes there and back."""
    a, b = net.hosts
    client = conversation(a, b, a.address)
    begin = time.monotonic()
    assert ask(client, "x" * size + "\n") == "X" * size + "\n"
    return time.monotonic() - begin


def test_the_rate_of_a_cable_is_limited() -> None:
    with hosts(2) as net:
        net.rate(20)
        assert seconds_to_send(net, 1_000_000) > 2 * 0.5 * 8 / 20


def test_packets_are_lost_at_random() -> None:
    with hosts(2) as net:
        a, b = net.hosts
        net.loss(100)
        assert reach(a, b).startswith("lost: ")
        net.loss(10)
        assert seconds_to_send(net, 100_000) > 0
        net.loss(0)
        assert reach(a, b) == "reached"


def test_nothing_is_left_after_a_failure() -> None:
    pids: list[int] = []

    def fail() -> None:
        with hosts(2) as net:
            pids.extend(host.start(["sleep", "60"]).pid for host in net.hosts)
            # Processes that nobody waits for.
            net.hosts[0].run(["sh", "-c", "sleep 60 > /dev/null 2>&1 & sleep 60 > /dev/null 2>&1 &"])
            pids.extend({*net.hosts[0].processes(), *(host.pid for host in net.hosts)} - set(pids))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert len(pids) == 6
    wait_until_gone(pids)  # those that nobody waits for end by a signal, in a moment


def test_this_machine_keeps_its_own_name_and_links() -> None:
    before = (socket.gethostname(), sorted(os.listdir("/sys/class/net")))
    with hosts(2):
        assert (socket.gethostname(), sorted(os.listdir("/sys/class/net"))) == before
