"""Messages whose sender or size is unknown, and waits for any of several requests."""

from __future__ import annotations

import gc
import threading
import time
from pathlib import Path

import host_messages
import numpy as np
import pytest
from jobs import run_job, run_ranks
from rank_threads import LONG_S, pair, pattern, run

import onstream as ons

# Around the bounds of the protocol.
SIZES = [0, 8, 64, 65, 4095, 4096, 4097, 65535, 65536, 65537, 1 << 20]


def soon(world: ons.World, peer: int = ons.any_source, tag: int = 0) -> ons.Message:
    limit = time.monotonic() + LONG_S
    while (found := world.iprobe(peer, tag=tag)) is None:
        assert time.monotonic() < limit, "no message was seen"
    return found


@pytest.mark.parametrize("path", ["auto", "load", "stage"])
def test_messages_of_unknown_size_are_received_whole(path: str) -> None:
    def send(world: ons.World) -> None:
        for seed, nbytes in enumerate(SIZES):
            world.send(pattern(nbytes, seed), 1)

    def receive(world: ons.World) -> None:
        for seed, nbytes in enumerate(SIZES):
            assert soon(world, 0).nbytes == nbytes  # let go of at once
            found = world.probe()
            assert (found.peer, found.tag, found.nbytes) == (0, 0, nbytes)
            np.testing.assert_array_equal(found.recv(), pattern(nbytes, seed))

    pair(send, receive, path=path)


def test_a_message_fills_a_buffer_or_an_array_of_a_type() -> None:
    def send(world: ons.World) -> None:
        for _ in range(4):
            world.send(np.arange(6, dtype="f4"), 1, tag=1)

    def receive(world: ons.World) -> None:
        box = np.full(8, -1, "f4")
        found = world.probe(0, tag=1)
        assert repr(found) == "<Message: 24 B from rank 0 with tag 1, to be received>"
        assert found.recv(box) is box
        np.testing.assert_array_equal(box, [0, 1, 2, 3, 4, 5, -1, -1])
        with pytest.raises(ons.InvalidArgumentError, match=r"24 B from rank 0 with tag 1.*was received"):
            found.recv(box)
        np.testing.assert_array_equal(world.recv_new(0, tag=1, dtype="f4"), np.arange(6))
        third = world.probe(tag=1)
        with pytest.raises(
            ons.InvalidArgumentError, match="no whole number of elements of complex128, which have 16 B"
        ):
            third.recv(dtype="c16")
        with pytest.raises(ons.InvalidArgumentError, match="dtype is that of a new array, but there is a buffer"):
            third.recv(box, dtype="f4")
        with pytest.raises(ons.InvalidArgumentError, match="the matched message has 24 B; it stays"):
            third.recv(np.zeros(5, "f4"))
        with pytest.raises(TypeError):
            third.recv(dtype=object)
        np.testing.assert_array_equal(third.recv(dtype="f4"), np.arange(6))
        assert world.recv_new(tag=1).dtype == np.uint8

    pair(send, receive)


def test_a_held_message_is_nobody_elses_and_comes_back_when_let_go() -> None:
    def send(world: ons.World) -> None:
        world.send(b"first", 1)
        world.send(b"second", 1)

    def receive(world: ons.World) -> None:
        held = soon(world)
        assert world.iprobe(0) is None
        with pytest.raises(
            ons.InvalidArgumentError, match="recv of 8 B from rank 0 with tag 0: this thread has matched"
        ):
            world.recv(bytearray(8), 0)
        with pytest.raises(ons.InvalidArgumentError, match="probe from rank 0 with tag 0: this thread has matched"):
            world.probe(0)
        held.release()
        with pytest.raises(ons.InvalidArgumentError, match="let go of"):
            held.recv()
        held = soon(world)
        del held
        gc.collect()
        again = soon(world)
        late: list[bytes] = []
        other = threading.Thread(target=lambda: late.append(world.recv_new(0).tobytes()))
        other.start()
        time.sleep(0.05)  # the other thread is most likely at it; the outcome is the same if not
        assert late == []
        assert again.recv().tobytes() == b"first"
        other.join(LONG_S)
        assert late == [b"second"]

    pair(send, receive)


def test_threads_that_probe_one_peer_share_its_messages() -> None:
    count, threads = 100, 3

    def send(world: ons.World) -> None:
        for number in range(count * threads):
            world.send(np.full(1 + number % 7, number, "i4"), 1)

    def receive(world: ons.World) -> None:
        got: list[int] = []

        def take() -> None:
            for _ in range(count):
                box = world.recv_new(dtype="i4")
                assert len(box) == 1 + box[0] % 7
                assert (box == box[0]).all()
                got.append(int(box[0]))

        each = [threading.Thread(target=take) for _ in range(threads)]
        for thread in each:
            thread.start()
        for thread in each:
            thread.join(LONG_S)
        assert sorted(got) == list(range(count * threads))

    pair(send, receive)


def test_any_source_serves_every_rank_in_turn() -> None:
    each = 40

    def body(world: ons.World) -> None:
        if world.rank != 0:
            for number in range(each):
                world.send(np.array([world.rank, number]), 0)
        world.barrier()
        if world.rank != 0:
            return
        for peer in (1, 2, 3):
            soon(world, peer).release()
        numbers = dict.fromkeys((1, 2, 3), 0)
        box = np.zeros(2, int)
        for turn in range(3 * each):
            found = world.recv(box, ons.any_source)
            assert isinstance(found, ons.Message)
            assert (found.peer, found.nbytes) == (box[0], 16)
            assert box[1] == numbers[found.peer]
            numbers[found.peer] += 1
            if turn == 2:
                assert min(numbers.values()) == 1
        assert set(numbers.values()) == {each}

    run(4, body)


def test_a_request_from_any_source_tells_its_peer_afterwards() -> None:
    def send(world: ons.World) -> None:
        world.barrier()
        world.send(b"now", 1, tag=2)

    def receive(world: ons.World) -> None:
        box = bytearray(8)
        request = world.irecv(box, ons.any_source, tag=2)
        assert request.peer == ons.any_source
        assert "from any rank with tag 2" in repr(request)
        assert not request.test()
        world.barrier()
        request.wait()
        assert (request.peer, request.received, box[:3]) == (0, 3, b"now")

    pair(send, receive)


def test_a_request_from_any_source_that_is_let_go_takes_no_message() -> None:
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world:
        request = world.irecv(bytearray(8), ons.any_source)
        assert not request.test()
        del request
        gc.collect()
        world.send(b"mine", 0)
        for _ in range(2):  # each looks for ended requests among those let go
            world.isend(b"else", 0, tag=1).wait()
        assert soon(world).recv().tobytes() == b"mine"
        for _ in range(2):
            assert world.recv_new(0, tag=1).tobytes() == b"else"


def test_any_source_is_refused_where_a_stream_would_wait() -> None:
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world:
        stream = world.stream()
        box = bytearray(8)
        for call in (world.recv, world.irecv):
            with pytest.raises(ons.InvalidArgumentError, match="recv: any source names no rank"):
                call(box, ons.any_source, stream=stream)
        with pytest.raises(ons.InvalidArgumentError, match="send: any source names no rank"):
            world.send(box, ons.any_source)
        request = world.irecv(box, ons.any_source)
        with pytest.raises(ons.InvalidArgumentError, match="is waited for by the host, not by a stream"):
            request.wait(stream)
        world.send(b"x", 0)
        request.wait()
        with pytest.raises(ons.InvalidArgumentError, match="probe: rank 1 does not exist"):
            world.iprobe(1)
        with pytest.raises(ons.InvalidArgumentError, match="probe: tag 99 does not exist"):
            world.probe(0, tag=99)
        with pytest.raises(TypeError, match="peer"):
            world.probe("0")  # type: ignore[arg-type]


def test_waits_for_several_requests_tell_which_have_ended() -> None:
    def send(world: ons.World) -> None:
        world.send(b"two", 1, tag=2)
        world.recv(bytearray(1), 1)
        for tag in (0, 1, 3):
            world.send(b"rest", 1, tag=tag)

    def receive(world: ons.World) -> None:
        boxes = [bytearray(4) for _ in range(4)]
        requests = [world.irecv(box, 0, tag=tag) for tag, box in enumerate(boxes)]
        assert world.wait_any(requests) == 2
        assert requests[2].received == 3
        assert world.test_any(requests) == 2
        assert world.wait_some(requests) == [2]
        del requests[2]
        assert world.test_any(requests) is None
        assert not world.test_all(requests)
        world.send(b"!", 0)
        rest = requests.copy()
        while rest:
            for place in reversed(world.wait_some(rest)):
                del rest[place]
        assert world.test_all(requests)
        assert boxes == [b"rest", b"rest", b"two\0", b"rest"]

    pair(send, receive)


def test_waits_for_several_requests_raise_for_the_one_that_ended_badly() -> None:
    def send(world: ons.World) -> None:
        world.send(b"too long", 1, tag=1)
        world.recv(bytearray(3), 1)
        world.send(b"end", 1)

    def receive(world: ons.World) -> None:
        requests = [world.irecv(bytearray(4), 0, tag=tag) for tag in range(2)]
        with pytest.raises(ons.TruncatedError, match="tag 1"):
            world.wait_any(requests)
        with pytest.raises(ons.InvalidArgumentError, match="the list of requests is empty"):
            world.wait_any([])
        for call in (world.wait_any, world.wait_some, world.test_any, world.test_all):
            with pytest.raises(TypeError, match=f"{call.__name__}: request 1 is None of type NoneType"):
                call([requests[0], None])  # type: ignore[list-item]
        with pytest.raises(TypeError):
            world.wait_any(None)  # type: ignore[arg-type]
        world.send(b"end", 0)
        assert world.wait_any(requests[:1]) == 0

    pair(send, receive)


def test_a_probe_ends_at_its_deadline_and_names_itself() -> None:
    def wait(world: ons.World) -> None:
        with pytest.raises(ons.TimeoutError, match="probe from any rank with tag 4 passed its deadline of 1 s"):
            world.probe(tag=4)

    def other(world: ons.World) -> None:
        with pytest.raises(ons.Error):  # its own deadline may pass first
            world.recv(bytearray(1), 0, tag=5)

    pair(wait, other, timeout_s=1)


def test_a_late_receive_names_the_message_on_another_tag() -> None:
    def send(world: ons.World) -> None:
        world.send(bytes(800), 1, tag=3)
        with pytest.raises(ons.Error):
            world.recv(bytearray(1), 1)

    def receive(world: ons.World) -> None:
        soon(world, 0, tag=3).release()
        with pytest.raises(ons.TimeoutError, match="a message of 800 B from rank 0 to rank 1 waits on tag 3"):
            world.recv(bytearray(800), 0, tag=2)

    pair(send, receive, timeout_s=1)


def test_a_farm_of_a_thousand_tasks_among_threads() -> None:
    run(4, host_messages.task_farm)


def test_farms_and_probes_among_processes(tmp_path: Path) -> None:
    run_ranks(tmp_path, 4, host_messages.UNKNOWN)


def test_a_death_while_any_source_is_awaited_is_named(tmp_path: Path) -> None:
    program = """
        import os
        import onstream as ons

        with ons.init(timeout_s=30) as world:
            world.barrier()
            if world.rank == 2:
                os.kill(os.getpid(), 9)
            try:
                if world.rank == 0:
                    world.recv(bytearray(8), ons.any_source)
                else:
                    world.wait_any([world.irecv(bytearray(8), ons.any_source)])
            except ons.AbortedError as error:
                assert "rank 2" in str(error) and "died" in str(error), error
                print("told", flush=True)
    """
    ended = run_job(tmp_path, 3, program)
    assert ended.out.count("told") == 2, ended.err
