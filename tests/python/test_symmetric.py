"""Symmetric arrays from Python: strides on either side, parts, the values of words, and element types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from memories import DEVICES
from rank_threads import PATHS, run

import onstream as ons


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("path", PATHS)
def test_strides_on_either_side(path: str, device: str) -> None:
    def body(world: ons.World) -> None:
        right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
        heap = world.heap(1 << 14, kind="pinned")
        table = heap.zeros((6, 8), "i4")
        mine = np.arange(48, dtype="i4").reshape(6, 8) + 100 * world.rank
        table[1:5:2, ::3].put(mine[::3, 1:4], right)
        table[5].put(mine[:, 7][:4].repeat(2), right)
        world.barrier()
        sent = np.arange(48).reshape(6, 8) + 100 * left
        assert (table.local()[1:5:2, ::3] == sent[::3, 1:4]).all()
        assert (table.local()[5] == sent[:, 7][:4].repeat(2)).all()
        assert (table.local()[0] == 0).all()
        back = np.zeros((8, 6), "i4")
        table[..., ::-1].get(back.T[:, ::-1], right)
        there = np.zeros((6, 8), "i4")
        table.get(there, right)
        assert (there == back.T).all()
        assert there[1, 0] == mine[0, 1]
        world.barrier()

    run(3, body, path=path, device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("path", PATHS)
def test_streams_and_graphs_take_strided_ops_and_words(path: str, device: str) -> None:
    def body(world: ons.World) -> None:
        other = 1 - world.rank
        heap = world.heap(1 << 14, kind="pinned")
        table, flags = heap.zeros((4, 4), "f8"), heap.zeros(3, "u8")
        source, got = world.zeros((4, 4), kind="pinned"), world.zeros(4, kind="pinned")
        old, found = world.zeros(1, "u8", kind="pinned"), world.zeros(1, "u8", kind="pinned")
        indices = world.zeros(3, "u8", kind="pinned")
        source[...] = np.arange(16).reshape(4, 4) + 100 * world.rank
        stream = world.stream()
        world.barrier(stream=stream)
        with world.capture(stream) as graph:
            table[:, 1].put(source[2], other, signal=flags[0])
            flags[1].signal(other, value=5)
            flags[2].atomic("add", other, value=7, old=old)
            flags[0].wait(1)
            flags[1:].wait_all(1)
            flags.wait_any(1, found=found)
            flags.wait_some(1, found=found, indices=indices)
            table[:, 1].get(got, other)
            world.barrier(stream=stream)
        graph.launch(stream)
        world.synchronize(stream)
        left_out = world.zeros(3, "i4", kind="pinned")
        left_out[...] = [1, 0, 1]
        flags.wait_all(5, leave_out=left_out, stream=stream)
        flags.wait_some(0, leave_out=left_out, found=found, indices=indices, stream=stream)
        world.synchronize(stream)
        assert (found[0], indices[0]) == (1, 1)
        assert table.local()[:, 1].tolist() == [8 + 100 * other + i for i in range(4)]
        assert got.tolist() == [8 + 100 * world.rank + i for i in range(4)]
        graph.launch(stream)
        world.synchronize(stream)
        assert flags.local().tolist() == [2, 10, 14]
        assert (old[0], found[0], indices.tolist()) == (7, 3, [0, 1, 2])

    run(2, body, path=path, device=device)


def test_a_part_of_a_segment_is_a_symmetric_array_too() -> None:
    def body(world: ons.World) -> None:
        segment = world.segment(256)
        words = segment.array(4, "i4", offset=64)
        words[2].put(np.array([-5], "i4"), 1 - world.rank)
        world.barrier()
        assert segment.local("i4")[18] == -5
        words[2].wait(-5, compare="eq")
        with pytest.raises(ons.InvalidArgumentError, match="64 B at offset 224 are not within the 256 B"):
            segment.array(8, offset=224)
        world.barrier()
        segment.free()
        with pytest.raises(ons.Error, match="was freed"):
            words.local()

    run(2, body)


def test_a_symmetric_array_stands_for_this_ranks_own_wherever_an_array_goes() -> None:
    def body(world: ons.World) -> None:
        heap = world.heap(4096)
        mine, theirs = heap.zeros(4), heap.zeros((4, 2))
        mine.local()[...] = world.rank + 1
        theirs[:, 1].put(mine, 1 - world.rank)
        world.barrier()
        assert theirs.local()[:, 1].tolist() == [2 - world.rank] * 4
        world.all_reduce(mine)
        assert mine.local().tolist() == [3] * 4
        world.sendrecv(mine[:2], 1 - world.rank, theirs[0], 1 - world.rank)
        assert theirs.local()[0].tolist() == [3, 3]

    run(2, body)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("int32", -(2**31), 2**31 - 1),
        ("uint32", 0, 2**32 - 1),
        ("int64", -(2**63), 2**63 - 1),
        ("uint64", 0, 2**64 - 1),
    ],
)
def test_the_values_of_waits_are_of_the_words_type(dtype: str, low: int, high: int) -> None:
    def body(world: ons.World) -> None:
        word, context = world.heap(4096).zeros(1, dtype), world.context()
        for value in (low, high):
            context.set(word, value, 0)
            assert word.local()[0] == value
            word.wait(value, compare="eq")
            stream = world.stream()
            word.wait(value, compare="eq", stream=stream)
            world.synchronize(stream)
            assert context.test(word, value, compare="eq")
            assert context.test(word, 1, compare="gt") == (value > 1)
        for value in (low - 1, high + 1):
            calls: list[tuple[Callable[..., Any], Any]] = [
                (word.wait, (value,)),
                (word.wait_any, (value,)),
                (context.test, (word, value)),
                (context.set, (word, value, 0)),
                (context.compare_swap, (word, value, 0, 0)),
            ]
            for call, arguments in calls:
                with pytest.raises(ons.InvalidArgumentError, match=f"is {value}, which no {dtype} is"):
                    call(*arguments)
        context.set(word, 5, 0)
        assert context.fetch_add(word, -2, 0) == 5  # of either sign, also of unsigned words
        assert word.local()[0] == 3

    run(1, body)


def test_elements_go_in_order_whatever_the_shapes_but_not_between_types() -> None:
    def body(world: ons.World) -> None:
        heap, context = world.heap(4096), world.context()
        table = heap.zeros((2, 3), "f8")
        table.put(np.arange(6.0).reshape(3, 2), 0)
        assert table.local().tolist() == [[0, 1, 2], [3, 4, 5]]
        flat = np.zeros(6)
        context.get(flat, table, 0)
        assert flat.tolist() == list(range(6))
        table.put(bytearray(np.ones(6).tobytes()), 0)  # bytes that tell no type
        assert table.local().sum() == 6
        floats = np.zeros((2, 6), "f4")
        for call in (
            lambda: table.put(floats, 0),
            lambda: table.get(floats, 0),
            lambda: context.put(table, floats, 0),
            lambda: context.get_later(floats, table, 0),
        ):
            with pytest.raises(ons.InvalidArgumentError, match=r"of float(32|64), but .* of float(32|64).*\.view\("):
                call()
        table.put(floats.view("f8"), 0)
        assert table.local().sum() == 0

    run(1, body)


def test_arrays_tell_their_type_and_look_like_arrays() -> None:
    def body(world: ons.World) -> None:
        words = world.heap(4096).zeros((2, 2), "uint64")
        assert words.dtype == np.uint64
        words.local()[...] = [[1, 2], [3, 4]]
        assert np.asarray(words[:, 1]).tolist() == [2, 4]
        assert np.array(words, dtype="f4").sum() == 10
        with pytest.raises(TypeError, match="neither true nor false"):
            bool(words[0, 0])
        for key in (True, np.True_):
            with pytest.raises(IndexError, match="is no index of a SymmetricArray"):
                words[key]

    run(1, body)


def test_types_that_only_torch_has_are_tensors_in_host_memory_too() -> None:
    torch = pytest.importorskip("torch")

    def body(world: ons.World) -> None:
        array = world.heap(4096).zeros((2, 3), torch.bfloat16)
        assert array.dtype == torch.bfloat16
        array[1].put(torch.full((3,), 2.0, dtype=torch.bfloat16), 0)
        assert array.local().tolist() == [[0] * 3, [2] * 3]

    run(1, body)


def test_symmetric_arrays_go_into_plans_reductions_and_masks() -> None:
    def body(world: ons.World) -> None:
        other = 1 - world.rank
        heap = world.heap(4096)
        place, flag, word = heap.zeros((4, 2)), heap.zeros(1, "u8"), heap.zeros(1, "i4")
        mine, got = heap.zeros(4), heap.zeros(4)
        mine.local()[...] = world.rank + 1
        plan = world.plan().put(place[:, 1], mine, other).signal(flag, other).atomic("add", word, other, value=3)
        built = plan.wait(flag).build()
        built.launch()
        assert place.local()[:, 1].tolist() == [other + 1] * 4
        world.barrier()
        assert word.local()[0] == 3
        world.plan().get(got, place[:, 1], other).build().launch()
        with pytest.raises(
            ons.InvalidArgumentError, match="put: the source is of float32, but the destination of float64"
        ):
            world.plan().put(place[:, 1], np.zeros(4, "f4"), other)
        with pytest.raises(
            ons.InvalidArgumentError, match="get: the source is of float64, but the destination of int64"
        ):
            world.plan().get(np.zeros(4, "i8"), place[:, 1], other)
        assert got.local().tolist() == [world.rank + 1] * 4
        world.barrier()
        world.all_reduce(mine, op=lambda a, b: a + b)
        assert mine.local().tolist() == [3] * 4
        left_out = heap.zeros(3, "i4")
        left_out.local()[...] = [0, 1, 0]
        words = heap.zeros(3, "u8")
        assert words.wait_some(0, leave_out=left_out) == [0, 2]
        exchange = world.plan()
        exchange.collectives().neighbourhood([2], periodic=True).all_to_all(mine, got)
        mine.local()[...] = [world.rank, world.rank, world.rank + 10, world.rank + 10]
        exchange.build().launch()
        assert got.local().tolist() == [other + 10, other + 10, other, other]
        world.barrier()

    run(2, body)


def test_a_signal_that_is_no_word_of_the_peers_leaves_its_data_alone() -> None:
    shared: dict[int, Any] = {}

    def body(world: ons.World) -> None:
        table = world.heap(4096).zeros((4, 4))
        shared[world.rank] = world.heap(4096).zeros(1, "u8")
        world.barrier()
        foreign = shared[1 - world.rank]
        stream = world.stream()
        for to in (table[:, 0], table[0]):
            for call in (
                lambda to=to: to.put(np.ones(4), 0, signal=foreign),
                lambda to=to: to.put(np.ones(4), 0, signal=foreign, stream=stream),
                lambda to=to: world.context().put(to, np.ones(4), 0, signal=foreign),
            ):
                with pytest.raises(ons.InvalidArgumentError, match="in no segment of this world"):
                    call()
        world.synchronize(stream)
        world.barrier()
        assert table.local().sum() == 0
        world.barrier()

    run(2, body)
