"""Contexts from Python: deferred puts, atomics, waits, errors, and the objects that an op on a stream keeps alive."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from memories import DEVICES
from rank_threads import PATHS, run

import onstream as ons


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
        ("counts[0].atomic('add', 1)", "rank 1"),
        ("array.put(np.zeros(4), 0, signal=counts[1:3])", "one symmetric integer of 8 bytes"),
        ("array.put(np.zeros(4), 0, signal=counts[1], op='sub')", "op='sub' is none of add, set"),
        ("array[::2].put(np.zeros(2), 0, signal=counts[1], op='sub')", "op='sub' is none of add, set"),
        ("array.put(np.zeros(4), 1, stream=world.stream())", "rank 1"),
        ("array[::2].put(np.zeros(2), 1, stream=world.stream())", "rank 1"),
        ("context.put(array, np.zeros(4), 1)", "rank 1"),
        ("context.put(array, np.zeros(4), 0, signal=counts[1], op='sub')", "op='sub' is none of add, set"),
        ("context.put_later(array[::2], np.zeros(2), 0, signal=counts[1], op='sub')", "op='sub' is none of add, set"),
        ("context.put(array, np.zeros(4), 0, signal=counts[1], op='set', value=-1)", "which no uint64 is"),
        ("context.set(counts[0], 5, 1)", "rank 1"),
        ("context.put(array, np.zeros((4, 2))[:, 0][:3], 0)", "the source has 24 B"),
        ("context.wait(counts, 1)", "one word, but this array has 4 elements"),
        ("context.signal(array[0], 0)", "one symmetric integer of 8 bytes"),
        ("heap.empty(-1)", "negative extent"),
        ("heap.empty(4, alignment=48)", "power of two, not 48"),
        ("world.heap(1)", "at least"),
        ("world.heap(4096, kind='fast')", "kind='fast' is none of"),
    ],
)
def test_what_is_wrong_is_told_with_its_value_and_writes_nothing(call: str, words: str) -> None:
    def body(world: ons.World) -> None:
        heap = world.heap(1 << 14)
        names = {
            "world": world, "heap": heap, "np": np, "context": world.context(), "array": heap.zeros(4),
            "counts": heap.zeros(4, "u8"), "shorts": heap.zeros(4, "i2"),
        }  # fmt: skip
        words_of = [names[name] for name in ("array", "counts", "shorts")]
        for one in words_of:
            one.local()[...] = 9
        with pytest.raises((ons.Error, TypeError, ValueError, IndexError), match=words):
            eval(call, names)
        assert all((one.local() == 9).all() for one in words_of)

    run(1, body)


# --- an op on a stream keeps its objects alive ---


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
        gate.local()[...] = 1
        world.synchronize(stream)

    run(1, body)


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
