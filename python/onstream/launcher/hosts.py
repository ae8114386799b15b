"""The hosts of a job: their names, their slots, the ranks on each, and the way to them.

A list is `a:2,b:2`; a file has a line `a slots=2` or `a:2` for each host, and # begins a comment. A host without a number
has one slot; one that is named again gets more. Ranks go by host, in order. This host needs no connection: it is localhost,
this machine's own name, or an address of this machine. `user@host` always is another.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shlex
import socket
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

NAMED = re.compile(r"(?P<name>(?:[\w.+-]+@)?(?:\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\]|[\w.-]+))(?::(?P<slots>\d+))?", re.ASCII)
PORTS = range(20000, 30000)  # below those that the system gives to other connections
QUIET_SSH = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5")


class HostError(Exception):
    """A host of the job cannot be used."""


@dataclass(frozen=True)
class Host:
    name: str
    slots: int


@dataclass(frozen=True)
class Place:
    """A host with the ranks that it gets: `count` from `first` on. name: "" for the only host of a job, this one."""

    name: str
    first: int
    count: int
    here: bool

    @property
    def ranks(self) -> range:
        return range(self.first, self.first + self.count)


@dataclass(frozen=True)
class Way:
    """How the launcher reaches other hosts, and the facts that it gives them."""

    ssh: str = "ssh"  # a command that takes a host and a command
    python: str = sys.executable  # there
    address: str = ""  # of the first host, at which the others reach it; "": found
    variables: Sequence[str] = field(default=())  # that go along, beside ONSTREAM_* and UCX_*

    def command(self, host: str, words: Sequence[str]) -> list[str]:
        """Runs the words on the host, through its shell."""
        ssh = shlex.split(self.ssh)
        if not ssh:
            raise HostError("the command for ssh is empty")
        quiet = QUIET_SSH if Path(ssh[0]).name == "ssh" else ()
        return [*ssh, *quiet, host.replace("[", "").replace("]", ""), shlex.join(words)]


def asked_for(text: str | None, file: Path | None, size: int | None) -> list[Place]:
    """The places of --hosts or --hostfile, and -n; none without a host. Throws ValueError."""
    if text is not None and file is not None:
        raise ValueError("--hosts and --hostfile both name the hosts; give one")
    if text is not None:
        return placed(listed(text), size)
    if file is None:
        return []
    try:
        return placed(read(file), size)
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from error


def listed(text: str) -> list[Host]:
    """The hosts of a list. Throws ValueError."""
    return _merged(_host(one.strip(), "the list of hosts") for one in text.split(","))


def read(file: Path) -> list[Host]:
    """The hosts of a file. Throws ValueError with the line, and OSError."""
    found = []
    for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"{file}, line {number}"
        host = _host(words[0], where)
        for word in words[1:]:
            slots = re.fullmatch(r"slots=(\d+)", word, re.ASCII)
            if slots is None or ":" in words[0].rpartition("]")[2]:
                raise ValueError(f"{where}: '{word}' does not belong there; a line is 'NAME slots=2' or 'NAME:2'")
            host = _checked(Host(host.name, int(slots[1])), where)
        found.append(host)
    if not found:
        raise ValueError(f"{file} names no host")
    return _merged(found)


def _host(word: str, where: str) -> Host:
    found = NAMED.fullmatch(word)
    if found is None:
        raise ValueError(f"{where}: '{word}' is no host; write NAME or NAME:SLOTS")
    return _checked(Host(found["name"], int(found["slots"] or 1)), where)


def _checked(host: Host, where: str) -> Host:
    if bare(host.name).startswith("-"):  # which ssh would take for an option
        raise ValueError(f"{where}: '{host.name}' is no host; a name does not begin with '-'")
    if host.slots < 1:
        raise ValueError(f"{where}: host {host.name} has {host.slots} slots; it needs 1 or more")
    return host


def _merged(hosts: Iterable[Host]) -> list[Host]:
    slots: dict[str, int] = {}
    for host in hosts:
        slots[host.name] = slots.get(host.name, 0) + host.slots
    return [Host(name, count) for name, count in slots.items()]


def placed(hosts: Sequence[Host], size: int | None) -> list[Place]:
    """The ranks by host, in order; without a size all slots are filled. Throws ValueError if there are too few."""
    slots = sum(host.slots for host in hosts)
    if size is not None and size > slots:
        told = ", ".join(f"{host.name} {host.slots}" for host in hosts)
        raise ValueError(f"{size} ranks are more than the hosts have slots, which is {slots}: {told}")
    left = slots if size is None else size
    places: list[Place] = []
    first = 0
    for host in hosts:
        count = min(host.slots, left - first)
        if count > 0:
            places.append(Place(host.name, first, count, is_here(host.name)))
            first += count
    if sum(place.here for place in places) > 1:
        raise ValueError(
            f"{' and '.join(place.name for place in places if place.here)} are both this host; name it once"
        )
    return places


def is_here(name: str) -> bool:
    """Whether this is the name or an address of this host."""
    if "@" in name:
        return False
    own = socket.gethostname()
    if name in ("localhost", own, own.partition(".")[0]):
        return True
    return any(_is_own(family, address) for family, address in _addresses(name, 9))


def _is_own(family: int, address: tuple[Any, ...]) -> bool:
    if ip_address(address[0].partition("%")[0]).is_loopback:
        return True
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as one:
        one.connect(address)  # sends nothing; from an address of ours to itself
        return bool(one.getsockname()[0] == address[0])
    return False


def own_address(towards: str) -> str:
    """This host's address on the way to another; "" if the name is not known here, or no way leads there."""
    for family, address in _addresses(towards, 9):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as one:
            one.connect(address)  # sends nothing
            return str(one.getsockname()[0])
    return ""


def is_known(name: str) -> bool:
    """Whether the name leads to an address."""
    return bool(_addresses(name, 9))


def bare(name: str) -> str:
    """The name without a user and brackets."""
    return name.rpartition("@")[2].strip("[]")


def _addresses(name: str, port: int) -> list[tuple[int, tuple[Any, ...]]]:
    try:
        found = socket.getaddrinfo(bare(name), port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return []
    return [(family, address) for family, _, _, _, address in found]


def free_port() -> int:
    """One of this host's ports where nobody listens."""
    while True:
        port = secrets.choice(PORTS)
        with contextlib.suppress(OSError), socket.socket() as one:
            one.bind(("", port))
            return port


def free_ports() -> tuple[int, int]:
    """Two that differ: for the ranks' worlds, and for programs of torch.distributed."""
    first = free_port()
    while (second := free_port()) == first:
        pass
    return first, second
