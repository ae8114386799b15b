"""Lifetimes of objects in Python: graphs and queued launches own the plans, requests and arrays that they use."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs import run_job
from memories import DEVICES, for_kernels

import onstream as ons

CELLS = 20_000  # large on every device

# The ops that a graph captures, in a function that then forgets all their objects. Real processes: a use of freed
# memory crashes there.
CAPTURED = {
    "plan": "p = world.plan('p').send(a, peer).recv(b, peer).build()\n    with world.capture(s) as g: p.launch()",
    "halo": "h = world.halo(f, grid=[2, 1], periodic=True)\n    with world.capture(s) as g: h.launch(s)",
    "requests": "with world.capture(s) as g:\n"
    "        r = world.irecv(b, peer); q = world.isend(a, peer); r.wait(); q.wait()",
    "requests without a name": "with world.capture(s) as g:\n"
    "        world.isend(a, peer); world.irecv(b, peer); world.isend(a, peer); world.irecv(c, peer).wait()",
}

PROGRAM = """
import gc
import threading
import time
from collections.abc import Callable
import numpy as np
import onstream as ons

world = ons.init(device="host", timeout_s=10)
peer, s, n = 1 - world.rank, world.stream(), 20_000

def make():
    a, b, c = np.full(n, 7.0 + world.rank), np.zeros(n), np.zeros(n)
    f = np.full((20, 1000), 7.0 + world.rank)
    CAPTURED
    return g

g = make()
gc.collect()
others = [np.full(1000, float(k)) for k in range(300)]
gc.collect()
for _ in range(5):
    g.launch(s)
    s.synchronize()
assert all((other == k).all() for k, other in enumerate(others))
world.barrier()
"""


@pytest.mark.parametrize("what", CAPTURED)
def test_a_graph_keeps_what_the_program_forgets(what: str, tmp_path: Path) -> None:
    outcome = run_job(tmp_path, 2, PROGRAM.replace("CAPTURED", CAPTURED[what]))
    assert outcome.code == 0, outcome.err


def both(function: Any, device: str = "host") -> list[Any]:
    return ons.run_threads(2, function, device=device, timeout_s=10)


@pytest.mark.parametrize("device", DEVICES)
def test_a_plan_may_be_forgotten_while_its_launches_are_queued(device: str) -> None:
    def exchange(world: ons.World) -> None:
        peer, stream = 1 - world.rank, world.stream()
        for turn in range(20):
            got = np.zeros(CELLS)
            plan = world.plan("p").send(np.full(CELLS, float(turn)), peer).recv(got, peer).build()
            plan.launch(stream)
            del plan
            gc.collect()
            stream.synchronize()
            assert (got == turn).all()

    both(exchange, device)


def test_a_world_may_close_while_a_plan_is_queued() -> None:
    def exchange(world: ons.World) -> None:
        peer, stream = 1 - world.rank, world.stream()
        got = np.zeros(CELLS)
        plan = world.plan("p").send(np.full(CELLS, 3.0), peer).recv(got, peer).build()
        plan.launch(stream)
        world.close()
        assert (got == 3).all()
        with pytest.raises(ons.ClosedError):
            plan.launch(stream)

    both(exchange)


@pytest.mark.parametrize("device", DEVICES)
def test_the_captured_stream_is_the_default_inside_the_block(device: str) -> None:
    def exchange(world: ons.World) -> None:
        peer, stream = 1 - world.rank, world.stream()
        out, got, far = np.zeros(8), np.zeros(8), np.zeros(8)
        plan = world.plan("p").send(out, peer).recv(far, peer).build()
        with world.capture(stream) as graph:
            request = world.irecv(got, peer)
            world.send(out, peer)
            request.wait()
            plan.launch()
        for turn in range(3):
            out[:] = 10 * turn + world.rank
            graph.launch(stream)
            stream.synchronize()
            assert (got == 10 * turn + peer).all()
            assert (far == 10 * turn + peer).all()
            world.barrier()
        world.send(out, peer) if world.rank else world.recv(got, peer)  # eager again

    both(exchange, device)


def test_a_capture_of_nothing_raises() -> None:
    def capture(world: ons.World) -> None:
        stream = world.stream()
        with pytest.raises(ons.InvalidArgumentError, match="nothing was captured"), world.capture(stream) as graph:
            world.isend(np.zeros(1), 0, stream="host")
        with pytest.raises(ons.InvalidArgumentError, match="it is empty; capture it again"):
            graph.launch(stream)

    ons.run_threads(1, capture, device="host")


@pytest.mark.parametrize("device", DEVICES)
def test_what_has_nothing_to_move_may_be_captured_alone(device: str) -> None:
    """So that a program of one rank needs no case of its own."""

    def capture(world: ons.World) -> None:
        stream = world.stream()
        field = for_kernels(world, np.full((4, 4), 3.0))
        halo = world.halo(field, ghost=1)
        for call in (lambda: world.all_reduce(field), lambda: world.barrier(stream=stream), halo.launch):
            with world.capture(stream) as graph:
                call()
            for _ in range(2):
                graph.launch()
            stream.synchronize()
        assert (field == 3).all()

    ons.run_threads(1, capture, device=device)


def test_a_graph_whose_block_raised_is_not_launched() -> None:
    def capture(world: ons.World) -> None:
        stream = world.stream()
        got = np.zeros(1)
        graphs = []

        def send_to_nobody() -> None:
            with world.capture(stream) as graph:
                graphs.append(graph)
                world.send(np.zeros(1), 0)
                world.send(np.zeros(1), 7)

        with pytest.raises(ons.InvalidArgumentError, match="rank 7"):
            send_to_nobody()
        with pytest.raises(ons.InvalidArgumentError, match=r"its capture ended by InvalidArgumentError: .*rank 7"):
            graphs[0].launch(stream)
        world.send(np.full(1, 5.0), 0, stream=stream)  # the stream is whole
        world.recv(got, 0, stream=stream)
        stream.synchronize()
        assert got[0] == 5

    ons.run_threads(1, capture, device="host")


def test_a_captured_request_that_is_dropped_does_not_spoil_later_calls() -> None:
    def capture(world: ons.World) -> None:
        stream = world.stream()
        with world.capture(stream) as graph:
            world.isend(np.zeros(CELLS), 0)
        gc.collect()
        world.isend(np.zeros(1), 0, tag=1).wait()
        del graph

    ons.run_threads(1, capture, device="host")


def test_a_receive_more_than_a_tag_holds_is_refused_alone() -> None:
    def ask(world: ons.World) -> None:
        if world.rank == 0:
            boxes = [np.zeros(1) for _ in range(5)]
            requests = [world.irecv(box, 1) for box in boxes[:4]]
            with pytest.raises(ons.InvalidArgumentError, match=r"4 receives from rank 1 .* raise tag_receives \(4\)"):
                world.irecv(boxes[4], 1)
            world.wait_all(requests)
            assert world.recv(boxes[4], 1) == 8
            assert [box[0] for box in boxes] == [0, 1, 2, 3, 4]
        else:
            for value in range(5):
                world.send(np.full(1, float(value)), 0)

    ons.run_threads(2, ask, device="host", tag_receives=4)


def test_a_plan_refuses_element_types_that_differ() -> None:
    def build(world: ons.World) -> None:
        if world.rank == 0:
            builder = world.plan("p").send(np.zeros(4), 1)
        else:
            builder = world.plan("p").recv(np.zeros(4, "i8"), 0)
        with pytest.raises(ons.InvalidArgumentError, match="the one sends float64, the other receives int64"):
            builder.build()
        # Bytes say nothing of their type.
        if world.rank == 0:
            world.plan("q").send(np.zeros(4), 1).build().launch()
        else:
            world.plan("q").recv(bytearray(32), 0).build().launch()
        with pytest.raises(ons.InvalidArgumentError, match="float"):
            world.halo(np.zeros((8, 8), ("f8", "i8")[world.rank]), grid=[2, 1])

    both(build)


def test_a_wait_on_the_stream_of_a_host_array_does_not_block() -> None:
    def exchange(world: ons.World) -> None:
        stream, got = world.stream(), np.zeros(4)
        request = world.irecv(got, 0, stream=stream)
        request.wait()  # would wait for the send below
        world.send(np.full(4, 2.0), 0)
        stream.synchronize()
        assert (got == 2).all()
        late = world.irecv(got, 0, stream=stream)
        world.send(np.full(4, 3.0), 0)
        late.wait("host")
        assert (got == 3).all()

    ons.run_threads(1, exchange, device="host", timeout_s=10)


def test_a_stream_keeps_the_array_of_an_op_in_flight_though_other_threads_synchronize_it() -> None:
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host", timeout_s=10) as world:
        stream, over = world.stream(), threading.Event()

        def synchronize(wait: Callable[[], None]) -> None:
            while not over.is_set():
                wait()

        ways = [*[stream.synchronize] * 3, *[lambda: world.synchronize(stream)] * 3]
        threads = [threading.Thread(target=synchronize, args=[way]) for way in ways]
        for thread in threads:
            thread.start()
        try:
            for _ in range(300):
                box = bytearray(64)
                world.recv(box, 0, stream=stream)
                for _ in range(20):
                    time.sleep(0)  # lets the others run
                with pytest.raises(BufferError):
                    box.append(1)
                world.send(bytes(8), 0)
        finally:
            over.set()
            for thread in threads:
                thread.join()


def test_a_capture_does_not_take_over_what_its_stream_used_before() -> None:
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world:
        stream, box = world.stream(), bytearray(8)
        world.recv(box, 0, stream=stream)
        with pytest.raises(ZeroDivisionError), world.capture(stream):
            1 / 0  # noqa: B018
        with pytest.raises(BufferError):
            box.append(1)
        world.send(bytes(8), 0)
        stream.synchronize()


def test_a_world_may_close_while_another_thread_launches_or_builds_its_plans(tmp_path: Path) -> None:
    program = """
        import threading
        import numpy as np
        import onstream as ons

        for turn in range(60):
            world = ons.init(launch=ons.Launch(0, 1, 0, ""), device="host", timeout_s=5)
            a, b = np.zeros(1000), np.zeros(1000)
            plan = world.plan("p").send(a, 0).recv(b, 0).build()
            builder = world.plan("q")
            running, told = threading.Event(), []

            def work():
                try:
                    while True:
                        plan.launch() if turn % 2 else builder.send(a, 0)
                        running.set()
                except ons.Error as error:
                    told.append(error)

            thread = threading.Thread(target=work)
            thread.start()
            running.wait()
            world.close()
            thread.join()
            assert told, "the thread ended without an error"
    """
    ended = run_job(tmp_path, 1, program)
    assert ended.code == 0, ended.err


@pytest.mark.parametrize("what", ["team", "neighbourhood"])
def test_letting_go_of_a_team_waits_for_nobody(what: str) -> None:
    def exchange(world: ons.World) -> None:
        stream, mine, got = world.stream(), np.full(CELLS, 1.0 + world.rank), np.zeros((2, CELLS))
        team = world.team([0, 1])
        users = [team] if what == "team" else [team.neighbourhood([2], periodic=True)]
        del team

        def run() -> None:
            users[0].all_gather(mine, got, stream=stream)
            users.clear()  # in a thread that has the GIL, which the other rank needs to come
            gc.collect()

        if world.rank == 0:
            run()
        world.barrier()
        if world.rank == 1:
            run()
        stream.synchronize()
        assert sorted(got[:, 0]) == ([1, 2] if what == "team" else [2 - world.rank] * 2)

    both(exchange)


def test_a_world_may_close_while_another_thread_uses_its_teams(tmp_path: Path) -> None:
    program = """
        import threading
        import numpy as np
        import onstream as ons

        for turn in range(50):
            world = ons.init(launch=ons.Launch(0, 1, 0, ""), device="host", timeout_s=5)
            team, hood = world.team([0]), world.neighbourhood([1], periodic=True)
            stream, a, b, c = world.stream(), np.zeros(1000), np.zeros(1000), np.zeros((2, 1000))
            calls = [
                lambda: team.all_reduce(a, b),
                lambda: team.all_reduce(a, b, stream=stream),
                lambda: team.explain.all_reduce(a),
                lambda: hood.all_gather(a, c),
                lambda: world.all_reduce(a, b, stream=stream),
            ]
            running, told = threading.Event(), []

            def work():
                try:
                    while True:
                        calls[turn % len(calls)]()
                        running.set()
                except ons.ClosedError as error:
                    told.append(error)

            thread = threading.Thread(target=work)
            thread.start()
            running.wait()
            world.close()
            thread.join()
            assert told, "the thread ended without the error"
    """
    ended = run_job(tmp_path, 1, program)
    assert ended.code == 0, ended.err


WAYS_TO_A_STREAM = {
    "an operation": lambda world, stream, box: world.recv(box, 0, stream=stream),
    "a request": lambda world, stream, box: world.irecv(box, 0, stream=stream).wait(),
    "a plan": lambda world, stream, box: world.plan().recv(box, 0).send(np.ones(8, "u1"), 0).build().launch(stream),
}


def captured(world: ons.World, stream: ons.Stream, box: np.ndarray) -> None:
    with world.capture(stream) as graph:
        world.recv(box, 0)
    graph.launch()


@pytest.mark.parametrize("way", [*WAYS_TO_A_STREAM.values(), captured], ids=[*WAYS_TO_A_STREAM, "a graph"])
def test_synchronize_without_a_stream_waits_for_all_streams_of_the_world(way: Callable[..., Any]) -> None:
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host", timeout_s=30) as world:
        streams = [world.stream() for _ in range(3)]
        gate, box = np.zeros(8, "u1"), np.zeros(8, "u1")
        world.recv(gate, 0, tag=1, stream=streams[1])  # later ops on the stream wait for this
        way(world, streams[1], box)
        waiter = threading.Thread(target=world.synchronize)
        waiter.start()
        waiter.join(0.2)
        assert waiter.is_alive(), "synchronize() returned before the work of a stream had ended"
        world.send(np.ones(8, "u1"), 0)
        world.send(np.ones(8, "u1"), 0, tag=1)
        waiter.join()
        assert box.all()


def test_synchronize_without_a_stream_raises_what_went_wrong_on_any() -> None:
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world:
        stream = world.stream()
        world.recv(bytearray(2), 0, stream=stream)
        world.send(b"1234", 0)
        with pytest.raises(ons.TruncatedError, match="recv of 2 B"):
            world.synchronize()
        world.synchronize()


def test_synchronize_without_a_stream_leaves_a_capture_alone() -> None:
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world:
        stream, box = world.stream(), bytearray(8)
        with world.capture(stream) as graph:
            world.recv(box, 0)
            world.synchronize()
        world.send(b"12345678", 0)
        graph.launch()
        world.synchronize()
        assert box == b"12345678"


def test_a_graph_launches_on_the_stream_that_it_was_captured_on() -> None:
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world:
        stream, box = world.stream(), bytearray(1)
        with world.capture(stream) as graph:
            world.recv(box, 0)
        for value in (b"a", b"b"):
            world.send(value, 0)
            graph.launch() if value == b"a" else graph.launch(None)
            stream.synchronize()
            assert box == value
        with pytest.raises(ons.InvalidArgumentError, match=r"a graph runs on a stream: graph.launch\(\)"):
            graph.launch("host")
        assert repr(stream) == "<Stream on host>"
        del stream
        gc.collect()
        with pytest.raises(ons.InvalidArgumentError, match=r"captured on is gone: keep it, or name another"):
            graph.launch()
        world.send(b"c", 0)
        graph.launch(world.stream())
        world.synchronize()
        assert box == b"c"
