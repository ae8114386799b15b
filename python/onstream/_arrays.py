"""Reads the address, layout and stream of a Python array, and hands onstream's own memory out as arrays.

span_of() reads any object that numpy, torch, cupy, DLPack, `__cuda_array_interface__` or the buffer protocol describe,
without copying and without importing a library that the program has not imported itself. A Span holds on to the
object's memory. view_of() goes the other way: an array of the right library over onstream's memory, which stays alive
as long as the array does. Nothing here touches the data, and only own_stream() blocks, at its end.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np

from . import _core, _values
from .errors import InvalidArgumentError, UnsupportedError

_DLPACK_CPU = (1, 3)  # kDLCPU, kDLCUDAHost
_DLPACK_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged
# Types that can be waited for: the lowest and the highest.
WORDS = {
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}


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
    return library_stream(span.device) if span.library == "onstream" else span_of(span.owner).stream


def library_stream(device: str) -> int | None:
    """The current stream of the library whose arrays view_of() makes in this memory."""
    if device == "host":
        return None
    if _importable("cupy"):
        import cupy

        return int(_cupy_stream(cupy, device).ptr)
    if _importable("torch"):
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
        if _importable("cupy"):
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


def message_span(array: Any, writable: bool, world: _core.World) -> tuple[int, int, Any, Natural | None]:
    """(address, bytes, owner, natural) of an array that a message may carry in this world.

    Called by the messages of _core for everything but plain contiguous host buffers.
    """
    span = checked_span(array, writable, world)
    if not span.contiguous:
        raise InvalidArgumentError(
            f"a message needs a contiguous (row-major) array, but this one has shape {span.shape} and strides "
            f"{span.strides} bytes over {span.item_bytes}-byte elements; copy it, or use a plan (World.plan) or a halo "
            "(World.halo), which take any strides"
        )
    return span.address, span.nbytes, span.owner, span.natural


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
        dtype=_torch_name_of(tensor.dtype),
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
        dtype=_name_of(dtype),
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
        dtype="" if isinstance(source, (bytes, bytearray)) else _name_of(array.dtype),
    )


@functools.lru_cache
def _torch_name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


@functools.lru_cache
def _name_of(dtype: np.dtype[Any]) -> str:
    """As torch calls it too, if torch has it. numpy makes the name anew each time, which takes microseconds."""
    return dtype.name if dtype.isnative and dtype.names is None else str(dtype)


def _dlpack_span(array: Any) -> Span:
    holder = _core.import_dlpack(array)
    kind, index = holder.device
    if kind in _DLPACK_CPU:
        device = "host"
    elif kind in _DLPACK_CUDA:
        device = f"cuda:{index}" if kind == _DLPACK_CUDA[0] else "cuda"
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


# --- onstream's own memory as an array ---


class DeviceArray:
    """Device memory for programs without cupy and torch: just enough for any library to take it over."""

    def __init__(self, block: _core.Block, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._block = block
        self.shape = shape
        self.dtype = dtype

    @property
    def nbytes(self) -> int:
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
        return (_DLPACK_CUDA[0], self._block.device_index)

    def _exchange(self) -> Any:
        codes = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
        if self.dtype.kind not in codes:
            raise UnsupportedError(f"DLPack has no name for dtype {self.dtype}")
        return self._block.exchange(list(self.shape), codes[self.dtype.kind], self.dtype.itemsize * 8)

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, device='cuda:{self._block.device_index}')"


def view_of(block: _core.Block, shape: int | Sequence[int], dtype: Any) -> Any:
    """An array over a block of onstream's memory: numpy for host memory, else cupy, torch, or a DeviceArray."""
    extents = extents_of(shape)
    if block.on_host:
        return (
            _host_tensor(block, extents, dtype)
            if _is_torch_type(dtype)
            else _numpy_view(block, extents, numpy_type(dtype))
        )
    if _importable("cupy"):
        return _cupy_view(block, extents, numpy_type(dtype))
    if _importable("torch"):
        return _torch_view(block, extents, dtype)
    return DeviceArray(block, extents, numpy_type(dtype))


def extents_of(shape: int | Sequence[int]) -> tuple[int, ...]:
    extents: Iterable[Any] = shape if _values.is_several(shape) else (shape,)
    return tuple(integer_of(extent, "shape") for extent in extents)


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
    name = numpy_type(dtype).name
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise InvalidArgumentError(f"torch has no dtype named {name}; give a torch.dtype")
    return found


def item_bytes_of(dtype: Any) -> int:
    """Bytes of one element of a numpy or torch dtype. TypeError for one whose elements are references."""
    size = getattr(dtype, "itemsize", None)
    if isinstance(size, int) and not isinstance(dtype, np.dtype):
        return size
    known: np.dtype[Any] = numpy_type(dtype)
    if known.hasobject:
        raise TypeError(f"onstream moves bytes, but elements of dtype {known} are references to Python objects")
    return known.itemsize


def numpy_type(dtype: Any) -> np.dtype[Any]:
    """numpy's own of any description; TypeError naming it for none. ml_dtypes adds types such as "bfloat16", where it is."""
    try:
        known: np.dtype[Any] = np.dtype(dtype)
        return known
    except TypeError:
        if isinstance(dtype, str) and "ml_dtypes" not in sys.modules and _importable("ml_dtypes"):
            return numpy_type(dtype)
    raise TypeError(
        f"dtype is {dtype!r}, which numpy does not know; torch has types that numpy lacks (dtype=torch.bfloat16), and with "
        "the package ml_dtypes numpy has them too"
    )


def type_name_of(dtype: Any) -> str:
    """A numpy or torch dtype by name: "float64", "bfloat16"."""
    if _is_torch_type(dtype):
        return str(dtype).removeprefix("torch.")
    return _name_of(numpy_type(dtype))


def known_type(dtype: Any) -> Any:
    """An element type as arrays show it: numpy's own, or torch's as it is."""
    return dtype if _is_torch_type(dtype) else numpy_type(dtype)


def _is_torch_type(dtype: Any) -> bool:
    return type(dtype).__module__.partition(".")[0] == "torch"


def is_array_of(thing: Any, type_name: str) -> bool:
    """Whether it has a dtype, and this one."""
    dtype = getattr(thing, "dtype", None)
    return dtype is not None and type_name_of(dtype) == type_name


def sized(shape: int | Sequence[int], dtype: Any, what: str) -> tuple[tuple[int, ...], int]:
    """The extents, and the bytes of an array of this shape. Raises ValueError or InvalidArgumentError for none."""
    extents = extents_of(shape)
    nbytes = item_bytes_of(dtype)
    for extent in extents:
        if extent < 0:
            raise ValueError(f"shape {extents} has a negative extent")
        nbytes *= extent
    check_bytes(nbytes, f"{what} of shape {extents}")
    return extents, nbytes


def word_of(value: Any, width: int, name: str) -> int:
    """The bits of a signed or unsigned integer of `width` bytes."""
    number: int = integer_of(value, name)
    bits = 8 * width
    if not -(2 ** (bits - 1)) <= number < 2**bits:
        raise InvalidArgumentError(f"{name} is {number}, which no integer of {bits} bits is")
    modulus: int = 2**bits
    return number % modulus


def word_of_type(value: Any, type_name: str, name: str) -> int:
    """The bits of a value that this integer type of 4 or 8 bytes can hold; anything else raises."""
    if type_name not in WORDS:
        raise InvalidArgumentError(
            f"words are integers of 4 or 8 bytes, not {type_name or 'of an unknown type'}: {', '.join(WORDS)}"
        )
    number: int = integer_of(value, name)
    low, high = WORDS[type_name]
    if not low <= number <= high:
        raise InvalidArgumentError(f"{name} is {number}, which no {type_name} is: they go from {low} to {high}")
    return number % (high - low + 1)


def check_same_type(call: str, to: str, source: str) -> None:
    """Bytes that are copied mean the same on both sides, if both sides tell."""
    _values.check_same_order(call, to, source)
    if to and source and to != source:
        raise InvalidArgumentError(
            f"{call}: the source is of {source}, but the destination of {to}; convert the one, or copy its bytes as they "
            f"are by a view of the other type, such as array.view('{to}')"
        )


def rank_of(value: Any, name: str = "rank") -> int:
    """Any number that a rank, a tag or a channel may have, or a count of them; the callee says whether there is such."""
    number = integer_of(value, name)
    if not -(2**31) <= number < 2**31:
        raise InvalidArgumentError(f"{name} {number} does not exist")
    return number


def offset_of(value: Any, name: str) -> int:
    """Bytes from the begin of a segment on."""
    number = integer_of(value, name)
    if not 0 <= number < 2**63:
        raise InvalidArgumentError(f"{name} is {number}, but must be 0 to 2**63 - 1, bytes from the segment's begin on")
    return number


def check_bytes(nbytes: int, what: str) -> None:
    if not 0 <= nbytes < 2**63:
        raise InvalidArgumentError(f"{what} cannot have {nbytes} bytes: there may be 0 to 2**63 - 1")


def integer_of(value: Any, name: str) -> int:
    """A count, of any integer type. Raises TypeError naming the argument for anything else, bools included."""
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{name} is {value!r} of type {type(value).__name__}, but must be an integer")


def text_of(value: Any, name: str) -> str:
    """An argument that is one of some names. TypeError naming it for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r} of type {type(value).__name__}, but must be a string")
    return value


def _has_gpu_torch() -> bool:
    return _importable("torch") and bool(sys.modules["torch"].cuda.is_available())


@functools.cache
def _importable(name: str) -> bool:
    try:
        __import__(name)
    except Exception:  # a broken GPU library must not break ours: any failure to import means "not there"
        return False
    return True
