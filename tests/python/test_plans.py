"""Plans and halos from Python, against plain numpy."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs import run_job
from memories import DEVICES, array_of

import onstream as ons

GHOST = -1.0  # in the ghost cells before an exchange


@pytest.mark.parametrize("path", ["auto", "store", "copy", "memop"])
@pytest.mark.parametrize("device", DEVICES)
def test_a_plan_moves_strided_arrays(device: str, path: str) -> None:
    def rank(world: ons.World) -> None:
        peer = 1 - world.rank
        source = array_of(world, np.arange(48, dtype="f4").reshape(6, 8) + 100 * world.rank, "pinned")
        target = array_of(world, np.zeros((8, 6), "f4"), "pinned")
        plan = world.plan("columns").use_path(path).send(source[:, 2:5], peer).recv(target.T[:, 1:4], peer).build()
        for turn in range(5):
            source += 1
            target[:] = 0
            world.barrier()
            stream = world.stream() if turn % 2 else None
            plan.launch(stream)
            world.synchronize(stream)
            world.barrier()
            expected = np.zeros((6, 8), "f4")
            expected[:, 1:4] = (np.arange(48, dtype="f4").reshape(6, 8) + 100 * peer + turn + 1)[:, 2:5]
            assert np.array_equal(target.T, expected)

    ons.run_threads(2, rank, device=device)


@st.composite
def views(draw: st.DrawFn, shape: tuple[int, ...]) -> np.ndarray:
    """An array of this shape whose elements lie far apart, backwards or transposed."""
    order = draw(st.permutations(range(len(shape))))
    steps = draw(st.lists(st.sampled_from([1, 1, 2, 3, -1, -2]), min_size=len(shape), max_size=len(shape)))
    whole = np.zeros([shape[axis] * abs(steps[axis]) + 1 for axis in order], draw(st.sampled_from(["i4", "f8"])))
    picked = whole[
        tuple(slice(1, None, steps[axis]) if steps[axis] > 0 else slice(None, 0, steps[axis]) for axis in order)
    ]
    back = picked.transpose(np.argsort(order))
    return back[tuple(slice(0, extent) for extent in shape)]


SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)


@given(data=st.data(), shape=SHAPES)
@settings(max_examples=60, deadline=None)
def test_any_strides_arrive_in_the_order_of_numpy(data: st.DataObject, shape: tuple[int, ...]) -> None:
    source = data.draw(views(shape))
    target_shape = data.draw(st.sampled_from([shape, (source.size,), (source.size, 1), shape[::-1]]))
    target = data.draw(views(target_shape).filter(lambda view: view.dtype == source.dtype))
    source[...] = np.arange(1, source.size + 1).reshape(shape)
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world:
        world.plan("any").send(source, 0).recv(target, 0).build().launch()
    assert np.array_equal(target.ravel(), source.ravel())


def test_rows_of_plain_host_memory_fit_a_terminal(tmp_path: Path) -> None:
    outcome = run_job(
        tmp_path,
        2,
        """
        import numpy as np
        import onstream as ons

        with ons.init(device="host") as world:
            plan = world.halo(np.zeros((1030, 1030)), ghost=1, grid=[1, 2])
            if world.rank == 0:
                print(plan.explain())
        """,
    )
    lines = outcome.out.splitlines()
    assert any("plain host memory" in line for line in lines), outcome.err
    assert max(len(line) for line in lines) <= 120, outcome.out


def test_a_plan_explains_itself() -> None:
    def rank(world: ons.World) -> tuple[str, list[Any], int]:
        peer = 1 - world.rank
        builder = world.plan("exchange")
        builder.send(np.zeros(100), peer, note="there").recv(np.zeros(100), peer, note="and back")
        plan = builder.build()
        plan.launch()
        assert repr(plan) == "<Plan exchange: 2 operations>"
        assert sum(time.launches for time in plan.times()) > 0
        shown = r"<OpTime: (send to|recv from) \d.*: waited \d+ ns, moved \d+ ns in \d+ launch(es)?>"
        assert all(re.fullmatch(shown, repr(time)) for time in plan.times()), plan.times()
        return plan.explain(), [(op.kind, op.peer, op.nbytes, op.note) for op in plan.ops], plan.kernels_per_launch

    for number, (text, ops, kernels) in enumerate(ons.run_threads(2, rank, device="host")):
        assert "exchange" in text
        assert "there" in text
        assert ops == [("send", 1 - number, 800, "there"), ("recv", 1 - number, 800, "and back")]
        assert kernels == 1


def test_an_unmatched_operation_is_refused_on_every_rank() -> None:
    def rank(world: ons.World) -> str:
        builder = world.plan("lonely")
        if world.rank == 0:
            builder.send(np.zeros(4), 1, tag=3)
        with pytest.raises(ons.InvalidArgumentError) as caught:
            builder.build()
        world.send(b"the world is well", world.rank)
        return str(caught.value)

    for text in ons.run_threads(2, rank, device="host"):
        assert "rank 0" in text
        assert "tag 3" in text


def test_sizes_that_differ_are_refused_naming_both() -> None:
    def rank(world: ons.World) -> str:
        builder = world.plan("sizes")
        if world.rank == 0:
            builder.send(np.zeros(4), 1)
        else:
            builder.recv(np.zeros(5), 0)
        with pytest.raises(ons.InvalidArgumentError) as caught:
            builder.build()
        return str(caught.value)

    for text in ons.run_threads(2, rank, device="host"):
        assert "32" in text
        assert "40" in text


@pytest.mark.parametrize(
    ("add", "reason"),
    [
        (lambda b: b.send(np.zeros(3), 9), "rank 9"),
        (lambda b: b.recv(np.zeros(3), 0, tag=999), "tag 999"),
        (lambda b: b.recv(np.frombuffer(b"12345678", "u8"), 0), "read-only"),
        (lambda b: b.recv(np.lib.stride_tricks.as_strided(np.zeros(4), (3, 2), (8, 8)), 0), "overlap"),
        (lambda b: b.signal(np.zeros(3, "u8"), 0), "64-bit"),
        (lambda b: b.signal(np.zeros(1, "u4"), 0), "64-bit"),
        (lambda b: b.signal(np.zeros(1, "f8"), 0), "not 8 bytes of float64"),
        (lambda b: b.signal(np.zeros(1, "u8"), 0, op="sub"), "'sub' is none of add, set"),
        (lambda b: b.signal(np.zeros(1, "u8"), 0, op="set", value=-1), "value is -1, which no uint64 is"),
        (lambda b: b.signal(np.zeros(1, "u8"), 0), "do not lie in rank 0's part"),
        (lambda b: b.wait(np.zeros(1, "u4")), "64-bit"),
        (lambda b: b.wait(np.zeros(1, "u8"), compare="about"), "'about' is none of eq, ne, gt, ge, lt, le"),
        (lambda b: b.wait(np.zeros(1, "f8"), compare="eq"), "integers of 4 or 8 bytes, not float64"),
        (lambda b: b.wait(np.zeros(1, "i4"), compare="eq", value=2**31), "which no int32 is"),
        (lambda b: b.wait(np.zeros(2, "u4"), compare="eq"), "one word, not 2"),
        (lambda b: b.wait(np.frombuffer(bytearray(16), "u8", 1, 4), compare="eq"), "not aligned to 8 bytes"),
        (lambda b: b.atomic("add", np.zeros(3, "u8"), 0), "one word, not 3"),
        (lambda b: b.atomic("add", np.zeros(1, "f8"), 0), "there are fetch, set and swap, but not add"),
        (lambda b: b.atomic("set", np.zeros(1, "f2"), 0), "words are integers or floats of 4 or 8 bytes, not float16"),
        (lambda b: b.atomic("nand", np.zeros(1, "u8"), 0), "'nand' is none of fetch, set"),
        (lambda b: b.atomic("add", np.zeros(1, "u4"), 0, value=2**32), "no integer of 32 bits"),
        (lambda b: b.atomic("fetch", np.zeros(1, "u8"), 0, old=np.zeros(1, "u4")), "cannot go to 4 bytes"),
        (lambda b: b.atomic("add", np.zeros(1, "u8"), 0), "do not lie in rank 0's part"),
        (lambda b: b.use_path("pigeon"), "pigeon"),
    ],
)
def test_wrong_operations_are_refused_at_once(add: Any, reason: str) -> None:
    with (
        ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world,
        pytest.raises(ons.InvalidArgumentError, match=reason),
    ):
        add(world.plan())


@pytest.mark.parametrize(
    ("block", "grid", "reason"),
    [
        (np.zeros((2, 9)), [2, 1], "rank 1: halo: the local array of 2 x 9 cells is too small along dimension 0"),
        (np.zeros((9, 9)), [5, 5], "rank 1: halo grid has 25 ranks, the world has 2"),
        (np.zeros((9, 9), "f4"), [2, 1], "the one sends float64, the other receives float32, and their sizes differ"),
    ],
)
def test_a_wrong_block_of_a_halo_is_told_on_every_rank(block: Any, grid: list[int], reason: str) -> None:
    def rank(world: ons.World) -> None:
        good = np.zeros((9, 9))
        with pytest.raises(ons.InvalidArgumentError, match=reason) as caught:
            world.halo(block if world.rank == 1 else good, grid=grid if world.rank == 1 else [2, 1])
        own = f"the arrays of rank {world.rank}: {(good, block)[world.rank].dtype} of shape (9, 9)"
        assert (own in str(caught.value)) == ("sizes differ" in reason)
        world.halo(good, grid=[2, 1])

    ons.run_threads(2, rank, device="host")


@pytest.mark.parametrize("grid", [None, [2, 1]])
@pytest.mark.parametrize(
    ("wrong", "kind", "reason"),
    [
        ({"ghost": [1]}, ons.InvalidArgumentError, "ghost"),
        ({"ghost": "x"}, TypeError, "ghost"),
        ({"periodic": [True, False, True]}, ons.InvalidArgumentError, "periodic"),
        ({"tag": 1.5}, TypeError, "tag"),
        ({"arrays": memoryview(bytes(72))}, ons.InvalidArgumentError, "read-only"),
        ({"arrays": object()}, TypeError, "object"),
    ],
)
def test_wrong_arguments_of_a_halo_are_told_on_every_rank(
    wrong: dict[str, Any], kind: type[Exception], reason: str, grid: Any
) -> None:
    def rank(world: ons.World) -> None:
        right = {"arrays": np.zeros((9, 9)), "grid": grid}
        mistaken = world.rank == 1
        told = (kind, reason) if mistaken else (ons.InvalidArgumentError, f"rank 1: halo: .*{reason}")
        with pytest.raises(told[0], match=told[1]):
            world.halo(**{**right, **(wrong if mistaken else {})})
        world.halo(**right).launch()

    ons.run_threads(2, rank, device="host", timeout_s=60)


def test_puts_of_two_processes_into_the_same_place_are_refused_naming_both(tmp_path: Path) -> None:
    program = """
        import numpy as np
        import onstream as ons

        with ons.init(device="host") as world:
            data = world.segment(64)
            source = np.zeros(4)

            def build(offsets):
                builder = world.plan("crossing")
                if world.rank > 0:
                    begin = offsets[world.rank]
                    builder.put(data.peer(0, "f8")[begin : begin + 4], source, 0)
                return builder.build()

            build([0, 0, 4])
            try:
                build([0, 0, 3])
            except ons.InvalidArgumentError as error:
                print(f"told {world.rank}:", error)
            build([0, 4, 0])
    """
    job = run_job(tmp_path, 3, program)
    assert job.code == 0, job.err
    both = "rank 1 op 0: put of 32 B to rank 0 and rank 2 op 0: put of 32 B to rank 0 overlap in rank 0's memory"
    assert job.out.count("told ") == job.out.count(both) == 3


def test_puts_and_signals_reach_the_peers_segment() -> None:
    launches = 10

    def rank(world: ons.World) -> None:
        peer = 1 - world.rank
        data, counters = world.segment(8 * 16), world.segment(8 * 4)
        source = np.zeros((16, 2))
        plan = (
            world.plan("put")
            .put(data.peer(peer, "f8"), source[:, 0], peer)
            .signal(counters.peer(peer, "u8")[2:3], peer)
            .wait(counters.local("u8")[2:3])
            .build()
        )
        for turn in range(launches):
            source[:, 0] = 100 * world.rank + turn
            plan.launch()
            assert (data.local("f8") == 100 * peer + turn).all()
            world.barrier()
        assert counters.local("u8").tolist() == [0, 0, launches, 0]

    ons.run_threads(2, rank, device="host")


def test_waits_compare_words_that_signals_set() -> None:
    def rank(world: ons.World) -> None:
        peer = 1 - world.rank
        words, data = world.segment(64), world.segment(8 * 16)
        mine, source = words.local("u8"), np.zeros(16)
        # The one sets to 5 and the other answers with 6, by plans that are launched in turn.
        plans = [
            world.plan(f"set {value}")
            .put(data.peer(peer, "f8"), source, peer)
            .signal(words.peer(peer, "u8")[0:1], peer, value=value, op="set")
            .wait(words.local("i8")[0:1], value=value, compare="eq")
            .wait(words.local("i4")[2:3], value=0, compare="le")
            .build()
            for value in (5, 6)
        ]
        assert "wait eq" in plans[0].explain()
        for turn in range(6):
            source[:] = 10 * turn + world.rank
            plans[turn % 2].launch()
            assert (data.local("f8") == 10 * turn + peer).all()
            assert mine[0] == 5 + turn % 2
            world.barrier()

    ons.run_threads(2, rank, device="host")


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_floats_are_fetched_set_and_swapped(dtype: str) -> None:
    def rank(world: ons.World) -> None:
        peer = 1 - world.rank
        words, old = world.segment(64), np.zeros(2, dtype)
        words.local(dtype)[:3] = [1.5, 2.5, 3.5]
        world.barrier()
        theirs = words.peer(peer, dtype)
        plan = (
            world.plan("floats")
            .atomic("fetch", theirs[0:1], peer, old=old[0:1])
            .atomic("swap", theirs[1:2], peer, value=-0.25, old=old[1:2])
            .atomic("set", theirs[2:3], peer, value=1e30)
            .build()
        )
        for before in (2.5, -0.25):
            plan.launch()
            assert old.tolist() == [1.5, before]
            world.barrier()
        assert words.local(dtype)[:3].tolist() == [1.5, -0.25, np.dtype(dtype).type(1e30)]

    ons.run_threads(2, rank, device="host")


def test_atomics_change_words_of_a_peer_and_tell_what_they_were() -> None:
    launches = 5

    def rank(world: ons.World) -> None:
        peer = 1 - world.rank
        words = world.segment(64)
        old = np.zeros(2, "i8")
        small = np.zeros(1, "i4")
        plan = (
            world.plan("words")
            .atomic("add", words.peer(peer, "i8")[0:1], peer, value=-2, old=old[0:1])
            .atomic("compare_swap", words.peer(peer, "i8")[1:2], peer, value=9, expected=0, old=old[1:2])
            .atomic("or", words.peer(peer, "i4")[4:5], peer, value=1 << 31, old=small)
            .build()
        )
        assert "atomic compare_swap to" in plan.explain()
        for turn in range(launches):
            plan.launch()
            assert old.tolist() == [-2 * turn, 0 if turn == 0 else 9]
            assert small.tolist() == [0 if turn == 0 else -(2**31)]
            world.barrier()
        assert words.local("i8")[:2].tolist() == [-2 * launches, 9]

    ons.run_threads(2, rank, device="host")


def test_gets_read_the_peers_segment() -> None:
    def rank(world: ons.World) -> None:
        peer = 1 - world.rank
        data = world.segment(8 * 16)
        got = np.zeros((8, 2))
        plan = world.plan("get").get(got[:, 1], data.peer(peer, "f8")[::2], peer).build()
        assert [(op.kind, op.path) for op in plan.ops] == [("get", "load")]
        for turn in range(5):
            data.local("f8")[:] = np.arange(16) + 100 * world.rank + turn
            world.barrier()
            plan.launch()
            assert (got[:, 1] == np.arange(0, 16, 2) + 100 * peer + turn).all()
            assert (got[:, 0] == 0).all()
            world.barrier()

    ons.run_threads(2, rank, device="host")


@pytest.mark.parametrize("device", DEVICES)
def test_collectives_of_a_plan_run_behind_its_messages(device: str) -> None:
    def rank(world: ons.World) -> None:
        peer = (world.rank + 1) % world.size
        mine = array_of(world, np.zeros(5), "pinned")
        came = array_of(world, np.zeros(5), "pinned")
        sums = array_of(world, np.zeros(5), "pinned")
        team = world.team([0, 2] if world.rank != 1 else [1])
        largest = array_of(world, np.zeros(1, "i4"), "pinned")
        builder = world.plan("step").send(mine, peer).recv(came, (world.rank - 1) % world.size)
        assert builder.collectives().all_reduce(came, sums) is sums
        builder.collectives(team).all_reduce(largest, op="max")
        builder.collectives().barrier()
        plan = builder.build()
        assert [op.kind for op in plan.ops] == ["send", "recv", "all_reduce", "all_reduce", "barrier"]
        assert "3 collectives" in plan.explain()
        assert "of ranks" in plan.explain()
        graph_stream = world.stream()
        with world.capture(graph_stream) as graph:
            plan.launch()
        for turn in range(6):
            mine[:] = world.rank + turn
            largest[:] = world.rank
            world.barrier()
            if turn % 3 == 0:
                plan.launch()
            elif turn % 3 == 1:
                plan.launch(graph_stream)
            else:
                graph.launch(graph_stream)
            world.synchronize(graph_stream)
            assert (came == (world.rank - 1) % world.size + turn).all()
            assert (sums == 3 + 3 * turn).all()
            assert largest[0] == (1 if world.rank == 1 else 2)
            world.barrier()

    ons.run_threads(3, rank, device=device)


def test_a_function_of_ones_own_reduces_in_a_plan() -> None:
    def rank(world: ons.World) -> None:
        value = np.array([float(world.rank + 2)])
        out = np.zeros(1)
        builder = world.plan("power")
        builder.collectives().all_reduce(value, out, op=lambda lower, upper: lower**upper)
        plan = builder.build()
        for _ in range(3):
            plan.launch()
            assert out[0] == 2.0**3.0
        world.barrier()

    ons.run_threads(2, rank, device="host")


def test_collectives_that_differ_between_ranks_are_refused_on_every_rank() -> None:
    def rank(world: ons.World) -> None:
        array = np.zeros(4, "f4" if world.rank == 0 else "f8")
        builder = world.plan("types")
        builder.collectives().all_reduce(array)
        with pytest.raises(ons.InvalidArgumentError, match=r"all_reduce of 4 float32 sum.* does not meet .*float64"):
            builder.build()
        with pytest.raises(ons.InvalidArgumentError, match="on the stream of each launch"):
            builder.collectives().all_reduce(array, stream=world.stream())

    ons.run_threads(2, rank, device="host")


def test_a_captured_plan_replays() -> None:
    def rank(world: ons.World) -> None:
        peer = 1 - world.rank
        source, target = world.zeros(1000), world.zeros(1000)
        plan = world.plan().send(source, peer).recv(target, peer).build()
        stream = world.stream()
        with world.capture(stream) as graph:
            plan.launch(stream)
        for turn in range(10):
            source[:] = 10 * turn + world.rank
            graph.launch(stream)
            stream.synchronize()
            assert (target == 10 * turn + peer).all()

    ons.run_threads(2, rank, device="host")


def expected_halo(
    whole: np.ndarray, start: list[int], shape: list[int], ghost: list[int], periodic: list[bool], corners: bool
) -> np.ndarray:
    """A rank's local array after an exchange, cell by cell from the global array."""
    local = np.full([n + 2 * g for n, g in zip(shape, ghost, strict=True)], GHOST)
    for cell in np.ndindex(*local.shape):
        inside = [g <= c < g + n for c, g, n in zip(cell, ghost, shape, strict=True)]
        if not corners and inside.count(False) > 1:
            continue
        place = [s + c - g for s, c, g in zip(start, cell, ghost, strict=True)]
        for axis, size in enumerate(whole.shape):
            if periodic[axis]:
                place[axis] %= size
        if all(0 <= p < size for p, size in zip(place, whole.shape, strict=True)):
            local[cell] = whole[tuple(place)]
    return local


CASES = [
    ((12,), (3,), 1, False, False),
    ((12,), (3,), 2, True, False),
    ((8, 10), (2, 2), 1, False, False),
    ((8, 10), (2, 2), 2, True, True),
    ((9, 4), (3, 1), (1, 0), (True, False), False),
    ((6, 6), (1, 1), 1, True, True),
    ((4, 6, 4), (2, 1, 2), 1, (False, True, True), True),
    ((4, 4, 2, 4), (2, 1, 1, 2), 1, True, False),
]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("size", "grid", "ghost", "periodic", "corners"), CASES)
@pytest.mark.parametrize("device", DEVICES)
def test_a_halo_fills_the_ghost_cells(
    size: Any, grid: Any, ghost: Any, periodic: Any, corners: bool, order: Any, device: str
) -> None:
    dims = len(size)
    widths = [ghost] * dims if isinstance(ghost, int) else list(ghost)
    wraps = [periodic] * dims if isinstance(periodic, bool) else list(periodic)
    shape = [n // g for n, g in zip(size, grid, strict=True)]
    whole = np.arange(float(np.prod(size))).reshape(size)

    def rank(world: ons.World) -> None:
        place = ons.coordinates_of(world.rank, grid)
        start = [c * n for c, n in zip(place, shape, strict=True)]
        extents = [n + 2 * g for n, g in zip(shape, widths, strict=True)]
        local = world.zeros(extents if order == "C" else extents[::-1], kind="pinned")
        local = local if order == "C" else local.T
        local[...] = GHOST
        interior = tuple(slice(g, g + n) for g, n in zip(widths, shape, strict=True))
        plan = world.halo(local, ghost=ghost, grid=grid, periodic=periodic, corners=corners)
        for turn in range(3):
            field = whole + 1000 * turn
            local[interior] = field[tuple(slice(s, s + n) for s, n in zip(start, shape, strict=True))]
            plan.launch()
            expected = expected_halo(field, start, shape, widths, wraps, corners)
            assert np.array_equal(local, expected), f"rank {world.rank}, launch {turn}"
            world.barrier()

    ons.run_threads(int(np.prod(grid)), rank, device=device)


def test_several_arrays_share_one_plan_and_one_kernel() -> None:
    def rank(world: ons.World) -> None:
        heights, speeds = np.full((6, 4), GHOST), np.full((4, 6), GHOST, "f4")
        heights[1:-1, 1:-1] = world.rank
        speeds[1:-1, 1:-1] = 10 + world.rank
        plan = world.halo([heights, speeds], ghost=1, grid=[1, 2])
        plan.launch()
        ghost = 0 if world.rank else -1
        assert (heights[1:-1, ghost] == 1 - world.rank).all()
        assert (speeds[1:-1, ghost] == 11 - world.rank).all()
        assert plan.kernels_per_launch == 1

    ons.run_threads(2, rank, device="host")


def test_a_halo_without_a_grid_chooses_one_for_unequal_blocks() -> None:
    def rank(world: ons.World) -> None:
        local = np.full((10 + world.rank + 2, 6), GHOST)
        local[1:-1, 1:-1] = world.rank
        world.halo(local).launch()
        ghosts = local[0 if world.rank else -1, 1:-1]
        assert (ghosts == 1 - world.rank).all()

    ons.run_threads(2, rank, device="host")


def test_a_halo_without_a_grid_has_one_for_more_ranks_than_a_block_has_cells() -> None:
    def rank(world: ons.World) -> None:
        local = np.full((4, 4), GHOST)
        local[1:-1, 1:-1] = world.rank
        world.halo(local, periodic=True).launch()
        grid = ons.choose_grid(world.size, [100, 100])
        assert grid == [5, 1]
        assert (local[0, 1:-1] == (world.rank - 1) % 5).all()
        assert (local[1:-1, 0] == world.rank).all()

    ons.run_threads(5, rank, device="host")


@pytest.mark.parametrize(("size", "shape"), list(itertools.product([1, 2, 6, 7], [(64, 64), (100, 10), (30, 20, 10)])))
def test_a_chosen_grid_uses_every_rank(size: int, shape: tuple[int, ...]) -> None:
    grid = ons.choose_grid(size, list(shape))
    assert int(np.prod(grid)) == size
    assert len(grid) == len(shape)
    for rank in range(size):
        assert ons.rank_at(ons.coordinates_of(rank, grid), grid, [False] * len(grid)) == rank


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: ons.coordinates_of(1, [0, 2]), "a grid of 0 x 2 ranks"),
        (lambda: ons.coordinates_of(-1, [2, 2]), "rank -1 is not in a grid of 2 x 2"),
        (lambda: ons.coordinates_of(4, [2, 2]), "rank 4 is not in a grid of 2 x 2"),
        (lambda: ons.coordinates_of(0, [2**16, 2**16]), "65536 x 65536 has more ranks"),
        (lambda: ons.rank_at([5], [0], [True]), "a grid of 0 ranks"),
        (lambda: ons.rank_at([5], [-1], [False]), "a grid of -1 ranks"),
        (lambda: ons.rank_at([0], [2, 2], [False, False]), "1 coordinates for a grid of 2 x 2"),
        (lambda: ons.rank_at([0, 0, 0], [2, 2], []), "3 coordinates"),
        (lambda: ons.rank_at([0, 0], [2, 2], [True]), "periodic has 1 entries"),
    ],
)
def test_what_is_no_place_in_a_grid_is_refused(call: Any, reason: str) -> None:
    with pytest.raises(ons.InvalidArgumentError, match=reason):
        call()


def test_a_place_beyond_the_edge_wraps_only_where_the_grid_is_periodic() -> None:
    assert ons.rank_at([-1, 0], [3, 2], []) == -1
    assert ons.rank_at([-1, 1], [3, 2], [True, False]) == 5
    assert ons.rank_at([2**31 - 1, 0], [2**31 - 1, 1], [True, False]) == 0
