"""Where the ranks of a process group meet: from torch's store, a Launch for a World of these ranks.

Every rank tells the store its host and whether it has a GPU for onstream; rank 0 reads them all and answers with one table.
Ranks of one host meet at an abstract Unix socket, those of several at a TCP port of rank 0's host: ONSTREAM_ADDRESS, or
the address by which that host reaches MASTER_ADDR. Blocks until all ranks have come, at most as long as the store waits.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from pathlib import Path
from typing import Any, NamedTuple

from .. import _core
from ..launcher.hosts import free_port


class Meeting(NamedTuple):
    """The launches of a group's worlds, one a device; of cuda only where every rank has a GPU."""

    host: _core.Launch
    cuda: _core.Launch | None


def meet(store: Any, rank: int, size: int, has_gpu: bool) -> Meeting:
    """This rank's launches. Collective over the group."""
    store.set(f"onstream/{rank}", json.dumps([_host_name(), has_gpu]))
    if rank == 0:
        rows = [json.loads(store.get(f"onstream/{each}")) for each in range(size)]
        hosts = [row[0] for row in rows]
        worlds = 2 if all(row[1] for row in rows) else 1
        several = len(set(hosts)) > 1
        places = [[*_place(several), secrets.token_hex(16)] for _ in range(worlds)]
        store.set("onstream/table", json.dumps([hosts, places]))
    hosts, places = json.loads(store.get("onstream/table"))
    launches = [_launch_of(rank, hosts, place) for place in places]
    return Meeting(launches[0], launches[1] if len(launches) > 1 else None)


def _launch_of(rank: int, hosts: list[str], place: list[Any]) -> _core.Launch:
    address, port, secret = place
    here = [each for each, host in enumerate(hosts) if host == hosts[rank]]
    return _core.Launch(rank, len(hosts), port, secret, address, local_rank=here.index(rank), local_size=len(here))


def _host_name() -> str:
    """Equal for ranks that can meet at an abstract Unix socket: of one boot of one machine, in one network namespace."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.readlink('/proc/self/ns/net')}"


def _place(several: bool) -> tuple[str, int]:
    """Address and port of rank 0's store; its host's, if the ranks are on several."""
    if not several:
        return f"unix:onstream-torch-{secrets.token_hex(16)}", 0
    return os.environ.get("ONSTREAM_ADDRESS") or _own_address(), free_port()


def _own_address() -> str:
    """The address of the interface that leads to MASTER_ADDR, or where that is this host itself, the host's name."""
    master = os.environ.get("MASTER_ADDR")
    if master:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:  # connects without a packet
            try:
                route.connect((master, 1))
                address = str(route.getsockname()[0])
            except OSError:
                address = "127.0.0.1"
        if not address.startswith("127."):
            return address
        if socket.gethostbyname(master) == address:
            return master
    return socket.gethostname()
