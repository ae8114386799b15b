"""Heaps, symmetric arrays and contexts from Python: pieces of symmetric memory, strides, words, atomics, and errors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs import run_job
from memories import DEVICES

import onstream as ons

PATHS = ["auto", "stage"]  # reached directly; by the owner's helper


def run(size: int, body: Callable[[ons.World], Any], **parameters: Any) -> list[Any]:
    return ons.run_threads(size, body, **{"device": "host", "timeout_s": 10, **parameters})


# --- heaps ---


@pytest.mark.parametrize("device", DEVICES)
def test_pieces_lie_at_the_same_place_on_every_rank(device: str) -> None:
    def body(world: ons.World) -> tuple[int, int, int]:
        with world.heap(1 << 16, kind="pinned") as heap:
            first = heap.zeros((4, 8), "f4")
            second = heap.empty(100, "i8", alignment=4096)
            assert (first.shape, first.nbytes, len(first)) == ((4, 8), 128, 4)
            assert (first.local() == 0).all()
            first.local()[...] = world.rank + 1
            world.barrier()
            theirs = first.peer(1 - world.rank)
            assert theirs.shape == (4, 8)
            assert (theirs == 2 - world.rank).all()
            world.barrier()
            at = second.elements().address
            assert at % 4096 == 0
            assert heap.pieces == 2
            heap.free(first)
            assert heap.pieces == 1
            return heap.nbytes, heap.used, second.piece.offset

    assert len(set(run(2, body, device=device))) == 1


def test_a_heap_grows_only_if_it_may() -> None:
    def body(world: ons.World) -> None:
        small = world.heap(4096)
        assert small.full_for(8192)
        with pytest.raises(ons.SystemError, match=r"no room for 8192 B.*let it grow"):
            small.empty(1024, "f8")
        growing = world.heap(4096, grow_nbytes=4096)
        assert not growing.full_for(1 << 20)
        large = growing.zeros(1 << 17, "f8")
        assert growing.nbytes >= (1 << 20) + 4096
        large.put(np.full(1 << 17, 3.0), 1 - world.rank)
        world.barrier()
        assert (large.local() == 3).all()
        world.barrier()

    run(2, body)


def test_a_resized_array_keeps_what_fits() -> None:
    def body(world: ons.World) -> None:
        heap = world.heap(1 << 14)
        array = heap.empty((2, 3), "i4")
        array.local()[...] = np.arange(6).reshape(2, 3) + 10 * world.rank
        blocker = heap.empty(16, "i4")
        longer = heap.resize(array, (500, 3))
        assert (longer.local()[:2] == np.arange(6).reshape(2, 3) + 10 * world.rank).all()
        with pytest.raises(ons.ClosedError, match=r"shape \(2, 3\) is of no use any more: it was resized"):
            array.local()
        shorter = heap.resize(longer, 2)
        assert shorter.local().tolist() == [10 * world.rank, 10 * world.rank + 1]
        heap.free(blocker)
        heap.free(shorter)
        assert heap.pieces == 0

    run(2, body)


def test_calls_that_differ_name_who_calls_what() -> None:
    def body(world: ons.World) -> None:
        heap = world.heap(1 << 14)
        with pytest.raises(
            ons.InvalidArgumentError, match=r"rank 0 calls allocate\(32, 64\).*rank 1 calls allocate\(40, 64\)"
        ):
            heap.empty(4 + world.rank)
        with pytest.raises(ons.InvalidArgumentError, match=r"a heap of 4096 B.*a heap of 8192 B"):
            world.heap(4096 * (1 + world.rank))

    run(2, body)


def test_a_rank_that_does_not_come_is_named_at_the_deadline() -> None:
    def body(world: ons.World) -> None:
        heap = world.heap(1 << 14)
        if world.rank == 0:
            with pytest.raises(ons.Error, match="rank 1"):
                heap.empty(4)
        else:
            with pytest.raises(ons.Error):
                heap_wait(world)

    def heap_wait(world: ons.World) -> None:
        segment = world.zeros(1, "u8")
        world.context().wait(segment, 1)

    run(2, body, timeout_s=0.5)


def test_what_was_freed_is_of_no_use() -> None:
    def body(world: ons.World) -> None:
        heap = world.heap(1 << 14)
        array = heap.zeros(4)
        part = array[1:]
        heap.free(array)
        for use in (array.local, lambda: array.peer(0), lambda: part.put(np.zeros(3), 0), array.elements):
            with pytest.raises(ons.ClosedError, match="it was freed"):
                use()
        with pytest.raises(ons.InvalidArgumentError, match="no piece of this heap any more: it was freed"):
            heap.free(array)
        with pytest.raises(ons.InvalidArgumentError, match="no array that this heap made"):
            heap.free(world.heap(4096).empty(1))
        other = heap.zeros(4)
        with pytest.raises(ons.InvalidArgumentError, match="only a part of one"):
            heap.free(other[1:])
        heap.close()
        heap.close()
        with pytest.raises(ons.ClosedError, match="was freed"):
            other.local()
        with pytest.raises(ons.Error, match="was freed"):
            other.get(np.zeros(4), 0)
        with pytest.raises(ons.ClosedError, match="this heap was closed"):
            heap.empty(4)
        late = world.heap(4096)
        world.close()
        with pytest.raises(ons.ClosedError):
            late.empty(1)

    run(1, body)


# --- data ---


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


# --- contexts ---


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("path", PATHS)
def test_what_is_put_later_is_there_after_quiet(path: str, device: str) -> None:
    def body(world: ons.World) -> None:
        right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
        heap = world.heap(1 << 16, kind="pinned")
        array, flag = heap.zeros(2000, "i4"), heap.zeros(1, "i8")
        context = world.context()
        for part in range(2000):  # more than a context keeps arrays for
            context.put_later(array[part], np.full(1, part + world.rank, "i4"), right)
        context.fence()
        context.signal(flag, right, value=3, op="set")
        context.wait(flag, 3)
        assert (array.local() == np.arange(2000) + left).all()
        there = np.zeros(2000, "i4")
        context.get_later(there, array, right)
        context.quiet()
        assert (there == np.arange(2000) + world.rank).all()
        context.barrier()
        context.put_later(array[::2], np.ones(1000, "i4"), right, signal=flag[0], value=9, op="set")
        context.wait(flag, 9, compare="eq")
        assert array.local()[::2].sum() == 1000
        context.barrier()

    run(3, body, path=path, device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("path", PATHS)
def test_memory_of_the_device_takes_all_of_it_too(path: str, device: str) -> None:
    def body(world: ons.World) -> None:
        other = 1 - world.rank
        heap = world.heap(1 << 14)
        table, words = heap.zeros((4, 6), "f8"), heap.zeros(3, "i8")
        context = world.context()
        context.put(table[1:3, ::2], np.arange(12.0).reshape(3, 4)[:, 1:3].T + world.rank, other, signal=words[0])
        words[0].wait(1)
        got = np.zeros((4, 6))
        table.get(got, world.rank)
        assert (got[1:3, ::2] == np.arange(12.0).reshape(3, 4)[:, 1:3].T + other).all()
        assert got[0].sum() == 0
        assert words[1].atomic("add", other, value=-4) == 0
        assert context.wait_any(words, -4, compare="eq", leave_out=[1, 0, 1]) == 1
        context.barrier()

    run(2, body, path=path, device=device)


def test_a_context_names_places_by_views_of_this_ranks_own_part() -> None:
    def body(world: ons.World) -> None:
        segment = world.segment(8 * 12)
        mine = segment.local("f8")
        context = world.context()
        context.put(mine[1:9:2], np.arange(4.0) + world.rank, 1 - world.rank)
        context.barrier()
        assert mine[1:9:2].tolist() == [1 - world.rank + i for i in range(4)]
        out = np.zeros(4)
        context.get(out, mine[1:9:2], 1 - world.rank)
        assert out.tolist() == [world.rank + i for i in range(4)]
        with pytest.raises(ons.InvalidArgumentError, match="is in no segment of this world"):
            context.put(np.zeros(4), out, 0)
        context.barrier()

    run(2, body)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_atomics_of_integers(dtype: str, path: str, device: str) -> None:
    def body(world: ons.World) -> None:
        heap = world.heap(4096, kind="pinned")
        words = heap.zeros(6, dtype)
        context = world.context()
        for _ in range(10):
            context.fetch_add(words[0], 3, 0)
            context.fetch_inc(words[1:2], 1)
        context.fetch_or(words[2], 1 << world.rank, 0)
        context.fetch_xor(words[3], 5 + world.rank, 0)
        context.barrier()
        assert context.fetch(words[0], 0) == 60
        assert context.fetch(words[1], 1) == 20
        assert context.fetch(words[2], 0) == 3
        assert context.fetch(words[3], 0) == 5 ^ 6
        context.barrier()
        if world.rank == 1:
            low = -7 if dtype.startswith("int") else 2 ** (8 * np.dtype(dtype).itemsize) - 7
            assert context.swap(words[4], low, 0) == 0
            assert context.compare_swap(words[4], low, 8, 0) == low
            assert context.compare_swap(words[4], low, 9, 0) == 8
            assert context.fetch_and(words[4], 12, 0) == 8
            context.set(words[5], 11, 0)
            assert words[5].atomic("fetch", 0) == 11
        context.barrier()

    run(2, body, path=path, device=device)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_are_fetched_set_and_swapped(dtype: str) -> None:
    def body(world: ons.World) -> None:
        word = world.heap(4096).zeros(1, dtype)
        other = 1 - world.rank
        context = world.context()
        context.set(word, -1.5, other)
        context.barrier()
        assert context.fetch(word, other) == -1.5
        context.barrier()
        assert context.swap(word, 0.25 + world.rank, other) == -1.5
        context.barrier()
        assert word.local()[0] == 0.25 + other
        with pytest.raises(ons.InvalidArgumentError, match="floating-point numbers there are fetch, set and swap"):
            word.atomic("add", other, value=1)

    run(2, body)


@pytest.mark.parametrize("device", DEVICES)
def test_waits_for_many_words(device: str) -> None:
    def body(world: ons.World) -> None:
        words = world.heap(4096, kind="pinned").zeros(5, "i4")
        context = world.context()
        assert context.test_any(words, 0, compare="ne") is None
        assert context.test_some(words, 0, compare="eq", leave_out=[0, 1, 0, 0, 1]) == [0, 2, 3]
        world.barrier()
        other = 1 - world.rank
        context.set(words[3], -2, other)
        assert context.wait_any(words, 0, compare="lt") == 3
        assert words.wait_any(0, compare="lt") == 3
        world.barrier()
        context.set(words[1], -2, other)
        context.wait(words[1], -2, compare="eq")
        assert context.wait_some(words, -1, compare="le") == [1, 3]
        assert words.wait_some(-1, compare="le", leave_out=[0, 0, 0, 1, 0]) == [1]
        assert context.test(words[1], -3, compare="gt")
        assert not context.test(words[1], -1, compare="ge")
        words.wait_all(-2, compare="eq", leave_out=np.array([1, 0, 1, 0, 1]))
        assert words.wait_any(5, leave_out=[1] * 5) is None
        assert words.wait_some(5, leave_out=[1] * 5) == []
        world.barrier()

    run(2, body, device=device)


def test_a_wait_in_vain_ends_at_the_deadline() -> None:
    def body(world: ons.World) -> None:
        words = world.heap(4096).zeros(2, "u8")
        with pytest.raises(ons.Error, match="deadline"):
            words.wait_all(5)

    run(1, body, timeout_s=0.3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("array.put(np.zeros(3), 0)", "put: the source has 24 B, but the destination 32 B"),
        ("array.get(np.zeros(5), 0)", "get: the source has 32 B, but the destination 40 B"),
        ("array.put(np.zeros(4), 1)", "rank 1"),
        ("array.peer(3)", "rank 3"),
        ("array[4]", "index 4 is not within the 4 elements"),
        ("array[0, 0]", "an index of 2 dimensions"),
        ("array['x']", "integers and slices"),
        ("array[0].put(np.zeros(1), 0, signal=array[0])", "one symmetric integer of 8 bytes"),
        ("array.wait_all(1)", "words are integers of 4 or 8 bytes, not float64"),
        ("counts.wait(1)", r"this array has shape \(4,\)"),
        ("counts[::2].wait_all(1)", "without gaps"),
        ("counts.wait_all(2**64)", "which no uint64 is"),
        ("counts[0].signal(0, value=2**64)", "which no integer of 64 bits is"),
        ("counts[0].signal(0, value=-1, op='set')", "which no uint64 is"),
        ("shorts[0].wait(70000)", "words are integers of 4 or 8 bytes, not int16"),
        ("counts[0].atomic('fetch', 0, old=counts[1])", "old= is for atomics on a stream"),
        ("counts.wait_any(0, found=counts[1])", "found= and indices= are for waits on a stream"),
        ("heap.zeros(1, 'f4').atomic('set', 0, value=1e300)", "value is 1e.300, which is too large for a float32"),
        ("heap.zeros(1, 'f4').atomic('set', 0, value='x')", "value is 'x' of type str, but must be a number"),
        ("world.segment(64).array(1, offset=-8)", "offset is -8, but must be 0 to"),
        ("world.segment(64).signal(0, offset=0, value=2**64)", "which no integer of 64 bits is"),
        ("array.put(np.zeros(4), 2**40)", "rank 1099511627776 does not exist"),
        ("counts[0].wait(1, compare='near')", "compare='near' is none of eq"),
        ("counts.wait_any(1, leave_out=[1])", "leave_out has 1 entries for 4 words"),
        ("context.wait_any(counts, 1, leave_out=[])", "leave_out has 0 entries for 4 words"),
        ("counts.wait_all(1, stream=world.stream(), leave_out=[1] * 4)", "leave_out is an array of int32"),
        ("counts.wait_any(1, stream=world.stream())", "the answers of many words go to words of 8 B"),
        ("counts.wait_any(1, stream=world.stream(), found=array)", "`found` must be 1 integers of 8 bytes"),
        ("counts[0].atomic('nand', 0)", "op='nand' is none of fetch"),
        ("counts.atomic('add', 0)", "one word, not 4"),
        ("shorts[0].atomic('add', 0)", "words are integers or floats of 4 or 8 bytes, not int16"),
        ("context.put(array, np.zeros((4, 2))[:, 0][:3], 0)", "the source has 24 B"),
        ("context.wait(counts, 1)", "one word, but this array has 4 elements"),
        ("context.signal(array[0], 0)", "one symmetric integer of 8 bytes"),
        ("heap.empty(-1)", "negative extent"),
        ("heap.empty(4, alignment=48)", "power of two, not 48"),
        ("world.heap(1)", "at least"),
        ("world.heap(4096, kind='fast')", "kind='fast' is none of"),
    ],
)
def test_what_is_wrong_is_told_with_its_value(call: str, words: str) -> None:
    def body(world: ons.World) -> None:
        heap = world.heap(1 << 14)
        names = {
            "world": world, "heap": heap, "np": np, "context": world.context(), "array": heap.zeros(4),
            "counts": heap.zeros(4, "u8"), "shorts": heap.zeros(4, "i2"),
        }  # fmt: skip
        with pytest.raises((ons.Error, TypeError, ValueError, IndexError), match=words):
            eval(call, names)

    run(1, body)


def test_processes_share_a_heap(tmp_path: Path) -> None:
    outcome = run_job(
        tmp_path,
        3,
        """
        import numpy as np
        import onstream as ons

        with ons.init(device="host", timeout_s=20) as world, world.heap(1 << 16) as heap:
            right = (world.rank + 1) % world.size
            table, flag = heap.zeros((8, 4), "f8"), heap.zeros(1, "u8")
            table[:, 2].put(np.arange(8.0) + world.rank, right, signal=flag)
            flag.wait(1)
            assert table.local()[:, 2].sum() == 28 + 8 * ((world.rank - 1) % world.size)
            world.context().barrier()
            assert (table.peer(right)[:, 2] == np.arange(8) + world.rank).all()
            world.barrier()
            if world.rank == 0:
                print("fine")
        """,
    )
    assert (outcome.code, outcome.out.strip()) == (0, "[0] fine"), outcome.err


# --- what an op on a stream needs stays ---


def gated(world: ons.World) -> tuple[Any, Any]:
    """A stream that waits for a word, and the word."""
    gate = world.segment(64).array(1, "u8")
    stream = world.stream()
    gate[0].wait(1, stream=stream)
    return stream, gate


def test_a_put_on_a_stream_keeps_its_signal() -> None:
    def body(world: ons.World) -> None:
        stream, gate = gated(world)
        data, flags = world.segment(64).array(4), world.segment(64).array(1, "u8")
        kept = sys.getrefcount(flags.piece.blocks)
        data.put(np.ones(4), 1 - world.rank, signal=flags[0], stream=stream)
        assert sys.getrefcount(flags.piece.blocks) > kept
        world.barrier()
        del flags
        gate.local()[...] = 1
        world.synchronize(stream)
        world.barrier()
        assert data.local().tolist() == [1] * 4

    run(2, body)


def test_a_wait_on_a_stream_keeps_its_segment() -> None:
    def body(world: ons.World) -> None:
        stream, gate = gated(world)
        segment = world.segment(64)
        kept = sys.getrefcount(segment._blocks)
        segment.wait(offset=0, value=1, compare="lt", stream=stream)
        assert sys.getrefcount(segment._blocks) > kept
        del segment
        world.barrier()
        gate.local()[...] = 1
        world.synchronize(stream)

    run(2, body)


def test_what_is_put_later_keeps_all_its_memory() -> None:
    def body(world: ons.World) -> None:
        context = world.context()
        data, flags = world.segment(64).array(4), world.segment(64).array(1, "u8")

        def held() -> list[int]:
            return [sys.getrefcount(one.piece.blocks) for one in (data, flags)]

        before = held()
        context.put_later(data, np.ones(4), 0, signal=flags[0])
        assert held() == [count + 1 for count in before]
        context.get_later(np.zeros(4), data, 0)
        assert held() == [before[0] + 2, before[1] + 1]
        context.quiet()
        assert held() == before

    run(1, body)


# --- values ---


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
        assert got.local().tolist() == [world.rank + 1] * 4
        world.barrier()
        world.all_reduce(mine, op=lambda a, b: a + b)
        assert mine.local().tolist() == [3] * 4
        left_out = heap.zeros(3, "i4")
        left_out.local()[...] = [0, 1, 0]
        words = heap.zeros(3, "u8")
        assert words.wait_some(0, leave_out=left_out) == [0, 2]
        with pytest.raises(ons.UnsupportedError, match="no collectives of a neighbourhood"):
            world.plan().collectives().neighbourhood([2])
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


def test_an_interrupted_free_leaves_no_array_that_looks_alive(tmp_path: Path) -> None:
    outcome = run_job(
        tmp_path,
        2,
        """
        import signal

        import onstream as ons

        class Stop(Exception):
            pass

        def stop(*_):
            raise Stop

        def interrupted(call):
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            try:
                call()
            except Stop:
                return True
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            return False

        with ons.init(device="host", timeout_s=20) as world:
            heap, gate = world.heap(4096), world.segment(64).array(1, "u8")
            first, second = heap.zeros(4), heap.zeros(4)
            if world.rank == 0:
                signal.signal(signal.SIGALRM, stop)
                assert interrupted(lambda: heap.free(first))
                try:
                    first.local()
                except ons.ClosedError as error:
                    assert "its free was interrupted" in str(error), error
                else:
                    raise AssertionError("alive")
                assert interrupted(lambda: repr(heap))  # the call that was left behind has the heap
                gate.signal(1)
            else:
                gate.wait(1)
                heap.free(first)
            third = heap.zeros(4)
            assert third.piece.offset == first.piece.offset
            assert heap.pieces == 2
            world.barrier()
        """,
    )
    assert outcome.code == 0, outcome.err
