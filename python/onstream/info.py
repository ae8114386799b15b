"""The data and tables of `onstream info`: devices, which GPUs reach each other, paths, launcher and parameters.

collect() only looks; it makes no world and starts no other process. `python -m onstream.info` prints it as JSON on a
machine without typer and rich.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _core

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class PathRow:
    """One path that bytes can take, and on which devices of this machine it is there."""

    path: str
    how: str
    host: str  # "yes", or why not
    cuda: str


def collect() -> dict[str, Any]:
    """Everything, as plain data for JSON."""
    from . import __version__

    return {
        "onstream": __version__,
        "python": platform.python_version(),
        "machine": {"system": f"{platform.system()} {platform.release()}", "cores": len(os.sched_getaffinity(0))},
        "devices": [_fields(row, ("kind", "index", "name", "memory_bytes")) for row in _core.devices()],
        "no_cuda_reason": _core.no_cuda_reason(),
        "peer_access": peer_access(),
        "paths": [dataclasses.asdict(row) for row in path_rows()],
        "small_copies": [dataclasses.asdict(row) for row in small_copy_rows()],
        "transports": [dataclasses.asdict(row) for row in transport_rows()],
        "launch": _launch(),
        "parameters": [
            _fields(row, ("name", "variable", "value", "default_value", "unit", "set_by", "doc"))
            for row in _core.parameters()
        ],
    }


def path_rows() -> list[PathRow]:
    """The paths of this build, with the reason where one is missing."""
    gpus = [row for row in _core.devices() if row.kind == "cuda"]
    reach = peer_access()
    if not gpus:
        alone = _core.no_cuda_reason() or "no GPU"
    elif len(gpus) > 1 and not all(all(row) for row in reach):
        alone = "only between the GPUs that the peer access table joins"
    else:
        alone = "yes"
    any_gpu = "yes" if gpus else alone
    missing = "no network transport in this build"
    return [
        PathRow("ll", "data and flag in one store, through the tag's ring", "yes", alone),
        PathRow("store", "the sender's kernel stores into the destination", "yes", alone),
        PathRow("load", "the receiver's kernel loads from the source", "yes", alone),
        PathRow("copy", "copy engine", "yes, as a memory copy", alone),
        PathRow("memop", "copy engine between words that streams write and await; plans only", "yes", alone),
        PathRow("stage", "through memory that both sides reach", "yes", any_gpu),
        PathRow("net", "network", missing, missing),
    ]


@dataclass(frozen=True)
class SmallCopyRow:
    """How a few bytes come from the CPU to kernels of one kind of device."""

    device: str
    how: str
    why: str


def small_copy_rows() -> list[SmallCopyRow]:
    """One row a kind of device."""
    return [SmallCopyRow(kind, *_core.small_copies(kind)) for kind in ("host", "cuda")]


@dataclass(frozen=True)
class TransportRow:
    """One way in which memory of one rank is reached from another."""

    transport: str
    joins: str
    available: str  # "yes", or why not


def transport_rows() -> list[TransportRow]:
    """How ranks reach each other's memory on this machine."""
    try:
        os.close(os.memfd_create("onstream-info"))
        shared = "yes"
    except OSError as error:
        shared = f"memfd_create: {error.strerror}"
    cuda = _core.no_cuda_reason() or "yes"
    return [
        TransportRow("shared memory", "host memory of ranks of one host, anonymous, by file descriptor", shared),
        TransportRow(
            "cross-memory attach",
            "plain host memory of processes of one host (numpy, malloc), one copy; else bounce buffers",
            _core.no_attach_reason() or attach_setting(),
        ),
        TransportRow("cuda ipc", "GPU memory of ranks of one host, between GPUs with peer access", cuda),
        TransportRow("network", "ranks of different hosts", "no network transport in this build"),
    ]


def attach_setting() -> str:
    """The parameter's setting; each pair of ranks tries for itself with its first large message, and logs a refusal."""
    setting = next(row.value for row in _core.parameters() if row.name == "attach")
    return "yes" if setting == "auto" else "off (parameter attach)"


def peer_access() -> list[list[bool]]:
    """Row i, column j: GPU i can load and store GPU j's memory. Empty without GPUs."""
    count = sum(row.kind == "cuda" for row in _core.devices())
    if count == 0:
        return []
    driver = ctypes.CDLL("libcuda.so.1")
    _driver_call(driver.cuInit, 0)
    handles = [ctypes.c_int() for _ in range(count)]
    for ordinal, handle in enumerate(handles):
        _driver_call(driver.cuDeviceGet, ctypes.byref(handle), ordinal)

    def reaches(mine: ctypes.c_int, theirs: ctypes.c_int) -> bool:
        answer = ctypes.c_int(1)
        if mine.value != theirs.value:
            _driver_call(driver.cuDeviceCanAccessPeer, ctypes.byref(answer), mine, theirs)
        return bool(answer.value)

    return [[reaches(mine, theirs) for theirs in handles] for mine in handles]


WIDTH_OF_A_PIPE = 250  # columns: a pipe has none of its own, and narrow cells are hard to read and to grep


def render(facts: dict[str, Any], console: Console, *, all_parameters: bool = False) -> None:
    """Prints the tables. all_parameters: only the parameters, all of them; else just those that are set."""
    if all_parameters:
        console.print(_parameter_table(facts["parameters"], "Parameters"))
        return
    console.print(f"[bold]onstream {facts['onstream']}[/] · Python {facts['python']} · {facts['machine']['system']}")
    devices = _table("Devices", "device", "name", "memory")
    for row in facts["devices"]:
        label = "host" if row["kind"] == "host" else f"cuda:{row['index']}"
        devices.add_row(label, row["name"], f"{row['memory_bytes'] / 2**30:.1f} GiB")
    console.print(devices)
    if facts["no_cuda_reason"]:
        console.print(f"No cuda device: {facts['no_cuda_reason']}\n")
    if len(facts["peer_access"]) > 1:
        console.print(_peer_table(facts["peer_access"]))
    paths = _table("Paths", "path", "how bytes travel", "host", "cuda")
    for path in facts["paths"]:
        paths.add_row(path["path"], path["how"], path["host"], path["cuda"])
    console.print(paths)
    transports = _table("Transports", "transport", "joins", "available")
    for row in facts["transports"]:
        transports.add_row(row["transport"], row["joins"], row["available"])
    console.print(transports)
    small_copies = _table("Small copies from the CPU", "device", "how", "why")
    for row in facts["small_copies"]:
        small_copies.add_row(row["device"], row["how"], row["why"])
    console.print(small_copies)
    launch = facts["launch"]
    if "error" in launch:
        console.print(f"Launcher: [red]{launch['error']}[/]\n")
    else:
        console.print(f"Launcher: {launch['launcher']}, rank {launch['rank']} of {launch['size']}\n")
    known = facts["parameters"]
    # `import onstream` sets ucx_wheel.
    changed = [row for row in known if row["set_by"] != "default" and row["name"] != "ucx_wheel"]
    if changed:
        console.print(_parameter_table(changed, "Parameters that are set"))
    console.print(f"{len(changed)} of {len(known)} parameters are set; all of them: onstream info --parameters")


def _parameter_table(rows: list[dict[str, Any]], title: str) -> Any:
    table = _table(title, "parameter", "value", "unit", "set by", "what")
    for row in rows:
        source = row["variable"] if row["set_by"] == "environment" else row["set_by"]
        value = row["value"] or "-"
        if row["name"] == "ucx_wheel" and value != "none":  # a path, which `import onstream` sets
            value, source = "found", "import"
        table.add_row(row["name"], value, row["unit"], source, row["doc"])
    return table


def _table(title: str, *columns: str) -> Any:
    from rich import box
    from rich.table import Table

    return Table(*columns, title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)


def _peer_table(reach: list[list[bool]]) -> Any:
    table = _table("Peer access", "from \\ to", *[f"cuda:{i}" for i in range(len(reach))])
    for index, row in enumerate(reach):
        table.add_row(f"cuda:{index}", *["yes" if ok else "no" for ok in row])
    return table


def _launch() -> dict[str, Any]:
    try:
        launch = _core.launch_from_environment()
    except ValueError as error:
        return {"error": str(error)}
    return _fields(launch, ("launcher", "rank", "size", "local_rank", "local_size", "address", "port"))


def _fields(row: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


def _driver_call(function: Any, *arguments: Any) -> None:
    status = function(*arguments)
    if status != 0:
        raise RuntimeError(f"{function.__name__} returned CUDA error {status}")


if __name__ == "__main__":
    from .launcher import standard

    with standard.guarded("onstream info"):
        print(json.dumps(collect(), indent=2))
