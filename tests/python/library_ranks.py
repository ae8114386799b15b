"""The work of ranks in processes with torch, cupy, Triton and numba on GPUs, for test_processes.py: each function is
one rank of two.

The libraries' own kernels write the data to send and read the received data, on the stream that the library uses at the
moment, and no host waits in between: an op out of that stream's order shows in the sums. Each kernel runs once before
the first wait of a stream, as loading one may wait for all that run (docs/decisions/0008).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from memories import gpu_of

import onstream as ons

COUNTS = (2, 1000, 300_000)  # lines of a ring, one more, and a message that waits for its receive
TURNS = 5
LATE = 20_000_000  # cycles of the GPU: about 10 ms


def exchange(world: ons.World, mine: Any, came: Any, **options: Any) -> None:
    peer = 1 - world.rank
    if world.rank == 0:
        world.send(mine, peer, **options)
    world.recv(came, peer, **options)
    if world.rank == 1:
        world.send(mine, peer, **options)


def sum_of_turns(peer: int) -> int:
    return sum(10 * turn + peer for turn in range(TURNS))


# --- torch ---


def torch_streams_order_messages(world: ons.World) -> None:
    import torch

    torch.cuda.set_device(world.device)
    side = torch.cuda.Stream()
    for count in COUNTS:
        mine, came, total = (torch.zeros(count, device=world.device) for _ in range(3))
        total.add_(came.fill_(0))
        torch.cuda.synchronize()
        for given in (None, side):
            total.zero_()
            torch.cuda.synchronize()
            options = {} if given is None else {"stream": given}
            with torch.cuda.stream(side):
                for turn in range(TURNS):
                    torch.cuda._sleep(LATE // TURNS)
                    mine.fill_(10 * turn + world.rank)
                    came.fill_(-1000)
                    exchange(world, mine, came, **options)
                    total.add_(came)
            world.synchronize(side)
            assert bool((total == sum_of_turns(1 - world.rank)).all()), f"{count}, stream={given}"


def torchs_default_stream_orders_messages(world: ons.World) -> None:
    import torch

    torch.cuda.set_device(world.device)
    mine, came, total = (torch.zeros(300_000, dtype=torch.bfloat16, device=world.device) for _ in range(3))
    total.add_(came.fill_(0))
    torch.cuda.synchronize()
    for turn in range(TURNS):
        mine.fill_(10 * turn + world.rank)
        came.fill_(-1000)
        world.sendrecv(mine, 1 - world.rank, came, 1 - world.rank)
        total.add_(came)
    torch.cuda.synchronize()
    world.check()
    assert bool((total == sum_of_turns(1 - world.rank)).all())


def torch_captures_messages(world: ons.World) -> None:
    """A capture by torch.cuda.graph, with tensors that no peer has mapped before."""
    import torch

    torch.cuda.set_device(world.device)
    for count in COUNTS:
        mine, came, total = (torch.zeros(count, device=world.device) for _ in range(3))
        mine.add_(0)
        total.add_(came)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            mine.add_(1)
            exchange(world, mine, came)
            total.add_(came)
        assert float(total[0]) == 0  # nothing of it has run
        for _ in range(TURNS):
            graph.replay()
        torch.cuda.synchronize()
        world.check()
        assert bool((total == sum(range(1, TURNS + 1))).all()), f"{count}"
        world.barrier()  # the graph ends here, and its replays elsewhere have ended too


def kernels_of_torch_go_into_a_graph_of_the_world(world: ons.World) -> None:
    import torch

    torch.cuda.set_device(world.device)
    mine, came, total = (torch.zeros(300_000, device=world.device) for _ in range(3))
    mine.add_(0)
    total.add_(world.all_reduce(came))
    torch.cuda.synchronize()
    stream = world.stream()
    with torch.cuda.stream(torch.cuda.ExternalStream(stream.handle, device=world.device)):
        with world.capture(stream) as graph:
            mine.add_(1)
            exchange(world, mine, came)
            world.all_reduce(came)
            total.add_(came)
        for _ in range(TURNS):
            graph.launch()
    stream.synchronize()
    assert bool((total == 2 * sum(range(1, TURNS + 1))).all())


def torch_tensors_are_reduced(world: ons.World) -> None:
    import torch

    torch.cuda.set_device(world.device)
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64):
        for count in COUNTS:
            given = [(torch.arange(count, device=world.device) * (rank + 2) % 11).to(dtype) for rank in range(2)]
            expected = given[0] + given[1]
            mine = given[world.rank].clone()
            out, every = torch.zeros_like(mine), torch.zeros(2 * count, dtype=dtype, device=world.device)
            torch.cuda.synchronize()
            assert world.all_reduce(mine, out) is out
            world.all_gather(out, every)
            assert world.all_reduce(mine) is mine
            torch.cuda.synchronize()
            world.check()
            assert torch.equal(out, expected), f"{count} {dtype}"
            assert torch.equal(mine, expected), f"{count} {dtype}"
            assert torch.equal(every, torch.cat([expected, expected])), f"{count} {dtype}"


def torch_tensors_of_any_strides_go_by_plans(world: ons.World) -> None:
    import torch

    torch.cuda.set_device(world.device)
    peer = 1 - world.rank
    table = torch.arange(60, device=world.device).reshape(6, 10).to(torch.bfloat16)
    mine, came = table + world.rank, torch.zeros(10, 3, dtype=torch.bfloat16, device=world.device)
    plan = world.plan("transposed").send(mine.t()[:, ::2], peer).recv(came, peer).build()
    for turn in range(TURNS):
        plan.launch()  # on torch's current stream
        assert torch.equal(came, (table + peer + turn).t()[:, ::2]), f"launch {turn}"
        mine.add_(1)


# --- cupy ---


def cupy_streams_order_messages(world: ons.World) -> None:
    import cupy

    with cupy.cuda.Device(gpu_of(world.device)):
        side = cupy.cuda.Stream(non_blocking=True)
        for count in COUNTS:
            mine, came, total = (cupy.zeros(count, "f4") for _ in range(3))
            much = cupy.zeros(1 << 28, "u1")
            total += came
            cupy.cuda.Device().synchronize()
            with side:
                for turn in range(TURNS):
                    for _ in range(20):
                        much.fill(turn)  # the following ops are late
                    mine.fill(10 * turn + world.rank)
                    came.fill(-1000)
                    exchange(world, mine, came)
                    total += came
            world.synchronize(side)
            assert (total.get() == sum_of_turns(1 - world.rank)).all(), f"{count}"


def cupy_captures_messages(world: ons.World) -> None:
    import cupy

    with cupy.cuda.Device(gpu_of(world.device)):
        side = cupy.cuda.Stream(non_blocking=True)
        for count in COUNTS:
            mine, came, total = (cupy.zeros(count, "f4") for _ in range(3))
            mine += 0
            total += came
            cupy.cuda.Device().synchronize()
            with side:
                side.begin_capture()
                mine += 1
                exchange(world, mine, came)
                total += came
                graph = side.end_capture()
                for _ in range(TURNS):
                    graph.launch(side)
            world.synchronize(side)
            assert (total.get() == sum(range(1, TURNS + 1))).all(), f"{count}"
            world.barrier()


def memory_is_freed_and_allocated_again(world: ons.World) -> None:
    """New allocations of the driver, where others were, which the peer had mapped: it maps them too."""
    import cupy

    peer = 1 - world.rank
    with cupy.cuda.Device(gpu_of(world.device)), cupy.cuda.Stream(non_blocking=True) as stream:
        for turn, count in enumerate([1 << 14, 1 << 18, 1 << 16, 1 << 20, 1 << 14, 1 << 18] * 3):
            memory = [cupy.cuda.Memory(4 * count) for _ in range(4)]  # cudaMalloc, and cudaFree when it goes
            arrays = [cupy.ndarray(count, cupy.float32, cupy.cuda.MemoryPointer(one, 0)) for one in memory]
            for number, array in enumerate(arrays):
                array.fill(world.rank * 1000 + turn * 10 + number)
            received = [world.irecv(array, peer, tag=number, stream=stream) for number, array in enumerate(arrays[2:])]
            for number, array in enumerate(arrays[:2]):
                world.send(array, peer, tag=number, stream=stream)
            for request in received:
                request.wait(stream=stream)
            stream.synchronize()
            for number, array in enumerate(arrays[2:]):
                assert bool((array == peer * 1000 + turn * 10 + number).all()), f"turn {turn}"
            world.barrier()
            del array, arrays, memory
    statistics = world.statistics()
    assert statistics["registration_misses"] > 0
    assert statistics["registration_failures"] == 0, statistics


def cupy_arrays_are_reduced(world: ons.World) -> None:
    import cupy

    with cupy.cuda.Device(gpu_of(world.device)):
        for dtype in ("f4", "f2", "f8", "i4"):
            for count in COUNTS:
                given = [(cupy.arange(count) * (rank + 2) % 11).astype(dtype) for rank in range(2)]
                expected = (given[0] + given[1]).get()
                mine = given[world.rank].copy()
                out = cupy.zeros_like(mine)
                cupy.cuda.Device().synchronize()
                assert world.all_reduce(mine, out) is out
                assert world.all_reduce(mine) is mine
                cupy.cuda.Device().synchronize()
                world.check()
                assert (out.get() == expected).all(), f"{count} {dtype}"
                assert (mine.get() == expected).all(), f"{count} {dtype}"


# --- kernels of other compilers ---

NUMBERS = 3000  # of four bytes; behind them lies a word
THREADS = 128
BLOCKS = -(-NUMBERS // THREADS)


def stored_numbers_come(world: ons.World, stream: Any, store_into: Callable[[Any], Callable[[float], None]]) -> None:
    """store_into(view)(first) is to store first, first + 1, ... into the peer's part, by a kernel on the stream."""
    peer = 1 - world.rank
    segment, came = world.segment(4 * NUMBERS + 8), world.zeros(NUMBERS, "f4", kind="pinned")
    store = store_into(segment.peer(peer, "f4"))
    for turn in range(TURNS):
        store(1000.0 * turn + world.rank)
        segment.signal(peer, offset=4 * NUMBERS, stream=stream)
        segment.wait(offset=4 * NUMBERS, value=turn + 1, stream=stream)
        segment.get(came, world.rank, offset=0, stream=stream)
        world.synchronize(stream)
        assert (came == np.arange(NUMBERS) + 1000.0 * turn + peer).all(), f"turn {turn}: {came[:4]}"
        world.barrier()  # the peer may store the next


def triton_stores_into_a_peers_segment(world: ons.World) -> None:
    os.environ.setdefault("TRITON_CACHE_DIR", os.path.abspath("triton"))  # the job's own folder
    import torch
    from triton_kernels import store_numbers

    with torch.cuda.device(world.device):  # torch labels the tensor by its owner's GPU
        stream = torch.cuda.Stream()

        def store_into(view: Any) -> Callable[[float], None]:
            theirs = torch.from_dlpack(view)

            def store(first: float) -> None:
                with torch.cuda.stream(stream):
                    store_numbers[(BLOCKS,)](theirs, first, NUMBERS, BLOCK=THREADS)

            return store

        stored_numbers_come(world, stream, store_into)


def numba_stores_into_a_peers_segment(world: ons.World) -> None:
    from numba import cuda

    cuda.select_device(gpu_of(world.device))

    @cuda.jit
    def store_numbers(out: Any, first: Any, count: Any) -> None:
        at = cuda.grid(1)
        if at < count:
            out[at] = first + at

    def store_into(view: Any) -> Callable[[float], None]:
        theirs = cuda.as_cuda_array(view)
        return lambda first: store_numbers[BLOCKS, THREADS, numbas_stream](theirs, first, NUMBERS)

    stream = world.stream()
    numbas_stream = cuda.external_stream(stream.handle)
    stored_numbers_come(world, stream, store_into)


# --- onstream's own memory ---


def arrays_go_while_streams_use_them(world: ons.World) -> None:
    """Rank 0 enqueues work on arrays and lets go of them; only then the peer sends the data that the work waits for."""
    import cupy

    peer = 1 - world.rank
    with cupy.cuda.Device(gpu_of(world.device)):
        side = cupy.cuda.Stream(non_blocking=True)
        much = cupy.zeros(1 << 28, "u1")
        for count in COUNTS:
            total = cupy.zeros(count, "f4")
            total += total  # loads the kernel
            much.fill(1)
            cupy.cuda.Device().synchronize()
            for stream in (cupy.cuda.Stream.null, side):
                with stream:
                    segment = world.segment(4 * count)
                    box, last, other = (world.zeros(count, "f4") for _ in range(3))
                    if world.rank == 0:
                        for _ in range(2):
                            world.recv(box, peer)
                            total += box
                        world.recv(last, peer)
                        for turn in range(50):
                            much.fill(turn)  # the receives are over long before the next op
                        total += other
                        total += segment.local("f4")
                        del box, other
                    del segment
                del last  # this stream is not its own, but was current when it was made, and the world has its receive
                world.barrier()
                if world.rank == 1:
                    for number in range(3):
                        world.send(cupy.full(count, number + 1, "f4"), peer)
                stream.synchronize()
                world.check()
                world.barrier()
            assert (total.get() == (6 if world.rank == 0 else 0)).all(), f"{count}"


def arrays_go_as_collectives_begin(world: ons.World) -> None:
    import cupy

    with cupy.cuda.Device(gpu_of(world.device)):
        total = cupy.zeros(20_000)
        for turn in range(20):
            mine = world.zeros(10_000)
            mine += 10 * turn + world.rank
            total += world.all_gather(mine, world.zeros(20_000))
        cupy.cuda.Device().synchronize()
        world.check()
        assert (total[:10_000].get() == 1900).all()
        assert (total[10_000:].get() == 1920).all()


def memory_that_was_in_use_comes_back(world: ons.World) -> None:
    import cupy

    with cupy.cuda.Device(gpu_of(world.device)):
        large, box = world.zeros(1 << 30, "u1"), world.zeros(100)
        world.barrier()
        address = large.data.ptr
        if world.rank == 0:
            world.recv(box, 1)
            del large
            assert world.place_of(address) == world.device  # an op under way might use it
        world.barrier()
        if world.rank == 1:
            world.send(box, 0)
        deadline = time.monotonic() + 30
        while world.rank == 0 and world.place_of(address) == world.device:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        world.barrier()
        world.check()
