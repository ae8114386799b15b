"""The objects and arrays of a first program: each object tells its state, and each array works or is told the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rank_threads import run

import onstream as ons


def objects_of(world: ons.World) -> dict[str, Any]:
    heap, hood, team = world.heap(4096), world.neighbourhood([world.size], periodic=True), world.split(world.rank)
    stream, array = world.stream(), np.ones(4)
    with world.capture(stream) as graph:
        assert repr(graph) == "<Graph: being captured>"
        world.all_reduce(array)
    builder = world.plan("step")
    return {
        "World": world,
        "Stream": stream,
        "Graph": graph,
        "Segment": world.segment(64),
        "Heap": heap,
        "SymmetricArray": heap.zeros((2, 3), "f4"),
        "Context": world.context(),
        "Team": team,
        "none": world.team([0] if world.rank == 0 else []),
        "Neighbourhood": hood,
        "Cartesian": world.cartesian([0]),
        "PlanBuilder": builder,
        "PlanCollectives": builder.collectives(),
        "Plan": world.halo(np.zeros(6), name="edges", periodic=True),
        "Explained": team.explain,
        "Request": world.irecv(array, world.rank, tag=3),
        "Launch": world.launch,
    }


OPEN = {
    "World": "<World: rank 1 of 2 on host>",
    "Stream": "<Stream on host>",
    "Graph": "<Graph: captured>",
    "Segment": "<Segment: 64 bytes on each of 2 ranks, device memory>",
    "Heap": "<Heap: .* bytes used by 1 pieces, device memory>",
    "SymmetricArray": r"<SymmetricArray: shape \(2, 3\), float32>",
    "Context": "<Context: rank 1 of 2>",
    "Team": r"<Team: rank 0 of \[1\]>",
    "none": r"<Team: of .*, without this rank>",
    "Neighbourhood": r"<Neighbourhood: from \[0, 0\] to \[0, 0\]>",
    "Cartesian": r"<Cartesian: rank 1 at \(1,\) of \(2,\), periodic \(False,\)>",
    "PlanBuilder": "<PlanBuilder step: not built yet>",
    "PlanCollectives": "<PlanCollectives: into <PlanBuilder step: not built yet>>",
    "Plan": r"<Plan edges: \d operations>",
    "Explained": r"<Explained: <Team: rank 0 of \[1\]>>",
    "Request": "<Request: recv of 32 B from rank 1 with tag 3, .*>",
    "Launch": "<Launch: rank 1 of 2, .*>",
}


def test_every_object_tells_its_state_in_one_line_also_once_the_world_is_closed() -> None:
    def body(world: ons.World) -> dict[str, Any]:
        objects = objects_of(world)
        if world.rank == 1:
            told = {name: repr(one) for name, one in objects.items()}
            wrong = {name: text for name, text in told.items() if not re.fullmatch(OPEN[name], text)}
            assert wrong == {}
        world.send(np.ones(4), world.rank, tag=3)
        objects["Request"].wait()
        assert "ended: ok" in repr(objects["Request"])
        return objects

    closed = run(2, body)[1]
    for name, one in closed.items():
        assert "\n" not in repr(one)
        if name in ("World", "Segment", "Heap", "Context", "Team", "Neighbourhood", "PlanBuilder", "Plan"):
            assert "closed" in repr(one), repr(one)


def test_a_graph_and_a_builder_tell_how_they_ended() -> None:
    def body(world: ons.World) -> None:
        with pytest.raises(ons.Error), world.capture(world.stream()) as empty:
            pass
        assert repr(empty) == "<Graph: its capture raised>"
        with pytest.raises(KeyError), world.capture(world.stream()) as graph:
            raise KeyError(1)
        assert repr(graph) == "<Graph: its capture raised>"
        builder = world.plan("one").send(np.ones(1), 0).recv(np.ones(1), 0)
        builder.build()
        assert repr(builder) == "<PlanBuilder one: built>"

    run(1, body)


def test_a_rank_that_does_not_exist_without_a_launcher_is_told_with_the_command() -> None:
    hint = re.escape("(no launcher was found: `onstream run -n 4 python prog.py`)")
    with ons.init(device="host") as world:
        with pytest.raises(ons.InvalidArgumentError, match=f"send: rank 1 does not exist; .* ranks 0 to 0 {hint}"):
            world.send(np.ones(1), 1)
        with pytest.raises(ons.InvalidArgumentError, match=f"rank 1 is not one of the world's 0 to 0 {hint}"):
            world.plan().send(np.ones(1), 1)

    def body(world: ons.World) -> None:
        with pytest.raises(ons.InvalidArgumentError, match="ranks 0 to 1$"):
            world.send(np.ones(1), 2)

    run(2, body)


def test_a_with_block_closes_the_world() -> None:
    launch = ons.Launch(0, 1, 0, "secret" * 6, "unix:onstream-first-hour")
    with ons.init(launch=launch, device="host") as world:
        assert world.all_reduce(2) == 2
    assert world.closed
    assert repr(world) == "<World: closed>"


def read_only() -> np.ndarray:
    array = np.arange(4.0)
    array.flags.writeable = False
    return array


ARRAYS: dict[str, Callable[[], Any]] = {
    "big-endian": lambda: np.arange(4, dtype=">f8"),
    "read-only": read_only,
    "no dimensions": lambda: np.array(1.5),
    "records": lambda: np.zeros(4, [("x", "f8"), ("n", "i4")]),
    "a column": lambda: np.ones((4, 4))[:, 1],
    "Fortran": lambda: np.asfortranarray(np.ones((3, 4))),
    "backwards": lambda: np.arange(4.0)[::-1],
    "long double": lambda: np.ones(4, "g"),
    "half": lambda: np.ones(4, "f2"),
    "empty": lambda: np.ones(0),
    "list": lambda: [1.0, 2.0],
    "objects": lambda: np.array([None, 1]),
    "masked": lambda: np.ma.ones(4),
}
CALLS: dict[str, Callable[[ons.World, Any], Any]] = {
    "send": lambda w, a: w.sendrecv(a, 0, np.zeros(np.asarray(a).nbytes, "u1"), 0),
    "recv": lambda w, a: w.sendrecv(np.frombuffer(np.asarray(a).tobytes(), "u1"), 0, a, 0),
    "all_reduce": lambda w, a: w.all_reduce(a),
    "broadcast": lambda w, a: w.broadcast(a),
    "plan": lambda w, a: w.plan().send(a, 0).recv(np.empty_like(a), 0).build().launch(),
}
# The remedy that a call names; all others work.
COPY = r"copy it, such as by numpy\.ascontiguousarray\(\)"
ONLY = "read-only .* receive into a writable array"
REFUSED = {
    ("big-endian", "all_reduce"): r"convert them to this machine's byte order by array\.astype",
    ("read-only", "recv"): ONLY,
    ("read-only", "all_reduce"): ONLY,
    ("read-only", "broadcast"): ONLY,
    ("records", "all_reduce"): r"reduce a copy of each field, such as array\['name'\]\.copy\(\)",
    ("long double", "all_reduce"): "they know .*float64",
    **{(name, call): COPY for name in ("a column", "Fortran", "backwards") for call in ("all_reduce", "broadcast")},
    **{("list", call): r"numpy\.asarray\(\) makes an array of a list" for call in CALLS},
    **{("objects", call): "references to Python objects" for call in CALLS},
    **{("masked", call): "give the array's data and mask separately" for call in CALLS},
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_works_or_is_told_the_remedy(name: str, call: str) -> None:
    def body(world: ons.World) -> None:
        array, refusal = ARRAYS[name](), REFUSED.get((name, call))
        if refusal is None:
            before = array.tobytes()
            CALLS[call](world, array)
            assert array.tobytes() == before  # of one rank the result is the array itself
            return
        with pytest.raises((TypeError, ons.InvalidArgumentError), match=refusal):
            CALLS[call](world, array)

    run(1, body)


def test_types_that_numpy_lacks_are_told_or_there_with_ml_dtypes() -> None:
    def body(world: ons.World) -> None:
        array = world.zeros(3, "bfloat16")
        assert (array.dtype.name, array.nbytes) == ("bfloat16", 6)
        for make in (world.zeros, world.heap(4096).zeros, world.segment(64).array):
            with pytest.raises(TypeError, match="dtype is 'bfloat17', which numpy does not know; .*torch.bfloat16"):
                make(3, "bfloat17")

    pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    run(1, body)
