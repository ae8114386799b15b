"""A stand-in for torch with the calls of bench/collective/torch_collectives.py and no more: arrays are numpy's,
collectives onstream's on the host device, and a graph is a list of functions. With it the driver of PyTorch's symmetric
memory runs without a GPU.

An all_gather cannot be captured here, one_shot_all_reduce knows no bfloat16 (which numpy lacks: it is float16), and there
is no all_gather of int64: the driver's reports of such limits are tested too.
"""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

__version__ = "0.0.1"
float32, float64, int64, uint8 = (np.dtype(name) for name in ("float32", "float64", "int64", "uint8"))
bfloat16 = np.dtype("float16")

_recording: list[Any] | None = None


class Tensor(np.ndarray):
    def to(self, dtype: Any) -> Tensor:
        return self.astype(dtype).view(Tensor)

    def copy_(self, other: Any) -> None:
        self[...] = other

    def zero_(self) -> None:
        self[...] = 0


def arange(count: int, device: Any) -> Tensor:
    return np.arange(count).view(Tensor)


def cat(parts: list[Tensor]) -> Tensor:
    return np.concatenate(parts).view(Tensor)


def device(kind: str, index: int) -> str:
    return f"{kind}:{index}"


def _do(act: Any, result: Tensor) -> Tensor:
    """Now, or when the graph is replayed."""
    if _recording is None:
        act()
    else:
        _recording.append(act)
    return result


def _one_shot_all_reduce(mine: Tensor, op: str, group: str) -> Tensor:
    from . import distributed

    if mine.dtype == bfloat16:
        raise RuntimeError("one_shot_all_reduce: no such type\nand more lines")
    out = np.empty_like(mine)
    return _do(lambda: distributed.world.all_reduce(mine, out), out)


def _two_shot_all_reduce(mine: Tensor, op: str, group: str) -> Tensor:
    from . import distributed

    return _do(lambda: distributed.world.all_reduce(mine), mine)


def _all_gather(mine: Tensor, group: str) -> Tensor:
    from . import distributed

    if _recording is not None:
        raise RuntimeError("operation not permitted when stream is capturing")
    if mine.dtype == int64:
        raise RuntimeError("all_gather: no such type")
    out = np.empty(distributed.world.size * mine.size, mine.dtype).view(Tensor)
    return _do(lambda: distributed.world.all_gather(mine, out), out)


ops = SimpleNamespace(
    symm_mem=SimpleNamespace(
        one_shot_all_reduce=_one_shot_all_reduce,
        two_shot_all_reduce_=_two_shot_all_reduce,
        _low_contention_all_gather=_all_gather,
    ),
    _c10d_functional=SimpleNamespace(wait_tensor=lambda tensor: tensor),
)


class _Graph(list[Any]):
    def replay(self) -> None:
        for act in self:
            act()


@contextmanager
def _graph(graph: _Graph) -> Any:
    global _recording
    _recording = graph
    try:
        yield
    finally:
        _recording = None


cuda = SimpleNamespace(
    CUDAGraph=_Graph,
    graph=_graph,
    set_device=lambda index: None,
    synchronize=lambda: None,
    is_available=lambda: True,
    get_device_name=lambda device: "a stand-in",
)
