"""torch.distributed's all_reduce of CPU tensors over onstream against gloo: python -m onstream.bench.torch_gloo

Each rank has a group of either backend, and times rounds of blocking calls that alternate between them: the mean of a
round is a sample, and the figure is the median of the samples of rank 0. Every round begins behind a barrier; the sums are
checked before anything is timed. The bar is half of gloo's time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from typing import Any

from .cases import KIB, MIB
from .samples import median
from .table import size_text, time_text

SIZES = {8: 200, MIB: 20, 16 * MIB: 3}  # bytes, and calls of a round
BAR = 0.5
DEADLINE_S = 60


def main() -> int:
    """Runs the ranks of each number of them, or is one itself; the exit status is 1 where the bar is missed."""
    options = argparse.ArgumentParser(
        prog="python -m onstream.bench.torch_gloo", description=(__doc__ or "").split("\n")[0]
    )
    options.add_argument("--ranks", type=int, nargs="+", default=[2, 4], help="numbers of ranks")
    options.add_argument("--rounds", type=int, default=15, help="rounds of each backend and size")
    options.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="bytes")
    chosen = options.parse_args()
    if "TORCH_GLOO_RANK" in os.environ:
        return _run_rank(chosen.sizes, chosen.rounds)
    return max(_run_job(size, sys.argv[1:]) for size in chosen.ranks)


def _run_job(size: int, words: list[str]) -> int:
    print(f"all_reduce of {size} ranks on {len(os.sched_getaffinity(0))} cores, float32, medians")
    with tempfile.TemporaryDirectory() as folder:
        shared = {"TORCH_GLOO_STORE": f"{folder}/store", "TORCH_GLOO_SIZE": str(size), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "onstream.bench.torch_gloo", *words]
        ranks = [
            subprocess.Popen(command, env={**os.environ, **shared, "TORCH_GLOO_RANK": str(rank)})
            for rank in range(size)
        ]
        try:
            ends = time.monotonic() + DEADLINE_S * 2
            return max(rank.wait(timeout=max(0.1, ends - time.monotonic())) for rank in ranks)
        finally:
            for rank in ranks:
                rank.kill()


def _run_rank(sizes: list[int], rounds: int) -> int:
    import torch
    import torch.distributed as dist

    import onstream.torch  # noqa: F401  the import registers the backend

    rank, size = int(os.environ["TORCH_GLOO_RANK"]), int(os.environ["TORCH_GLOO_SIZE"])
    store = dist.FileStore(os.environ["TORCH_GLOO_STORE"], size)
    limit = timedelta(seconds=DEADLINE_S)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=limit)
    groups = {"gloo": dist.group.WORLD, "onstream": dist.new_group(backend="onstream", timeout=limit)}
    missed = False
    for nbytes in sizes:
        tensor = torch.ones(max(1, nbytes // 4))
        times = _time(dist, groups, tensor, SIZES.get(nbytes, max(1, (MIB + 200 * KIB) // nbytes)), rounds)
        ratio = median(times["onstream"]) / median(times["gloo"])
        missed = missed or ratio > BAR
        if rank == 0:
            cells = "  ".join(f"{name} {time_text(median(samples)):>9}" for name, samples in times.items())
            print(
                f"{size_text(nbytes):>8}: {cells}  ratio {ratio:.2f}{'  above the bar' if ratio > BAR else ''}",
                flush=True,
            )
    dist.destroy_process_group()
    return int(missed and rank == 0)


def _time(dist: Any, groups: dict[str, Any], tensor: Any, calls: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of one call, a sample a round."""
    for group in groups.values():
        tensor.fill_(1)
        dist.all_reduce(tensor, group=group)
        if not bool((tensor == dist.get_world_size()).all()):
            raise RuntimeError("an all_reduce of ones is not the number of ranks")
    times: dict[str, list[float]] = {name: [] for name in groups}
    for _ in range(rounds):
        for name, group in groups.items():
            tensor.fill_(0)
            dist.barrier(group=group)
            start = time.perf_counter()
            for _call in range(calls):
                dist.all_reduce(tensor, group=group)
            times[name].append((time.perf_counter() - start) / calls)
    return times


if __name__ == "__main__":
    sys.exit(main())
