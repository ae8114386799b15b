"""Ctrl-C ends every wait, and the start of a world."""

from __future__ import annotations

import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from jobs import run_job
from memories import DEVICES

import onstream as ons

Waiting = Callable[[], object]


def half_a_plan(world: ons.World, stream: ons.Stream) -> Waiting:
    """Launches a plan that the peer does not launch."""
    box = np.zeros(4)
    world.plan("half").recv(box, 1).build().launch(stream)
    return stream.synchronize


def receive_on(world: ons.World, stream: ons.Stream) -> Waiting:
    world.recv(bytearray(8), 1, stream=stream)
    return stream.synchronize


def exchange_on(world: ons.World, stream: ons.Stream) -> Waiting:
    world.sendrecv(b"out", 1, bytearray(8), 1, stream=stream)
    return stream.synchronize


def wait_for_all(world: ons.World, requests: list[ons.Request]) -> Waiting:
    return lambda: world.wait_all(requests)


# Each starts an op, and returns the call that waits for it.
INTERRUPTED: dict[str, Callable[[ons.World, ons.Stream], Waiting]] = {
    "recv": lambda world, stream: lambda: world.recv(bytearray(8), 1),
    "large send": lambda world, stream: lambda: world.send(bytes(10**6), 1),
    "wait": lambda world, stream: world.irecv(bytearray(8), 1).wait,
    "synchronize": receive_on,
    "plan": half_a_plan,
    "sendrecv": lambda world, stream: lambda: world.sendrecv(b"out", 1, bytearray(8), 1),
    "sendrecv on a stream": exchange_on,
    "wait_all": lambda world, stream: wait_for_all(world, [world.irecv(bytearray(8), 1, tag=tag) for tag in (0, 1)]),
    "build": lambda world, stream: world.plan("lonely").recv(np.zeros(4), 1).build,
    "segment": lambda world, stream: lambda: world.segment(64),
    "barrier": lambda world, stream: world.barrier,
}

OF_A_STREAM = {"synchronize", "plan", "sendrecv on a stream"}  # whose work goes on, and may be waited for again


@contextmanager
def interrupted_once_waiting() -> Iterator[Callable[[], None]]:
    """Yields a function that the main thread calls right before the call that waits. Ctrl-C comes when the thread has
    let go of the GIL, which nothing else makes it do."""
    main_thread = threading.main_thread().ident
    assert main_thread is not None
    begun = threading.Event()

    def interrupt() -> None:
        begun.wait(60)
        signal.pthread_kill(main_thread, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        yield begun.set
    finally:
        sys.setswitchinterval(interval)
        begun.set()
        thread.join()


@contextmanager
def silent_peer(device: str, act: Callable[[ons.World], object]) -> Iterator[ons.World]:
    """Rank 0 of a world whose rank 1 does nothing but act() once. The world is aborted at the end."""
    address = f"unix:onstream-test-{secrets.token_hex(16)}"
    ready, over = threading.Event(), threading.Event()

    def be_silent() -> None:
        with ons.init(launch=ons.Launch(1, 2, 0, "s", address), device=device) as silent:
            ready.set()
            act(silent)
            over.wait(60)

    peer = threading.Thread(target=be_silent)
    peer.start()
    world = ons.init(launch=ons.Launch(0, 2, 0, "s", address), device=device)
    assert ready.wait(30)
    try:
        yield world
    finally:
        world.abort("the test is over")
        over.set()
        peer.join(60)
        world.close()
    assert not peer.is_alive()


@pytest.mark.parametrize("what", INTERRUPTED)
@pytest.mark.parametrize("device", DEVICES)
def test_ctrl_c_ends_a_wait(what: str, device: str) -> None:
    def act(silent: ons.World) -> None:
        if what == "plan":
            silent.plan("half").send(np.zeros(4), 0).build()

    with silent_peer(device, act) as world:
        wait = INTERRUPTED[what](world, world.stream())
        with pytest.raises(KeyboardInterrupt), interrupted_once_waiting() as begin:  # noqa: PT012
            begin()
            wait()
        failure = world.failure()
        if what in OF_A_STREAM:
            assert failure is None
        else:  # the other ranks are told: this one has left their common work
            assert failure is not None
            assert "rank 0 was interrupted" in failure.story


@pytest.mark.parametrize("device", DEVICES)
def test_ctrl_c_ends_a_send_for_which_there_is_no_room(device: str) -> None:
    with silent_peer(device, lambda silent: None) as world:
        sent = 0

        def begun() -> None:
            # No send has ended for many looks: it waits. Were it merely slow, Ctrl-C would have to end it all the same.
            looks, seen = 0, -1
            while looks < 100:
                looks = looks + 1 if seen == sent else 0
                seen = sent
                time.sleep(0.002)
            signal.pthread_kill(main_thread, signal.SIGINT)

        main_thread = threading.main_thread().ident
        assert main_thread is not None
        watch = threading.Thread(target=begun)
        watch.start()
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012
            for _ in range(100_000):
                world.send(bytes(1000), 1)
                sent += 1
        watch.join()


@pytest.mark.parametrize("form", ["host", "stream"])
@pytest.mark.parametrize("device", DEVICES)
def test_ctrl_c_ends_a_collective_whose_hosts_agree(device: str, form: str) -> None:
    def gathers(world: ons.World) -> Callable[[], None]:
        mine, every = world.zeros(8), world.zeros(16)
        stream = world.stream() if form == "stream" else "host"  # without one, both ranks' would be cupy's

        def gather() -> None:
            world.all_gather(mine, every, algorithm="copy", stream=stream)

        gather()
        world.synchronize()
        return gather

    with silent_peer(device, gathers) as world:
        gather = gathers(world)
        with pytest.raises(KeyboardInterrupt), interrupted_once_waiting() as begin:  # noqa: PT012
            begin()
            gather()
        failure = world.failure()
        assert failure is not None
        assert "was interrupted in a collective all_gather" in failure.reason


def test_ctrl_c_ends_the_start_of_a_world() -> None:
    launch = ons.Launch(0, 2, 0, "s", f"unix:onstream-test-{secrets.token_hex(16)}")
    with pytest.raises(KeyboardInterrupt), interrupted_once_waiting() as begin:  # noqa: PT012
        begin()
        ons.init(launch=launch, device="host", bootstrap_timeout_s=30)


NESTED = """
    import signal, time
    import numpy as np
    import onstream as ons

    w = ons.init(timeout_s=20)
    plan = w.plan("both").send(np.ones(4), 1 - w.rank).recv(np.zeros(4), 1 - w.rank).build()
    call, told = {call}, []

    def handler(number, frame):
        try:
            call()
        except ons.Error as error:
            told.append(str(error))

    signal.signal(signal.SIGALRM, handler)
    if w.rank == 0:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
    else:
        time.sleep(1)
    call()
    call()
    print(told[0] if w.rank == 0 else "came")
"""


@pytest.mark.parametrize("call", ["w.barrier", "plan.launch"])
def test_a_handler_that_calls_the_same_again_is_told_so(tmp_path: Path, call: str) -> None:
    ended = run_job(tmp_path, 2, NESTED.format(call=call))
    assert ended.code == 0, ended.err
    assert "called while this thread is inside another one, as from a signal handler" in ended.out
