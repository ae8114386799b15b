"""Group: a c10d process group whose ranks are those of a World, one of the host device and, on GPUs, one of cuda.

torch calls its methods itself, from Python directly and from C++ by name: DDP's reducer, functional collectives,
torch.compile. It is a ProcessGroup and no c10d Backend, as c10d lets a Work made in Python say whether it has ended only
to callers of the former. A new group makes worlds of its own, through torch's store, with only its members; that takes
a few milliseconds. shutdown(), which destroy_process_group() calls, waits for the group's work and closes them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend as _Backend

from .. import _core
from ..errors import InvalidArgumentError, UnsupportedError
from ..probes import any_source
from ..world import World
from . import calls
from .collectives import Collectives
from .lanes import CudaLane, HostLane
from .meeting import meet
from .work import MessageWork, Work


class Seat(_Backend):
    """The Backend that a torch which has such in Python (2.15) asks for the name and the options of its group."""

    def __init__(self, rank: int, size: int, options: Any) -> None:
        super().__init__(rank, size)
        self._options = options

    def getBackendName(self) -> str:
        return "onstream"

    @property
    def options(self) -> Any:
        return self._options


class Group(Collectives, dist.ProcessGroup):
    """A process group of torch.distributed. Made by init_process_group("onstream"), new_group() and split_group()."""

    supports_splitting = True
    supports_coalescing = False  # of messages: each begins when it is posted
    supports_shrinking = False

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta, device: Any = None) -> None:
        super().__init__(rank, size)  # of torch 2.11, no Python class takes the store
        self._rank, self._size = rank, size
        self._store, self._timeout, self._device = store, timeout, device
        self._name, self._description = "", "undefined"
        self._splits: Counter[tuple[int, ...]] = Counter()
        gpu = _gpu_of(device)
        launches = meet(store, rank, size, gpu)
        wait_s = timeout.total_seconds()
        limits = {"timeout_s": wait_s, "bootstrap_timeout_s": wait_s}
        self._host = HostLane(World(launch=launches.host, device="host", **limits))
        self._cuda: CudaLane | None = None
        if launches.cuda is not None:
            name = _cuda_name(device, launches.cuda)
            self._cuda = CudaLane(World(launch=launches.cuda, device=name, **limits))
            self._device = torch.device(name)
        self._take_seat()

    def _take_seat(self) -> None:
        try:
            self._seat = Seat(self._rank, self._size, self.options)
        except TypeError:  # of torch 2.11, which does without
            return
        kind = dist.ProcessGroup.BackendType.CUSTOM
        for device in self._device_types:
            self._register_backend(device, kind, self._seat)
        self._set_default_backend(kind)

    # --- answers to c10d ---

    def getBackendName(self) -> str:
        return "onstream"

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupDesc(self) -> str:
        return self._description

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    @property
    def _device_types(self) -> list[Any]:
        return [torch.device("cpu")] if self._cuda is None else [torch.device("cpu"), torch.device("cuda")]

    def get_group_store(self) -> Any:
        return self._store

    def _get_backend(self, device: Any) -> Group:
        self._lane("get_backend", torch.device(device))
        return self

    get_backend = _get_backend

    @property
    def options(self) -> Any:
        return _Backend.Options("onstream", self._timeout)

    # --- messages ---

    def send(self, tensors: list[Any], rank: int, tag: int) -> Work:
        """Sends a tensor to a rank of the group. The Work has ended once the tensor may change."""
        tensor = calls.one_of("send", tensors)
        world = self._lane("send", tensor.device).world
        array = calls.source_of("send", tensor)
        self._check_rank("send", rank)
        return MessageWork(world.isend(calls.bytes_of(array), rank, tag=tag), (), [array])

    def recv(self, tensors: list[Any], rank: int, tag: int) -> Work:
        """Receives a tensor from a rank of the group; one of another size raises TruncatedError, or fills the front."""
        self._check_rank("recv", rank)
        return self._receive(tensors, rank, tag)

    def recv_anysource(self, tensors: list[Any], tag: int) -> Work:
        """recv() from whichever rank's message is there first; source_rank() of its Work tells. CPU tensors alone."""
        tensor = calls.one_of("recv", tensors)
        if tensor.is_cuda:
            raise UnsupportedError(
                f"recv: no source is named (tag {tag}), and the tensor is on {tensor.device}; name it: src=RANK, or receive "
                "into a tensor of the CPU"
            )
        return self._receive(tensors, any_source, tag)

    def _receive(self, tensors: list[Any], source: int, tag: int) -> Work:
        tensor = calls.one_of("recv", tensors)
        world = self._lane("recv", tensor.device).world
        back: list[calls.Pair] = []
        array = calls.target_of("recv", tensor, back)
        return MessageWork(world.irecv(calls.bytes_of(array), source, tag=tag), back, tensors)

    # --- life ---

    def split_group(
        self, ranks: Sequence[int], timeout: timedelta | None = None, opts: Any = None,
        group_name: str | None = None, group_desc: str | None = None, **_: Any,
    ) -> Group | None:  # fmt: skip
        """A group of some of this one's ranks, numbered in this order; None on the others. Each keeps its GPU."""
        for rank in ranks:
            self._check_rank("split_group", rank)
        key = tuple(ranks)
        if len(set(key)) != len(key):
            raise InvalidArgumentError(f"split_group: the ranks {list(ranks)} name one twice")
        self._splits[key] += 1
        if self._rank not in key:
            return None
        # Other ranks may be in another split at this moment, perhaps by the same group_name.
        split = f"split:{'_'.join(map(str, key))}:{self._splits[key]}"
        store = dist.PrefixStore(f"{split}/", self._store)
        new = Group(store, key.index(self._rank), len(key), timeout or self._timeout, self._device)
        new._set_group_name(group_name or f"{self.group_name}:{split}")
        new._set_group_desc(group_desc or "undefined")
        return new

    splitGroup = split_group

    def comm_split_count(self) -> int:
        """How many groups were split from this one."""
        return self._splits.total()

    def abort(self) -> None:
        """Ends the group on every rank; calls that wait raise AbortedError."""
        with ExitStack() as each:  # calls them all, also where one raises
            for lane in self._lanes():
                each.callback(lane.world.abort, f"rank {self._rank} aborted its process group")

    def shutdown(self) -> None:
        """Waits for the group's work, then leaves the group. Raises the failure of a world once all are closed."""
        with ExitStack() as each:
            for lane in self._lanes():
                each.callback(lane.close)

    def set_timeout(self, timeout: timedelta) -> None:
        """Refuses: a world's deadline is that of init_process_group() or new_group()."""
        raise UnsupportedError(
            f"set_timeout: the group's deadline is {self._timeout.total_seconds():g} s for as long as it lives; give "
            "`timeout` to init_process_group() or new_group()"
        )

    # --- detail ---

    def _lanes(self) -> list[HostLane | CudaLane]:
        return [self._host] if self._cuda is None else [self._host, self._cuda]

    def _lane(self, call: str, device: Any) -> HostLane | CudaLane:
        kind = device.type
        if kind == "cpu":
            return self._host
        if kind == "cuda" and self._cuda is not None and device.index in (None, self._device.index):
            return self._cuda
        raise UnsupportedError(f"{call}: the tensor is on {device}, but this group serves {self._served()}")

    def _served(self) -> str:
        if self._cuda is not None:
            return f"cpu and {self._device}; another GPU is named by device_id= when the group is made"
        return f"cpu alone: {_core.no_cuda_reason() or 'some rank has no GPU for onstream'}"

    def _check_rank(self, call: str, rank: int) -> None:
        if not 0 <= rank < self._size:
            raise InvalidArgumentError(f"{call}: the rank is {rank}, but the group's ranks are 0 to {self._size - 1}")


def create(options: Any, _: Any = None) -> Group:
    """c10d's maker of a backend. Collective over the group's ranks."""
    group = getattr(options, "process_group", None)  # since torch 2.12
    device = getattr(group, "bound_device_id", None)
    return Group(options.store, options.group_rank, options.group_size, options.timeout, device)


def _gpu_of(device: Any) -> bool:
    """Whether this rank has a GPU that both torch and onstream use."""
    wanted = device is None or device.type == "cuda"
    return wanted and not _core.no_cuda_reason() and bool(torch.cuda.is_available())


def _cuda_name(device: Any, launch: _core.Launch) -> str:
    """The GPU that init_process_group() was given, else torch's current one if that is not 0, else this rank's by number."""
    if device is not None and device.index is not None:
        return f"cuda:{device.index}"
    return f"cuda:{torch.cuda.current_device() or _own_number(launch) % torch.cuda.device_count()}"


def _own_number(launch: _core.Launch) -> int:
    """This rank's number on its host among all ranks of the job, of which a later group has but some."""
    if not dist.is_initialized():
        return launch.local_rank  # the default group is on its way
    default = dist.distributed_c10d._get_default_group()
    if isinstance(default, Group) and default._cuda is not None:
        return int(default._device.index)
    return int(os.environ.get("LOCAL_RANK", dist.get_rank()))
