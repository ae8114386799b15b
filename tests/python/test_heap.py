"""Heaps from Python: pieces of symmetric memory, their sizes, ends and errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from jobs import run_job
from memories import DEVICES
from rank_threads import run

import onstream as ons


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
        with pytest.raises(ons.SystemError, match=r"no room for 8192 B.*let it grow \(grow_nbytes\)"):
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
