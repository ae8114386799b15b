"""numpy arrays between real processes: every size, every way to wait, with cross-memory attach and without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import run_job
from onstream.info import transport_rows

import onstream as ons

EXCHANGE = """
    import numpy as np
    import onstream as ons

    SIZES = [1, 7, 64, 4095, 4096, 4097, 65536, 65537, 262143, 262144, 2**20 + 1, 2**22 - 5, 2**24]

    def pattern(size, seed):
        return np.random.default_rng(seed).integers(0, 256, size, dtype="u1")

    world = ons.init(device="host", attach="{attach}")
    peer = 1 - world.rank
    stream = world.stream()

    def blocking(out, got):
        if world.rank == 0:
            world.send(out, peer)
        assert world.recv(got, peer) == got.nbytes
        if world.rank == 1:
            world.send(out, peer)

    def receive_waited_first(out, got):
        sent, came = world.isend(out, peer), world.irecv(got, peer)
        came.wait()
        sent.wait()
        assert came.received == got.nbytes

    def send_waited_first(out, got):
        came, sent = world.irecv(got, peer), world.isend(out, peer)
        sent.wait()
        came.wait()

    def on_a_stream(out, got):
        came = world.irecv(got, peer, stream=stream)
        world.send(out, peer, stream=stream)
        came.wait(stream)
        world.synchronize(stream)

    for size in SIZES:
        for number, way in enumerate([blocking, receive_waited_first, send_waited_first, on_a_stream]):
            seed = size * 16 + number * 2
            got = np.zeros(size + 2, "u1")
            way(pattern(size, seed + world.rank), got[1:-1])
            assert np.array_equal(got[1:-1], pattern(size, seed + peer)), (size, way.__name__)
            assert got[0] == got[-1] == 0
    print(world.describe())
"""


@pytest.mark.parametrize(
    ("attach", "told"),
    [("auto", "copied once (cross-memory attach)"), ("off", "through bounce buffers (parameter attach is off)")],
)
def test_every_size_arrives_whole_between_processes(tmp_path: Path, attach: str, told: str) -> None:
    if attach == "auto" and (why := ons.no_attach_reason()):
        pytest.skip(f"no cross-memory attach here: {why}")
    job = run_job(tmp_path, 2, EXCHANGE.replace("{attach}", attach))
    assert job.code == 0, job.err
    assert told in job.out


def test_info_says_whether_plain_memory_is_copied_once() -> None:
    row = next(row for row in transport_rows() if row.transport == "cross-memory attach")
    assert row.available == (ons.no_attach_reason() or "yes")


def test_info_says_that_the_parameter_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONSTREAM_ATTACH", "off")
    row = next(row for row in transport_rows() if row.transport == "cross-memory attach")
    assert row.available == (ons.no_attach_reason() or "off (parameter attach)")
