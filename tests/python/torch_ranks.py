"""The ranks of test_torch.py: torch_ranks.py RANK SIZE STORE BODY..., each body a function of the default group's rank and size,
which begins behind a barrier. Values are compared with a reference that needs no communication.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import Any

import onstream.torch  # noqa: F401  the import registers the backend
import torch
import torch.distributed as dist
from torch import nn

from onstream import AbortedError, Error, InvalidArgumentError, TimeoutError, TruncatedError, UnsupportedError

LIMIT = timedelta(seconds=60)
STEPS = 20
Op = dist.ReduceOp
NUMBERS = (
    torch.int8,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)


def begin(backend: str, name: str, rank: int, size: int, limit: timedelta = LIMIT) -> None:
    dist.init_process_group(
        backend, store=dist.FileStore(f"{sys.argv[3]}.{name}", size), rank=rank, world_size=size, timeout=limit
    )


def equal(got: Any, wanted: Any) -> None:
    torch.testing.assert_close(got, wanted, rtol=0, atol=0)


def of(rank: int, *shape: int, dtype: Any = torch.float32) -> Any:
    """The tensor that a rank brings: small integers, whose sums every type holds."""
    count = int(torch.tensor(shape).prod())
    return (torch.arange(count) % 3 + rank + 1).to(dtype).reshape(shape)


# --- collectives ---


def reductions(rank: int, size: int) -> None:
    for dtype in NUMBERS:
        every = torch.stack([of(each, 5, dtype=dtype) for each in range(size)])
        for op, wanted in (
            (Op.SUM, every.sum(0).to(dtype)),
            (Op.PRODUCT, every.prod(0).to(dtype)),
            (Op.MIN, every.amin(0)),
            (Op.MAX, every.amax(0)),
        ):
            tensor = of(rank, 5, dtype=dtype)
            dist.all_reduce(tensor, op)
            equal(tensor, wanted)
    for op, wanted in ((Op.BAND, 6 if size == 1 else 4), (Op.BOR, 6 | (size > 1) * 5 | (size > 2) * 4)):
        bits = torch.tensor([(6, 5, 4)[rank]])
        dist.all_reduce(bits, op)
        assert bits.item() == wanted, (op, bits)
    mean = of(rank, 4)
    dist.all_reduce(mean, Op.AVG)
    torch.testing.assert_close(mean, sum(of(each, 4) for each in range(size)) / size)
    scaled = of(rank, 4)
    dist.all_reduce(scaled, dist._make_nccl_premul_sum(0.5))
    equal(scaled, sum(of(each, 4) for each in range(size)) * 0.5)
    rooted = of(rank, 4)
    dist.reduce(rooted, size - 1)
    equal(rooted, sum(of(each, 4) for each in range(size)) if rank == size - 1 else of(rank, 4))
    part = torch.empty(3)
    dist.reduce_scatter_tensor(part, of(rank, size, 3))
    equal(part, sum(of(each, size, 3) for each in range(size))[rank])
    dist.reduce_scatter(part, list(of(rank, size, 3)))
    equal(part, sum(of(each, size, 3) for each in range(size))[rank])
    several = [of(rank, 2), of(rank, 3)]
    with dist.distributed_c10d._coalescing_manager():
        for each in several:
            dist.all_reduce(each)
    equal(several[1], sum(of(each, 3) for each in range(size)))


def moves(rank: int, size: int) -> None:
    tensor = of(rank, 2, 3)
    dist.broadcast(tensor, size - 1)
    equal(tensor, of(size - 1, 2, 3))
    out = torch.empty(size * 2, 3)
    dist.all_gather_into_tensor(out, of(rank, 2, 3))
    equal(out, torch.cat([of(each, 2, 3) for each in range(size)]))
    parts = [torch.empty(2, 3) for _ in range(size)]
    dist.all_gather(parts, of(rank, 2, 3))
    equal(torch.cat(parts), out)
    gathered = [torch.empty(4) for _ in range(size)] if rank == 0 else None
    dist.gather(of(rank, 4), gathered)
    if gathered is not None:
        equal(torch.stack(gathered), torch.stack([of(each, 4) for each in range(size)]))
    mine = torch.empty(4)
    dist.scatter(mine, [of(each, 4) for each in range(size)] if rank == size - 1 else None, src=size - 1)
    equal(mine, of(rank, 4))
    swapped = torch.empty(size, 2)
    dist.all_to_all_single(swapped, of(rank, size, 2))
    equal(swapped, torch.stack([of(each, size, 2)[rank] for each in range(size)]))
    nothing = torch.empty(0)
    dist.all_reduce(nothing)
    dist.broadcast(nothing, 0)
    dist.barrier()


def uneven_moves(rank: int, size: int) -> None:
    parts = [torch.empty(each + 1, 2) for each in range(size)]
    dist.all_gather(parts, of(rank, rank + 1, 2))
    for each in range(size):
        equal(parts[each], of(each, each + 1, 2))
    send, receive = list(range(size)), [rank] * size  # `each` rows to rank `each`
    out = torch.empty(rank * size, 2)
    dist.all_to_all_single(out, of(rank, sum(send), 2), receive, send)
    equal(out, torch.cat([of(each, sum(send), 2).split(send)[rank] for each in range(size)]))
    outs = [torch.empty(rank) for _ in range(size)]
    dist.all_to_all(outs, [of(rank, each) if each else torch.empty(0) for each in range(size)])
    for each in range(size):
        equal(outs[each], of(each, rank) if rank else torch.empty(0))
    kept = torch.empty(rank + 1)
    dist.reduce_scatter(kept, [of(rank, each + 1) for each in range(size)])
    equal(kept, sum(of(each, rank + 1) for each in range(size)))


def strided_tensors_are_copied(rank: int, size: int) -> None:
    wide = of(rank, 4, 6)
    dist.all_reduce(wide[:, ::2])
    equal(wide[:, ::2], sum(of(each, 4, 6) for each in range(size))[:, ::2])
    equal(wide[:, 1::2], of(rank, 4, 6)[:, 1::2])
    turned = torch.zeros(3, size).t()
    dist.all_gather_into_tensor(turned, of(rank, 2, 3).t()[:, :1].t())
    equal(turned, torch.stack([of(each, 2, 3)[0] for each in range(size)]))
    if size > 1 and rank < 2:
        grid = of(rank, 4, 6)
        if rank == 0:
            dist.send(grid[:, 1], 1)
        else:
            dist.recv(grid[:, 1], 0)
            equal(grid[:, 1], of(0, 4, 6)[:, 1])
            equal(grid[:, 0], of(1, 4, 6)[:, 0])


def bools_and_complex(rank: int, size: int) -> None:
    for op, wanted in ((Op.SUM, [True, True]), (Op.MAX, [True, True]), (Op.MIN, [size == 1, True])):
        flags = torch.tensor([rank == 0, True])
        dist.all_reduce(flags, op)
        assert flags.tolist() == wanted, (op, flags)
    number = torch.tensor([complex(rank, 1)])
    dist.all_reduce(number)
    equal(number, torch.tensor([complex(sum(range(size)), size)]))
    copied = torch.tensor([complex(rank, 1)]).conj()
    dist.distributed_c10d._get_default_group().broadcast([copied], _rooted(0)).wait()
    equal(copied.resolve_conj(), torch.tensor([complex(0, -1)]))


def _rooted(root: int) -> Any:
    options = dist.distributed_c10d.BroadcastOptions()
    options.rootRank = root
    return options


def works_end(rank: int, size: int) -> None:
    tensors = [of(rank, 1000) for _ in range(8)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    dist.all_reduce(blocking := of(rank, 3))  # behind the others, and before they are waited for
    equal(blocking, sum(of(each, 3) for each in range(size)))
    for work, tensor in zip(works, tensors, strict=True):
        assert work.wait()
        assert work.is_completed()
        assert work.is_success()
        assert work.exception() is None
        equal(work.result()[0], tensor)
        equal(work.get_future().wait()[0], sum(of(each, 1000) for each in range(size)))
    seen: list[Any] = []
    future = dist.all_reduce(of(rank, 2), async_op=True).get_future()
    future.then(lambda done: seen.append(done.value())).wait()
    equal(seen[0][0], sum(of(each, 2) for each in range(size)))
    dist.barrier(async_op=True).wait()


def refusals_name_the_call(_rank: int, size: int) -> None:
    for call, kind, words in (
        (lambda: dist.all_reduce(torch.tensor([True]), Op.AVG), UnsupportedError, "all_reduce: a avg of bools"),
        (lambda: dist.all_reduce(torch.zeros(2).to_sparse()), UnsupportedError, "layout is torch.sparse"),
        (lambda: dist.all_reduce(torch.zeros(2, device="meta")), UnsupportedError, "is on meta, but this group serves"),
        (lambda: dist.all_gather_into_tensor(torch.zeros(7 * size + 1), torch.zeros(7)), InvalidArgumentError, "elements"),
        (lambda: dist.all_to_all_single(torch.zeros(size), torch.zeros(size), None, [1] * (size + 1)), InvalidArgumentError, "split sizes"),
        (lambda: dist.recv(torch.zeros(2), tag=4), UnsupportedError, "no source is named (tag 4)"),
        (lambda: dist.distributed_c10d._get_default_group().set_timeout(LIMIT), UnsupportedError, "deadline is 60 s"),
    ):  # fmt: skip
        try:
            call()
        except kind as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"not refused: {words}")


# --- messages ---


def messages_match_by_tag(rank: int, _size: int) -> None:
    for count in (1, 3000):
        if rank == 0:
            for tag in (5, 9):
                dist.send(torch.full((count,), float(tag)), 1, tag=tag) if count == 1 else None
            works = [dist.isend(torch.full((count,), float(tag)), 1, tag=tag) for tag in (7, 3)]
            for work in works:
                work.wait()
        elif rank == 1:
            got = {tag: torch.zeros(count) for tag in (3, 7, 9, 5)}
            for tag in (3, 7, 9, 5):  # not in the order of the sends
                if tag in (3, 7) or count == 1:
                    assert dist.recv(got[tag], 0, tag=tag) == 0
                    equal(got[tag], torch.full((count,), float(tag)))


def messages_in_a_batch(rank: int, size: int) -> None:
    right, left = (rank + 1) % size, (rank - 1) % size
    got, mine = torch.zeros(100_000), torch.full((100_000,), float(rank))
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, right), dist.P2POp(dist.irecv, got, left)])
    for work in works:
        work.wait()
    assert all(work.is_completed() for work in works)
    equal(got, torch.full((100_000,), float(left)))
    futures = [dist.irecv(got, left).get_future(), dist.isend(mine, right).get_future()]
    torch.futures.wait_all(futures)
    equal(futures[0].value()[0], got)


def objects_travel(rank: int, size: int) -> None:
    every: list[Any] = [None] * size
    dist.all_gather_object(every, {"rank": rank, "text": "x" * rank})
    assert every == [{"rank": each, "text": "x" * each} for each in range(size)]
    one = [("from", rank)]
    dist.broadcast_object_list(one, size - 1)
    assert one == [("from", size - 1)]


def a_message_of_another_size(rank: int, _size: int) -> None:
    if rank == 0:
        dist.send(torch.zeros(8), 1)
    elif rank == 1:
        work = dist.irecv(torch.zeros(4), 0)
        try:
            work.wait()
        except TruncatedError:
            assert isinstance(work.exception(), TruncatedError)
        else:
            raise AssertionError("a message of 8 elements went into 4")


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
        new.broadcast([tensor], _rooted(0)).wait()
        assert tensor.item() == 3
        new.shutdown()
    dist.barrier()


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
        globals()[body](*([argument] if argument else []), rank, size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
