"""The ranks of test_torch.py: torch_ranks.py RANK SIZE STORE BODY..., each body a function of the default group's rank and size,
which begins behind a barrier: those of torch_values.py and torch_works.py, and those of groups, failures and training here.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
import torch_values
import torch_works
from onstream.torch import group as groups
from torch import nn
from torch_values import LIMIT, begin, equal, rooted

from onstream import AbortedError, ClosedError, Error, InvalidArgumentError, TimeoutError, UnsupportedError, World

STEPS = 20


# --- groups ---


def groups_of_some_ranks(rank: int, size: int) -> None:
    odd = dist.new_group(list(range(1, size, 2)))
    even = dist.new_group(list(range(0, size, 2)))
    mine = odd if rank % 2 else even
    tensor = torch.tensor([rank])
    dist.all_reduce(tensor, group=mine)
    assert tensor.item() == sum(range(rank % 2, size, 2))
    tensor = torch.tensor([rank])
    dist.broadcast(tensor, rank % 2 + 2, group=mine)
    assert tensor.item() == rank % 2 + 2
    dist.destroy_process_group(mine)
    dist.barrier()


def groups_of_a_split(rank: int, size: int) -> None:
    parent = dist.distributed_c10d._get_default_group()
    new = parent.split_group([3, 1], group_name="split of two")
    assert (new is None) == (rank in (0, 2))
    if new is not None:
        assert (new.rank(), new.size(), new.group_name) == ((3, 1).index(rank), 2, "split of two")
        tensor = torch.tensor([rank])
        new.broadcast([tensor], rooted(0)).wait()
        assert tensor.item() == 3
        new.shutdown()
        refused(lambda: new.broadcast([tensor], rooted(0)).wait(), ClosedError, "")
    for name in (None, "half", "half"):  # two splits at once, of the same name
        half = parent.split_group([0, 1] if rank < 2 else [2, 3], group_name=name)
        tensor = torch.tensor([rank])
        half.allreduce([tensor]).wait()
        assert tensor.item() == (1 if rank < 2 else 5), tensor
        half.shutdown()
    assert parent.comm_split_count() == 4
    refused(lambda: parent.split_group([0, size]), InvalidArgumentError, f"split_group: the rank is {size}")
    refused(lambda: parent.split_group([0, 0]), InvalidArgumentError, "name one twice")
    dist.barrier()


def refused(call: Any, kind: type[Error], words: str) -> None:
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"not refused: {words}")


class _Gpu:
    """A World of the host device that says it is of a GPU."""

    def __init__(self, *, launch: Any, device: str, **limits: Any) -> None:
        self.device = device
        self._world = World(launch=launch, device="host", **limits)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)


def gpus_of_groups(rank: int, size: int) -> None:
    """A rank has one GPU in all groups, also where its number in the group is another; a tensor of another is refused."""
    dist.destroy_process_group()
    with (
        mock.patch.object(groups, "World", _Gpu),
        mock.patch.object(groups, "_gpu_of", return_value=True),
        mock.patch.object(torch.cuda, "current_device", return_value=0),
        mock.patch.object(torch.cuda, "device_count", return_value=size),
    ):
        begin("onstream", "gpus", rank, size)
        default: Any = dist.distributed_c10d._get_default_group()
        made = [default, default.split_group([3, 2]), dist.new_group([2, 3])]
        for group in made if rank > 1 else made[:1]:
            assert group._cuda.world.device == f"cuda:{rank}"
            for wanted in (f"cuda:{rank}", "cuda", "cpu"):
                assert group.get_backend(torch.device(wanted)) is group
            other = torch.device(f"cuda:{(rank + 1) % size}")
            refused(lambda group=group, other=other: group.get_backend(other), UnsupportedError, f"is on {other}, but")
    for broken, other in (default._lanes(), default._lanes()[::-1]):
        with (
            mock.patch.object(broken, "close", side_effect=Error("broken")),
            mock.patch.object(other, "close") as closed,
        ):
            refused(default.shutdown, Error, "broken")
        closed.assert_called_once_with()
    if rank > 1:
        made[1].shutdown()


def another_order_in_another_group(rank: int, size: int) -> None:
    """Asynchronous calls of two groups may begin in another order on each rank."""
    one, two = dist.new_group(list(range(size))), dist.new_group(list(range(size)))
    first, second = torch.ones(1000), torch.ones(1000)
    order = [(first, one), (second, two)]
    works = [dist.all_reduce(tensor, group=group, async_op=True) for tensor, group in order[:: 1 if rank % 2 else -1]]
    for work in works:
        work.wait()
    equal(first + second, torch.full((1000,), 2.0 * size))


def begin_again(rank: int, size: int) -> None:
    for number in range(3):
        dist.destroy_process_group()
        begin("onstream", f"again{number}", rank, size)
        assert dist.get_backend() == "onstream"
        tensor = torch.tensor([rank])
        dist.all_reduce(tensor)
        assert tensor.item() == sum(range(size))


def mixed_backends(rank: int, size: int) -> None:
    dist.destroy_process_group()
    begin("cpu:gloo,cuda:onstream", "mixed", rank, size)
    tensor = torch.tensor([rank])
    dist.all_reduce(tensor)
    assert tensor.item() == sum(range(size))
    assert dist.all_reduce(tensor, async_op=True).wait()
    dist.barrier()


# --- failures ---


def a_rank_dies(rank: int, size: int) -> None:
    if rank == 2:
        os._exit(7)
    work = dist.all_reduce(torch.zeros(10), async_op=True)
    for wait in (work.wait, lambda: dist.all_reduce(torch.zeros(10))):
        try:
            wait()
        except AbortedError as error:
            assert isinstance(error, RuntimeError)
            print(error, "rank 2 has died" if "rank 2" in str(error) else "")
        else:
            raise AssertionError("an all_reduce without rank 2 ended well")
    assert isinstance(work.exception(), AbortedError)
    os._exit(0)


def a_deadline_passes(rank: int, size: int) -> None:
    work = None
    if rank == 0:
        work = dist.all_reduce(torch.zeros(10), async_op=True)
        try:
            work.wait(timedelta(milliseconds=200))
        except TimeoutError as error:
            assert "0.2 s" in str(error)
        else:
            raise AssertionError("an all_reduce ended without rank 1")
    dist.distributed_c10d._get_default_store().set(f"late {rank}", "")
    dist.distributed_c10d._get_default_store().wait([f"late {each}" for each in range(size)], LIMIT)
    if rank == 1:
        work = dist.all_reduce(torch.zeros(10), async_op=True)
    assert work is not None
    work.wait()
    short = dist.new_group(list(range(size)), timeout=timedelta(seconds=1))
    if rank == 0:
        try:
            dist.all_reduce(torch.zeros(10), group=short)
        except Error as error:
            assert "1 s" in str(error) or "all_reduce" in str(error), error
        else:
            raise AssertionError("an all_reduce ended without rank 1")
    dist.barrier()
    os._exit(0)  # a world that has failed would tell so again


# --- training ---


def train(model: str, rank: int, size: int) -> None:
    """The same losses as with gloo, bit for bit: two ranks have but one order of sums."""
    losses = {}
    for backend in ("gloo", "onstream"):
        dist.destroy_process_group()
        begin(backend, f"{model}.{backend}", rank, size)
        losses[backend] = _losses(model, rank, size)
    assert losses["gloo"] == losses["onstream"], losses
    assert losses["onstream"][-1] < losses["onstream"][0]


def _losses(kind: str, rank: int, size: int) -> list[float]:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
    model = _parallel(kind, layers, size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(7 if kind == "tensor_parallel" else 7 + rank)
    inputs, wanted = torch.randn(8, 16, generator=generator), torch.randn(8, 4, generator=generator)
    losses = []
    for _ in range(STEPS):
        loss = (model(inputs) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def _parallel(kind: str, layers: nn.Sequential, size: int) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    if kind == "ddp":
        return nn.parallel.DistributedDataParallel(layers)
    if kind == "compiled_ddp":
        return torch.compile(nn.parallel.DistributedDataParallel(layers), backend="aot_eager")
    mesh = init_device_mesh("cpu", (size,))
    if kind == "tensor_parallel":
        return parallelize_module(layers, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    for layer in layers:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(layers, mesh=mesh)


def main() -> None:
    rank, size = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    begin("onstream", "first", rank, size)
    for name in sys.argv[4:]:
        body, _, argument = name.partition(":")
        dist.barrier()
        bodies = {**vars(torch_values), **vars(torch_works), **globals()}
        bodies[body](*([argument] if argument else []), rank, size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
