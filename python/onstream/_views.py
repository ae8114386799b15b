"""onstream's own memory as an array of numpy, cupy or torch, or as a DeviceArray where there is neither.

The array keeps the memory alive. Nothing here touches the data, or blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _core, _libraries, _types, _values
from .errors import InvalidArgumentError, UnsupportedError


class DeviceArray:
    """Device memory for programs without cupy and torch: just enough for any library to take it over."""

    def __init__(self, block: _core.Block, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._block = block
        self.shape = shape
        self.dtype = dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all its elements."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "data": (self._block.address, False),
            "shape": self.shape,
            "typestr": self.dtype.str,
            "strides": None,
            "stream": None,
        }

    def __dlpack__(self, **options: Any) -> Any:
        return self._exchange().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_libraries.DLPACK_CUDA[0], self._block.device_index)

    def _exchange(self) -> Any:
        codes = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
        if self.dtype.kind not in codes:
            raise UnsupportedError(f"DLPack has no name for dtype {self.dtype}")
        return self._block.exchange(list(self.shape), codes[self.dtype.kind], self.dtype.itemsize * 8)

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, device='cuda:{self._block.device_index}')"


def view_of(block: _core.Block, shape: int | Sequence[int], dtype: Any) -> Any:
    """An array over a block of onstream's memory: numpy for host memory, else cupy, torch, or a DeviceArray."""
    extents = _values.extents_of(shape)
    if block.on_host:
        return (
            _host_tensor(block, extents, dtype)
            if _types.is_torch_type(dtype)
            else _numpy_view(block, extents, _types.numpy_type(dtype))
        )
    if _libraries.importable("cupy"):
        return _cupy_view(block, extents, _types.numpy_type(dtype))
    if _libraries.importable("torch"):
        return _torch_view(block, extents, dtype)
    return DeviceArray(block, extents, _types.numpy_type(dtype))


def _numpy_view(block: _core.Block, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    flat = block.bytes_view()
    return np.ndarray(shape, dtype=dtype, buffer=flat)


def _host_tensor(block: _core.Block, shape: tuple[int, ...], dtype: Any) -> Any:
    """For the element types that numpy does not have."""
    import torch

    return torch.from_numpy(block.bytes_view()).view(dtype).view(shape)


def _cupy_view(block: _core.Block, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    import cupy

    memory = cupy.cuda.UnownedMemory(block.address, block.nbytes, block, block.device_index)
    return cupy.ndarray(shape, dtype=dtype, memptr=cupy.cuda.MemoryPointer(memory, 0))


def _torch_view(block: _core.Block, shape: tuple[int, ...], dtype: Any) -> Any:
    import torch

    # DLPack, not __cuda_array_interface__: with that, torch would copy a peer's memory to this rank's GPU.
    tensor = torch.from_dlpack(DeviceArray(block, (block.nbytes,), np.dtype(np.uint8)))
    return tensor.view(_torch_dtype(dtype)).view(shape)


def _torch_dtype(dtype: Any) -> Any:
    import torch

    if isinstance(dtype, torch.dtype):
        return dtype
    name = _types.numpy_type(dtype).name
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise InvalidArgumentError(f"torch has no dtype named {name}; give a torch.dtype")
    return found
