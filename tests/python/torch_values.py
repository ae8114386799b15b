"""Collectives and messages of torch_ranks.py's default group. Values are compared with a reference that needs no communication."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any

import onstream.torch  # noqa: F401  the import registers the backend
import torch
import torch.distributed as dist

from onstream import InvalidArgumentError, TruncatedError, UnsupportedError

LIMIT = timedelta(seconds=60)
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
    dist.distributed_c10d._get_default_group().broadcast([copied], rooted(0)).wait()
    equal(copied.resolve_conj(), torch.tensor([complex(0, -1)]))


def lazy_bits_are_resolved(rank: int, size: int) -> None:
    """Of lists too, which in a group of one rank have one tensor each."""
    every = [of(each, 2) for each in range(size)]
    outs = [torch.empty(2) for _ in range(size)]
    dist.all_to_all(outs, [of(rank, 2)._neg_view() for _ in range(size)])
    for each in range(size):
        equal(outs[each], -every[each])
    out = torch.empty(2)
    dist.scatter(out, [of(each, 2)._neg_view() for each in range(size)] if rank == 0 else None)
    equal(out, -every[rank])
    dist.reduce_scatter(out, [of(rank, 2)._neg_view() for _ in range(size)])
    equal(out, -sum(every))
    group: Any = dist.distributed_c10d._get_default_group()
    numbers = [torch.zeros(1, dtype=torch.complex64).conj() for _ in range(size)]
    group.alltoall(numbers, [torch.tensor([complex(rank, 1)]).conj() for _ in range(size)]).wait()
    for each in range(size):
        equal(numbers[each].resolve_conj(), torch.tensor([complex(each, -1)]))


def rooted(root: int) -> Any:
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
    group: Any = dist.distributed_c10d._get_default_group()
    mixed = [torch.zeros(2), torch.zeros(2, device="meta")]
    for call, kind, words in (
        (lambda: dist.all_reduce(torch.tensor([True]), Op.AVG), UnsupportedError, "all_reduce: a avg of bools"),
        (lambda: dist.all_reduce(torch.zeros(2).to_sparse()), UnsupportedError, "layout is torch.sparse"),
        (lambda: dist.all_reduce(torch.zeros(2, device="meta")), UnsupportedError, "is on meta, but this group serves"),
        (lambda: dist.all_gather_into_tensor(torch.zeros(7 * size + 1), torch.zeros(7)), InvalidArgumentError, "elements"),
        (lambda: dist.all_to_all_single(torch.zeros(size), torch.zeros(size), None, [1] * (size + 1)), InvalidArgumentError, "split sizes"),
        (lambda: group.allreduce_coalesced(mixed), InvalidArgumentError, "one tensor is on cpu, another on meta"),
        (lambda: group.allreduce_coalesced([]), InvalidArgumentError, "all_reduce: the list of tensors is empty"),
        (lambda: group.set_timeout(LIMIT), UnsupportedError, "deadline is 60 s"),
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


def messages_from_any_rank(rank: int, size: int) -> None:
    for count in (1, 3000):
        if rank > 0:
            dist.send(torch.full((count,), float(rank)), 0, tag=6)
            continue
        got, heard = torch.zeros(count), []
        for _ in range(1, size):
            heard.append(dist.recv(got, tag=6))
            equal(got, torch.full((count,), float(heard[-1])))
        assert sorted(heard) == list(range(1, size))


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
