"""Hosts on this one machine, for tests of jobs of several: network namespaces, each with a cable to one switch.

A host has a network, a name, an IPC namespace, a /sys and a /dev/shm of its own; the rest of the machine it shares.
Nothing has a name outside: a host is a process that waits for its input to end, so all of it goes with this process,
and tests at the same time do not meet. Root needs no user namespace, others get one. Needs Linux, `ip` of iproute2, and
`unshare` and `nsenter` of util-linux; loss() needs `nft`.

    with hosts(2) as net:
        a, b = net.hosts
        a.run(["hostname"], capture_output=True)
        net.cut(b)
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

SOON_S = 60.0
LINK = "eth0"  # a host's cable, as the host calls it
SWITCH = "bridge"
MOST = 26  # their names are letters
ROOT_TOOLS = "/usr/sbin:/sbin"

# The first steps of a host's process, which then waits. Its own /sys, as programs look for their links there.
SETUP = """
set -e
hostname "$1"
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /dev/shm
mount --bind "$2" /etc/hosts
for file in /proc/sys/net/ipv6/conf/all/accept_dad /proc/sys/net/ipv6/conf/default/accept_dad; do
  [ ! -e $file ] || echo 0 > $file
done
echo ready
exec cat
"""


class Namespace:
    """A process that keeps namespaces alive, and the command that enters them."""

    def __init__(self, command: Sequence[str], flags: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_environment()
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"ready\n":
            _, told = self._process.communicate()
            pytest.skip(f"no hosts on this machine: {' '.join(command[:6])}: {told.decode(errors='replace').strip()}")
        self.pid = self._process.pid
        self.enter = ["nsenter", "--target", str(self.pid), *flags]

    def link_is_up(self) -> bool:
        """Whether the cable carries."""
        state = subprocess.run(
            [*self.enter, "cat", f"/sys/class/net/{LINK}/operstate"], capture_output=True, text=True, check=True
        )
        return state.stdout.strip() == "up"

    def ip(self, lines: str) -> None:
        """Runs lines of `ip` in it."""
        self.tool(["ip", "-batch", "-"], lines)

    def tool(self, command: Sequence[str], lines: str = "") -> None:
        done = subprocess.run(
            [*self.enter, *command], input=lines, capture_output=True, text=True, check=False, env=_environment()
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} ended with code {done.returncode}: {done.stderr.strip()}\n{lines}")

    def processes(self) -> list[int]:
        """All that run in it, but not the one that keeps it."""
        own = os.stat(f"/proc/{self.pid}/ns/net")
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended, or is not ours
                net = os.stat(folder / "ns" / "net")
                if (net.st_dev, net.st_ino) == (own.st_dev, own.st_ino) and int(folder.name) != self.pid:
                    found.append(int(folder.name))
        return found

    def close(self) -> None:
        with contextlib.suppress(OSError):
            for pid in self.processes():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        self._process.kill()
        self._process.communicate()


class Host(Namespace):
    """A host: it runs commands."""

    def __init__(self, number: int, switch: Namespace, user: Sequence[str], table: Path) -> None:
        self.number = number
        self.name = chr(ord("a") + number)
        self.address = f"10.77.0.{number + 1}"
        self.address6 = f"fd77::{number + 1}" if Path("/proc/sys/net/ipv6").exists() else ""
        self.port = f"port{number}"  # the other end of its cable, at the switch
        self._started: list[subprocess.Popen[Any]] = []
        unshare = ["unshare", "--net", "--ipc", "--uts", "--mount", "sh", "-c", SETUP, "sh", self.name, str(table)]
        inside = [*user, "--net", "--ipc", "--uts", "--mount"]
        super().__init__(["nsenter", "--target", str(switch.pid), *user, *unshare] if user else unshare, inside)

    def command(self, command: Sequence[str | os.PathLike[str]], cwd: str | os.PathLike[str] = "") -> list[str]:
        """The command line that runs a command here, in the folder cwd, or this process's."""
        return [*self.enter, "env", f"--chdir={os.fspath(cwd) or os.getcwd()}", *map(os.fspath, command)]

    def run(
        self, command: Sequence[str | os.PathLike[str]], *, cwd: str | os.PathLike[str] = "", **options: Any
    ) -> subprocess.CompletedProcess[Any]:
        """As subprocess.run(), on this host. Has a time limit even if none is given."""
        return subprocess.run(self.command(command, cwd), **{"timeout": SOON_S, "check": False, **options})

    def start(
        self, command: Sequence[str | os.PathLike[str]], *, cwd: str | os.PathLike[str] = "", **options: Any
    ) -> subprocess.Popen[Any]:
        """As subprocess.Popen(), on this host. Its pid is the command's own. It is killed when the hosts go."""
        self._started.append(subprocess.Popen(self.command(command, cwd), **options))
        return self._started[-1]

    def close(self) -> None:
        super().close()
        for process in self._started:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    with contextlib.suppress(OSError):  # nobody reads its last bytes
                        stream.close()


class Net:
    """The hosts, the switch, and faults."""

    def __init__(self) -> None:
        self.hosts: list[Host] = []
        self._closing = contextlib.ExitStack()

    def make(self, count: int) -> None:
        user = _user_flags()
        folder = Path(self._closing.enter_context(tempfile.TemporaryDirectory(prefix="onstream-hosts-")))
        folder.chmod(0o755)
        table = folder / "hosts"
        table.write_text("127.0.0.1 localhost\n::1 localhost\n")
        unshare = ["unshare", *(["--user", "--map-root-user"] if user else []), "--net"]
        self.switch = Namespace([*unshare, "sh", "-c", "echo ready; exec cat"], [*user, "--net"])
        self._closing.callback(self.switch.close)
        self.switch.ip(f"link add {SWITCH} type bridge\nlink set {SWITCH} up\n")
        for number in range(count):
            host = Host(number, self.switch, user, table)
            self._closing.callback(host.close)
            self.hosts.append(host)
            self._plug(host)
        table.write_text(table.read_text() + "".join(f"{one.address} {one.name}\n" for one in self.hosts))
        self._wait("the links are up", lambda: all(one.link_is_up() for one in self.hosts))

    def _plug(self, host: Host) -> None:
        self.switch.ip(
            f"link add {host.port} type veth peer name {LINK} netns {host.pid}\n"
            f"link set {host.port} master {SWITCH}\nlink set {host.port} up\n"
        )
        host.ip(f"link set lo up\naddress add {host.address}/24 dev {LINK}\n")
        if host.address6:
            host.ip(f"address add {host.address6}/64 dev {LINK} nodad\n")
        host.ip(f"link set {LINK} up\n")

    def cut(self, host: Host) -> None:
        """Pulls the host's cable: its link has no carrier."""
        self.switch.ip(f"link set {host.port} down\n")
        self._wait("the link is down", lambda: not host.link_is_up())

    def drop(self, host: Host) -> None:
        """Loses all packets from and to the host. Its link stays up, so nothing tells it."""
        self.switch.ip(f"link set {host.port} nomaster\n")

    def heal(self, host: Host) -> None:
        """Ends cut() and drop()."""
        self.switch.ip(f"link set {host.port} up\nlink set {host.port} master {SWITCH}\n")
        self._wait("the link is up", host.link_is_up)

    def rate(self, mbit_per_s: float) -> None:
        """Limits every host's sending."""
        for host in self.hosts:
            limit = f"rate {mbit_per_s:g}mbit burst 256kb latency 50ms"
            host.tool(["tc", "qdisc", "replace", "dev", LINK, "root", "tbf", *limit.split()])

    def loss(self, percent: int) -> None:
        """Loses this share of the packets that come to each host, at random. 0 ends it."""
        if not _has("nft"):
            pytest.skip("nft is not installed (nftables), which loses packets")
        share = "" if percent >= 100 else f"numgen random mod 100 < {percent} "
        rule = f"add rule inet faults input iifname {LINK} {share}drop\n"
        for host in self.hosts:
            host.tool(
                ["nft", "-f", "-"],
                "add table inet faults\ndelete table inet faults\nadd table inet faults\n"
                "add chain inet faults input { type filter hook input priority 0; }\n" + (rule if percent else ""),
            )

    def close(self) -> None:
        self._closing.close()

    @staticmethod
    def _wait(event: str, holds: Callable[[], bool]) -> None:
        limit = time.monotonic() + SOON_S
        while not holds():
            assert time.monotonic() < limit, f"not within {SOON_S:g} s: {event}"
            time.sleep(0.01)


@contextlib.contextmanager
def hosts(count: int) -> Iterator[Net]:
    """This many hosts, called a, b, and so on, that reach each other. Skips the test if the machine lacks something for it."""
    assert 1 <= count <= MOST
    for tool in ("ip", "unshare", "nsenter", "mount"):
        if not _has(tool):
            pytest.skip(f"{tool} is not installed, which makes hosts of network namespaces")
    net = Net()
    try:
        net.make(count)
        yield net
    finally:
        net.close()


def _user_flags() -> list[str]:
    """How to enter the user namespace of the hosts; none if this process may make networks without one."""
    if _run_unshare("--net", "--mount").returncode == 0:
        return []
    refused = _run_unshare("--user", "--map-root-user", "--net", "--mount")
    if refused.returncode != 0:
        pytest.skip(f"the kernel makes no network namespaces for this user: {refused.stderr.strip()}")
    return ["--user", "--preserve-credentials"]


def _run_unshare(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["unshare", *flags, "true"], capture_output=True, text=True, check=False)


def _environment() -> dict[str, str]:
    """Also without root, where PATH may lack the folder of `ip` and `tc`."""
    return {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:{ROOT_TOOLS}"}


def _has(tool: str) -> bool:
    return shutil.which(tool, path=_environment()["PATH"]) is not None
