"""Collectives of plain host arrays, which the compiled module reads itself: the same as of all others, and refusals too."""

from __future__ import annotations

import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onstream as ons


def on_threads(size: int, body: Callable[[ons.World], None]) -> None:
    ons.run_threads(size, body, device="host", timeout_s=20)


@pytest.fixture
def plain_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every call that is not plain fail."""

    def refuse(array: Any, *_: Any, **__: Any) -> None:
        raise AssertionError(f"{type(array)} was read by the path for all arrays")

    monkeypatch.setattr("onstream.collectives.contiguous_span", refuse)


OPS = ["sum", "prod", "avg"]


def reductions(code: str, **options: Any) -> list[bytes]:
    """The results of two ranks, by each op."""
    found: list[bytes] = []

    def body(world: ons.World) -> None:
        mine = (np.arange(12) * 5 % 11 + world.rank).astype(code).reshape(3, 4)
        for op in OPS:
            result = world.all_reduce(mine.copy(), op=op, **options)
            assert result.dtype == mine.dtype
            if world.rank == 0:
                found.append(result.tobytes())

    on_threads(2, body)
    return found


@pytest.fixture
def read(request: pytest.FixtureRequest) -> list[bytes]:
    """The same results by the path that reads all arrays: no plain call has this option."""
    return reductions(request.getfixturevalue("code"), deterministic=True)


@pytest.mark.parametrize("code", "bBhHiIlLqQefdFD")
def test_every_number_is_what_it_is_to_the_path_for_all_arrays(code: str, read: list[bytes], plain_alone: None) -> None:
    assert len(read) == len(OPS)
    assert reductions(code) == read


@pytest.mark.parametrize(
    "copy", [np.array, lambda values: array.array("d", values), lambda values: memoryview(array.array("d", values))]
)
@pytest.mark.usefixtures("plain_alone")
def test_all_that_exports_a_buffer_is_reduced(copy: Callable[[list[float]], Any]) -> None:
    def body(world: ons.World) -> None:
        out = copy([0.0] * 3)
        assert world.all_reduce(copy([1.0, 2.0, 3.0]), out) is out
        assert list(out) == [2.0, 4.0, 6.0]

    on_threads(2, body)


@pytest.mark.usefixtures("plain_alone")
def test_arrays_of_a_file_of_no_elements_and_of_one_without_dimensions(tmp_path: Path) -> None:
    def body(world: ons.World) -> None:
        mapped = np.memmap(tmp_path / f"{world.rank}", dtype="f4", mode="w+", shape=(5,))
        mapped[:] = 2
        np.testing.assert_array_equal(world.all_reduce(mapped), np.full(5, 4, "f4"))
        assert world.all_reduce(np.zeros((0, 3))).shape == (0, 3)
        assert world.all_reduce(np.array(3)) == 6
        gathered = np.zeros(2, "i8")
        assert world.all_gather(np.array(world.rank), gathered) is gathered
        np.testing.assert_array_equal(gathered, [0, 1])

    on_threads(2, body)


@pytest.mark.usefixtures("plain_alone")
def test_streams_graphs_and_teams_take_plain_arrays() -> None:
    def body(world: ons.World) -> None:
        stream, one = world.stream(), np.ones(3)
        world.all_reduce(one, stream=stream)
        stream.synchronize()
        with world.capture(stream) as graph:
            world.all_reduce(one)
        for _ in range(3):
            graph.launch()
        stream.synchronize()
        np.testing.assert_array_equal(one, np.full(3, 16.0))
        alone = world.team([world.rank])
        np.testing.assert_array_equal(alone.all_reduce(one), np.full(3, 16.0))
        part = np.zeros(1)
        world.reduce_scatter(np.array([1.0, 2.0]), part)
        assert part[0] == 2.0 * (1 + world.rank)
        world.broadcast(part, root=1)
        assert part[0] == 4
        np.testing.assert_array_equal(world.all_to_all(np.array([0, 1]) + 2 * world.rank), [world.rank, 2 + world.rank])
        np.testing.assert_array_equal(world.scan(np.array([1])), [1 + world.rank])

    on_threads(2, body)


@pytest.mark.usefixtures("plain_alone")
def test_memory_stays_until_its_stream_has_passed_the_call() -> None:
    def body(world: ons.World) -> None:
        stream, mine, out = world.stream(), array.array("d", [1.0] * 1000), array.array("d", [0.0] * 1000)
        view = memoryview(mine)
        world.all_reduce(view, out, stream=stream)
        with pytest.raises(BufferError):
            view.release()
        with pytest.raises(BufferError):
            out.append(1.0)
        stream.synchronize()
        assert out[999] == 2.0
        view.release()
        mine.append(1.0)
        out.append(1.0)

    on_threads(2, body)


class OnGpu(np.ndarray):
    """As numba's mapped arrays."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.__array_interface__, "version": 3, "stream": None}


def read_only(values: np.ndarray) -> np.ndarray:
    values.flags.writeable = False
    return values


WRONG: list[tuple[Callable[[ons.World], Any], str]] = [
    (lambda w: w.all_reduce(np.ones(6)[::2]), "contiguous"),
    (lambda w: w.all_reduce(np.asfortranarray(np.ones((2, 3)))), "contiguous"),
    (lambda w: w.all_reduce(read_only(np.ones(3))), "read-only"),
    (lambda w: w.all_reduce(np.ones(3), read_only(np.ones(3))), "read-only"),
    (lambda w: w.all_reduce(np.ones(3, ">f8")), "cannot reduce elements of >f8"),
    (lambda w: w.all_reduce(np.ones(3, "M8[s]")), "cannot reduce elements of datetime64"),
    (lambda w: w.all_reduce(np.ones(3, "g")), "cannot reduce elements of"),
    (lambda w: w.all_reduce(np.ones(3, "?")), "a sum of bools is no bool"),
    (lambda w: w.all_reduce(bytearray(8)), "an untold type"),
    (lambda w: w.all_reduce(np.ma.array([1.0, 2.0], mask=[True, False])), "mask"),
    (lambda w: w.all_reduce(np.ones(3), op="\udc80"), "op|surrogates|incompatible"),
    (lambda w: w.all_reduce(np.ones(3), op="sum\0x"), "no reduction"),
    (lambda w: w.all_reduce(np.ones(3), algorithm="\udc80"), "algorithm|surrogates|incompatible"),
    (lambda w: w.send(np.ones(3), 0, path="\udc80"), "path is no text"),
    (lambda w: w.all_to_all_v(np.ones(4), np.ones(2), [4], [2]), "sends itself 4 elements and expects 2"),
    (lambda w: w.all_reduce(np.ones(3), np.ones(4)), "`out` has 32 bytes, but needs 24"),
    (lambda w: w.all_reduce(np.ones(3), np.ones(3, "i8")), "the array is of float64, but `out` of int64"),
    (lambda w: w.all_reduce(np.ones(3), op="plus"), "no reduction 'plus'"),
    (lambda w: w.all_reduce(np.ones(3), algorithm="magic"), "no algorithm 'magic'"),
    (lambda w: w.all_reduce(np.ones(3), channel=99), "channel 99 does not exist"),
    (lambda w: w.all_reduce(np.ones(3), channel="x"), "channel is 'x' of type str"),
    (lambda w: w.all_reduce(None), "cannot address a builtins.NoneType"),
    (lambda w: w.all_reduce(np.ones(3), op=None), "op is None of type NoneType, but must be a string"),
    (lambda w: w.all_reduce(np.ones(3), algorithm=3), "algorithm is 3 of type int, but must be a string"),
    (lambda w: w.all_reduce(np.ones(3), channel=None), "channel is None"),
    (lambda w: w.all_gather(np.ones(3), None), "cannot address a builtins.NoneType"),
    (
        lambda w: w.all_gather(np.ones((3, 2), "i8"), np.ones(4, "f4")),
        r"all_gather: `out` has 16 bytes, but needs 48: `out` is float32 of shape \(4,\), `array` is int64 of shape \(3, 2\)$",
    ),
    (lambda w: w.broadcast(np.ones(3), root=1), "root 1 does not exist"),
    (lambda w: w.broadcast(read_only(np.ones(3))), "read-only"),
    (lambda w: w.all_to_all(np.ones(3), np.ones(2)), "`out` has 16 bytes, but needs 24"),
]


@pytest.mark.parametrize(("call", "words"), WRONG)
def test_what_is_no_plain_call_is_refused_as_ever(call: Callable[[ons.World], Any], words: str) -> None:
    def body(world: ons.World) -> None:
        with pytest.raises((ons.Error, TypeError), match=words):
            call(world)
        assert world.all_reduce(np.array([1.0]))[0] == 1  # nothing is broken

    on_threads(1, body)


def test_arrays_of_a_gpu_that_are_numpys_too_are_host_arrays_in_a_host_world() -> None:
    def body(world: ons.World) -> None:
        mine = np.ones(3).view(OnGpu)
        assert world.all_reduce(mine) is mine
        assert list(mine) == [2, 2, 2]
        world.sendrecv(mine, 1 - world.rank, np.zeros(3), 1 - world.rank)

    on_threads(2, body)


def test_a_rank_outside_a_team_is_told_so() -> None:
    def body(world: ons.World) -> None:
        others = world.team([0] if world.rank == 0 else [])
        if world.rank == 1:
            for counts in ([], [4], [4, 2]):
                with pytest.raises(ons.InvalidArgumentError, match="not in this team"):
                    others.all_to_all_v(np.ones(sum(counts)), np.ones(sum(counts)), counts, counts)

    on_threads(2, body)


def test_elements_that_cannot_be_dealt_are_refused() -> None:
    def body(world: ons.World) -> None:
        with pytest.raises(ons.InvalidArgumentError, match="cannot be dealt to 2 ranks"):
            world.all_to_all(np.ones(3))
        with pytest.raises(ons.InvalidArgumentError, match="cannot be dealt to 2 ranks"):
            world.reduce_scatter(np.ones(3), np.ones(1))

    on_threads(2, body)
