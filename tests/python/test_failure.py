"""Failure is a value: a death, a missing message or an abort reaches every rank in time, and life goes on."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs import run_job
from memories import DEVICES
from rank_threads import LONG_S, until_it_fails

import onstream as ons


def story_with(world: ons.World, part: str) -> str:
    """The failed world's story, once it has this part: reports of other ranks may come later than an error does."""
    limit = time.monotonic() + LONG_S
    while True:
        failure = world.failure()
        assert failure is not None
        if part in failure.story or time.monotonic() > limit:
            return failure.story
        time.sleep(0.01)


def test_a_rank_that_raises_tells_the_others(tmp_path: Path) -> None:
    outcome = run_job(
        tmp_path,
        2,
        """
        import onstream as ons

        world = ons.init(device="host")
        if world.rank == 1:
            raise KeyError("the real cause")
        world.recv(bytearray(8), 1)
        """,
    )
    assert outcome.code != 0
    assert "rank 1 ended by KeyError: 'the real cause'" in outcome.out + outcome.err


@pytest.mark.parametrize("device", DEVICES)
def test_a_missing_message_ends_at_the_deadline_naming_itself(device: str) -> None:
    def rank(world: ons.World) -> str | None:
        if world.rank == 1:
            until_it_fails(world)
            with pytest.raises(ons.AbortedError, match="recv of 24 B from rank 1 with tag 4"):
                world.recv(bytearray(1), 0, tag=9)
            return None
        started = time.monotonic()
        with pytest.raises(ons.TimeoutError) as caught:
            world.recv(bytearray(24), 1, tag=4)
        assert 0.2 < time.monotonic() - started < 15
        return str(caught.value)

    text = ons.run_threads(2, rank, device=device, timeout_s=1.5)[0]
    assert text is not None
    assert "rank 0: recv of 24 B from rank 1 with tag 4" in text


def test_a_cycle_of_sends_is_told_by_name() -> None:
    told = threading.Barrier(2)

    def rank(world: ons.World) -> str:
        world.barrier()
        with pytest.raises((ons.TimeoutError, ons.AbortedError)):
            world.send(np.zeros(10**6, "u1"), 1 - world.rank)
        story = story_with(world, "cycle")
        told.wait(2 * LONG_S)
        return story

    for story in ons.run_threads(2, rank, device="host", timeout_s=5):
        assert "these waits form a cycle: rank 0 send of 1000000 B to rank 1 with tag 0 -> rank 1 send" in story
        assert "or use sendrecv: a send of more than 4096 B waits for its receive\n" in story


def test_faults_of_a_plan_name_its_ops_and_their_lanes() -> None:
    def rank(world: ons.World) -> None:
        other = 1 - world.rank
        plan = world.plan("jacobi").send(np.zeros(4), other, tag=7).recv(np.zeros(4), other, tag=7).build()
        world.barrier()
        if world.rank == 1:
            until_it_fails(world)
            return
        stream = world.stream()
        plan.launch(stream)
        with pytest.raises(ons.TimeoutError, match=r"recv of 32 B from rank 1 with tag 7 \(op 1 of plan 'jacobi'\)"):
            stream.synchronize()
        failure = world.failure()
        assert failure is not None
        fault = failure.faults[0]
        assert (fault.op, fault.tag, fault.plan, fault.plan_op) == ("recv", 7, "jacobi", 1)

    ons.run_threads(2, rank, device="host", timeout_s=1)


def test_a_graph_is_not_launched_in_a_world_that_has_failed() -> None:
    def rank(world: ons.World) -> None:
        stream, box = world.stream(), np.zeros(4)
        with world.capture(stream) as graph:
            world.send(np.ones(4), 1 - world.rank, stream=stream)
            world.recv(box, 1 - world.rank, stream=stream)
        graph.launch()
        stream.synchronize()
        world.barrier()
        if world.rank == 1:
            world.abort("enough")
        until_it_fails(world)
        with pytest.raises(ons.AbortedError, match="the launch of a graph did not start: the world has failed"):
            graph.launch()
        with pytest.raises(ons.AbortedError, match="a barrier did not start: the world has failed"):
            world.barrier(stream=stream)

    ons.run_threads(2, rank, device="host")


def test_a_message_and_its_receive_on_unlike_lanes_are_told_as_that() -> None:
    told = threading.Barrier(2)

    def rank(world: ons.World) -> str:
        world.barrier()
        call, tag = (world.send, 2) if world.rank == 0 else (world.recv, 3)
        with pytest.raises((ons.TimeoutError, ons.AbortedError)):
            call(np.zeros(10**6, "u1"), 1 - world.rank, tag=tag)
        story = story_with(world, "tags must")
        told.wait(2 * LONG_S)
        return story

    for story in ons.run_threads(2, rank, device="host", timeout_s=5):
        assert (
            "rank 0 sends with tag 2, rank 1 receives with tag 3: if these two are meant for each other, their" in story
        )
        assert "these waits form a cycle: rank 0 send of 1000000 B to rank 1 with tag 2 -> rank 1 recv" in story


def test_a_wrong_argument_is_told_also_by_a_world_that_has_failed() -> None:
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world:
        world.abort("the first cause")
        for call in (world.send, world.isend):
            with pytest.raises(ons.InvalidArgumentError, match="rank 7 does not exist"):
                call(b"1", 7)
        with pytest.raises(ons.InvalidArgumentError, match="rank 7 does not exist"):
            world.sendrecv(b"1", 7, bytearray(1), 0)
        with pytest.raises(ons.AbortedError, match="the first cause"):
            world.send(b"1", 0)


def test_what_a_rank_ends_by_after_a_failure_is_no_cause() -> None:
    heard, started = threading.Event(), threading.Barrier(4)

    def rank(world: ons.World) -> str:
        started.wait(20)
        if world.rank == 1:
            world.abort("the first cause")
        elif world.rank == 0:
            with pytest.raises(ons.AbortedError):
                world.recv(bytearray(1), 1)
            world.abort("rank 0 ended by AbortedError")
            heard.set()
        else:
            with pytest.raises(ons.AbortedError):
                world.recv(bytearray(1), 1)
            assert heard.wait(20)
        failure = world.failure()
        assert failure is not None
        return failure.reason

    assert ons.run_threads(4, rank, device="host", timeout_s=20) == ["aborted: the first cause"] * 4


def test_an_abort_drains_streams_and_tells_everyone() -> None:
    def rank(world: ons.World) -> tuple[str, Any]:
        stream = world.stream()
        for tag in range(10):
            world.recv(bytearray(8), 1 - world.rank, tag=tag, stream=stream)
        world.barrier()
        if world.rank == 1:
            world.abort("the cat")
        started = time.monotonic()
        with pytest.raises(ons.AbortedError, match="the cat"):
            stream.synchronize()
        assert time.monotonic() - started < 15
        with pytest.raises(ons.AbortedError, match="the cat"):
            world.send(b"x", 1 - world.rank)
        with pytest.raises(ons.AbortedError, match="the cat"):
            world.check()
        failure = world.failure()
        assert failure is not None
        return failure.reason, [str(fault) for fault in failure.faults]

    for reason, _ in ons.run_threads(2, rank, device="host"):
        assert "the cat" in reason


def test_a_world_without_failure_has_none() -> None:
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world:
        assert world.failure() is None
        assert world.take_faults() == []
        world.check()


def test_a_step_after_a_failure_names_itself() -> None:
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world:
        plan = world.plan("jacobi").send(np.ones(2), 0).recv(np.ones(2), 0).build()
        segment, stream = world.segment(64), world.stream()
        context, array = world.context(), world.heap(4096).zeros(2)
        world.abort("the cat")
        calls: list[tuple[Callable[[], Any], str]] = [
            (world.barrier, "a barrier"),
            (lambda: world.send(b"x", 0, tag=2), "send of 1 B to rank 0 with tag 2"),
            (lambda: world.irecv(bytearray(8), 0), "recv of 8 B from rank 0 with tag 0"),
            (lambda: world.recv(bytearray(8), 0, stream=stream), "recv of 8 B from rank 0 with tag 0"),
            (
                lambda: world.sendrecv(b"x", 0, bytearray(8), 0),
                r"sendrecv \(send of 1 B to rank 0 with tag 0, recv of 8 B from rank 0 with tag 0\)",
            ),
            (lambda: segment.put(np.ones(2), 0, stream="host"), "copy of 16 B"),
            (lambda: context.get(np.ones(2), array, 0), "get of 16 B with rank 0"),
            (lambda: world.segment(8), "the allocation of a segment"),
            (world.plan().build, "the build of a plan"),
            (lambda: plan.launch(stream), "a launch of plan 'jacobi'"),
            (lambda: segment.wait(offset=8, value=3, stream=stream), "wait for a word of 8 B to be at least 3"),
            (lambda: segment.put(np.ones(2), 0, stream=stream), "copy of 16 B"),
            (lambda: world.all_reduce(np.ones(8)), "all_reduce of 8 float64 sum"),
            (lambda: world.all_reduce(np.ones(8), stream=stream), "all_reduce of 8 float64 sum"),
        ]
        for call, name in calls:
            with pytest.raises(ons.AbortedError, match=f"rank 0: {name} did not start: .*the cat"):
                call()


def test_faults_of_streams_are_values() -> None:
    def rank(world: ons.World) -> None:
        if world.rank == 0:
            world.send(b"0123456789", 1, tag=3)
            return
        stream = world.stream()
        world.recv(bytearray(4), 0, tag=3, stream=stream)
        while not stream.idle:
            pass
        (fault,) = world.take_faults()
        assert (fault.rank, fault.status, fault.op) == (1, "truncated", "recv")
        assert (fault.peer, fault.tag, fault.nbytes) == (0, 3, 4)
        assert "10 B" in str(fault)
        assert world.take_faults() == []

    ons.run_threads(2, rank, device="host")


def test_every_error_is_an_onstream_error_and_pythons_own() -> None:
    import builtins

    assert issubclass(ons.InvalidArgumentError, ValueError)
    assert issubclass(ons.TimeoutError, builtins.TimeoutError)
    assert issubclass(ons.SystemError, OSError)
    for name in ("Unsupported", "Aborted", "Closed", "Truncated", "Misused", "InvalidArgument", "Timeout", "System"):
        assert issubclass(getattr(ons, f"{name}Error"), ons.Error)


def test_the_living_go_on_without_the_dead(tmp_path: Path) -> None:
    outcome = run_job(
        tmp_path,
        4,
        """
        import os, signal, time
        import onstream as ons

        world = ons.init(device="host")
        if world.rank == 2:
            for peer in (1, 3):
                world.recv(bytearray(2), peer)
            os.kill(os.getpid(), signal.SIGKILL)
        if world.rank == 0:
            try:
                world.recv(bytearray(2), 2)
            except ons.AbortedError:
                os.kill(os.getpid(), signal.SIGKILL)
        world.send(b"go", 2)
        was = world.rank
        dead = set()
        limit = time.monotonic() + 30
        while dead != {0, 2}:
            assert time.monotonic() < limit, dead
            dead = set(world.failure().dead) if world.failure() else set()
            time.sleep(0.01)
        try:
            world.barrier()
        except ons.AbortedError as error:
            assert "every other rank closes this world and makes a new one from its launch without" in str(error)
        world.close()
        world = ons.init(launch=world.launch.without(dead), device="host")
        print(f"{was} is {world.rank} of {world.size}", flush=True)
        box = bytearray(2)
        request = world.irecv(box, 1 - world.rank)
        world.send(b"ok", 1 - world.rank)
        request.wait()
        assert box == b"ok"
        world.close()
        """,
        options=("--grace-s", "inf"),
    )
    assert sorted(outcome.out.splitlines()) == ["[1] 1 is 0 of 2", "[3] 3 is 1 of 2"], outcome.err


def test_a_launch_without_ranks_refuses_what_cannot_be() -> None:
    launch = ons.Launch(1, 3, 0, "secret", "unix:here")
    rest = launch.without([0])
    assert (rest.rank, rest.size, rest.local_rank) == (0, 2, 1)  # the local rank picks the GPU: it stays
    assert rest.address not in ("unix:here", launch.without([2]).address)
    assert launch.without([]).address == "unix:here"
    with pytest.raises(ValueError, match="rank 1 is this process itself"):
        launch.without([1])
    with pytest.raises(ValueError, match="rank 3 is not one of this job's 0 to 2"):
        launch.without([0, 3])


def test_a_timeout_says_each_thing_once_with_the_deadline_and_its_parameter() -> None:
    def rank(world: ons.World) -> str | None:
        if world.rank == 1:
            until_it_fails(world)
            return None
        with pytest.raises(ons.TimeoutError) as caught:
            world.recv(bytearray(24), 1, tag=4)
        return str(caught.value)

    text = ons.run_threads(2, rank, device="host", timeout_s=1.5)[0]
    assert text is not None
    first, *rest = text.splitlines()
    assert first == "rank 0: recv of 24 B from rank 1 with tag 4 passed its deadline of 1.5 s (timeout_s)"
    assert rest == [
        "  rank 1 tells of no wait of its own, and no whole message came from it to rank 0 with tag 4: check that it "
        "sends, and on this tag; if a rank computes longer than timeout_s, raise that",
        "the world has failed with it; to go on, every rank closes it and makes a new one",
    ]


def test_a_fault_of_a_plan_gives_the_plans_name() -> None:
    def rank(world: ons.World) -> str | None:
        other = 1 - world.rank
        plan = world.plan("jacobi").send(np.zeros(4), other).recv(np.zeros(4), other).build()
        if world.rank == 1:
            until_it_fails(world)
            return None
        with pytest.raises(ons.Error) as caught:
            plan.launch()
        return str(caught.value)

    text = ons.run_threads(2, rank, device="host", timeout_s=1.5)[0]
    assert text is not None
    assert "of plan 'jacobi') passed its deadline of 1.5 s" in text


def test_a_rank_that_does_not_come_is_missed_in_the_users_words() -> None:
    def rank(world: ons.World) -> str | None:
        if world.rank == 1:
            return None
        with pytest.raises(ons.Error) as caught:
            world.plan("lonely").build()
        return str(caught.value)

    text = ons.run_threads(2, rank, device="host", timeout_s=1.5)[0]
    assert text is not None
    assert re.match(
        r"plan 'lonely': rank 1 \(pid \d+\) of 2 did not come to the build of a plan within 1.5 s \(parameter timeout_s\)"
        r"|the build of a plan: rank 1 \(pid \d+\) left the world",
        text,
    ), text


def test_a_rank_that_had_left_is_told_to_who_waits_for_it(tmp_path: Path) -> None:
    outcome = run_job(
        tmp_path,
        3,
        """
        import onstream as ons

        world = ons.init(device="host", timeout_s=1)
        world.barrier()
        if world.rank != 1:
            world.recv(bytearray(8), 1)
        """,
    )
    assert "rank 1 had left the world before" in outcome.err
    assert "onstream run: rank 1 had ended with code 0\n" in outcome.err


def test_a_story_that_no_other_words_follow_is_not_repeated(tmp_path: Path) -> None:
    outcome = run_job(
        tmp_path,
        2,
        """
        import onstream as ons

        world = ons.init(device="host", timeout_s=1)
        world.barrier()
        if world.rank == 0:
            world.recv(bytearray(8), 1)
        """,
    )
    assert outcome.err.count("the world has failed: rank 1 left the world") == 1, outcome.err
    assert outcome.err.endswith("Its last lines on standard error are those above.\n"), outcome.err


def test_the_launchers_last_words_are_of_the_rank_where_it_began(tmp_path: Path) -> None:
    # Rank 0 raises, tells the others, and ends last: they fail before it does.
    outcome = run_job(
        tmp_path,
        4,
        """
        import atexit, os, time
        import onstream as ons

        world = ons.init(device="host")
        if world.rank == 0:
            def wait_until_the_others(what):
                names = [f"{what}{rank}" for rank in (1, 2, 3)]
                limit = time.monotonic() + 30
                while not all(os.path.exists(name) for name in names) and time.monotonic() < limit:
                    pass
            wait_until_the_others("started")
            world.abort("rank 0 ended by ValueError: where it began")
            wait_until_the_others("ended")
            raise ValueError("where it began")
        open(f"started{world.rank}", "w").close()
        try:
            world.recv(bytearray(8), 0)
        finally:
            open(f"ended{world.rank}", "w").close()
        """,
    )
    before, _, end = outcome.err.rpartition("onstream run: ")
    assert end.startswith("rank 0 ended with code 1"), outcome.err
    # Again, if another rank's words came later.
    last = (before if end.endswith("are those above.\n") else end).splitlines()[-1]
    assert last == "[0] ValueError: where it began", outcome.err


def test_of_a_start_that_fails_the_rank_that_failed_first_has_the_last_words(tmp_path: Path) -> None:
    outcome = run_job(
        tmp_path,
        3,
        """
        import os
        import onstream as ons

        rank = int(os.environ["ONSTREAM_RANK"])
        ons.init(device="cuda:77" if rank == 2 else "host")
        """,
    )
    assert outcome.err.rpartition("onstream run: ")[2].startswith("rank 2 ended with code 1"), outcome.err


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        ("send(box, 1.5)", r"peer is 1\.5 of type float, but must be a rank"),
        ("recv(box, None)", r"peer is None of type NoneType"),
        ("isend(None, 0)", "the array is None"),
        ("irecv(box, 0, lane=3)", "no argument called 'lane'; call irecv"),
        ("send(box)", "there is no peer"),
        ("send(box, 0, 3)", "3 arguments without a name"),
        ("send(0, field)", r"peer is a numpy.ndarray, but must be a rank, an integer; call send.array, peer,"),
        ("send(box, 0, tag='x')", "tag is 'x' of type str"),
        ("plan().send(box, 1.5)", "peer is 1.5 of type float, but must be an integer"),
        ("halo(field, ghost=1.5)", "ghost is 1.5 of type float"),
        ("halo(field, grid=[1.0, 1])", "grid is 1.0 of type float"),
        ("empty((2, 1.5))", "shape is 1.5 of type float"),
        ("segment('4')", "nbytes is '4' of type str"),
    ],
)
def test_a_wrong_type_is_named_with_its_argument(call: str, complaint: str) -> None:
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world:
        names = {"world": world, "box": bytearray(8), "field": np.zeros((4, 4))}
        with pytest.raises(TypeError, match=complaint):
            eval(f"world.{call}", names)
        world.send(b"1", np.int32(0), tag=np.int64(2))  # numpy's integers are integers
        assert world.recv(bytearray(1), np.uint8(0), tag=np.int16(2)) == 1


LEAVING = """
    import sys, time
    import onstream as ons

    world = ons.init(device="host", timeout_s=30)
    if world.rank == 1:
        world.send(b"the last", 0)
        sys.exit(CODE)
    world.recv(bytearray(8), 1)
    started = time.monotonic()
    try:
        WAIT
    except ons.Error as error:
        print("told:", error, "after", round(time.monotonic() - started, 2), "s", file=sys.stderr, flush=True)
        assert time.monotonic() - started < 15
        raise
"""


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("wait", ["world.recv(bytearray(10), 1)", "world.barrier()", "world.send(bytes(10**6), 1)"])
def test_waiting_for_a_rank_that_ended_normally_ends_at_once(code: int, wait: str, tmp_path: Path) -> None:
    outcome = run_job(tmp_path, 2, LEAVING.replace("CODE", str(code)).replace("WAIT", wait))
    assert outcome.code in ({1} if code == 0 else {1, 3})
    told = next(line for line in outcome.err.splitlines() if "told:" in line)
    assert "rank 1" in told
    assert "left the world" in outcome.err


def test_a_with_block_left_by_a_successful_exit_is_no_failure(tmp_path: Path) -> None:
    outcome = run_job(
        tmp_path,
        2,
        """
        import atexit, os, sys, time

        atexit.register(lambda: open(f"rank{rank}.gone", "w").close())  # runs after the world's own end
        import onstream as ons

        with ons.init(device="host") as world:
            rank = world.rank
            if rank == 1:
                sys.exit(0)
            deadline = time.monotonic() + 20
            while not os.path.exists("rank1.gone"):
                assert time.monotonic() < deadline
            world.check()
        """,
    )
    assert outcome.code == 0, outcome.err
    assert "failed" not in outcome.err
