"""A world in Python: its start, its memory, its end, and the promises of run_threads()."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from memories import DEVICES, LIBRARIES, array_of, values_of

import onstream as ons
from onstream import _arrays


def alone(**parameters: Any) -> ons.World:
    return ons.init(launch=ons.Launch(0, 1, 0, ""), device="host", **parameters)


def test_a_program_without_a_launcher_is_a_world_of_one() -> None:
    with ons.init(device="host") as world:
        assert (world.rank, world.size, world.device) == (0, 1, "host")
        assert repr(world) == "<World: rank 0 of 1 on host>"


def test_a_launch_shows_the_place_in_the_job_and_not_its_secret() -> None:
    assert repr(ons.Launch(1, 4, 5000, "hush")) == "<Launch: rank 1 of 4, by threads, meets at 127.0.0.1:5000>"
    with alone() as world:
        assert repr(world.launch) == "<Launch: rank 0 of 1, by threads, meets at 127.0.0.1>"


def test_an_unknown_parameter_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ons.InvalidArgumentError, match=r"tag_byts.*tag_bytes"):
        alone(tag_byts=4096)


def test_an_unreadable_value_is_refused_by_name() -> None:
    with pytest.raises(ons.InvalidArgumentError, match="tags"):
        alone(tags="many")


def test_a_parameter_set_to_none_keeps_its_default() -> None:
    with alone(tags=None) as world:
        world.send(b"", 0, tag=63)
        assert world.recv(bytearray(1), 0, tag=63) == 0


def test_parameters_reach_the_world() -> None:
    with alone(tags=2) as world, pytest.raises(ons.InvalidArgumentError, match="tag 2"):
        world.send(b"x", 0, tag=2)


@pytest.mark.parametrize("kind", ["device", "pinned"])
@pytest.mark.parametrize("dtype", ["u1", "f8", "c16", "?"])
def test_empty_is_a_zeroed_numpy_array(kind: str, dtype: str) -> None:
    with alone() as world:
        array = world.empty((3, 5), dtype, kind=kind)
        assert isinstance(array, np.ndarray)
        assert (array.shape, array.dtype) == ((3, 5), np.dtype(dtype))
        assert not array.any()
        array[:] = 1
        assert array.all()


@pytest.mark.parametrize("shape", [0, (), (4, 0), 7])
def test_any_shape_can_be_allocated(shape: Any) -> None:
    with alone() as world:
        assert world.zeros(shape, "i4").shape == np.zeros(shape).shape


def test_device_memory_is_offered_to_every_library() -> None:
    """A user of a GPU without cupy and torch gets this array, here over host memory that nobody loads as a GPU's."""
    with alone() as world:
        block = world.allocate(48)
        array = ons.DeviceArray(block, (2, 3), np.dtype("f8"))
        assert array.nbytes == 48
        assert array.__cuda_array_interface__["data"] == (block.address, False)
        assert array.__cuda_array_interface__["typestr"] == "<f8"
        assert array.__dlpack_device__() == (2, 0)
        span = _arrays._dlpack_span(array)
        assert (span.address, span.shape, span.strides) == (block.address, (2, 3), (24, 8))
        assert (span.device, span.writable, span.item_bytes) == ("cuda:0", True, 8)


def test_memory_outlives_its_world() -> None:
    world = alone()
    view = world.empty(1000, "i8")[10:20]
    view[:] = 7
    world.close()
    del world
    gc.collect()
    assert view.sum() == 70


@pytest.mark.parametrize(("shape", "kind"), [((2, -1), "device"), (3, "shared")])
def test_wrong_memory_is_refused(shape: Any, kind: str) -> None:
    with alone() as world, pytest.raises(ValueError, match=r"negative extent|kind='shared'"):
        world.empty(shape, "f4", kind=kind)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda world: world.empty(2**61), f"cannot have {2**64} bytes"),
        (lambda world: world.empty((2**40, 2**40), "u1"), f"cannot have {2**80} bytes"),
        (lambda world: world.segment(-1), "a segment cannot have -1 bytes"),
        (lambda world: world.segment(2**64), f"a segment cannot have {2**64} bytes"),
        (lambda world: world.plan().signal(world.segment(8).local("u8"), 0, value=2**64), f"value is {2**64}"),
        (lambda world: world.plan().wait(world.segment(8).local("u8"), value=2**64), f"value is {2**64}"),
    ],
)
def test_numbers_beyond_64_bits_are_refused_with_their_value(call: Any, reason: str) -> None:
    with alone() as world, pytest.raises(ons.InvalidArgumentError, match=re.escape(reason)):
        call(world)


@pytest.mark.parametrize("dtype", ["O", object, [("name", "O"), ("number", "i4")]])
def test_memory_for_references_is_refused(dtype: Any) -> None:
    with alone() as world, pytest.raises(TypeError, match="references to Python objects"):
        world.empty(3, dtype)


def test_a_slip_in_an_interactive_session_does_not_break_its_world_at_the_end() -> None:
    typed = """
import onstream as ons
world = ons.init(launch=ons.Launch(0, 1, 0, ""), device="host")
1 / 0
print("and on with", world.size)
"""
    ended = subprocess.run([sys.executable, "-i", "-q"], input=typed, capture_output=True, text=True, timeout=60)
    assert "and on with 1" in ended.stdout
    assert "ZeroDivisionError" in ended.stderr
    assert "failed" not in ended.stderr
    assert "abort" not in ended.stderr


def test_a_closed_world_says_so() -> None:
    world = alone()
    world.close()
    world.close()
    assert world.closed
    assert repr(world) == "<World: closed>"
    assert (world.rank, world.size, world.launch.size) == (0, 1, 1)  # its old values, for a last line of output
    for call in (lambda: world.device, world.barrier, lambda: world.send(b"", 0), world.stream, world.check):
        with pytest.raises(ons.ClosedError, match="closed"):
            call()


def test_worlds_live_side_by_side_and_one_after_the_other() -> None:
    for _ in range(2):
        with alone() as first, alone() as second:
            first.send(b"one", 0)
            second.send(b"two", 0)
            boxes = bytearray(3), bytearray(3)
            first.recv(boxes[0], 0)
            second.recv(boxes[1], 0)
            assert boxes == (b"one", b"two")


def test_missing_ranks_are_named() -> None:
    with pytest.raises(ons.TimeoutError, match="rank 1"):
        ons.init(
            launch=ons.Launch(0, 2, 0, "secret", "unix:onstream-test-alone"), device="host", bootstrap_timeout_s=0.5
        )


def test_run_threads_returns_results_in_rank_order() -> None:
    assert ons.run_threads(3, lambda world: (world.rank, world.size), device="host") == [(0, 3), (1, 3), (2, 3)]


@pytest.mark.parametrize("device", DEVICES)
def test_ranks_that_are_threads_may_wait_for_each_other_on_their_current_streams(device: str) -> None:
    if device == "cuda" and not LIBRARIES:
        pytest.skip("neither cupy nor torch is installed")

    def rank(world: ons.World) -> np.ndarray:
        other = 1 - world.rank
        mine = array_of(world, np.full(100_000, float(world.rank)), "device")
        if world.rank == 0:
            world.recv(mine, other)
            world.send(mine, other)
        else:
            world.send(mine, other)
            world.recv(mine, other)
        world.synchronize()
        return values_of(world, mine).view("f8").reshape(-1)

    for values in ons.run_threads(2, rank, device=device, timeout_s=30):
        assert np.all(values == 1.0)


def test_run_threads_raises_the_first_exception_and_ends_the_others() -> None:
    def ranks(world: ons.World) -> None:
        if world.rank == 1:
            raise KeyError("the cause")
        world.recv(bytearray(8), 1)

    with pytest.raises(KeyError, match="the cause") as caught:
        ons.run_threads(3, ranks, device="host")
    assert caught.value.rank == 1  # type: ignore[attr-defined]


def test_run_threads_needs_a_rank() -> None:
    with pytest.raises(ValueError, match="at least one rank"):
        ons.run_threads(0, lambda world: None)


def test_a_barrier_waits_for_everyone() -> None:
    arrived: list[int] = []

    def ranks(world: ons.World) -> int:
        arrived.append(world.rank)
        world.barrier()
        return len(arrived)

    assert ons.run_threads(4, ranks, device="host") == [4, 4, 4, 4]


def test_the_first_barrier_of_a_stream_waits_for_no_host() -> None:
    def ranks(world: ons.World) -> list[float]:
        first, second, sums, got = world.stream(), world.stream(), np.ones(1), np.zeros(1)
        if world.rank == 0:
            world.barrier(stream=first)
            world.send(np.full(1, 7.0), 1)
            world.all_reduce(sums, stream=second)
        else:
            world.all_reduce(sums, stream=second)
            world.recv(got, 0)
            world.barrier(stream=first)
        world.synchronize(first)
        world.synchronize(second)
        return [float(sums[0]), float(got[0])]

    assert ons.run_threads(2, ranks, device="host", timeout_s=10) == [[2, 0], [2, 7]]


def test_a_rank_may_leave_while_others_work() -> None:
    def ranks(world: ons.World) -> None:
        if world.rank == 2:
            return
        for turn in range(300):
            world.send(turn.to_bytes(8, "little"), 1 - world.rank)
            world.recv(bytearray(8), 1 - world.rank)
        assert world.failure() is None

    for _ in range(10):
        ons.run_threads(3, ranks, device="host")


STORES_A_WORD = 'extern "C" __global__ void store(long long* word, long long value) { *word = value; }'


def store_word(view: Any, place: int, value: int) -> None:
    """Stores by the CPU, or by a kernel of this rank's GPU, wherever the memory is."""
    if isinstance(view, np.ndarray):
        view[place] = value
        return
    import cupy

    kernel = cupy.RawKernel(STORES_A_WORD, "store")
    kernel((1,), (1,), (np.uint64(view.data.ptr + 8 * place), np.int64(value)))
    cupy.cuda.get_current_stream().synchronize()


@pytest.mark.parametrize("kind", ["device", "pinned"])
@pytest.mark.parametrize("device", DEVICES)
def test_a_segment_is_seen_by_its_peers(device: str, kind: str) -> None:
    if device == "cuda" and "cupy" not in LIBRARIES:
        pytest.skip("cupy is not installed")

    def ranks(world: ons.World) -> list[int]:
        segment = world.segment(8 * world.size, kind=kind)
        assert not values_of(world, segment.local("i8")).any()
        world.barrier()
        for peer in range(world.size):
            store_word(segment.peer(peer, "i8"), world.rank, 10 * world.rank + peer)
        world.barrier()
        found = values_of(world, segment.local("i8")).view("i8")
        world.barrier()
        return [int(value) for value in found]

    assert ons.run_threads(3, ranks, device=device) == [[0, 10, 20], [1, 11, 21], [2, 12, 22]]


def test_segments_of_different_sizes_are_refused_on_every_rank() -> None:
    def ranks(world: ons.World) -> str:
        with pytest.raises(ons.InvalidArgumentError) as caught:
            world.segment(64 if world.rank else 128)
        return str(caught.value)

    assert all("64" in text and "128" in text for text in ons.run_threads(2, ranks, device="host"))


def test_a_rank_outside_the_world_has_no_segment() -> None:
    with alone() as world, pytest.raises(ons.InvalidArgumentError, match="rank 3"):
        world.segment(8).peer(3)


def test_streams_run_and_become_idle() -> None:
    with alone() as world:
        stream = world.stream()
        box = world.empty(1, "i8")
        world.send(np.full(1, 5, "i8"), 0, stream=stream)
        world.recv(box, 0, stream=stream)
        stream.synchronize()
        assert stream.idle
        assert box[0] == 5


def test_a_stream_tells_what_went_wrong_in_every_world_whose_work_it_has() -> None:
    with alone() as home, alone() as other, alone(timeout_s=0.2) as late:
        stream = home.stream()
        box = np.zeros(1, "i8")
        other.send(np.full(1, 5, "i8"), 0, stream=stream)
        other.recv(box, 0, stream=stream)
        late.recv(np.zeros(1, "i8"), 0, stream=stream)
        with pytest.raises(ons.TimeoutError, match="recv of 8 B from rank 0"):
            stream.synchronize()
        assert box[0] == 5
        assert home.failure() is None


@pytest.mark.parametrize("stream", [7, "later", 1.5, object()], ids=lambda value: type(value).__name__)
def test_what_is_no_stream_is_refused(stream: Any) -> None:
    with alone() as world, pytest.raises((ons.InvalidArgumentError, TypeError), match=r"stream|means nothing"):
        world.send(b"x", 0, stream=stream)


def test_a_world_may_be_used_from_several_threads() -> None:
    with alone() as world:
        boxes = [bytearray(8) for _ in range(4)]

        def tag(number: int) -> None:
            for turn in range(50):
                world.send(turn.to_bytes(8, "little"), 0, tag=number)
                world.recv(boxes[number], 0, tag=number)
                assert int.from_bytes(boxes[number], "little") == turn

        threads = [threading.Thread(target=tag, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        assert all(int.from_bytes(box, "little") == 49 for box in boxes)


def test_a_world_describes_itself() -> None:
    with alone() as world:
        assert "rank 0 of 1" in world.describe()
        assert "registrations: 0 hits" in world.describe()


@pytest.mark.parametrize("device", DEVICES)
def test_registrations_are_counted(device: str) -> None:
    def rank(world: ons.World) -> None:
        peer = 1 - world.rank
        array = world.empty(1 << 20, "u1", kind="pinned")
        before = world.statistics()
        for turn in range(3):
            request = world.irecv(array, peer)
            world.send(np.full(1 << 20, turn, "u1"), peer)
            request.wait()
            assert array[0] == array[-1] == turn
        after = world.statistics()
        assert after["registration_misses"] > before["registration_misses"]
        assert after["registration_hits"] >= before["registration_hits"] + 2
        assert after["exported_bytes"] >= 1 << 20
        world.barrier()

    ons.run_threads(2, rank, device=device)
