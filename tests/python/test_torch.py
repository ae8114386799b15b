"""torch.distributed over onstream, on CPU tensors: each job has real processes that meet at a file and know gloo as well."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

RANKS = Path(__file__).with_name("torch_ranks.py")
LIMIT_S = 240


def run(folder: Path, size: int, *bodies: str, fails: bool = False) -> list[str]:
    """Runs these functions of torch_ranks.py on `size` ranks and returns their outputs. Fails unless every rank is right."""
    inherited = {name: text for name, text in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "MASTER_ADDR")}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(RANKS), str(rank), str(size), str(folder / "store"), *bodies],
            env={**inherited, "OMP_NUM_THREADS": "1", "ONSTREAM_LOG": "off"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        ended = [rank.communicate(timeout=LIMIT_S) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    if not fails:
        assert [rank.returncode for rank in ranks] == [0] * size, "\n".join(err[-3000:] for _, err in ended)
    return [out for out, _ in ended]


@needs_torch
@pytest.mark.limit(300)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_collectives_have_the_values_of_a_plain_reference(tmp_path: Path, size: int) -> None:
    run(
        tmp_path, size, "reductions", "moves", "uneven_moves", "strided_tensors_are_copied", "bools_and_complex",
        "lazy_bits_are_resolved", "works_end", "refusals_name_the_call",
    )  # fmt: skip


@needs_torch
@pytest.mark.limit(300)
def test_callbacks_of_futures_may_wait_for_collectives(tmp_path: Path) -> None:
    run(
        tmp_path, 2, "callbacks_make_collectives", "callbacks_make_blocking_collectives",
        "a_future_beside_a_wait_completes", "a_forked_process_has_threads_of_its_own", "one_thread_ends_a_message",
        "a_failed_message_has_ended",
    )  # fmt: skip


@needs_torch
@pytest.mark.limit(300)
def test_a_rank_has_one_gpu_in_all_groups(tmp_path: Path) -> None:
    run(tmp_path, 4, "gpus_of_groups")


@needs_torch
@pytest.mark.limit(300)
def test_messages_have_tags_and_may_be_batched(tmp_path: Path) -> None:
    run(
        tmp_path, 3, "messages_match_by_tag", "messages_from_any_rank", "messages_in_a_batch", "objects_travel",
        "a_message_of_another_size",
    )  # fmt: skip


@needs_torch
@pytest.mark.limit(300)
def test_groups_are_made_split_destroyed_and_made_again(tmp_path: Path) -> None:
    run(tmp_path, 4, "groups_of_some_ranks", "groups_of_a_split", "another_order_in_another_group", "begin_again")


@needs_torch
@pytest.mark.limit(300)
def test_a_backend_for_each_device_may_be_named(tmp_path: Path) -> None:
    run(tmp_path, 2, "mixed_backends")


@needs_torch
@pytest.mark.limit(300)
def test_a_rank_that_dies_fails_the_others_with_the_story(tmp_path: Path) -> None:
    said = run(tmp_path, 3, "a_rank_dies", fails=True)
    assert ["rank 2 has died" in out for out in said] == [True, True, False]


@needs_torch
@pytest.mark.limit(300)
def test_a_rank_that_does_not_come_ends_the_wait_at_the_deadline(tmp_path: Path) -> None:
    run(tmp_path, 2, "a_deadline_passes")


@needs_torch
@pytest.mark.limit(300)
@pytest.mark.parametrize("model", ["ddp", "fully_shard", "tensor_parallel", "compiled_ddp"])
def test_training_has_the_losses_of_gloo(tmp_path: Path, model: str) -> None:
    run(tmp_path, 2, f"train:{model}")


LAUNCHERS = {
    "torchrun": ["torch.distributed.run", "--nproc-per-node", "2"],
    "onstream run": ["onstream.launcher", "-n", "2", sys.executable],
}


@needs_torch
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_program_of_the_page_trains(launcher: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", *LAUNCHERS[launcher], str(ROOT / "examples" / "torch_ddp.py")],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    for rank in range(2):
        assert f"rank {rank} has the weights [1.0, 1.0, 1.0, 1.0]" in ended.stdout
    assert "literalinclude} ../examples/torch_ddp.py" in (ROOT / "docs" / "torch.md").read_text()


def test_an_import_without_torch_says_so(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("")
    ended = subprocess.run(
        [sys.executable, "-c", "import onstream.torch"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT / os.environ.get('ONSTREAM_BUILD', 'build') / 'python'}"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 1
    assert "onstream.torch needs PyTorch 2.11 or newer" in ended.stderr
