"""From tensors and c10d's options to onstream's calls.

A tensor that onstream cannot read or write where it lies - strided, or a lazy conjugate - is read from a contiguous copy,
or written to one that is copied back when the call has ended. Bools travel as bytes of 0 and 1, so their sum is whether any
is true, and their product whether all are, as with NCCL. Everything else that cannot be is refused by a sentence that
names the call and the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from .. import _core
from ..errors import InvalidArgumentError, UnsupportedError
from ..neighbours import FLOATS, INTEGERS, offsets_of, type_name_of
from ..reductions import factors_of

# Element types of reductions, by the library's names.
_TYPES = {
    getattr(torch, name): type_name_of(name)
    for name in (*INTEGERS, *FLOATS, "float8_e4m3fn")  # of the two float8_e4m3, torch has the one without infinities
    if hasattr(torch, name)
}
_Kind = dist.ReduceOp.RedOpType
_OPS = {
    _Kind.SUM: "sum", _Kind.AVG: "avg", _Kind.PRODUCT: "prod", _Kind.MIN: "min", _Kind.MAX: "max",
    _Kind.BAND: "band", _Kind.BOR: "bor", _Kind.BXOR: "bxor", _Kind.PREMUL_SUM: "premulsum",
}  # fmt: skip
_OPS_OF_BOOL = {"sum": "bor", "max": "bor", "bor": "bor", "prod": "band", "min": "band", "band": "band", "bxor": "bxor"}

Pair = tuple[Any, Any]


# --- tensors ---


def check(call: str, tensor: Any) -> None:
    """Refuses a tensor that has no elements in a row anywhere."""
    if tensor.layout is not torch.strided:
        raise UnsupportedError(f"{call}: the tensor's layout is {tensor.layout}; onstream moves dense ones: to_dense()")


def lies_plain(tensor: Any) -> bool:
    """Whether onstream can read and write it in place."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def source_of(call: str, tensor: Any) -> Any:
    """The tensor, or a contiguous copy, to be read."""
    check(call, tensor)
    return tensor if lies_plain(tensor) else tensor.detach().resolve_conj().resolve_neg().contiguous()


def target_of(call: str, tensor: Any, back: list[Pair]) -> Any:
    """The tensor, or a contiguous one to be written, which `back` then names as its stand-in."""
    check(call, tensor)
    if lies_plain(tensor):
        return tensor
    back.append((tensor, torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)))
    return back[-1][1]


def in_place(call: str, tensor: Any, back: list[Pair]) -> Any:
    """The tensor, or a contiguous copy of it, to be read and written."""
    array = source_of(call, tensor)
    if array is not tensor:
        back.append((tensor, array))
    return array


def flat_source(call: str, tensors: Sequence[Any]) -> Any:
    """All elements of several tensors, one behind the other."""
    check_alike(call, tensors)
    parts = [source_of(call, each).detach().reshape(-1) for each in tensors]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def flat_target(call: str, tensors: Sequence[Any], back: list[Pair]) -> Any:
    """A new tensor for the elements of several, which get them by `back`."""
    check_alike(call, tensors)
    sizes = [each.numel() for each in tensors]
    flat = torch.empty(sum(sizes), dtype=tensors[0].dtype, device=tensors[0].device)
    back.extend((each, part.view(each.shape)) for each, part in zip(tensors, flat.split(sizes), strict=True))
    return flat


def check_alike(call: str, tensors: Sequence[Any]) -> None:
    """Tensors of one call are of one type and device."""
    for each in tensors:
        check(call, each)
        if each.dtype != tensors[0].dtype or each.device != tensors[0].device:
            raise InvalidArgumentError(
                f"{call}: one tensor is of {tensors[0].dtype} on {tensors[0].device}, another of {each.dtype} on "
                f"{each.device}; all of a call are of one element type and device"
            )


def device_of(call: str, tensors: Sequence[Any]) -> Any:
    """The device of tensors that may be of several types."""
    if not tensors:
        raise InvalidArgumentError(f"{call}: the list of tensors is empty")
    for each in tensors:
        if each.device != tensors[0].device:
            raise InvalidArgumentError(
                f"{call}: one tensor is on {tensors[0].device}, another on {each.device}; all of a call are on one device"
            )
    return tensors[0].device


def one_of(call: str, tensors: Sequence[Any]) -> Any:
    """The only tensor of a list: c10d's lists are of several GPUs of one process, which a rank does not have here."""
    if len(tensors) != 1:
        raise UnsupportedError(f"{call}: this rank gives {len(tensors)} tensors, but has one; call it for each")
    return tensors[0]


def bytes_of(tensor: Any) -> Any:
    """A contiguous tensor as messages take it fastest: a view by numpy, if it is the CPU's."""
    return tensor.detach().view(-1).view(torch.uint8).numpy() if tensor.device.type == "cpu" else tensor.detach()


# --- calls ---


def reduction(kind: str, source: Any, target: Any, count: int, op: Any, root: int = 0) -> _core.CollectiveCall:
    """A call that reduces `count` elements; `target` is None where nothing comes."""
    dtype = source.dtype
    name = _OPS.get(op.op)
    if name is None:
        raise InvalidArgumentError(f"{kind}: there is no reduction {op.op}")
    known = _TYPES.get(dtype)
    if known is None:
        known, name = _of_bool(kind, dtype, name)
    call = _core.CollectiveCall(kind, source.data_ptr(), 0 if target is None else target.data_ptr(), count, known)
    call.set_options(name, root, 0, "auto")
    if name == "premulsum":
        call.set_factor(*factors_of(_factor(op), known))
    return call


def move(kind: str, source: Any, target: Any, nbytes: int, root: int = 0) -> _core.CollectiveCall:
    """A call that moves `nbytes` of each rank."""
    start, end = 0 if source is None else source.data_ptr(), 0 if target is None else target.data_ptr()
    call = _core.CollectiveCall(kind, start, end, nbytes, "uint8")
    call.set_options("sum", root, 0, "auto")
    return call


def gather_v(source: Any, target: Any, counts: Sequence[int]) -> _core.CollectiveCall:
    """all_gather of `counts` elements of each rank, which come one behind the other."""
    call = move("all_gather_v", source, target, source.numel() * source.element_size())
    sizes, offsets = _rows(counts, source.element_size())
    call.set_counts([], [], sizes, offsets)
    return call


def all_to_all_v(source: Any, target: Any, send: Sequence[int], receive: Sequence[int]) -> _core.CollectiveCall:
    """all_to_all of so many elements to and from each rank, one part behind the other."""
    call = move("all_to_all_v", source, target, 0)
    item = source.element_size()
    call.set_counts(*_rows(send, item), *_rows(receive, item))
    return call


def barrier() -> _core.CollectiveCall:
    """A barrier of the group."""
    call = _core.CollectiveCall("barrier", 0, 0, 0, "uint8")
    call.set_options("sum", 0, 0, "auto")
    return call


def splits_of(call: str, tensor: Any, splits: Sequence[int], size: int, name: str) -> list[int]:
    """Elements for each rank, from c10d's split sizes, which count rows; none: equal parts."""
    rows = tensor.shape[0] if tensor.dim() > 0 else tensor.numel()
    if not splits:
        if rows % size != 0:
            raise InvalidArgumentError(f"{call}: the {name} tensor has {rows} rows, which {size} ranks cannot share")
        return [tensor.numel() // size] * size
    if len(splits) != size:
        raise InvalidArgumentError(f"{call}: there are {len(splits)} {name} split sizes for {size} ranks")
    if min(splits) < 0 or sum(splits) != rows:
        raise InvalidArgumentError(f"{call}: the {name} split sizes {list(splits)} do not deal {rows} rows")
    row = tensor.numel() // rows if rows else 0
    return [split * row for split in splits]


def check_numel(call: str, tensor: Any, wanted: int, name: str) -> None:
    """Refuses a tensor of another number of elements."""
    if tensor.numel() != wanted:
        raise InvalidArgumentError(f"{call}: the {name} tensor has {tensor.numel()} elements, but needs {wanted}")


def _rows(counts: Sequence[int], item: int) -> tuple[list[int], list[int]]:
    sizes = [count * item for count in counts]
    return sizes, offsets_of(sizes, None, item)


def _of_bool(kind: str, dtype: Any, op: str) -> tuple[str, str]:
    if dtype is not torch.bool:
        raise UnsupportedError(f"{kind}: onstream cannot reduce elements of {dtype}; it moves them")
    if op not in _OPS_OF_BOOL:
        raise UnsupportedError(f"{kind}: a {op} of bools is no bool; convert the tensor to numbers")
    return "uint8", _OPS_OF_BOOL[op]


def _factor(op: Any) -> Any:
    """The factor of a PREMUL_SUM: a number, or a tensor of one element."""
    factor = op.factor if hasattr(op, "factor") else op.__getstate__()[1]
    return factor.item() if isinstance(factor, torch.Tensor) else factor
