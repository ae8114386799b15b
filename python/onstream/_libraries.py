"""The array libraries that may be there: cupy and torch. Whether one is, and the streams that its arrays use.

Only importable() and own_stream() import a library; the others ask those that the program has imported. Only
own_stream() blocks, at its end.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

DLPACK_CPU = (1, 3)  # kDLCPU, kDLCUDAHost
DLPACK_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged


@functools.cache
def importable(name: str) -> bool:
    try:
        __import__(name)
    except Exception:  # a broken GPU library must not break ours: any failure to import means "not there"
        return False
    return True


def library_stream(device: str) -> int | None:
    """The current stream of the library whose arrays _views.view_of() makes in this memory."""
    if device == "host":
        return None
    if importable("cupy"):
        import cupy

        return int(_cupy_stream(cupy, device).ptr)
    if importable("torch"):
        import torch

        return int(_torch_stream(torch, device).cuda_stream)
    return 0


def _cupy_stream(cupy: Any, device: str) -> Any:
    return cupy.cuda.get_current_stream(int(device.partition(":")[2]))


def _torch_stream(torch: Any, device: str) -> Any:
    return torch.cuda.current_stream(torch.device(device))


def streams_in_use(device: str) -> dict[int, Any]:
    """Current streams of this thread that kernels of a GPU's arrays go to, by handle: cupy's, torch's, or the default.

    It asks only imported libraries; one that is only half imported has no arrays yet. The objects keep the streams.
    """
    streams: dict[int, Any] = {}
    cupy, torch = sys.modules.get("cupy"), sys.modules.get("torch")
    with suppress(AttributeError, RuntimeError):
        if cupy is not None:
            stream = _cupy_stream(cupy, device)
            streams[int(stream.ptr)] = stream
    with suppress(AttributeError, RuntimeError):
        if torch is not None and torch.cuda.is_initialized():
            stream = _torch_stream(torch, device)
            streams[int(stream.cuda_stream)] = stream
    return streams or {0: None}


@contextmanager
def own_stream(device: str) -> Iterator[None]:
    """Makes a new stream of the GPU the current one of this thread, and waits for it at the end.

    Cupy's, and torch's if that is imported, or cupy is missing.
    """
    with ExitStack() as stack:
        stream: Any = None
        if importable("cupy"):
            import cupy

            stack.enter_context(cupy.cuda.Device(int(device.partition(":")[2])))
            stream = stack.enter_context(cupy.cuda.Stream(non_blocking=True))
        if (stream is None or sys.modules.get("torch") is not None) and _has_gpu_torch():
            import torch

            on = torch.device(device)
            its = torch.cuda.Stream(on) if stream is None else torch.cuda.ExternalStream(stream.ptr, device=on)
            stack.enter_context(torch.cuda.stream(its))
            stream = its if stream is None else stream
        try:
            yield
        except BaseException:
            with suppress(Exception):  # the exception under way says more
                if stream is not None:
                    stream.synchronize()
            raise
        if stream is not None:
            stream.synchronize()


def _has_gpu_torch() -> bool:
    return importable("torch") and bool(sys.modules["torch"].cuda.is_available())
