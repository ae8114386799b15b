"""Messages from Python: every type and size arrives whole, tags are queues of their own, and errors are by name."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from memories import DEVICES, MEMORIES, array_of, values_of
from rank_threads import LONG_S, pair, pattern, take_faults_until

import onstream as ons

DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "M8[ns]", "S5"]
EDGES = [4096, 8192, 16384, 32768, 65536]
SIZES = sorted({0, 1, 7, 8, 9, 63, 64, 65, *(edge + off for edge in EDGES for off in (-1, 0, 1)), 2**20 + 3})


def check_until_told(world: ons.World) -> None:
    deadline = time.monotonic() + LONG_S
    while time.monotonic() < deadline:
        world.check()
        time.sleep(0.001)


def test_every_dtype_arrives() -> None:
    values = {dtype: pattern(17 * np.dtype(dtype).itemsize).view(dtype) for dtype in DTYPES}

    def receive(world: ons.World) -> None:
        for dtype, sent in values.items():
            got = np.zeros(17, dtype)
            assert world.recv(got, 0) == sent.nbytes
            assert got.tobytes() == sent.tobytes()

    pair(lambda world: [world.send(value, 1) for value in values.values()], receive)


@pytest.mark.parametrize("form", ["blocking", "requests", "stream"])
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("device", DEVICES)
def test_every_size_arrives_whole(form: str, memory: str, device: str) -> None:
    def send(world: ons.World) -> None:
        stream = world.stream() if form == "stream" else "host"
        for size in SIZES:
            data = array_of(world, pattern(size, size), memory)
            if form == "requests":
                world.isend(data, 1, stream=stream).wait()
            else:
                world.send(data, 1, stream=stream)
        if form == "stream":
            world.synchronize(stream)

    def receive(world: ons.World) -> None:
        stream = world.stream() if form == "stream" else "host"
        for size in SIZES:
            data = array_of(world, np.zeros(size, "u1"), memory)
            if form == "requests":
                request = world.irecv(data, 0, stream=stream)
                request.wait()
                assert request.received == size
            else:
                world.recv(data, 0, stream=stream)
            if form == "stream":
                world.synchronize(stream)
            assert np.array_equal(values_of(world, data), pattern(size, size)), f"{size} bytes"

    pair(send, receive, device=device)


def test_every_alignment_arrives() -> None:
    def send(world: ons.World) -> None:
        for offset in range(9):
            world.send(pattern(6000)[offset : offset + 5001], 1)

    def receive(world: ons.World) -> None:
        for offset in range(9):
            box = np.zeros(6000, "u1")[8 - offset :][:5001]
            world.recv(box, 0)
            assert np.array_equal(box, pattern(6000)[offset : offset + 5001])

    pair(send, receive)


def test_lanes_are_independent_queues() -> None:
    def send(world: ons.World) -> None:
        for turn in range(3):
            for tag in range(8):
                world.send(np.array([turn, tag], "i4"), 1, tag=tag)

    def receive(world: ons.World) -> None:
        for tag in reversed(range(8)):
            for turn in range(3):
                box = np.zeros(2, "i4")
                world.recv(box, 0, tag=tag)
                assert box.tolist() == [turn, tag]

    pair(send, receive)


def test_small_sends_run_ahead_of_their_receives() -> None:
    count = 100

    def send(world: ons.World) -> None:
        for turn in range(count):
            world.send(np.array([turn], "i8"), 1)
        world.barrier()

    def receive(world: ons.World) -> list[int]:
        world.barrier()  # every send has returned before the first receive
        boxes = np.zeros(count, "i8")
        for turn in range(count):
            world.recv(boxes[turn : turn + 1], 0)
        return [int(value) for value in boxes]

    assert pair(send, receive)[1] == list(range(count))


def test_receives_posted_ahead_absorb_large_messages() -> None:
    def send(world: ons.World) -> None:
        world.barrier()
        for turn in range(4):
            world.send(pattern(300_000, turn), 1)
        world.barrier()

    def receive(world: ons.World) -> None:
        boxes = [np.zeros(300_000, "u1") for _ in range(4)]
        requests = [world.irecv(box, 0) for box in boxes]
        world.barrier()
        world.wait_all(requests)
        for turn, box in enumerate(boxes):
            assert np.array_equal(box, pattern(300_000, turn))
        world.barrier()

    pair(send, receive)


def test_a_shorter_message_is_fine_and_tells_its_size() -> None:
    def receive(world: ons.World) -> None:
        box = bytearray(b"\xff" * 10)
        assert world.recv(box, 0) == 3
        assert box == b"abc" + b"\xff" * 7

    pair(lambda world: world.send(b"abc", 1), receive)


@pytest.mark.parametrize("size", [16, 100_000])
@pytest.mark.parametrize("device", DEVICES)
def test_truncation_leaves_later_messages_intact(size: int, device: str, capfd: pytest.CaptureFixture[str]) -> None:
    def send(world: ons.World) -> None:
        if size > 8192:  # such a send waits for its receive, so it knows
            with pytest.raises(ons.TruncatedError, match=f"send of {size} B to rank 1 with tag 2"):
                world.send(pattern(size), 1, tag=2)
        else:
            world.send(pattern(size), 1, tag=2)
        world.send(b"next", 1, tag=2)
        world.barrier()
        if size <= 8192:  # it was gone before anybody could know; the receiver's word comes soon
            with pytest.raises(ons.TruncatedError, match=f"send of {size} B to rank 1 with tag 2"):
                check_until_told(world)
        world.check()

    def receive(world: ons.World) -> None:
        with pytest.raises(ons.TruncatedError, match=f"recv of 8 B from rank 0 with tag 2.*{size} B"):
            world.recv(bytearray(8), 0, tag=2)
        box = bytearray(4)
        world.recv(box, 0, tag=2)
        assert box == b"next"
        world.check()  # the exception told it; nothing is left to tell
        world.barrier()

    pair(send, receive, device=device)
    told = f"send of {size} B to rank 1 with tag 2" in capfd.readouterr().err
    assert told == (size <= 8192)  # for a rank that never asks


def test_a_truncated_message_of_a_stream_is_told_by_synchronize() -> None:
    def receive(world: ons.World) -> None:
        stream = world.stream()
        world.recv(bytearray(2), 0, stream=stream)
        with pytest.raises(ons.TruncatedError, match="recv of 2 B from rank 0"):
            world.synchronize(stream)
        world.check()

    pair(lambda world: world.send(b"too long", 1), receive)


def test_a_path_that_is_none_is_answered_with_those_that_are() -> None:
    only = "the paths are auto, ll, store, load, copy, stage, memop$"
    with (
        ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world,
        pytest.raises(ons.InvalidArgumentError, match=only),
    ):
        world.send(b"x", 0, path="foo")


def test_a_rank_may_send_to_itself() -> None:
    def both(world: ons.World) -> None:
        box = bytearray(100_000)
        request = world.irecv(box, world.rank)
        world.send(pattern(100_000), world.rank)
        request.wait()
        assert box == pattern(100_000).tobytes()

    pair(both, both)


@pytest.mark.parametrize("cells", [1, 400, 2000, 50_000])
@pytest.mark.parametrize("device", DEVICES)
def test_a_captured_exchange_replays_and_mixes_with_eager_calls(cells: int, device: str) -> None:
    replays = 25

    def rank(world: ons.World) -> list[float]:
        peer = 1 - world.rank
        stream = world.stream()
        mine, theirs = (world.zeros(cells, "f8", kind="pinned") for _ in range(2))
        with world.capture(stream) as graph:
            request = world.irecv(theirs, peer, stream=stream)
            world.send(mine, peer, stream=stream)
            request.wait()
        assert not theirs.any()
        seen = []
        for turn in range(replays):
            mine[:] = 1000 * world.rank + turn
            graph.launch(stream)
            stream.synchronize()
            assert (theirs == theirs[0]).all()
            seen.append(float(theirs[0]))
            world.send(mine[:1], peer)
            world.recv(theirs[:1], peer)
            assert theirs[0] == 1000 * peer + turn
        return seen

    for number, seen in enumerate(ons.run_threads(2, rank, device=device)):
        assert seen == [1000 * (1 - number) + turn for turn in range(replays)]


def test_a_stream_keeps_the_arrays_of_its_operations_alive() -> None:
    count, cells = 100, 5000  # too large to run ahead: each waits for its receive

    def send(world: ons.World) -> None:
        stream = world.stream()
        for turn in range(count):
            world.send(np.full(cells, turn, "f8"), 1, stream=stream)
        gc.collect()
        world.barrier()
        stream.synchronize()

    def receive(world: ons.World) -> None:
        world.barrier()
        box = np.zeros(cells)
        for turn in range(count):
            world.recv(box, 0)
            assert (box == turn).all()

    pair(send, receive)


def test_a_graph_keeps_its_arrays_alive() -> None:
    def rank(world: ons.World) -> bool:
        stream = world.stream()
        box = world.zeros(100, "i8")
        with world.capture(stream) as graph:
            world.send(np.arange(100), 1 - world.rank, stream=stream)
            world.recv(box, 1 - world.rank, stream=stream)
        gc.collect()
        graph.launch(stream)
        stream.synchronize()
        return bool((box == np.arange(100)).all())

    assert ons.run_threads(2, rank, device="host") == [True, True]


def test_an_unfinished_graph_cannot_be_launched() -> None:
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world:
        stream = world.stream()
        with world.capture(stream) as graph:
            world.isend(b"x", 0)
            with pytest.raises(ons.InvalidArgumentError, match="still being captured"):
                graph.launch(stream)


def test_many_messages_of_random_sizes_and_lanes_arrive_in_order() -> None:
    rng = np.random.default_rng(7)
    plan = [(int(rng.integers(0, 5)), int(rng.integers(0, 20_000))) for _ in range(400)]

    def rank(world: ons.World) -> None:
        peer = 1 - world.rank
        boxes = [bytearray(size) for _, size in plan]
        for start in range(0, len(plan), 40):
            batch = range(start, min(start + 40, len(plan)))
            receives = [world.irecv(boxes[i], peer, tag=plan[i][0]) for i in batch]
            sends = [world.isend(pattern(plan[i][1], i), peer, tag=plan[i][0]) for i in batch]
            world.wait_all(reversed(receives))
            world.wait_all(sends)
        for i, box in enumerate(boxes):
            assert box == pattern(plan[i][1], i).tobytes(), f"message {i}"

    pair(rank, rank)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda w: w.send(b"x", 2), "rank 2 does not exist"),
        (lambda w: w.recv(bytearray(1), -1), "rank -1 does not exist"),
        (lambda w: w.send(b"x", 0, tag=64), "tag 64 does not exist"),
        (lambda w: w.irecv(bytearray(1), 0, tag=-1), "tag -1 does not exist"),
        (lambda w: w.send(b"x", 0, path="pigeon"), "pigeon"),
        (lambda w: w.recv(b"read only", 0), "read-only"),
        (lambda w: w.send(np.zeros((4, 4))[:, 0], 0, layout=ons.Layout.contiguous(8, 1)), "contiguous"),
    ],
)
def test_wrong_arguments_are_refused_with_their_values(call: Callable[[ons.World], Any], reason: str) -> None:
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world:
        with pytest.raises(ons.InvalidArgumentError, match=reason):
            call(world)
        world.send(b"still well", 0)
        assert world.recv(bytearray(10), 0) == 10


# --- sendrecv ---


@pytest.mark.parametrize("form", ["blocking", "stream", "captured"])
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("device", DEVICES)
def test_all_ranks_of_a_ring_may_sendrecv(form: str, memory: str, device: str) -> None:
    size = 3

    def go_round(world: ons.World) -> None:
        right, left = (world.rank + 1) % size, (world.rank - 1) % size
        stream: Any = "host" if form == "blocking" else world.stream()
        for nbytes in (0, 1, 8192, 70001, 2**20 + 3):  # the last ones do not run ahead of their receives
            out = array_of(world, pattern(nbytes, world.rank), memory)
            got = array_of(world, np.zeros(nbytes, "u1"), memory)
            if form == "blocking":
                assert world.sendrecv(out, right, got, left, stream=stream) == nbytes
            elif form == "stream":
                assert world.sendrecv(out, right, got, left, tag=2, stream=stream) is None
            else:
                with world.capture(stream) as graph:
                    world.sendrecv(out, right, got, left)
                graph.launch(stream)
                graph.launch(stream)
            if form != "blocking":
                stream.synchronize()
            assert np.array_equal(values_of(world, got), pattern(nbytes, left)), f"{nbytes} bytes"

    ons.run_threads(size, go_round, device=device)


@pytest.mark.parametrize("stream", [False, True])
def test_a_sendrecv_in_place_is_refused(stream: bool) -> None:
    def both(world: ons.World) -> None:
        box = np.full(10, float(world.rank))
        where = world.stream() if stream else None
        for out, into in ((box, box), (box[:6], box[5:]), (box[5:], box[:6])):
            with pytest.raises(ons.InvalidArgumentError, match=r"the buffers of a sendrecv \(send of .* overlap"):
                world.sendrecv(out, 1 - world.rank, into, 1 - world.rank, stream=where)
        world.sendrecv(box[:5], 1 - world.rank, box[5:], 1 - world.rank)
        assert (box[5:] == 1 - world.rank).all()

    pair(both, both)


TOO_LARGE = "send of 100000 B to rank 1 with tag 2 does not fit its receive"


@pytest.mark.parametrize("device", DEVICES)
def test_whoever_waits_for_a_message_is_told_of_its_truncation_and_nobody_else(device: str) -> None:
    raised, received = threading.Event(), threading.Event()

    def send(world: ons.World) -> None:
        with pytest.raises(ons.TruncatedError, match=f"{TOO_LARGE} of 8 B"):
            world.isend(pattern(100_000), 1, tag=2).wait()
        raised.set()  # the receiver's host has not looked yet
        world.barrier()
        world.check()
        request = world.isend(pattern(100_000), 1, tag=2)
        assert received.wait(60)
        world.barrier()
        world.check()
        for _ in range(2):  # as often as it is asked
            with pytest.raises(ons.TruncatedError, match=TOO_LARGE):
                request.wait("host")
        stream = world.stream()
        world.isend(pattern(100_000), 1, tag=2, stream=stream).wait()
        with pytest.raises(ons.TruncatedError, match=TOO_LARGE):
            stream.synchronize()
        world.check()
        world.barrier()

    def receive(world: ons.World) -> None:
        stream = world.stream()
        world.recv(bytearray(8), 0, tag=2, stream=stream)
        assert raised.wait(60)
        with pytest.raises(ons.TruncatedError, match="recv of 8 B from rank 0 with tag 2"):
            stream.synchronize()
        world.barrier()
        for _ in range(2):
            with pytest.raises(ons.TruncatedError, match="recv of 8 B from rank 0 with tag 2"):
                world.recv(bytearray(8), 0, tag=2)
            received.set()
            world.barrier()
        world.check()

    pair(send, receive, device=device)


@pytest.mark.parametrize("path", ["auto", "load", "store", "stage"])
@pytest.mark.parametrize("ordered", [True, False], ids=["send", "isend"])
def test_a_truncation_is_told_once_on_every_path(path: str, ordered: bool) -> None:
    def send_one(world: ons.World) -> None:
        if ordered:
            world.send(pattern(100_000), 1, tag=2, path=path)
        else:
            world.isend(pattern(100_000), 1, tag=2, path=path).wait()

    def send(world: ons.World) -> None:
        for _ in range(3):
            with pytest.raises(ons.TruncatedError, match=TOO_LARGE):
                send_one(world)
        world.barrier()
        assert world.take_faults() == []

    def receive(world: ons.World) -> None:
        for _ in range(3):
            with pytest.raises(ons.TruncatedError, match="recv of 8 B from rank 0 with tag 2"):
                world.recv(bytearray(8), 0, tag=2)
        world.barrier()
        assert world.take_faults() == []

    pair(send, receive)


def test_a_sendrecv_names_both_halves_that_went_wrong() -> None:
    def both(world: ons.World) -> None:
        peer = 1 - world.rank
        halves = f"recv of 8 B from rank {peer} with tag 0.*\n.*send of 100000 B to rank {peer}"
        with pytest.raises(ons.TruncatedError, match=halves):
            world.sendrecv(pattern(100_000), peer, bytearray(8), peer)
        assert world.take_faults() == []

    pair(both, both)


def test_of_messages_waited_for_together_the_first_fault_is_raised_and_the_others_are_left() -> None:
    def both(world: ons.World) -> None:
        peer = 1 - world.rank
        requests = [world.irecv(bytearray(8), peer, tag=tag) for tag in (3, 4)]
        for tag in (3, 4):
            world.send(b"0123456789", peer, tag=tag)
        with pytest.raises(ons.TruncatedError, match=f"recv of 8 B from rank {peer} with tag 3"):
            world.wait_all(requests)
        told = take_faults_until(world, 3)
        assert sorted((fault.op, fault.tag) for fault in told) == [("recv", 4), ("send", 3), ("send", 4)]
        world.barrier()  # the peer has its words too

    pair(both, both)


def test_a_sendrecv_matches_plain_sends_and_receives() -> None:
    def both(world: ons.World) -> None:
        got = np.zeros(100_000)
        assert world.sendrecv(np.arange(10.0), 1, got, 1, tag=4) == 8 * 50_000
        assert list(got[[49_999, 50_000]]) == [49_999, 0]

    def plain(world: ons.World) -> None:
        got = np.zeros(10)
        request = world.irecv(got, 0, tag=4)
        world.send(np.arange(50_000.0), 0, tag=4)
        request.wait()
        assert got[9] == 9

    pair(both, plain)


def test_a_sendrecv_tells_which_half_went_wrong_and_the_next_is_whole() -> None:
    def first(world: ons.World) -> None:
        got = bytearray(8)
        with pytest.raises(
            ons.TruncatedError, match="recv of 8 B from rank 1 with tag 0 is too small for its message of"
        ):
            world.sendrecv(b"12345678", 1, got, 1)
        assert world.sendrecv(b"abcdefgh", 1, got, 1) == 8
        assert got == b"ABCDEFGH"
        assert world.take_faults() == []

    def second(world: ons.World) -> None:
        got = bytearray(8)
        with pytest.raises(ons.TruncatedError, match="send of 100000 B to rank 0 with tag 0 does not fit its receive"):
            world.sendrecv(bytes(100_000), 0, got, 0)
        assert got == b"12345678"
        assert world.sendrecv(b"ABCDEFGH", 0, got, 0) == 8
        assert got == b"abcdefgh"

    pair(first, second)


@pytest.mark.parametrize(
    ("call", "error", "complaint"),
    [
        ("sendrecv(box, 0, box)", TypeError, "there is no source; call sendrecv.send_array, dest, recv_array, source"),
        ("sendrecv(box, 0, None, 0)", TypeError, "the recv_array is None"),
        ("sendrecv(box, box, box, 0)", TypeError, "dest is a bytearray, but must be a rank"),
        ("sendrecv(box, 1, box, 0)", ons.InvalidArgumentError, "sendrecv: rank 1 does not exist"),
        ("sendrecv(box, 0, box, 0, tag=64)", ons.InvalidArgumentError, "sendrecv: tag 64 does not exist"),
        ("sendrecv(box, 0, b'12', 0)", ons.InvalidArgumentError, "read-only"),
    ],
)
def test_a_sendrecv_that_is_refused_posts_nothing(call: str, error: type[Exception], complaint: str) -> None:
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world:
        names = {"world": world, "box": bytearray(b"12")}
        with pytest.raises(error, match=complaint):
            eval(f"world.{call}", names)
        got = bytearray(2)
        assert world.sendrecv(b"ab", 0, got, 0) == 2
        assert got == b"ab"


# Calls whose message is too large for its receive, as the ranks make them.
CUT_CALLS = {
    "recv": lambda world, large, small: world.send(large, 1, tag=2) if world.rank == 0 else world.recv(small, 0, tag=2),
    "behind an irecv": lambda world, large, small: (
        (world.send(small[:0], 1, tag=2), world.send(large, 1, tag=2))
        if world.rank == 0
        else (world.irecv(np.zeros(1), 0, tag=2), world.recv(small, 0, tag=2))
    ),
    "sendrecv": lambda world, large, small: world.sendrecv(large, 1 - world.rank, small, 1 - world.rank, tag=2),
}


@pytest.mark.parametrize("call", CUT_CALLS)
def test_no_other_thread_hears_of_a_message_that_a_call_was_cut(call: str) -> None:
    def rank(world: ons.World) -> None:
        over = threading.Event()
        heard: list[object] = []

        def looks() -> None:
            stream = world.stream()
            while not over.is_set():
                try:
                    world.check()
                    stream.synchronize()
                except ons.Error as error:
                    heard.append(error)
                heard.extend(world.take_faults())

        thread = threading.Thread(target=looks)
        thread.start()
        for _ in range(20):
            with pytest.raises(ons.TruncatedError, match="of 24 B|of 800000 B"):
                CUT_CALLS[call](world, np.zeros(100_000), np.zeros(3))
        over.set()
        thread.join()
        assert not heard
        world.check()

    pair(rank, rank, timeout_s=LONG_S)
