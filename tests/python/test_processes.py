"""Worlds of processes on every device: the functions of process_ranks.py, library_ranks.py and machine_ranks.py check
messages, collectives, segments and plans, and the resources that ranks take of their machine.

On cuda each rank has a GPU of its own; where there is but one, both share it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import library_ranks as libraries
import machine_ranks as machine
import process_ranks as ranks
import pytest
from jobs import run_job, run_ranks
from memories import DEVICES, LIBRARIES, MEMORIES

Test = TypeVar("Test", bound=Callable[..., Any])

# Memory of the ranks' arrays: each kind on each device, and on cuda the user's own.
MESSAGES = [("host", memory) for memory in MEMORIES]
KERNELS = [("host", "numpy"), ("host", "device")]  # memory that kernels reach themselves
if "cuda" in DEVICES:
    MESSAGES += [("cuda", memory) for memory in [*MEMORIES, *LIBRARIES]]
    KERNELS += [("cuda", memory) for memory in ["pinned", "device", *LIBRARIES]]
PLANS = [row for row in KERNELS if row != ("cuda", "device") or LIBRARIES]  # memory that a library makes views of


@pytest.mark.parametrize(("device", "memory"), MESSAGES)
def test_messages_of_every_form_arrive(device: str, memory: str, tmp_path: Path) -> None:
    run_ranks(tmp_path, 2, [ranks.messages], memory, device=device)


# As ranks.messages, each call by one path; calls that fill and read the arrays choose their own.
MESSAGES_BY_PATH = """
    import sys
    from functools import partial
    from types import SimpleNamespace

    sys.path.insert(0, {tests!r})
    import process_ranks as ranks

    import onstream as ons

    with ons.init(device={device!r}, timeout_s=60) as world:
        calls = ("send", "recv", "isend", "irecv", "sendrecv")
        by_path = {{call: partial(getattr(world, call), path={path!r}) for call in calls}}
        forced = SimpleNamespace(rank=world.rank, **by_path)
        for exchange in (ranks.one_after_the_other, ranks.posted, ranks.both_at_once):
            for nbytes in {sizes!r}:
                ranks.check_messages(world, "device", lambda _, *rest: exchange(forced, *rest), nbytes)
        world.barrier()
    print("rank", world.rank, "is right")
"""


@pytest.mark.parametrize("path", ["ll", "store", "load", "copy", "stage"])
@pytest.mark.parametrize("device", DEVICES)
def test_messages_arrive_by_every_path(device: str, path: str, tmp_path: Path) -> None:
    sizes = (0, 8, 5000) if path == "ll" else (0, 8, 5000, 1 << 20)  # the ring has no room for more
    program = MESSAGES_BY_PATH.format(tests=str(Path(__file__).parent), device=device, path=path, sizes=sizes)
    outcome = run_job(tmp_path, 2, program, timeout_s=100)
    assert outcome.code == 0, outcome.err
    assert outcome.out.count("is right") == 2


@pytest.mark.parametrize("device", DEVICES)
def test_messages_arrive_between_unlike_memories(device: str, tmp_path: Path) -> None:
    run_ranks(tmp_path, 2, [ranks.messages_between_unlike_memories], device=device)


@pytest.mark.parametrize(("device", "memory"), KERNELS)
def test_collectives_have_numpys_results(device: str, memory: str, tmp_path: Path) -> None:
    bodies = [ranks.collectives, ranks.collectives_of_unequal_parts, ranks.neighbours]
    run_ranks(tmp_path, 2, bodies, memory, device=device)


@pytest.mark.parametrize("device", DEVICES)
def test_algorithms_that_are_asked_for_have_the_same_results(device: str, tmp_path: Path) -> None:
    run_ranks(tmp_path, 2, [ranks.algorithms], "device", device=device)


@pytest.mark.parametrize("device", DEVICES)
def test_collectives_at_once_end_whatever_the_order_of_their_starts(device: str, tmp_path: Path) -> None:
    run_ranks(tmp_path, 2, [ranks.channels_in_opposite_orders], "device", device=device)


@pytest.mark.parametrize(("device", "memory"), PLANS)
def test_plans_and_halos_move_what_numpy_says(device: str, memory: str, tmp_path: Path) -> None:
    run_ranks(tmp_path, 2, [ranks.a_plan_of_every_op, ranks.a_halo], memory, device=device)


@pytest.mark.parametrize(
    ("kind", "memory", "path"),
    [("device", "device", "auto"), ("pinned", "pinned", "auto"), ("device", "pinned", "stage")],
)
@pytest.mark.parametrize("device", DEVICES)
def test_segments_are_put_to_and_read_by_the_other_process(
    device: str, kind: str, memory: str, path: str, tmp_path: Path
) -> None:
    bodies = [ranks.puts_and_gets_of_the_host, ranks.puts_and_gets_of_a_stream]
    if kind == "device":  # a word of pinned memory is not always one for the atomics of two GPUs (docs/one_sided.md)
        bodies.append(ranks.atomics)
    run_ranks(tmp_path, 2, bodies, kind, memory, device=device, path=path)


# --- the libraries' own streams, kernels and graphs ---


def on_gpus_with(library: str) -> Callable[[Test], Test]:
    why = f"{library} is not installed" if "cuda" in DEVICES else "there is no GPU"
    missing = "cuda" not in DEVICES or importlib.util.find_spec(library) is None
    return lambda test: pytest.mark.gpu(pytest.mark.skipif(missing, reason=why)(test))


@on_gpus_with("torch")
def test_messages_are_in_the_order_of_torchs_streams(tmp_path: Path) -> None:
    bodies = [libraries.torch_streams_order_messages, libraries.torchs_default_stream_orders_messages]
    run_ranks(tmp_path, 2, bodies, device="cuda")


@on_gpus_with("torch")
def test_torch_captures_messages_and_the_world_captures_torch(tmp_path: Path) -> None:
    bodies = [libraries.torch_captures_messages, libraries.kernels_of_torch_go_into_a_graph_of_the_world]
    run_ranks(tmp_path, 2, bodies, device="cuda")


@on_gpus_with("torch")
def test_torch_tensors_are_reduced_and_go_by_plans(tmp_path: Path) -> None:
    bodies = [libraries.torch_tensors_are_reduced, libraries.torch_tensors_of_any_strides_go_by_plans]
    run_ranks(tmp_path, 2, bodies, device="cuda")


@on_gpus_with("cupy")
def test_cupys_streams_order_and_capture_messages(tmp_path: Path) -> None:
    run_ranks(tmp_path, 2, [libraries.cupy_streams_order_messages, libraries.cupy_captures_messages], device="cuda")


@on_gpus_with("cupy")
def test_cupy_arrays_are_reduced(tmp_path: Path) -> None:
    run_ranks(tmp_path, 2, [libraries.cupy_arrays_are_reduced], device="cuda")


@on_gpus_with("cupy")
def test_memory_that_was_freed_and_allocated_again_is_mapped_again(tmp_path: Path) -> None:
    run_ranks(tmp_path, 2, [libraries.memory_is_freed_and_allocated_again], device="cuda")


def why_triton_compiles_nothing() -> str:
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed"
    if not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
        return "triton has no C compiler"
    header = Path(sysconfig.get_path("include")) / "Python.h"
    return "" if header.exists() else f"triton needs {header}, which is missing"


@on_gpus_with("torch")
def test_kernels_of_triton_store_into_a_peers_segment(tmp_path: Path) -> None:
    if why := why_triton_compiles_nothing():
        pytest.skip(why)
    run_ranks(tmp_path, 2, [libraries.triton_stores_into_a_peers_segment], device="cuda")


NUMBA_COMPILES = "from numba import cuda, int32; cuda.compile_ptx(lambda x: x, (int32,), device=True)"


@on_gpus_with("numba")
def test_kernels_of_numba_store_into_a_peers_segment(tmp_path: Path) -> None:
    probe = subprocess.run([sys.executable, "-c", NUMBA_COMPILES], capture_output=True, text=True, timeout=60)
    if probe.returncode != 0:
        pytest.skip(f"numba compiles nothing for GPUs: {probe.stderr.strip()[-200:]}")
    run_ranks(tmp_path, 2, [libraries.numba_stores_into_a_peers_segment], device="cuda")


@on_gpus_with("cupy")
def test_arrays_of_onstreams_memory_may_go_while_streams_use_them(tmp_path: Path) -> None:
    bodies = [
        libraries.arrays_go_while_streams_use_them,
        libraries.arrays_go_as_collectives_begin,
        libraries.memory_that_was_in_use_comes_back,
    ]
    run_ranks(tmp_path, 2, bodies, device="cuda")


LEAVES_ARRAYS = """
    import onstream as ons

    world = ons.init(device="cuda")
    array, segment = world.zeros(1000), world.segment(1000)
    view = segment.local()
    array += 1
"""


@on_gpus_with("cupy")
def test_arrays_that_are_left_at_the_programs_end_end_with_it_quietly(tmp_path: Path) -> None:
    outcome = run_job(tmp_path, 1, LEAVES_ARRAYS)
    assert outcome.code == 0, outcome.err
    assert outcome.err.strip() == ""


LOSES_ITS_GPU = """
    import sys

    import cupy
    import numpy as np

    import onstream as ons

    world = ons.init(device="cuda", timeout_s=5)
    mine, box = world.zeros(300_000), world.zeros(300_000)
    plain = world.irecv(np.zeros(300_000), 0)
    world.send(np.ones(300_000), 0)
    plain.wait()
    heap = world.heap(1 << 16)
    heap.zeros(100).put(np.ones(100), 0)
    plan = world.plan().send(mine, 0).recv(box, 0).build()
    plan.launch()
    world.all_reduce(mine)
    segment = world.segment(1000)
    late = world.irecv(box, 0, stream=world.stream())
    world.synchronize()
    bad = cupy.RawKernel('extern "C" __global__ void bad(int* word) { *word = 1; }', "bad")
    bad((1,), (1,), (np.uint64(8),))
    try:
        plan.launch()
        world.synchronize()
    except ons.Error as error:
        print(error)
    del mine, box, plan, segment, late, plain, heap
    world.close()
    sys.exit(7)
"""


@on_gpus_with("cupy")
def test_a_rank_that_loses_its_gpu_by_a_kernel_of_its_own_is_told_and_ends_as_it_likes(tmp_path: Path) -> None:
    outcome = run_job(tmp_path, 1, LOSES_ITS_GPU)
    assert outcome.code == 7, outcome.err
    assert "illegal memory access" in outcome.out
    assert "terminate" not in outcome.err


WAITS_FOR_A_LOST_GPU = """
    import cupy
    import numpy as np

    import onstream as ons

    world = ons.init(device="cuda", timeout_s=2)
    flag = world.zeros(1, "int64", kind="pinned")
    context = world.context()
    context.wait(flag, 0)
    cupy.RawKernel('extern "C" __global__ void bad(int* word) { *word = 1; }', "bad")((1,), (1,), (np.uint64(8),))
    try:
        context.wait(flag, 1)  # the kernel was to set it
    except ons.Error as error:
        print(error)
"""


@on_gpus_with("cupy")
def test_a_wait_of_the_host_that_no_kernel_can_end_any_more_names_the_kernel_that_failed(tmp_path: Path) -> None:
    outcome = run_job(tmp_path, 1, WAITS_FOR_A_LOST_GPU)
    assert "deadline" in outcome.out
    assert "a kernel has failed" in outcome.err
    assert "illegal memory access" in outcome.err


@pytest.mark.parametrize("device", DEVICES)
def test_no_memory_that_ranks_share_has_a_name(device: str, tmp_path: Path) -> None:
    run_ranks(tmp_path, 2, [machine.no_shared_memory_has_a_name], device=device)


def test_of_eight_ranks_on_few_cores_those_that_wait_sleep(tmp_path: Path) -> None:
    run_ranks(tmp_path, 8, [machine.a_rank_that_waits_leaves_the_cores_to_others], device="host")
