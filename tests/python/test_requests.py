"""Requests of isend and irecv: their results, the waits for them, and the objects that they keep alive."""

from __future__ import annotations

import gc

import pytest
from rank_threads import pair, pattern

import onstream as ons


def test_test_never_blocks() -> None:
    def send(world: ons.World) -> None:
        world.barrier()
        world.send(b"now", 1)

    def receive(world: ons.World) -> None:
        box = bytearray(3)
        request = world.irecv(box, 0)
        assert not request.test()
        world.barrier()
        while not request.test():
            pass
        assert box == b"now"
        assert request.received == 3
        request.wait()
        assert (request.peer, request.tag, request.nbytes) == (0, 0, 3)

    pair(send, receive)


def test_wait_all_waits_for_all_and_raises_the_first_error() -> None:
    def send(world: ons.World) -> None:
        for tag, text in enumerate([b"good", b"too long", b"fine"]):
            world.send(text, 1, tag=tag)

    def receive(world: ons.World) -> None:
        boxes = [bytearray(4) for _ in range(3)]
        requests = [world.irecv(box, 0, tag=tag) for tag, box in enumerate(boxes)]
        with pytest.raises(ons.TruncatedError, match="tag 1"):
            world.wait_all(requests)
        assert boxes[0] == b"good"
        assert boxes[2] == b"fine"

    pair(send, receive)


def test_wait_all_takes_requests_and_says_which_is_none() -> None:
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world:
        box = bytearray(1)
        request = world.irecv(box, 0)
        with pytest.raises(
            TypeError, match="wait_all: request 1 is None of type NoneType, but must be a Request of isend"
        ):
            world.wait_all([request, None])  # type: ignore[list-item]
        world.send(b"x", 0)
        world.wait_all([request])
        assert box == b"x"


def test_waiting_again_gives_the_same_again() -> None:
    def send(world: ons.World) -> None:
        world.send(b"good", 1)
        world.send(b"too long", 1, tag=1)
        world.send(b"fine", 1, tag=2)

    def receive(world: ons.World) -> None:
        good, short = world.irecv(bytearray(8), 0), world.irecv(bytearray(4), 0, tag=1)
        for _ in range(2):
            good.wait()
            world.wait_all([good])
            assert (good.test(), good.received) == (True, 4)
            with pytest.raises(ons.TruncatedError, match="tag 1"):
                short.wait()
        stream = world.stream()
        box = bytearray(4)
        on_stream = world.irecv(box, 0, tag=2, stream=stream)
        for _ in range(2):
            on_stream.wait()
            good.wait(stream)
        stream.synchronize()
        on_stream.wait("host")
        assert box == b"fine"

    pair(send, receive)


def test_a_request_shows_what_it_is_of_and_how_far() -> None:
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world:
        arriving = world.irecv(bytearray(8), 0, tag=3)
        assert repr(arriving) == "<Request: recv of 8 B from rank 0 with tag 3, not waited for>"
        sent = world.isend(b"12345", 0, tag=3)
        world.wait_all([arriving, sent])
        assert repr(arriving) == "<Request: recv of 8 B from rank 0 with tag 3, ended: ok, 5 B came>"
        assert repr(sent) == "<Request: send of 5 B to rank 0 with tag 3, ended: ok>"
        stream = world.stream()
        arriving = world.irecv(bytearray(1), 0, stream=stream)
        world.send(b"x", 0, stream=stream)
        arriving.wait()
        assert repr(arriving) == "<Request: recv of 1 B from rank 0 with tag 0, its wait is on a stream>"
        stream.synchronize()


def test_a_pending_receive_holds_its_bytearray() -> None:
    def receive(world: ons.World) -> None:
        box = bytearray(4)
        request = world.irecv(box, 0)
        with pytest.raises(BufferError):
            box.append(1)
        world.barrier()
        request.wait()
        box.append(1)
        assert box == b"data\x01"

    def send(world: ons.World) -> None:
        world.barrier()
        world.send(b"data", 1)

    pair(send, receive)


def test_a_forgotten_request_still_receives_into_living_memory() -> None:
    def receive(world: ons.World) -> None:
        world.irecv(bytearray(50_000), 0)
        gc.collect()
        world.barrier()
        box = bytearray(4)
        world.recv(box, 0)
        assert box == b"next"

    def send(world: ons.World) -> None:
        world.barrier()
        world.send(pattern(50_000), 1)
        world.send(b"next", 1)

    pair(send, receive)


def test_a_request_of_an_unfinished_message_does_not_know_its_size() -> None:
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world:
        request = world.irecv(bytearray(1), 0)
        with pytest.raises(ons.InvalidArgumentError, match="once"):
            _ = request.received
        world.send(b"x", 0)
        request.wait()
