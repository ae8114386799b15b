"""PyTorch's symmetric memory under measurement: `onstream bench collective` starts it, as so many ranks, with a Python
that has torch.

    torch_collectives.py --samples N CASE...        CASE: see collective_case.hpp

all_reduce is the faster of one_shot_all_reduce and two_shot_all_reduce_; all_gather is _low_contention_all_gather.
Nothing here uses multicast (its operators called multimem). Every sample starts with a barrier and is timed by rank 0's
clock, from the first call to the device synchronised; before the timing each result is compared with the expected one,
sums of small whole numbers. A call that cannot be captured is measured eagerly, and the row says so. Rank 0 prints JSON
lines: a heading, then one a case with its samples, or the reason for none. The driver ends a rank that hangs.
"""

import argparse
import datetime
import json
import os
import statistics
import sys
import time

os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"  # read when torch makes symmetric memory
os.environ.setdefault("NCCL_NVLS_ENABLE", "0")

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric_memory

MEET_S = 60
PERIOD = 5  # of the numbers that are summed


class Case:
    def __init__(self, text):
        fields = text.split(":")
        if len(fields) != 7:
            raise SystemExit(
                f"torch_collectives: a case is KIND:TYPE:OP:SUBMISSION:BYTES:ITERATIONS:WINDOW, not '{text}'"
            )
        self.text = text
        self.kind, self.type, self.op, self.submission = fields[:4]
        self.nbytes, self.iterations, self.window = map(int, fields[4:])
        self.dtype = getattr(torch, self.type)

    def count(self, size):
        """Elements of a rank's part, or of the vector."""
        elements = self.nbytes // self.dtype.itemsize
        return elements // size if self.kind == "all_gather" else elements

    def bus_factor(self, size):
        return (size - 1) / size * (2 if self.kind == "all_reduce" else 1)


class Ranks:
    """The process group, and the symmetric buffer that all cases use."""

    def __init__(self, cases):
        self.rank = int(os.environ.get("RANK") or os.environ["ONSTREAM_RANK"])
        self.size = int(os.environ.get("WORLD_SIZE") or os.environ["ONSTREAM_SIZE"])
        local = int(os.environ.get("LOCAL_RANK") or os.environ.get("ONSTREAM_LOCAL_RANK") or self.rank)
        torch.cuda.set_device(local)
        self.device = torch.device("cuda", local)
        dist.init_process_group(
            "nccl",
            init_method=f"tcp://{os.environ.get('MASTER_ADDR', '127.0.0.1')}:{os.environ['MASTER_PORT']}",
            rank=self.rank,
            world_size=self.size,
            timeout=datetime.timedelta(seconds=MEET_S),
            device_id=self.device,
        )
        self.group = dist.group.WORLD.group_name
        largest = max(case.nbytes for case in cases)
        self.buffer = symmetric_memory.empty(
            max(4096, -(-largest // 4096) * 4096), dtype=torch.uint8, device=self.device
        )
        symmetric_memory.rendezvous(self.buffer, self.group)

    def barrier(self):
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()

    def heading(self):
        return {
            "library": f"PyTorch {torch.__version__}",
            "device": torch.cuda.get_device_name(self.device),
            "device_kind": "cuda",
            "ranks": self.size,
            "buffers": "symmetric memory, no multicast",
        }


def numbers(count, dtype, rank, device):
    """Element i of this rank's vector: 0 to 4."""
    return ((torch.arange(count, device=device) * 7 + rank * 3) % PERIOD).to(dtype)


def ways_of(case, ranks):
    """Names of the operators, and functions that run them on `mine` and return where the result is."""
    ops = torch.ops.symm_mem
    mine = ranks.buffer.view(case.dtype)[: case.count(ranks.size)]
    if case.kind == "all_reduce":
        return mine, {
            "one_shot": lambda: ops.one_shot_all_reduce(mine, "sum", ranks.group),
            "two_shot": lambda: ops.two_shot_all_reduce_(mine, "sum", ranks.group),
        }
    if case.kind == "all_gather":
        wait = torch.ops._c10d_functional.wait_tensor
        return mine, {"low_contention": lambda: wait(ops._low_contention_all_gather(mine, ranks.group))}
    raise ValueError(f"PyTorch's symmetric memory is not measured with {case.kind}")


def wrong_of(case, ranks, mine, run):
    """Runs it once; elements that are wrong."""
    count = case.count(ranks.size)
    parts = [numbers(count, case.dtype, rank, ranks.device) for rank in range(ranks.size)]
    mine.copy_(parts[ranks.rank])
    ranks.barrier()
    result = run()
    torch.cuda.synchronize()
    expected = sum(parts[1:], parts[0]) if case.kind == "all_reduce" else torch.cat(parts)
    wrong = int((result != expected).sum().item())
    mine.zero_()  # zeros stay zero when summed in place
    ranks.barrier()
    return wrong


def capture(case, run):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(case.window):
            run()
    return graph


def samples_of(case, ranks, run, count):
    """Seconds of one, and how they were submitted."""
    submission, graph = case.submission, None
    if submission == "captured":
        try:
            graph = capture(case, run)
        except RuntimeError:
            submission = "eager"
            torch.cuda.synchronize()
    samples = []
    for sample in range(-1, count):  # -1: the warm-up
        ranks.barrier()
        start = time.perf_counter_ns()
        if graph is not None:
            for _ in range(case.iterations):
                graph.replay()
        else:
            for _ in range(case.iterations * case.window):
                run()
        torch.cuda.synchronize()
        if sample >= 0:
            samples.append((time.perf_counter_ns() - start) * 1e-9 / case.iterations / case.window)
    ranks.barrier()
    return samples, submission


def measure(case, ranks, samples):
    """The row of the fastest way that is right, as rank 0 sees it; wrong if any way is."""
    mine, ways = ways_of(case, ranks)
    rows, reasons = [], []
    for name, run in ways.items():
        try:
            wrong = wrong_of(case, ranks, mine, run)
            times, submission = samples_of(case, ranks, run, samples)
        except (RuntimeError, AttributeError, ValueError) as error:
            reasons.append(f"{name}: {str(error).splitlines()[0]}")
            continue
        rows.append({"wrong": wrong, "how": name, "submission": submission, "samples_s": times})
    if not rows:
        return {"case": case.text, "refused": "; ".join(reasons)}
    best = min(rows, key=lambda row: (row["wrong"] != 0, statistics.median(row["samples_s"])))
    best["wrong"] = max(row["wrong"] for row in rows)
    return {"case": case.text, "bus_factor": case.bus_factor(ranks.size), **best}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("cases", nargs="+", type=Case)
    arguments = parser.parse_args()
    ranks = Ranks(arguments.cases)
    good = True
    if ranks.rank == 0:
        print(json.dumps(ranks.heading()), flush=True)
    for case in arguments.cases:
        row = measure(case, ranks, arguments.samples)
        if row.get("wrong"):
            good = False
            print(
                f"torch_collectives: rank {ranks.rank}: {row['wrong']} elements of {case.text} are wrong",
                file=sys.stderr,
            )
        if ranks.rank == 0:
            print(json.dumps(row), flush=True)
    dist.destroy_process_group()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
