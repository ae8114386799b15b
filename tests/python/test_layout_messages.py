"""Messages by layouts arrive as a plain packer says, on every way between two ranks, and write nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from jobs import run_job, run_ranks
from layout_messages import FORMS, every_form, exchange_all
from rank_threads import pair, run

import onstream as ons
from onstream import Layout

COLUMN = Layout.vector(100, 1, 5, "f8")  # 800 B of 3968
GAPS = Layout.vector(20_000, 1, 2, "f8")  # 160 kB, beyond the ring


PAGE = (ROOT / "docs" / "layouts.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_programs_of_the_page_run(program: str, tmp_path: Path) -> None:
    outcome = run_job(tmp_path, 2, f"import os\nos.environ['ONSTREAM_DEVICE'] = 'host'\n{program}")
    assert outcome.code == 0, outcome.err
    assert len(PAGE.split()) <= 700
    assert len(PROGRAMS) == 3


@pytest.mark.parametrize("form", FORMS)
def test_random_layouts_arrive_between_threads(form: str) -> None:
    run(2, lambda world: exchange_all(world, form, 1, 50))


@pytest.mark.parametrize("path", ["ll", "store", "stage", "load"])
def test_random_layouts_arrive_by_every_path(path: str) -> None:
    run(2, lambda world: exchange_all(world, "blocking", 2, 40), path=path, tag_bytes=4 * 2**20)


def test_random_layouts_arrive_between_processes(tmp_path: Path) -> None:
    run_ranks(tmp_path, 2, [every_form], 3, 40)


def test_random_layouts_arrive_between_hosts() -> None:
    run(2, lambda world: every_form(world, 4, 15), host_ranks=1, network="sim")


def test_views_are_sent_and_received_as_they_lie() -> None:
    field = np.arange(64.0 * 64 * 6).reshape(64, 64, 6)

    def send(world: ons.World) -> None:
        world.send(field[:, 3], 1)
        world.send(field[::-1, ::2, 5], 1)
        world.send(np.asfortranarray(field), 1)
        world.sendrecv(field[1], 1, np.empty((1, 1)), ons.null)

    def receive(world: ons.World) -> None:
        got = np.zeros_like(field)
        assert world.recv(got[5], 0) == 64 * 6 * 8
        assert np.array_equal(got[5], field[:, 3])
        assert not got[:5].any()
        assert not got[6:].any()
        got = np.zeros((32, 64))
        world.recv(got.T, 0)
        assert np.array_equal(got.T, field[::-1, ::2, 5])
        whole = np.zeros_like(field)
        world.recv(whole.transpose(1, 0, 2), 0)
        assert np.array_equal(whole.transpose(1, 0, 2), field)
        world.sendrecv(np.empty((1, 1)), ons.null, got := np.zeros((64, 12))[:, ::2], 0)
        assert np.array_equal(got, field[1])

    pair(send, receive)


def test_a_halo_of_columns_in_one_array_is_exchanged_at_once() -> None:
    def body(world: ons.World) -> None:
        field = np.full((300, 8), float(world.rank))
        field[:, 1] = field[:, -2] = np.arange(300) + 1000 * world.rank
        right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
        for stream in ("host", world.stream()):
            field[:, 0] = field[:, -1] = -1
            world.sendrecv(field[:, -2], right, field[:, 0], left, stream=stream)
            world.sendrecv(field[:, 1], left, field[:, -1], right, stream=stream, tag=1)
            if stream != "host":
                world.synchronize(stream)
            assert np.array_equal(field[:, 0], np.arange(300) + 1000 * left)
            assert np.array_equal(field[:, -1], np.arange(300) + 1000 * right)

    run(3, body)


def test_receives_posted_before_come_first() -> None:
    def receive(world: ons.World) -> None:
        rooms = [np.zeros(500) for _ in range(3)]
        early = world.irecv(rooms[0], 0, layout=COLUMN)
        assert world.recv(rooms[1], 0, layout=COLUMN) == COLUMN.nbytes
        world.recv(rooms[2][:100], 0)
        early.wait()
        for i, room in enumerate(rooms):
            assert np.all((room[::5] if i < 2 else room[:100]) == i)
            assert np.count_nonzero(room) == (100 if i else 0)

    pair(lambda world: [world.send(np.full(100, float(i)), 1) for i in range(3)], receive)


@pytest.mark.parametrize("nbytes", [8, COLUMN.nbytes - 8, COLUMN.nbytes + 8, 100_000, GAPS.nbytes - 8, 2 * GAPS.nbytes])
@pytest.mark.parametrize("form", ["recv", "irecv", "stream", "stream irecv"])
@pytest.mark.parametrize("layout", [COLUMN, GAPS])
def test_a_message_of_another_size_is_refused_and_nothing_written(layout: Layout, form: str, nbytes: int) -> None:
    def send(world: ons.World) -> None:
        data = np.ones(nbytes, np.uint8)
        try:
            world.send(data, 1)
        except ons.TruncatedError as error:
            assert f"send of {nbytes} B" in str(error)
        world.send(b"next", 1)
        world.barrier()

    def receive(world: ons.World) -> None:
        room = np.zeros(layout.extent, np.uint8)
        if "stream" in form:
            stream = world.stream()
            call = world.irecv if "irecv" in form else world.recv
            done: Any = call(room, 0, stream=stream, layout=layout)
            if done is not None:
                done.wait(stream=stream)
            world.recv(following := bytearray(4), 0, stream=stream)
            with pytest.raises(ons.TruncatedError) as refused:
                world.synchronize(stream)
            text = str(refused.value)
        else:
            with pytest.raises(ons.TruncatedError) as refused:
                world.recv(room, 0, layout=layout) if form == "recv" else world.irecv(room, 0, layout=layout).wait()
            text = str(refused.value)
            world.recv(following := bytearray(4), 0)
        assert f"recv of {layout.nbytes} B" in text, text
        assert f"{nbytes} B" in text.partition("rank 0")[2], text
        assert not room.any()
        assert following == b"next"
        world.barrier()

    pair(send, receive)


def test_bad_layouts_are_refused_before_anything_is_sent() -> None:
    def body(world: ons.World) -> None:
        room = np.zeros(100)
        overlapping = Layout.indexed_block(2, [0, 5, 1], "f8")
        peer = 1 - world.rank
        for call in (world.recv, world.irecv):
            with pytest.raises(
                ons.InvalidArgumentError, match="recv: blocks 0 and 2 .* overlap: bytes 0 to 16 and 8 to 24"
            ):
                call(room, peer, layout=overlapping)
        with pytest.raises(ons.InvalidArgumentError, match="sendrecv: blocks 0 and 2"):
            world.sendrecv(room, peer, room, peer, send_layout=overlapping, recv_layout=overlapping)
        with pytest.raises(ons.InvalidArgumentError, match="blocks 0 and 1 .* overlap"):
            world.recv(np.lib.stride_tricks.as_strided(room, (4,), (0,)), peer)
        for call in (world.send, world.isend, world.recv, world.irecv):
            with pytest.raises(ons.InvalidArgumentError, match=r"takes the bytes 0 to 3968, but the array has 800"):
                call(room, peer, layout=COLUMN)
            with pytest.raises(TypeError, match="layout is of type .*int.*, but must be a Layout"):
                call(room, peer, layout=8)
            with pytest.raises(TypeError, match="there is no argument called 'layouts'"):
                call(room, peer, layouts=COLUMN)
            with pytest.raises(ons.InvalidArgumentError, match="contiguous"):
                call(room[::2], peer, layout=Layout.contiguous(8, 1))
        with pytest.raises(ons.InvalidArgumentError, match="read-only"):
            world.recv(bytes(800), peer, layout=Layout.vector(10, 1, 2, "f8"))
        world.barrier()

    run(2, body)


@pytest.mark.parametrize("layout", [COLUMN, GAPS])
def test_a_message_that_nobody_takes_ends_at_the_deadline(layout: Layout) -> None:
    def wait_in_vain(world: ons.World) -> None:
        room = np.zeros(GAPS.extent, np.uint8)
        with pytest.raises((ons.TimeoutError, ons.AbortedError), match=r"recv of (800|160000) B|send of 160000 B"):
            world.recv(room, 1, layout=layout) if world.rank == 0 else world.send(room, 0, tag=1, layout=GAPS)
        assert not room.any()

    pair(wait_in_vain, wait_in_vain, timeout_s=0.5)


def test_an_overlapping_source_is_sent_as_often_as_it_is_named() -> None:
    def receive(world: ons.World) -> None:
        world.recv(got := np.zeros((4, 3)), 0)
        assert np.array_equal(got, np.tile([1.0, 2.0, 3.0], (4, 1)))

    pair(lambda world: world.send(np.broadcast_to([1.0, 2.0, 3.0], (4, 3)), 1), receive)


def test_requests_that_are_let_go_still_send() -> None:
    def send(world: ons.World) -> None:
        data = np.arange(40_000.0)
        for _ in range(20):
            world.isend(data, 1, layout=GAPS)
        world.barrier()

    def receive(world: ons.World) -> None:
        for _ in range(20):
            world.recv(got := np.zeros(20_000), 0)
            assert np.array_equal(got, np.arange(0, 40_000, 2.0))
        world.barrier()

    pair(send, receive)
