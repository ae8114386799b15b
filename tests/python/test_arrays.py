"""How onstream reads arrays: every library's kind of object, and a clear refusal of the rest."""

from __future__ import annotations

import array
import ctypes
import importlib
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memories import DEVICES, LIBRARIES

import onstream as ons
from onstream import InvalidArgumentError, _arrays, _libraries

pytestmark = pytest.mark.gpu

HOST_WORLD: Any = SimpleNamespace(device="host")


def cuda_world(place: str) -> Any:
    """A world on cuda:0 that finds every unknown address at `place`."""
    return SimpleNamespace(device="cuda:0", place_of=lambda address: place)


class OnlyDlpack:
    """An array that speaks DLPack and nothing else."""

    def __init__(self, inner: np.ndarray) -> None:
        self.inner = inner

    def __dlpack__(self, **options: Any) -> Any:
        return self.inner.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.inner.__dlpack_device__()


class OnlyCudaInterface:
    """An array as numba and others hand it out."""

    def __init__(self, **changes: Any) -> None:
        self.__cuda_array_interface__ = {
            "version": 3,
            "data": (0x7000_0000, False),
            "shape": (4, 6),
            "typestr": "<f4",
            "strides": None,
            **changes,
        }


DTYPES = [
    "?",
    "i1",
    "u1",
    "i2",
    "u2",
    "i4",
    "u4",
    "i8",
    "u8",
    "f2",
    "f4",
    "f8",
    "c8",
    "c16",
    "m8[s]",
    "M8[ns]",
    "S5",
    "U3",
]


@pytest.mark.parametrize("dtype", [*DTYPES, [("Offset", "f4"), ("n", "i8")]], ids=str)
def test_every_numpy_dtype_has_a_span(dtype: Any) -> None:
    values = np.zeros((3, 4), dtype=dtype)
    span = _arrays.span_of(values)
    assert span.address == values.ctypes.data
    assert (span.shape, span.strides) == (values.shape, values.strides)
    assert span.nbytes == values.nbytes
    assert span.contiguous
    assert span.writable
    assert span.device == "host"


@given(
    shape=st.lists(st.integers(0, 5), min_size=0, max_size=4),
    steps=st.lists(st.sampled_from([1, 2, 3, -1, -2]), min_size=4, max_size=4),
    order=st.sampled_from("CF"),
)
@settings(deadline=None)
def test_contiguous_agrees_with_numpy(shape: list[int], steps: list[int], order: Any) -> None:
    values = np.zeros(shape, dtype="i4", order=order)[tuple(slice(None, None, step) for step in steps[: len(shape)])]
    assert _arrays.span_of(values).contiguous == values.flags.c_contiguous


@given(shape=st.lists(st.integers(0, 7), max_size=4), item=st.integers(1, 16))
@settings(deadline=None)
def test_row_major_strides_are_those_of_numpy(shape: list[int], item: int) -> None:
    values = np.zeros(shape, dtype=f"V{item}")
    if values.size:
        assert _arrays.row_major(shape, item) == values.strides


@pytest.mark.parametrize(
    ("value", "nbytes", "writable"),
    [
        (b"seven b", 7, False),
        (bytearray(9), 9, True),
        (memoryview(bytearray(8))[2:5], 3, True),
        (array.array("d", [1.0, 2.0]), 16, True),
        ((ctypes.c_int * 3)(), 12, True),
        (np.float64(3.5), 8, False),
    ],
    ids=["bytes", "bytearray", "memoryview", "array", "ctypes", "scalar"],
)
def test_buffers_are_read_without_copy(value: Any, nbytes: int, writable: bool) -> None:
    span = _arrays.span_of(value)
    assert span.nbytes == nbytes
    assert span.device == "host"
    assert span.writable == writable


def test_a_span_of_a_bytearray_is_the_bytearray_itself() -> None:
    value = bytearray(b"abcd")
    span = _arrays.span_of(value)
    ctypes.memset(span.address, ord("x"), 2)
    assert value == b"xxcd"


def test_dlpack_alone_is_enough() -> None:
    values = np.arange(12, dtype="f4").reshape(3, 4)[:, ::2]
    span = _arrays.span_of(OnlyDlpack(values))
    assert (span.address, span.shape, span.strides) == (values.ctypes.data, values.shape, values.strides)
    assert span.item_bytes == 4
    assert span.device == "host"


def test_an_address_in_array_interface_is_enough() -> None:
    values = np.arange(6, dtype="i2")
    only = type("Foreign", (), {"__array_interface__": values.__array_interface__})()
    assert _arrays.span_of(only).address == values.ctypes.data


def test_an_interface_that_would_be_copied_is_refused() -> None:
    values = np.arange(6, dtype="i2")
    copied = type("Picture", (), {"__array_interface__": {**values.__array_interface__, "data": values.tobytes()}})()
    with pytest.raises(TypeError, match="Picture"):
        _arrays.span_of(copied)


def test_a_masked_numpy_array_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="mask"):
        _arrays.span_of(np.ma.masked_array([1, 2], mask=[True, False]))


def test_a_message_does_not_leave_its_mask_behind() -> None:
    masked = np.ma.masked_array([1.0, 2.0, 3.0], mask=[True, False, True])
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="host") as world:
        for call in (world.send, world.recv, world.isend, world.irecv):
            with pytest.raises(InvalidArgumentError, match="mask"):
                call(masked, 0)
        world.send(np.zeros(3).view(np.recarray), 0)


def test_cuda_array_interface_is_read() -> None:
    class Foreign:
        __cuda_array_interface__ = OnlyCudaInterface().__cuda_array_interface__

    span = _arrays.span_of(Foreign())
    assert (span.address, span.shape, span.strides) == (0x7000_0000, (4, 6), (24, 4))
    assert span.device == "cuda"
    assert span.contiguous
    assert span.stream == 0


def cuda_object(**changes: Any) -> Any:
    return type("Foreign", (), {"__cuda_array_interface__": OnlyCudaInterface(**changes).__cuda_array_interface__})()


def test_cuda_memory_does_not_enter_a_host_world() -> None:
    with pytest.raises(InvalidArgumentError, match="the array is on cuda, but this world's device is host"):
        _arrays.checked_span(cuda_object(), False, HOST_WORLD)


def test_memory_of_another_gpu_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgumentError, match="the array is on cuda:1, but this world's device is cuda:0"):
        _arrays.checked_span(cuda_object(), False, cuda_world("cuda:1"))


@pytest.mark.parametrize("place", ["cuda:0", "managed", "pinned"])
def test_memory_that_the_gpu_reaches_is_accepted(place: str) -> None:
    assert _arrays.checked_span(cuda_object(), False, cuda_world(place)).nbytes == 96


def test_read_only_cuda_memory_is_no_destination() -> None:
    with pytest.raises(InvalidArgumentError, match="read-only"):
        _arrays.checked_span(cuda_object(data=(0x7000_0000, True)), True, cuda_world("cuda:0"))


def test_a_masked_cuda_array_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="mask"):
        _arrays.span_of(cuda_object(mask=object()))


@pytest.mark.parametrize("destination", [b"bytes", memoryview(b"view"), np.frombuffer(b"12345678", dtype="u8")])
def test_a_read_only_destination_is_refused(destination: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="read-only"):
        _arrays.checked_span(destination, True, HOST_WORLD)


def test_a_strided_message_names_its_strides_and_the_way_out() -> None:
    values = np.zeros((4, 4), dtype="f8")[:, 1]
    with pytest.raises(InvalidArgumentError, match=r"strides \(32,\) bytes.*World\.plan.*World\.halo"):
        _arrays.message_span(values, False, HOST_WORLD)


@pytest.mark.parametrize(
    "value", [3, "text", None, [1.0, 2.0], {"a": 1}, object()], ids=lambda value: type(value).__name__
)
def test_what_is_no_array_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match="onstream cannot address a builtins"):
        _arrays.span_of(value)


@pytest.mark.parametrize("dtype", [object, [("name", object), ("n", "i4")]], ids=["object", "record"])
def test_python_objects_are_refused(dtype: Any) -> None:
    with pytest.raises(TypeError, match="references to Python objects"):
        _arrays.span_of(np.zeros(3, dtype=dtype))


class FakeTensor:
    """A torch tensor as far as onstream looks at one."""

    def __init__(self, **changes: Any) -> None:
        self.layout, self.requires_grad, self.is_leaf = "strided", False, True
        self.device = SimpleNamespace(type="cuda", index=1)
        self.shape, self.lazy, self.dtype = (2, 3), False, "torch.float16"
        vars(self).update(changes)

    def data_ptr(self) -> int:
        return 0x7000_0000

    def element_size(self) -> int:
        return 2

    def stride(self) -> tuple[int, ...]:
        return (1, 2)

    def is_conj(self) -> bool:
        return self.lazy

    def is_neg(self) -> bool:
        return False


@pytest.fixture
def fake_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = SimpleNamespace(current_stream=lambda device: SimpleNamespace(cuda_stream=0x100 + device.index))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=FakeTensor, strided="strided", cuda=cuda))


@pytest.mark.usefixtures("fake_torch")
def test_a_gpu_tensor_brings_its_device_and_torchs_current_stream() -> None:
    span = _arrays.span_of(FakeTensor())
    assert (span.device, span.stream, span.strides, span.item_bytes) == ("cuda:1", 0x101, (2, 4), 2)


@pytest.mark.usefixtures("fake_torch")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"layout": "sparse_coo"}, "dense"),
        ({"lazy": True}, "resolve_conj"),
        ({"device": SimpleNamespace(type="meta", index=0)}, "cpu and cuda"),
    ],
    ids=["sparse", "lazy", "meta"],
)
def test_a_tensor_without_plain_memory_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        _arrays.span_of(FakeTensor(**changes))


@pytest.mark.usefixtures("fake_torch")
def test_a_parameter_that_requires_grad_is_told_of_detach() -> None:
    parameter = FakeTensor(requires_grad=True)
    _arrays.checked_span(parameter, False, SimpleNamespace(device="cuda:1"))
    with pytest.raises(InvalidArgumentError, match=r"requires grad.* read-only.*give array\.detach\(\)"):
        _arrays.checked_span(parameter, True, SimpleNamespace(device="cuda:1"))


def test_a_torch_tensor_has_a_span() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    tensor = torch.arange(12, dtype=torch.bfloat16).reshape(3, 4).t()
    span = _arrays.span_of(tensor)
    assert (span.address, span.shape, span.strides) == (tensor.data_ptr(), (4, 3), (2, 8))
    assert (span.item_bytes, span.library, span.device) == (2, "torch", "host")


def test_a_torch_leaf_that_requires_grad_is_no_destination() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(InvalidArgumentError, match="read-only"):
        _arrays.checked_span(torch.zeros(3, requires_grad=True), True, HOST_WORLD)


def test_a_cupy_array_brings_its_device_and_the_current_stream_there(monkeypatch: pytest.MonkeyPatch) -> None:
    class FakeCupy(OnlyCudaInterface):
        device = SimpleNamespace(id=1)
        __cuda_array_interface__ = OnlyCudaInterface().__cuda_array_interface__

    # The thread's current GPU is 0.
    cuda = SimpleNamespace(get_current_stream=lambda gpu=0: SimpleNamespace(ptr=0x200 + gpu))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(ndarray=FakeCupy, cuda=cuda))
    span = _arrays.span_of(FakeCupy())
    assert (span.device, span.library, span.stream) == ("cuda:1", "cupy", 0x201)


@pytest.mark.parametrize(
    "there", [[], ["cupy"], ["torch"], ["cupy", "torch"], ["cupy", "torch without CUDA"]], ids="+".join
)
def test_a_stream_becomes_the_current_one_of_the_libraries_there(
    there: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now: list[str] = []
    ended: list[str] = []

    @contextmanager
    def entering(what: Any) -> Iterator[Any]:
        now.append(str(what))
        yield what
        assert now.pop() == str(what)

    class Stream:
        def __init__(self, name: str, ptr: int = 0x300) -> None:
            self.name, self.ptr = name, ptr

        def __str__(self) -> str:
            return f"{self.name} {self.ptr:#x}"

        def __enter__(self) -> Any:
            self.context = entering(self)
            return self.context.__enter__()

        def __exit__(self, *error: Any) -> None:
            self.context.__exit__(*error)

        def synchronize(self) -> None:
            ended.append(str(self))

    cupys = SimpleNamespace(Device=lambda index: entering(f"GPU {index}"), Stream=lambda non_blocking: Stream("cupy"))
    torchs = SimpleNamespace(
        is_available=lambda: "torch" in there,
        stream=entering,
        Stream=lambda device: Stream(f"torch's on {device}"),
        ExternalStream=lambda ptr, device: Stream(f"torch on {device}", ptr),
    )
    fakes = {
        "cupy": SimpleNamespace(cuda=cupys),
        "torch": SimpleNamespace(cuda=torchs, device=lambda name: name),
    }
    names = {name.split()[0] for name in there}
    for name, fake in fakes.items():
        monkeypatch.setitem(sys.modules, name, fake if name in names else None)
    monkeypatch.setattr(_libraries, "importable", lambda name: name in names)
    with _libraries.own_stream("cuda:1"):
        inside = list(now)
    cupy_alone = ["GPU 1", "cupy 0x300"]
    assert (inside, ended) == {
        "": ([], []),
        "cupy": (cupy_alone, ["cupy 0x300"]),
        "torch": (["torch's on cuda:1 0x300"], ["torch's on cuda:1 0x300"]),
        "cupy+torch": ([*cupy_alone, "torch on cuda:1 0x300"], ["cupy 0x300"]),
        "cupy+torch without CUDA": (cupy_alone, ["cupy 0x300"]),
    }["+".join(there)]
    assert now == []


@pytest.mark.parametrize(
    ("cupys", "torchs", "expected"),
    [
        (None, None, [0]),
        (0, None, [0]),
        (None, 7, [7]),
        (0, 7, [0, 7]),  # either's kernels may use the other's arrays
        (7, 0, [7, 0]),
        (7, 7, [7]),
        ("half imported", 7, [7]),
        (7, "half imported", [7]),
    ],
)
def test_memory_goes_behind_the_current_streams_of_all_libraries(
    cupys: Any, torchs: Any, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def current(ptr: int) -> Any:
        def get(where: Any) -> Any:
            asked.append(where)
            return SimpleNamespace(ptr=ptr, cuda_stream=ptr)

        return get

    half = SimpleNamespace()
    cupy = SimpleNamespace(cuda=SimpleNamespace(get_current_stream=current(cupys)))
    cuda = SimpleNamespace(current_stream=current(torchs), is_initialized=lambda: True)
    torch = SimpleNamespace(cuda=cuda, device=lambda name: name)
    for name, ptr, fake in (("cupy", cupys, cupy), ("torch", torchs, torch)):
        monkeypatch.setitem(sys.modules, name, None if ptr is None else half if isinstance(ptr, str) else fake)
    assert list(_libraries.streams_in_use("cuda:3")) == expected
    assert set(asked) <= {3, "cuda:3"}


def test_arrays_are_kept_unless_all_are_given_back_in_the_order_of_the_ops_stream() -> None:
    def span(stream: int | None, ordered: bool, library: str = "cupy") -> _arrays.Span:
        return _arrays.Span(64, 4, (2,), (4,), True, "cuda:0", library, None, "float32", stream, ordered)

    cupy, host = span(7, True), span(None, False, "numpy")
    assert cupy.natural == (7, True)
    assert host.natural is None
    assert _arrays.natural_of([]) is None
    assert _arrays.natural_of([host, host]) is None
    assert _arrays.natural_of([cupy, cupy]) == (7, True)
    assert _arrays.natural_of([cupy, host]) == (7, False)
    assert _arrays.natural_of([host, cupy]) == (7, False)
    assert _arrays.natural_of([cupy, span(8, True, "torch")]) == (7, False)
    assert _arrays.natural_of([cupy, span(0, False, "dlpack")]) == (7, False)
    assert _arrays.stream_now(span(0, False, "dlpack")) == 0


# --- torch and cupy on GPUs ---


def library_on_gpus(name: str) -> Any:
    if name not in LIBRARIES:
        pytest.skip(f"{name} is not installed" if "cuda" in DEVICES else "there is no GPU")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the library gives when it is imported
        return importlib.import_module(name)


@pytest.fixture
def torch() -> Any:
    return library_on_gpus("torch")


@pytest.fixture
def cupy() -> Any:
    return library_on_gpus("cupy")


@pytest.fixture
def world() -> Iterator[ons.World]:
    if "cuda" not in DEVICES:
        pytest.skip("there is no GPU")
    with ons.init(launch=ons.Launch(0, 1, 0, ""), device="cuda:0") as one:
        yield one


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float64", "complex64"])
def test_a_torch_tensor_on_a_gpu_has_a_span(torch: Any, dtype: str) -> None:
    tensor = torch.zeros(3, 4, dtype=getattr(torch, dtype), device="cuda:0").t()[1:]
    span = _arrays.span_of(tensor)
    item = tensor.element_size()
    assert (span.address, span.shape, span.strides) == (tensor.data_ptr(), (3, 3), (item, 4 * item))
    assert (span.item_bytes, span.library, span.device, span.dtype) == (item, "torch", "cuda:0", dtype)
    assert span.writable
    assert not span.contiguous


def test_a_tensor_brings_the_stream_that_torch_uses_now(torch: Any) -> None:
    tensor = torch.zeros(3, device="cuda:0")
    assert _arrays.span_of(tensor).stream == torch.cuda.default_stream("cuda:0").cuda_stream
    stream = torch.cuda.Stream("cuda:0")
    with torch.cuda.stream(stream):
        assert _arrays.span_of(tensor).stream == stream.cuda_stream
    assert stream.cuda_stream != torch.cuda.default_stream("cuda:0").cuda_stream


def test_a_tensor_by_dlpack_alone_is_on_its_gpu(torch: Any) -> None:
    tensor = torch.arange(6.0, device="cuda:0").reshape(2, 3)
    span = _arrays.span_of(OnlyDlpack(tensor))
    assert (span.address, span.shape, span.strides, span.device) == (tensor.data_ptr(), (2, 3), (12, 4), "cuda:0")


def test_tensors_of_any_strides_and_types_go_by_plans_and_not_by_messages(torch: Any, world: ons.World) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.complex64):
        source = torch.arange(48, device="cuda:0").reshape(6, 8).to(dtype)
        came = torch.zeros(8, 6, dtype=dtype, device="cuda:0")
        for call in (world.send, world.recv, world.isend, world.irecv, world.all_reduce):
            arguments = (source.t(),) if call == world.all_reduce else (source.t(), 0)
            with pytest.raises(InvalidArgumentError, match="contiguous"):
                call(*arguments)
        world.plan("transposed").send(source.t()[:, 1:5], 0).recv(came[:, 2:], 0).build().launch()
        expected = torch.zeros(8, 6, dtype=dtype, device="cuda:0")
        expected[:, 2:] = source.t()[:, 1:5]
        assert torch.equal(came, expected)  # on the stream that the plan was launched on
    world.check()


def test_a_tensor_that_requires_grad_may_be_sent_but_not_received_into(torch: Any, world: ons.World) -> None:
    weights = torch.full((5000,), 2.0, device="cuda:0", requires_grad=True)
    came = torch.zeros(5000, device="cuda:0")
    for call in (world.recv, world.irecv):
        with pytest.raises(InvalidArgumentError, match="read-only"):
            call(weights, 0)
    with pytest.raises(InvalidArgumentError, match="read-only"):
        world.all_reduce(weights)
    request = world.irecv(came, 0)
    world.send(weights, 0)
    request.wait()
    torch.cuda.synchronize()
    world.check()
    assert bool((came == 2).all())
    assert (
        world.sendrecv(weights * 3, 0, came, 0) is None
    )  # no leaf; torch reuses its memory in the order of the stream
    torch.cuda.synchronize()
    assert bool((came == 6).all())


def test_a_tensor_without_memory_of_its_own_is_refused(torch: Any, world: ons.World) -> None:
    values = torch.zeros(4, dtype=torch.complex64, device="cuda:0")
    with pytest.raises(InvalidArgumentError, match="resolve_conj"):
        world.send(values.conj(), 0)
    with pytest.raises(InvalidArgumentError, match="dense"):
        world.send(torch.eye(3, device="cuda:0").to_sparse(), 0)


def test_an_array_on_another_gpu_is_refused_by_name(torch: Any, world: ons.World) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("this needs 2 GPUs")
    tensor = torch.zeros(4, device="cuda:1")
    told = "the array is on cuda:1, but this world's device is cuda:0; copy it there, or make the world with device="
    for call in (world.send, world.recv, world.isend, world.irecv):
        with pytest.raises(InvalidArgumentError, match=told):
            call(tensor, 0)
    for collective in (world.all_reduce, world.broadcast):
        with pytest.raises(InvalidArgumentError, match=told):
            collective(tensor)
    with pytest.raises(InvalidArgumentError, match=told):
        world.plan().send(tensor, 0)
    with pytest.raises(InvalidArgumentError, match=told):
        world.halo(torch.zeros(4, 4, device="cuda:1"))
    if "cupy" in LIBRARIES:
        cupy = library_on_gpus("cupy")
        with cupy.cuda.Device(1):
            array = cupy.zeros(4)
        with pytest.raises(InvalidArgumentError, match=told):
            world.send(array, 0)


def test_a_cupy_array_on_a_gpu_has_a_span(cupy: Any) -> None:
    with cupy.cuda.Device(0):
        values = cupy.zeros((4, 6), "f4")[:, ::2].T
        span = _arrays.span_of(values)
        assert (span.address, span.shape, span.strides) == (values.data.ptr, (3, 4), (8, 24))
        assert (span.item_bytes, span.library, span.device, span.dtype) == (4, "cupy", "cuda:0", "float32")
        assert span.writable
        assert not span.contiguous
        assert span.stream == cupy.cuda.get_current_stream().ptr
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            assert _arrays.span_of(values).stream == stream.ptr


def test_cupy_arrays_of_any_strides_go_by_plans_and_not_by_messages(cupy: Any, world: ons.World) -> None:
    with cupy.cuda.Device(0):
        table = np.arange(48, dtype="f4").reshape(6, 8)
        source, came = cupy.asarray(table), cupy.zeros((8, 6), "f4")
        cupy.cuda.Device().synchronize()
        for call in (world.send, world.recv):
            with pytest.raises(InvalidArgumentError, match="contiguous"):
                call(source.T, 0)
        world.plan("transposed").send(source.T[:, 1:5], 0).recv(came[:, 2:], 0).build().launch()
        world.synchronize()
        expected = np.zeros((8, 6), "f4")
        expected[:, 2:] = table.T[:, 1:5]
        assert np.array_equal(came.get(), expected)


def test_world_memory_is_an_array_of_the_library_that_is_there(world: ons.World) -> None:
    array = world.empty((3, 4), "f4")
    span = _arrays.span_of(array)
    assert (span.device, span.shape, span.contiguous, span.writable) == ("cuda:0", (3, 4), True, True)
    assert world.place_of(span.address) == "cuda:0"
