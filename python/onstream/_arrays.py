"""Reads the address, layout and stream of a Python array.

span_of() reads any object that numpy, torch, cupy, DLPack, `__cuda_array_interface__` or the buffer protocol describe,
without copying and without importing a library that the program has not imported itself. A Span holds on to the
object's memory. Nothing here touches the data, or blocks. _views.py goes the other way: arrays over onstream's memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _core, _libraries, _types
from .errors import InvalidArgumentError

# The stream of an op if nobody names one, and whether the arrays' library gives their memory back in its order.
Natural = tuple[int, bool]


class Span(NamedTuple):  # a tuple is made in a third of the time of a frozen dataclass, for each array of each call
    """Where the elements of an array lie. Strides are in bytes; device is "host", "cuda:N", or "cuda" if not told."""

    address: int
    item_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    writable: bool
    device: str
    library: str
    owner: Any
    dtype: str = ""  # name of the element type, such as "float64"; "" if the object does not tell
    stream: int | None = None  # the stream that the array's own library would use now; None for host arrays
    ordered: bool = False  # the library gives the memory back in the order of that stream

    @property
    def natural(self) -> Natural | None:
        """None for host arrays."""
        return None if self.stream is None else (self.stream, self.ordered)

    @property
    def size(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def nbytes(self) -> int:
        return self.size * self.item_bytes

    @property
    def contiguous(self) -> bool:
        """Row-major without gaps."""
        expected = self.item_bytes
        for extent, stride in zip(self.shape[::-1], self.strides[::-1], strict=True):
            if stride != expected and extent != 1 and self.size != 0:
                return False
            expected *= extent
        return True


def span_of(array: Any) -> Span:
    """The Span of any supported object. TypeError or InvalidArgumentError with the reason for any other."""
    kind = type(array)
    if hasattr(kind, "local_span"):
        own: Span = array.local_span()  # a symmetric array stands for this rank's own
        return own
    root = kind.__module__.partition(".")[0]
    if hasattr(array, "data_ptr") and _is_torch(array):
        return _torch_span(array)
    if root != "torch" and hasattr(kind, "__cuda_array_interface__"):
        return _cuda_interface_span(array)
    if isinstance(array, np.ndarray):
        return _numpy_span(array, array)
    try:
        view = memoryview(array)
    except (TypeError, ValueError, BufferError):
        pass
    else:
        return _numpy_span(np.asarray(view), array)
    if hasattr(kind, "__dlpack__"):
        return _dlpack_span(array)
    if isinstance(getattr(array, "__array_interface__", {}).get("data"), tuple):  # an address; else numpy would copy
        return _numpy_span(np.asarray(array), array)
    raise TypeError(
        f"onstream cannot address a {kind.__module__}.{kind.__qualname__}: it needs an array (numpy, torch, cupy, "
        "DLPack, __cuda_array_interface__) or an object with the buffer protocol (bytes, bytearray, memoryview)"
        + ("; numpy.asarray() makes an array of a list" if isinstance(array, (list, tuple)) else "")
    )


def natural_of(spans: Iterable[Span]) -> Natural | None:
    """The stream of the first of several arrays, and whether all of them are given back in its order."""
    stream, ordered = None, True
    for span in spans:
        stream = span.stream if stream is None else stream
        ordered = ordered and span.ordered and span.stream == stream
    return None if stream is None else (stream, ordered)


def stream_now(span: Span) -> int | None:
    """The stream that the library of such an array uses now."""
    if span.library == "dlpack":
        return span.stream
    return _libraries.library_stream(span.device) if span.library == "onstream" else span_of(span.owner).stream


def message_span(array: Any, writable: bool, world: _core.World) -> tuple[int, int, Any, Natural | None]:
    """(address, bytes, owner, natural) of a contiguous array that a message may carry in this world.

    Called by _core for everything but plain contiguous host buffers.
    """
    span = checked_span(array, writable, world)
    if not span.contiguous:
        raise InvalidArgumentError(
            f"the call needs a contiguous (row-major) array, but this one has shape {span.shape} and strides "
            f"{span.strides} bytes over {span.item_bytes}-byte elements; copy it, or use send(), recv(), isend(), irecv(), "
            "sendrecv(), a plan (World.plan) or a halo (World.halo), which take any strides"
        )
    return span.address, span.nbytes, span.owner, span.natural


def message_elements(
    array: Any, writable: bool, world: _core.World
) -> tuple[int, int, Any, Natural | None, int, tuple[int, ...], tuple[int, ...] | None]:
    """As message_span() and, of an array with gaps, (..., bytes of an element, shape, strides in bytes); else None for those.

    Called by the messages of _core that take such arrays, for everything but plain contiguous host buffers.
    """
    span = checked_span(array, writable, world)
    strides = None if span.contiguous else span.strides
    return span.address, span.nbytes, span.owner, span.natural, span.item_bytes, span.shape, strides


def host_span(array: Any, writable: bool, call: str) -> tuple[int, int, Any]:
    """(address, bytes, owner) of a contiguous array of the host, for `call`, which errors name."""
    span = span_of(array)
    if span.device != "host" or not span.contiguous:
        raise InvalidArgumentError(
            f"{call}(): the array is {'on ' + span.device if span.device != 'host' else 'not contiguous (row-major)'}; give a "
            "contiguous one of the host"
        )
    if writable and not span.writable:
        raise InvalidArgumentError(f"{call}(): the array is read-only")
    return span.address, span.nbytes, span.owner


def checked_span(array: Any, writable: bool, world: _core.World) -> Span:
    """The Span of an array that this world can use, as a destination if `writable`."""
    span = span_of(array)
    if world.device == "host" and span.device != "host" and isinstance(array, np.ndarray):
        span = _numpy_span(array, array)  # such as numba's mapped ones, which both sides reach
    if writable and not span.writable:
        if getattr(array, "requires_grad", False) is True:
            raise InvalidArgumentError(
                "the destination is a torch parameter that requires grad, so it is read-only for torch and for onstream; give "
                "array.detach(), which is the same memory"
            )
        raise InvalidArgumentError(
            f"the destination is read-only ({span.library} {type(array).__name__} of {span.nbytes} bytes); receive "
            "into a writable array, such as numpy.empty(...) or a bytearray"
        )
    _check_device(span, world)
    return span


def _check_device(span: Span, world: _core.World) -> None:
    if span.device == "host" or span.nbytes == 0:
        return
    if span.device == world.device:
        return
    if world.device.startswith("cuda") and span.device == "cuda":
        place = world.place_of(span.address)
        if place in (world.device, "managed", "pinned"):
            return
        raise InvalidArgumentError(f"the array is on {place}, but this world's device is {world.device}")
    raise InvalidArgumentError(
        f"the array is on {span.device}, but this world's device is {world.device}; copy it there, or make the world "
        f'with device="{span.device}"'
    )


# --- the libraries ---


def _is_torch(array: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def _torch_span(tensor: Any) -> Span:
    torch = sys.modules["torch"]
    if tensor.layout is not torch.strided:
        raise InvalidArgumentError(f"onstream needs a dense tensor, not one of layout {tensor.layout}; call to_dense()")
    if tensor.is_conj() or tensor.is_neg():
        raise InvalidArgumentError("the tensor is a lazy conjugate or negation; call resolve_conj() or resolve_neg()")
    if tensor.device.type not in ("cpu", "cuda"):
        raise InvalidArgumentError(f"onstream cannot address a tensor on {tensor.device}; it knows cpu and cuda")
    on_cuda = tensor.device.type == "cuda"
    item = tensor.element_size()
    return Span(
        address=tensor.data_ptr(),
        item_bytes=item,
        shape=tuple(tensor.shape),
        strides=tuple(stride * item for stride in tensor.stride()),
        writable=not (tensor.requires_grad and tensor.is_leaf),  # torch itself forbids writing these in place
        device=f"cuda:{tensor.device.index}" if on_cuda else "host",
        library="torch",
        owner=tensor,
        dtype=_types.torch_name_of(tensor.dtype),
        stream=torch.cuda.current_stream(tensor.device).cuda_stream if on_cuda else None,
        ordered=on_cuda,
    )


def _cuda_interface_span(array: Any) -> Span:
    description = array.__cuda_array_interface__
    if description.get("mask") is not None:
        raise InvalidArgumentError("onstream cannot send an array with a mask (__cuda_array_interface__['mask'])")
    address, read_only = description["data"]
    shape = tuple(description["shape"])
    dtype = np.dtype(description["typestr"])
    item = dtype.itemsize
    device, library, stream = "cuda", "__cuda_array_interface__", description.get("stream") or 0
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(array, cupy.ndarray):
        device, library = f"cuda:{array.device.id}", "cupy"
        stream = cupy.cuda.get_current_stream(array.device.id).ptr  # not of the thread's current GPU
    return Span(
        address=address or 0,
        item_bytes=item,
        shape=shape,
        strides=tuple(description.get("strides") or row_major(shape, item)),
        writable=not read_only,
        device=device,
        library=library,
        owner=array,
        dtype=_types.name_of(dtype),
        stream=stream,
        ordered=library == "cupy",
    )


def _numpy_span(array: np.ndarray[Any, Any], source: Any) -> Span:
    if isinstance(source, np.ma.MaskedArray):
        raise InvalidArgumentError("onstream cannot send a mask; give the array's data and mask separately")
    if array.dtype.hasobject:
        raise TypeError(f"onstream moves bytes, but elements of dtype {array.dtype} are references to Python objects")
    address = _core.address_of(array)
    return Span(
        address=array.__array_interface__["data"][0] if address is None else address,
        item_bytes=array.itemsize,
        shape=array.shape,
        strides=array.strides,
        writable=array.flags.writeable,
        device="host",
        library="numpy" if isinstance(source, np.ndarray) else "buffer",
        owner=array,
        dtype="" if isinstance(source, (bytes, bytearray)) else _types.name_of(array.dtype),
    )


def _dlpack_span(array: Any) -> Span:
    holder = _core.import_dlpack(array)
    kind, index = holder.device
    if kind in _libraries.DLPACK_CPU:
        device = "host"
    elif kind in _libraries.DLPACK_CUDA:
        device = f"cuda:{index}" if kind == _libraries.DLPACK_CUDA[0] else "cuda"
    else:
        raise InvalidArgumentError(f"onstream cannot address a {type(array).__name__} on DLPack device type {kind}")
    return Span(
        address=holder.address,
        item_bytes=holder.item_bytes,
        shape=tuple(holder.shape),
        strides=tuple(holder.strides),
        writable=not holder.read_only,
        device=device,
        library="dlpack",
        owner=holder,
        stream=None if device == "host" else 0,
    )


def row_major(shape: Sequence[int], item_bytes: int) -> tuple[int, ...]:
    """Byte strides of a contiguous array."""
    strides = []
    step = item_bytes
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))
